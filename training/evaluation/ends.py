"""End to end: a harness is run with each controller, and says itself how well it did.

The contract is small. A bench is a command that takes

    --memory-controller SPEC --tree-organizer SPEC --folder DIR --results FILE

keeps what it needs to go on in DIR, and writes FILE as a `BenchResult`. Its exit status is not looked
at (benches use it to say whether a line was reached): what counts is that FILE is there.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from epimem.errors import ConfigError, RecordError
from epimem.plugins import Role
from epimem.schema.base import Record, StrictFloat

EMBEDDED = "embedded"


class BenchMeasure(Record):
    """One number of a bench, with its 95 % interval where there is one."""

    name: str
    value: StrictFloat
    low: StrictFloat | None = None
    high: StrictFloat | None = None


class BenchResult(Record):
    """What a bench found."""

    format: Literal["epimem-bench/1"] = "epimem-bench/1"
    bench: str
    measures: tuple[BenchMeasure, ...] = Field(min_length=1)

    def write(self, path: Path) -> None:
        """Write the result, at once or not at all."""
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_bytes(self.model_dump_json(indent=1).encode("utf-8") + b"\n")
        temporary.replace(path)


class BenchLine(Record):
    """One controller on one bench; `failure` says why there is no result."""

    controller: str
    bench: str
    measures: tuple[BenchMeasure, ...] = ()
    failure: str = ""


def run_bench(
    command: str,
    controller: tuple[str, str, str],
    folder: Path,
    *,
    roles: Sequence[Role],
    tell: Callable[[str], None] = lambda _: None,
) -> BenchLine:
    """Run a bench with one controller; what it keeps lies in `folder`, so that it can go on later.

    Args:
        command: with its own arguments; not read by a shell.
        controller: name, fingerprint and spec.
        folder: takes a folder for each bench and controller.
        roles: those that the controller fills; the other one is embedded.
        tell: told where the output of the bench goes.

    Raises:
        ConfigError: the command is empty, not well quoted, or there is no such program.
    """
    name, fingerprint, spec = controller
    words = _words(command)
    place = hashlib.sha256(f"{command}\0{sorted(roles)}".encode()).hexdigest()[:12]
    own = folder / f"{place}-{fingerprint[:12]}"
    own.mkdir(parents=True, exist_ok=True)
    results, log = own / "bench.json", own / "bench.log"
    results.unlink(missing_ok=True)
    specs = {role: spec if role in roles else EMBEDDED for role in _ROLES}
    asked = [*(it for role in _ROLES for it in (_ROLES[role], specs[role]))]
    tell(f"{name}: {words[0]} ..., its output is in {log.name} of {own.name}")
    with log.open("ab") as sink:
        try:
            done = subprocess.run(  # noqa: S603 - the command is the caller's own
                [*words, *asked, "--folder", str(own / "bench"), "--results", str(results)],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
                check=False,
            )
        except OSError as error:
            raise ConfigError(
                "the bench cannot be started", field="--bench", got=words[0]
            ) from error
    return _line(name, words, results, done.returncode)


_ROLES: dict[Role, str] = {
    "memory_controller": "--memory-controller",
    "tree_organizer": "--tree-organizer",
}


def _line(name: str, words: Sequence[str], results: Path, status: int) -> BenchLine:
    called = _called(words)
    try:
        found = BenchResult.read(results.read_bytes())
    except FileNotFoundError:
        said = f"exit status {status} and no result"
        return BenchLine(controller=name, bench=called, failure=said)
    except RecordError as error:
        return BenchLine(controller=name, bench=called, failure=f"the result is none: {error}")
    return BenchLine(controller=name, bench=found.bench, measures=found.measures)


def _called(words: Sequence[str]) -> str:
    """Return how a bench is called that does not say it itself: its module, script or program."""
    if "-m" in words[:-1]:
        return words[words.index("-m") + 1]
    scripts = [word for word in words if word.endswith(".py")]
    return Path([*scripts, words[0]][0]).name


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"{error}", field="--bench", got=command) from error
    if not words:
        raise ConfigError("the command is empty", field="--bench")
    # So that a bench runs where this does, whatever "python" is there.
    return [sys.executable, *words[1:]] if words[0] == "python" else words
