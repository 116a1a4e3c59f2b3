"""`epimem contribute` and `epimem import-runs`: records in, receipts out; no model is called."""

from __future__ import annotations

import inspect
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from epimem.cli import records
from epimem.cli.options import (
    Phase,
    bank_argument,
    checked_path,
    command,
    image_option,
    namespace_option,
    open_bank,
    phase_option,
)
from epimem.cli.output import emit, note, one_line
from epimem.cli.progress import Report, progress
from epimem.cli.records import STDIN, Given, Refused, Take
from epimem.errors import EpimemError

if TYPE_CHECKING:
    from epimem.build import ImportedRecord, RefusedRecord, Rejects
    from epimem.memory import ExperienceMemory

SOME_REFUSED = 1


class Loss(Protocol):
    """What an importer says became of the native fields."""

    notes: Sequence[Any]

    def rows(self) -> list[tuple[str, int, int, int, int]]:
        """Return (field, native, mapped, extra, native only), by field name."""
        ...

    def __add__(self, other: Any) -> Any: ...


class Intake:
    """Contributes records one by one: receipts to standard output, refusals to a file.

    Args:
        memory: opened for writing.
        namespace: None for the bank's own.
        rejects: file of what is refused; None for standard input, which has no place for one.
    """

    def __init__(
        self, memory: ExperienceMemory, namespace: str | None, rejects: Rejects | None
    ) -> None:
        self._memory = memory
        self._namespace = namespace
        self._rejects = rejects
        self._first_fault: int | None = None
        self.received: Counter[str] = Counter()
        self.refused = 0

    def take(self, record: ImportedRecord | RefusedRecord | Given | Refused) -> None:
        """Contribute the parts of a record, or set a refused one aside.

        Raises:
            EpimemError: a fault that is not the record's: the others would meet it as well.
        """
        from epimem.build import RefusedRecord, about_the_record

        if isinstance(record, RefusedRecord):
            self.refuse(record.source, record.line, record.code, record.message, status=2)
            return
        for item in (*((record.run,) if record.run is not None else ()), *record.lessons):
            outcome = record.outcome if item is record.run else None
            try:
                receipt = self._memory.contribute(item, outcome=outcome, namespace=self._namespace)
            except EpimemError as error:
                if not about_the_record(error):
                    raise
                self.refuse(record.source, 0, error.code, str(error), status=error.exit_code)
            else:
                self.received[receipt.status] += 1
                emit({"source": record.source, **receipt.plain()})

    def images(self, arguments: Sequence[str]) -> None:
        """Store images and print what they are called here."""
        from epimem.build import about_the_record

        for name, data in records.image_files(arguments):
            try:
                image = self._memory.add_image(data)
            except EpimemError as error:
                if not about_the_record(error):
                    raise
                self.refuse(name, 0, error.code, str(error), status=error.exit_code)
            else:
                self.received["image"] += 1
                emit(
                    {
                        "source": name,
                        "image_id": image.image_id,
                        "width": image.width,
                        "height": image.height,
                    }
                )

    def refuse(self, source: str, line: int, code: str, message: str, *, status: int) -> None:
        """Tell of a refused record and set it aside."""
        where = f"{source}:{line}" if line else source
        note(f"epimem: {one_line(where)}: {one_line(message)}")
        self.refused += 1
        if self._first_fault is None:
            self._first_fault = status
        if self._rejects is not None:
            self._rejects.add(source, line, code, message)

    def end(self) -> int:
        """Close the file of what was set aside; return the exit status."""
        if self._rejects is not None:
            self._rejects.close()
        if self._first_fault is None:
            return 0
        aside = f", set aside in {self._rejects.path}" if self._rejects is not None else ""
        note(f"epimem: {self.refused} refused{aside}")
        return SOME_REFUSED if self.received else self._first_fault


def rejects_beside(argument: str) -> Rejects | None:
    """Return the file for what is refused of a source: beside it, else in the current folder."""
    from epimem.build import Rejects

    if argument == STDIN:
        return None
    source = Path(argument)
    name = f"{source.name or 'source'}.rejected.jsonl"
    path = (source.parent if _may_write(source.parent) else Path()) / name
    with suppress(OSError):
        # What an earlier call set aside does not belong to this one.
        path.unlink(missing_ok=True)
    return Rejects(path)


def _may_write(folder: Path) -> bool:
    return os.access(folder, os.W_OK)


