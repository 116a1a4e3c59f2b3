"""The file of recorded replies: a header, then a line per first reply and its re-ask."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("smollm2-135m-instruct.jsonl.gz")
FORMAT = "epimem-replies/1"


@dataclass(frozen=True)
class Said:
    """One reply: its text, and whether the limit on tokens ended it."""

    text: str
    truncated: bool
    tokens_in: int
    tokens_out: int


@dataclass(frozen=True)
class Entry:
    """One first reply to request `number` of an operation, and the re-ask, where there was one.

    `request` is what `bare.rebuilt` takes. `prompt` is the SHA-256 of the texts of the first prompt.
    `sections` says in which protocol was asked again.
    """

    operation: str
    number: int
    temperature: float
    seed: int
    prompt: str
    request: dict[str, Any]
    first: Said
    again: Said | None = None
    sections: bool = False

    @property
    def key(self) -> tuple[str, int, float]:
        """What tells entries apart."""
        return self.operation, self.number, self.temperature


def entry_of(plain: dict[str, Any]) -> Entry:
    """Return the entry of a line."""
    again = plain.pop("again")
    first = Said(**plain.pop("first"))
    return Entry(**plain, first=first, again=Said(**again) if again else None)


def line_of(entry: Entry) -> str:
    """Return the line of an entry."""
    return json.dumps(asdict(entry), ensure_ascii=False, sort_keys=True)


def load(path: Path = PATH) -> tuple[dict[str, Any], tuple[Entry, ...]]:
    """Return header and entries."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        header = json.loads(next(file))
        return header, tuple(entry_of(json.loads(line)) for line in file)


def save(header: dict[str, Any], entries: Sequence[Entry], path: Path = PATH) -> None:
    """Write header and entries, in order of operation, number and temperature; the same bytes always."""
    lines = [
        json.dumps(header, sort_keys=True),
        *map(line_of, sorted(entries, key=lambda e: e.key)),
    ]
    data = "".join(f"{line}\n" for line in lines).encode("utf-8")
    path.write_bytes(gzip.compress(data, compresslevel=9, mtime=0))


def partial(path: Path) -> Iterator[Entry]:
    """Yield the entries of an unfinished recording; a last line that is cut off is left out."""
    if not path.exists():
        return
    for line in path.read_text("utf-8").splitlines():
        try:
            yield entry_of(json.loads(line))
        except json.JSONDecodeError:
            return
