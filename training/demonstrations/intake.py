"""Runs to learn from: those of a bank, or of files, which are taken into a bank of their own first.

So runs are checked, images are admitted and questions batched by the code that the product has for it,
and a record that is met twice is one run. The references of files are kept in memory alone: the bank
that is made of them stands beside a set that others may be given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epimem import pictures
from epimem.bank.bank import Bank
from epimem.bank.database import FILE_NAME
from epimem.bank.run_queue import QueuedRun, SealedRun
from epimem.build import ImportedRecord, RefusedRecord, Rejects, about_the_record
from epimem.cli import records
from epimem.cli.contribute import load_importer
from epimem.config import Config, EncoderConfig
from epimem.errors import EpimemError, NotFoundError
from epimem.memory import ExperienceMemory
from epimem.protocols import Picture
from epimem.schema.outcome import SealedOutcome
from epimem.schema.run import Run

Progress = Callable[[str, int, int], None]
OWN_FORMAT = "jsonl"
ENDINGS = (".jsonl", ".ndjson", ".json")
REJECTED = "runs.rejected.jsonl"


@dataclass(frozen=True)
class SourceRun:
    """A run with its verdict, and the reference, which goes into checks and to the reviser alone."""

    queued: QueuedRun
    reference: str = field(default="", repr=False)

    @property
    def run(self) -> Run:
        """The run itself."""
        return self.queued.run


@dataclass(frozen=True)
class RunSource:
    """All runs of a source, and the bank that holds their images."""

    bank: Bank
    runs: tuple[SourceRun, ...]
    refused: int = 0

    def images(self, run: Run) -> tuple[Picture, ...]:
        """Return every image that a run refers to."""
        return pictures.stored_pages(self.bank, run.image_ids)

    def pages(self, run: Run) -> tuple[Picture, ...]:
        """Return the pages of the question of a run."""
        return pictures.pages(self.bank, run.task.pages)


@contextmanager
def opened_runs(
    source: Path,
    work: Path,
    *,
    format_name: str = OWN_FORMAT,
    images: Sequence[str] = (),
    progress: Progress,
) -> Iterator[RunSource]:
    """Open a source of runs.

    Args:
        source: a bank, or a file or folder of records.
        work: folder for the bank that files are taken into, and for what is refused of them.
        format_name: "jsonl" for our own records, else an installed importer.
        images: files or folders of images that records name by their ids.
        progress: called with (phase, done, total).

    Raises:
        NotFoundError: there is nothing of that name, or no run in it.
        PluginError: no such importer.
    """
    if (source / FILE_NAME).is_file():
        taken, folder = None, source
    else:
        taken, folder = _Taken(Rejects(work / REJECTED)), work / "runs"
        _take_in(folder, source, taken, format_name, images, progress)
    with Bank.open(folder, read_only=True) as bank:
        found = tuple(
            SourceRun(each.queued, _reference(each) if taken is None else taken.of(each))
            for each in bank.sealed_runs()
        )
        if not found:
            raise NotFoundError("no run to learn from", field="RUNS", got=str(source))
        yield RunSource(bank, found, taken.refused if taken is not None else 0)


def _reference(run: SealedRun) -> str:
    return (run.outcome.reference or "") if run.outcome is not None else ""


@dataclass
class _Taken:
    """What files gave beside the runs: references by run id, and what was refused."""

    rejects: Rejects
    references: dict[str, str] = field(default_factory=dict, repr=False)
    refused: int = 0

    def of(self, run: SealedRun) -> str:
        return self.references.get(run.queued.run_id, "")

    def refuse(self, source: str, line: int, code: str, message: str) -> None:
        self.rejects.add(source, line, code, message)
        self.refused += 1


def _take_in(
    folder: Path,
    source: Path,
    taken: _Taken,
    format_name: str,
    images: Sequence[str],
    progress: Progress,
) -> None:
    """Contribute records to a bank without encoder, their references left out."""
    taken.rejects.path.unlink(missing_ok=True)
    with _bank(folder) as memory:
        try:
            for _, data in records.image_files(images):
                memory.add_image(data)
            for number, record in enumerate(_records(memory, source, format_name), 1):
                _contribute(memory, record, taken)
                progress("contribute", number, 0)
        finally:
            taken.rejects.close()


def _bank(folder: Path) -> ExperienceMemory:
    if (folder / FILE_NAME).is_file():
        return ExperienceMemory.open(folder)
    return ExperienceMemory.create(folder, Config(encoder=EncoderConfig(model="none")))


def _records(memory: ExperienceMemory, source: Path, format_name: str) -> Iterable[Any]:
    if format_name != OWN_FORMAT:
        return load_importer(format_name, None).read(source, admit=memory.add_image)  # type: ignore[no-any-return]
    return (record for path in _files(source) for record in records.read_records(str(path)))


def _files(source: Path) -> list[Path]:
    if not source.is_dir():
        return [source]
    found = sorted(path for path in source.iterdir() if path.suffix.lower() in ENDINGS)
    if not found:
        raise NotFoundError(
            f"no {', '.join(ENDINGS)} in this folder", field="RUNS", got=str(source)
        )
    return found


def _contribute(
    memory: ExperienceMemory, record: ImportedRecord | RefusedRecord, taken: _Taken
) -> None:
    if isinstance(record, RefusedRecord):
        taken.refuse(record.source, record.line, record.code, record.message)
        return
    if record.run is None:
        return
    outcome = record.outcome
    try:
        receipt = memory.contribute(record.run, outcome=_without_reference(outcome))
    except EpimemError as error:
        if not about_the_record(error):
            raise
        taken.refuse(record.source, 0, error.code, str(error))
        return
    if outcome is not None and outcome.reference and "offline" in outcome.visible_to:
        taken.references[receipt.id or record.run.run_id] = outcome.reference


def _without_reference(outcome: SealedOutcome | None) -> SealedOutcome | None:
    """Return an outcome with the verdict alone: scores, rewards and labels may tell the answer too."""
    if outcome is None:
        return None
    return SealedOutcome(
        run_id=outcome.run_id,
        verdict=outcome.verdict,
        source=outcome.source,
        visible_to=outcome.visible_to,
    )