@command(
    "contribute",
    summary="Hand in runs or ready lessons; print a receipt for each.",
    text="FILE holds JSON Lines or one JSON document, - is standard input: a run "
    '({"schema": "epimem-run/1", ...}), a lesson ({"guidance": ..., ...}), or a run with its '
    'sealed outcome ({"run": {...}, "outcome": {...}}). When a receipt is printed its record is '
    "on the disk. No model is called: runs wait for ingest, lessons can be found at once. The "
    "same record again is a duplicate, so a call may be repeated.\n\n"
    "Images that records name by their ids must be there first: --image stores them and prints "
    "the ids. Without a FILE only images are stored.\n\n"
    "A refused record is told on standard error and set aside in FILE.rejected.jsonl, and the "
    "rest goes on. The exit status is then 1; where nothing was accepted, that of the first "
    "refusal.",
    examples=(
        "epimem contribute my-bank lessons.jsonl",
        "epimem contribute my-bank run.json --outcome outcome.json --image page-1.png",
        "my-harness --export | epimem contribute my-bank -",
    ),
)
@bank_argument
@click.argument("files", metavar="[FILE]...", nargs=-1)
@click.option("--outcome", metavar="FILE", help="Sealed outcome of the one run that is handed in.")
@image_option
@namespace_option
@phase_option
def contribute(
    bank: Path,
    files: tuple[str, ...],
    outcome: str | None,
    images: tuple[str, ...],
    namespace: str | None,
    phase: Phase,
) -> int:
    """Contribute files; return the exit status."""
    if not files and not images:
        raise click.UsageError("nothing to contribute: give a FILE, - or --image")
    statuses = []
    with open_bank(bank, phase=phase) as memory:
        if images:
            intake = Intake(memory, namespace, None)
            intake.images(images)
            statuses.append((intake.end(), bool(intake.received)))
        for argument in files:
            intake = Intake(memory, namespace, rejects_beside(argument))
            for record in _given(argument, outcome, single=len(files) == 1):
                intake.take(record)
            statuses.append((intake.end(), bool(intake.received)))
    return _overall(statuses)


def _overall(statuses: Sequence[tuple[int, bool]]) -> int:
    failed = [status for status, _ in statuses if status]
    if failed and any(received for _, received in statuses):
        return SOME_REFUSED
    return failed[0] if failed else 0


def _given(argument: str, outcome: str | None, *, single: bool) -> Iterator[Given | Refused]:
    found = records.read_records(argument)
    if outcome is None:
        return found
    first = list(islice(found, 2))
    if not single or len(first) != 1 or not isinstance(first[0], Given) or first[0].run is None:
        raise click.UsageError("--outcome goes with exactly one run")
    from epimem.schema.outcome import SealedOutcome

    with records.opened(outcome) as stream:
        sealed = SealedOutcome.read(stream.read(records.MAX_TEXT))
    run = first[0].run
    return iter([Given(run, records.belonging(sealed, run), (), first[0].source)])


@command(
    "import-runs",
    summary="Contribute the runs of another system's files.",
    text="FORMAT is the name of an installed importer (an entry point of the group "
    "epimem.importers), SOURCE a file or folder it reads. Prints a receipt a record; ingest and "
    "maintain then turn the runs into lessons and a tree. To do all of it at once, use build.\n\n"
    "--loss-report prints, after the receipts, one line for each native field (how often it was "
    "met, mapped, kept as extra, left in the original) and one for each remark.\n\n"
    "A file or line that cannot be read is set aside in SOURCE.rejected.jsonl, and the rest goes "
    "on; the exit status is then 1.",
    examples=(
        "epimem import-runs my-bank who-and-when data/who_and_when --loss-report",
        "epimem import-runs my-bank vlm-runs data/vlm_runs --take lessons",
    ),
)
@bank_argument
@click.argument("format_name", metavar="FORMAT")
@click.argument("source", metavar="SOURCE")
@click.option(
    "--take",
    type=click.Choice(["both", "runs", "lessons"]),
    help="What to take, where a format has runs and ready lessons.",
)
@click.option("--loss-report", is_flag=True, help="Print what became of each native field.")
@namespace_option
@phase_option
def import_runs(
    bank: Path,
    format_name: str,
    source: str,
    take: Take | None,
    loss_report: bool,  # noqa: FBT001 - a flag of click
    namespace: str | None,
    phase: Phase,
) -> int:
    """Import and contribute; return the exit status."""
    importer = load_importer(format_name, take)
    with open_bank(bank, phase=phase) as memory, progress() as report:
        found = importer.read(checked_path(source), admit=memory.add_image)
        intake = Intake(memory, namespace, rejects_beside(source))
        losses = _take_all(intake, found, report)
    if loss_report and losses is not None:
        _print_loss(losses)
    return intake.end()


def load_importer(name: str, take: Take | None) -> Any:
    """Return an importer by its name.

    Raises:
        PluginError: there is none; lists those there are.
        click.UsageError: `take` means nothing to it.
    """
    from epimem import plugins

    kind = plugins.load(plugins.IMPORTERS, name)
    if take is None:
        return kind()
    if "take" not in inspect.signature(kind).parameters:
        raise click.UsageError(f"--take means nothing to the format {name}")
    return kind(take=take)


def _take_all(
    intake: Intake, found: Iterable[ImportedRecord | RefusedRecord], report: Report
) -> Loss | None:
    losses: Loss | None = None
    for number, record in enumerate(found, 1):
        intake.take(record)
        loss = getattr(record, "loss", None)
        losses = losses + loss if losses is not None and loss is not None else losses or loss
        report("contribute", number, 0)
    return losses


def _print_loss(losses: Loss) -> None:
    names = ("field", "native", "mapped", "extra", "native_only")
    for row in losses.rows():
        emit(dict(zip(names, row, strict=True)))
    for remark in losses.notes:
        emit({"note": remark.code, "source": remark.source, "detail": remark.detail})
