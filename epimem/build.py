"""Build: a job over thousands of records: contribute, ingest, maintain; resumable, nothing twice.

What is contributed twice is recognised by content, an ended run is not derived again, and a placed
lesson is not placed again; so a build that was interrupted is simply run again. Bad lines are set
aside in a file with their reason, and the rest is built.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TextIO, runtime_checkable

from epimem.errors import (
    AccessError,
    BankConflictError,
    EpimemError,
    ImageError,
    NotFoundError,
    RecordError,
)
from epimem.ingest import IngestReport
from epimem.maintain import MaintainReport
from epimem.schema.lesson import LessonDraft
from epimem.schema.outcome import SealedOutcome
from epimem.schema.receipt import Receipt
from epimem.schema.run import Run

Progress = Callable[[str, int, int], None]
# Faults of one record: it is set aside and the others go on. Any other fault (a busy, frozen or
# damaged bank, an encoder that does not fit) would meet every record, and ends the job.
ABOUT_THE_RECORD = (AccessError, ImageError, NotFoundError, RecordError)
# Of the bank's conflicts these two are the record's own: an id that stands for another record here,
# and a region that was measured on an image of another size.
_OWN_CONFLICTS = frozenset({"conflict", "invalid_field"})


class ImportedRecord(Protocol):
    """One record that an importer read: a run with its outcome, ready lessons, or both."""

    @property
    def run(self) -> Run | None:
        """The run, None where the record holds lessons only."""
        ...

    @property
    def outcome(self) -> SealedOutcome | None:
        """The sealed outcome of the run."""
        ...

    @property
    def lessons(self) -> tuple[LessonDraft, ...]:
        """Ready lessons."""
        ...

    @property
    def source(self) -> str:
        """File and line, relative to what was read."""
        ...


@runtime_checkable
class RefusedRecord(Protocol):
    """A file or line that an importer set aside."""

    source: str
    line: int
    code: str
    message: str


class Receiver(Protocol):
    """What a build contributes to: the facade."""

    def contribute(
        self, item: Run | LessonDraft, *, outcome: SealedOutcome | None = None
    ) -> Receipt:
        """Hand in a run or a lesson."""
        ...

    def ingest(self, *, progress: Progress | None = None) -> IngestReport:
        """Derive lessons from queued runs."""
        ...

    def maintain(self, *, progress: Progress | None = None) -> MaintainReport:
        """Organize the inbox."""
        ...


@dataclass
class BuildReport:
    """The table that ends a build."""

    received: Counter[str] = field(default_factory=Counter)
    set_aside: Counter[str] = field(default_factory=Counter)
    ingest: IngestReport = field(default_factory=IngestReport)
    maintain: MaintainReport = field(default_factory=MaintainReport)
    seconds: float = 0.0
    rejected_file: str = ""


class Rejects:
    """The file of what was set aside, made when the first record is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: TextIO | None = None

    def add(self, source: str, line: int, code: str, message: str) -> None:
        """Write one line."""
        if self._handle is None:
            # A file name that is no UTF-8 comes as surrogates: written as JSON's own escapes.
            self._handle = self.path.open("w", encoding="utf-8", errors="backslashreplace")
        record = {"source": source, "line": line, "code": code, "reason": message}
        self._handle.write(json.dumps(record, ensure_ascii=False) + "\n")
        self._handle.flush()

    def close(self) -> None:
        """Close the file."""
        if self._handle is not None:
            self._handle.close()


def build(
    receiver: Receiver,
    records: Iterable[ImportedRecord | RefusedRecord],
    *,
    rejects: Rejects,
    total: int = 0,
    progress: Progress | None = None,
) -> BuildReport:
    """Contribute all records, then ingest, then maintain.

    Args:
        receiver: the facade.
        records: from an importer; consumed as they come.
        rejects: where refused records are written.
        total: how many records to expect, 0 where unknown.
        progress: called with (phase, done, total).
    """
    report = BuildReport()
    started = time.monotonic()
    try:
        for number, record in enumerate(records, 1):
            _receive(receiver, record, rejects, report)
            if progress is not None:
                progress("contribute", number, max(total, number))
        report.ingest = receiver.ingest(progress=progress)
        report.maintain = receiver.maintain(progress=progress)
    finally:
        rejects.close()
        report.seconds = time.monotonic() - started
        report.rejected_file = str(rejects.path) if report.set_aside else ""
    return report


def about_the_record(error: EpimemError) -> bool:
    """Return whether a fault is one of the record that was handed in, so that the others go on."""
    own = isinstance(error, BankConflictError) and error.code in _OWN_CONFLICTS
    return own or isinstance(error, ABOUT_THE_RECORD)


def _receive(
    receiver: Receiver,
    record: ImportedRecord | RefusedRecord,
    rejects: Rejects,
    report: BuildReport,
) -> None:
    if isinstance(record, RefusedRecord):
        rejects.add(record.source, record.line, record.code, record.message)
        report.set_aside[record.code] += 1
        return
    items: Sequence[Run | LessonDraft] = (
        *((record.run,) if record.run is not None else ()),
        *record.lessons,
    )
    for item in items:
        outcome = record.outcome if isinstance(item, Run) else None
        try:
            receipt = receiver.contribute(item, outcome=outcome)
        except EpimemError as error:
            if not about_the_record(error):
                raise
            rejects.add(record.source, 0, error.code, str(error))
            report.set_aside[error.code] += 1
        else:
            report.received[receipt.status] += 1
