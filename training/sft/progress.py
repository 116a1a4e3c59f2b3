"""What a run says while it trains: a line per step in `log.jsonl`, and the rate for whoever watches."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOG = "log.jsonl"


class Log:
    """The log of a run: JSON Lines, appended and flushed; each step stands in it once.

    Args:
        path: of the file.
        after: the optimizer step that a run goes on from: what stands behind it is taken away.
        writes: False for a process that only remembers the lines, beside one that writes them.
    """

    def __init__(self, path: Path, after: int, *, writes: bool = True) -> None:
        self.lines = [line for line in read(path) if line["step"] <= after]
        self._file = None
        if writes:
            temporary = path.with_name(f"{path.name}.tmp")
            text = "".join(f"{json.dumps(line)}\n" for line in self.lines)
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(path)
            self._file = path.open("a", encoding="utf-8")

    def write(self, line: Mapping[str, Any]) -> None:
        """Append one line."""
        self.lines.append(dict(line))
        if self._file is None:
            return
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def read(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a log; none where there is no log. A line that a kill tore is left out."""
    found = []
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    for line in text.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return found


def accuracies(lines: list[dict[str, Any]]) -> list[float]:
    """Return the held-out accuracies of a log in order."""
    return [line["operation_accuracy"] for line in lines if line["event"] == "dev"]


def best(lines: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the line of the best held-out accuracy, of equals the first, as the trainer keeps it."""
    measured = [line for line in lines if line["event"] == "dev"]
    return max(measured, key=lambda line: line["operation_accuracy"], default=None)


@dataclass(frozen=True)
class Work:
    """What one optimizer step holds, over all ranks: rows, tokens, tokens with padding, FLOPs."""

    rows: int
    tokens: int
    padded: int
    flops: float


class Clock:
    """Times optimizer steps; what lies between them (measuring, saving) is not counted.

    Args:
        peak: FLOP/s of all devices together, None where it is not known.
        now: seconds.
    """

    def __init__(self, peak: float | None, now: Callable[[], float] = time.monotonic) -> None:
        self._peak = peak
        self._now = now
        self._began = now()

    def begin(self) -> None:
        """Begin a step."""
        self._began = self._now()

    def end(self, work: Work) -> dict[str, Any]:
        """End a step and return its seconds, tokens per second and MFU (None without a peak)."""
        seconds = max(self._now() - self._began, 1e-9)
        self._began = self._now()
        return {
            "seconds": round(seconds, 4),
            "tokens_per_second": round(work.tokens / seconds, 1),
            "mfu": None if self._peak is None else round(work.flops / seconds / self._peak, 4),
        }
