"""What came of each question, arm and seed, kept as JSON Lines so that a run can go on later."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from epimem.errors import BankBusyError, BankConflictError, RecordError
from epimem.schema import strict_json
from epimem.schema.base import Record, StrictBool, StrictFloat, StrictInt

ROWS_NAME = "results.jsonl"
SETUP_NAME = "setup.json"
Key = tuple[int, str, str]


class Row(Record):
    """One question under one seed in one arm.

    `right` is the scorer's word, False where `error` says why there is no answer. `asked` counts the
    alternatives that the solver got. `items` and `crops` are those of the last one. Seconds are wall
    time; `memory_tokens` are those of the delivered text, `controller_tokens` those that the memory's
    own models used; `solver_tokens` are those that the solver reports, None where it reports none, and
    `counted_tokens` question and answer under the fixed tokenizer. `leak` names what a memory
    input must not hold; `warning` is the bank's. `group` is the unit of resampling.
    """

    seed: StrictInt
    arm: str
    task: str
    group: str
    right: StrictBool
    error: str = ""
    answer: str = ""
    asked: StrictInt = 1
    items: StrictInt = 0
    crops: StrictInt = 0
    memory_seconds: StrictFloat | StrictInt = 0
    solver_seconds: StrictFloat | StrictInt = 0
    memory_tokens: StrictInt = 0
    controller_tokens: StrictInt = 0
    solver_tokens: StrictInt | None = None
    counted_tokens: StrictInt = 0
    leak: str = ""
    warning: str = ""

    @property
    def key(self) -> Key:
        """What makes a row one of its kind."""
        return self.seed, self.arm, self.task


class Ledger:
    """The rows of a run in a work folder, or in memory only where there is none.

    Args:
        folder: made where it is missing; None: nothing is kept.
        setup: everything that decides a row, as plain JSON data. A folder of another set-up is refused,
            so that no table mixes two.

    Raises:
        BankConflictError: `conflict`, the folder holds the results of another set-up; names what
            differs.
        BankBusyError: another run is at work in this folder.
    """

    def __init__(self, folder: Path | None, setup: Mapping[str, Any]) -> None:
        self.rows: dict[Key, Row] = {}
        self._descriptor: int | None = None
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / ROWS_NAME
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._lock(folder)
            _agree(folder / SETUP_NAME, setup)
            self._load(path)
        except BaseException:
            self.close()
            raise

    def _lock(self, folder: Path) -> None:
        assert self._descriptor is not None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BankBusyError(
                "another evaluation is at work in this folder", field=str(folder)
            ) from error

    def _load(self, path: Path) -> None:
        """Take in the whole lines; a last one that a crash cut off is dropped from the file.

        Questions that failed are left out, so that they are asked again.
        """
        assert self._descriptor is not None
        data = path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.ftruncate(self._descriptor, whole)
        for number, line in enumerate(data[:whole].splitlines(), 1):
            try:
                row = Row.read(line)
            except RecordError as error:
                raise RecordError(
                    "not a result of an evaluation",
                    field=f"{path.name}:{number}",
                    hint="start anew in another work folder",
                ) from error
            if not row.error:
                self.rows[row.key] = row

    def add(self, row: Row) -> None:
        """Keep a row; it is in the file when this returns."""
        self.rows[row.key] = row
        if self._descriptor is not None:
            os.write(self._descriptor, row.canonical() + b"\n")

    def __contains__(self, key: object) -> bool:
        return key in self.rows

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _agree(path: Path, setup: Mapping[str, Any]) -> None:
    wanted = strict_json.dumps(setup)
    if not path.exists():
        temporary = path.with_suffix(".tmp")
        temporary.write_bytes(wanted)
        temporary.replace(path)
        return
    found = strict_json.loads(path.read_bytes())
    present = strict_json.loads(wanted)
    changed = sorted(_changed(found, present))
    if changed:
        raise BankConflictError(
            f"the work folder holds results of another set-up: {', '.join(changed)} changed",
            field=str(path.parent),
            hint="take another work folder, or delete this one to start anew",
        )


def _changed(found: Any, present: Any) -> Iterable[str]:
    if not isinstance(found, dict):
        return ["everything"]
    return [key for key in found.keys() | present.keys() if found.get(key) != present.get(key)]
