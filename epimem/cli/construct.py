"""`epimem ingest`, `maintain` and `build`: the jobs that turn runs into lessons and a tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from epimem.cli import records
from epimem.cli.contribute import load_importer, rejects_beside
from epimem.cli.create import agree, make
from epimem.cli.options import (
    BankSettings,
    Phase,
    bank_argument,
    bank_settings,
    checked_path,
    command,
    image_option,
    json_option,
    memory_controller_option,
    open_bank,
    phase_option,
    tree_organizer_option,
)
from epimem.cli.output import draw, draws, emit, note, visible
from epimem.cli.progress import Report, progress
from epimem.cli.records import STDIN, Take
from epimem.errors import BankConflictError, ConfigError, NotFoundError

if TYPE_CHECKING:
    from epimem.build import BuildReport, ImportedRecord, RefusedRecord
    from epimem.ingest import IngestReport
    from epimem.maintain import MaintainReport
    from epimem.memory import ExperienceMemory

OWN_FORMAT = "jsonl"


@command(
    "ingest",
    summary="Turn queued runs into lessons.",
    text="The memory controller derives lessons from each run that is due; they go to the inbox, "
    "where they can be found at once. A run whose derivation fails stays queued and is tried "
    "again later, at growing intervals; --retry-now makes all of them due.\n\n"
    "Ctrl-C stops after the batch under way; the same command goes on from there.\n\n"
    "Prints one JSON line: runs by state, lessons, folded, refused and failures by reason, usage.",
    examples=("epimem ingest my-bank", "epimem ingest my-bank --limit 100 --retry-now"),
)
@bank_argument
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Try at most so many runs.")
@click.option("--retry-now", is_flag=True, help="Try runs that failed before without waiting.")
@memory_controller_option
@phase_option
def ingest(
    bank: Path,
    limit: int | None,
    retry_now: bool,  # noqa: FBT001 - a flag of click
    memory_controller: str | None,
    phase: Phase,
) -> None:
    """Ingest and print the report."""
    opened = open_bank(bank, phase=phase, memory_controller=memory_controller)
    with opened as memory, progress() as report:
        if retry_now:
            memory.bank.retry_now()
        result = memory.ingest(limit=limit, progress=report)
    emit(ingest_values(result))


@command(
    "maintain",
    summary="Organize new lessons into the tree.",
    text="The tree organizer places the lessons of the inbox, splits what is over-full, merges "
    "what is alike and consolidates guidance that recurs into summaries and rules. Every "
    "operation is checked and applied by itself, so the bank is sound whenever this stops.\n\n"
    "Ctrl-C stops after the step under way; the same command goes on from there. One maintainer "
    "works at a time: a second one gets bank_locked_elsewhere (exit 6).\n\n"
    "--dry-run asks the organizer and checks what it proposes, but writes nothing to the bank: it "
    "prints what would be done, one JSON line for each step, operation and refusal. The calls of "
    "a model are made, and cost what they cost.\n\n"
    "Prints one JSON line: steps, placed, waiting, operations by kind, rejections by reason, "
    "usage.",
    examples=(
        "epimem maintain my-bank",
        "epimem maintain my-bank --steps 1 --dry-run",
        "epimem maintain my-bank --tree-organizer openai:http://127.0.0.1:8000/v1#organizer",
    ),
)
@bank_argument
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help="Do at most so many steps.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@tree_organizer_option
@phase_option
def maintain(
    bank: Path,
    steps: int | None,
    dry_run: bool,  # noqa: FBT001 - a flag of click
    tree_organizer: str | None,
    phase: Phase,
) -> None:
    """Maintain and print the report."""
    opened = open_bank(bank, read_only=dry_run, phase=phase, tree_organizer=tree_organizer)
    with opened as memory, progress() as report:
        result = memory.maintain(max_steps=steps, dry_run=dry_run, progress=report)
    for item in result.planned:
        emit(item)
    emit(maintain_values(result))


@command(
    "build",
    summary="Build a bank from many records: contribute, ingest, maintain.",
    text="Makes the bank where there is none, with the options of init. FORMAT is jsonl for our "
    "own records (as for contribute, one on a line; SOURCE may be -) or the name of an installed "
    "importer. "
    "Progress with rate and remaining time goes to standard error.\n\n"
    "Ctrl-C stops after what is under way, and the same command goes on where it stopped: "
    "nothing is done twice, and the bank becomes what it would have become. A record that is "
    "refused is set aside in SOURCE.rejected.jsonl with its reason, and the rest is built; that "
    "is no failure of the build (exit 0).\n\n"
    "Ends with a table on a terminal, else one JSON line: runs of the bank by state, what was "
    "received, lessons, folded, operations by kind, rejections by reason, what was set aside by "
    "code and in which file, calls, seconds.",
    examples=(
        "epimem build my-bank who-and-when data/who_and_when",
        "epimem build my-bank vlm-runs data/vlm_runs --take runs",
        "epimem build my-bank jsonl runs.jsonl --encoder none",
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
@image_option
@bank_settings
@phase_option
@json_option
def build(
    bank: Path,
    format_name: str,
    source: str,
    take: Take | None,
    images: tuple[str, ...],
    settings: BankSettings,
    phase: Phase,
    as_json: bool,  # noqa: FBT001 - a flag of click
) -> None:
    """Build and show what was done."""
    reader = _reader(format_name, take)
    _require(source)
    with _opened_or_made(bank, settings, phase) as memory:
        for _, data in records.image_files(images):
            memory.add_image(data)
        report = _build(memory, reader(memory, source), source, _total(format_name, source))
        values = build_values(report, memory.bank.counts()["runs"])
    if draws(as_json):
        _draw_table(values)
    else:
        emit(values)
    if report.set_aside:
        note(f"epimem: {report.set_aside.total()} records set aside, see {report.rejected_file}")
        if not report.received:
            # Nothing at all was of this format: most likely another one was meant.
            raise click.exceptions.Exit(1)


def _require(source: str) -> None:
    """Refuse a source that is not there, before a bank is made for it."""
    if source != STDIN and not checked_path(source).exists():
        raise NotFoundError("no such file or folder to build from", field="source", got=source)


def _build(
    memory: ExperienceMemory,
    found: Iterator[ImportedRecord | RefusedRecord],
    source: str,
    total: int,
) -> BuildReport:
    rejects = rejects_beside(source)
    path = rejects.path if rejects is not None else Path("stdin.rejected.jsonl")
    with progress() as report:
        shown = _with_total(report, total)
        return memory.build(found, rejected=path, total=total, progress=shown)


def _reader(format_name: str, take: Take | None) -> Any:
    """Return a function of (memory, source) that yields records; a wrong format fails here."""
    if format_name == OWN_FORMAT:
        return lambda _, source: records.taken(
            records.read_records(source, lines=True), take or "both"
        )
    try:
        importer = load_importer(format_name, take)
    except ConfigError as error:
        error.hint = f"{error.hint}, {OWN_FORMAT}" if error.hint else OWN_FORMAT
        raise
    return lambda memory, source: importer.read(checked_path(source), admit=memory.add_image)


@contextmanager
def _opened_or_made(bank: Path, settings: BankSettings, phase: Phase) -> Iterator[ExperienceMemory]:
    from epimem.bank.database import FILE_NAME

    if not (bank / FILE_NAME).exists():
        try:
            make(bank, settings).close()
        except BankConflictError as error:
            # Another build made it first, with settings that are compared below.
            if error.code != "bank_exists" or not (bank / FILE_NAME).exists():
                raise
    opened = open_bank(
        bank,
        phase=phase,
        memory_controller=settings.memory_controller,
        tree_organizer=settings.tree_organizer,
    )
    with opened as memory:
        agree(memory, settings)
        yield memory


def _total(format_name: str, source: str) -> int:
    if format_name != OWN_FORMAT or source == STDIN:
        return 0
    return records.count_lines(source)


def _with_total(report: Report, total: int) -> Report:
    """Leave the total of the first phase unknown where nobody knows it."""

    def shown(phase: str, done: int, known: int) -> None:
        report(phase, done, 0 if phase == "contribute" and not total else known)

    return shown


def ingest_values(report: IngestReport) -> dict[str, Any]:
    """Return the report as JSON data."""
    return {
        "runs": _counts(report.states),
        "lessons": report.lessons,
        "folded": report.folded,
        "refused": _counts(report.refused),
        "failures": _counts(report.failures),
        "usage": report.usage.plain(),
    }


def maintain_values(report: MaintainReport) -> dict[str, Any]:
    """Return the report as JSON data."""
    return {
        "steps": report.steps,
        "placed": report.placed,
        "waiting": report.waiting,
        "operations": _counts(report.operations),
        "rejections": _counts(report.rejections),
        "usage": report.usage.plain(),
    }


def build_values(report: BuildReport, runs: Mapping[str, int]) -> dict[str, Any]:
    """Return the report as JSON data; `runs` are those of the whole bank by state."""
    received, ingested, maintained = report.received, report.ingest, report.maintain
    usage = ingested.usage + maintained.usage
    return {
        "runs": _counts(runs),
        "received": _counts(received),
        "lessons": received["stored"] + ingested.lessons,
        "folded": received["folded"] + ingested.folded,
        "refused": _counts(ingested.refused),
        "failures": _counts(ingested.failures),
        "steps": maintained.steps,
        "placed": maintained.placed,
        "waiting": maintained.waiting,
        "operations": _counts(maintained.operations),
        "rejections": _counts(maintained.rejections),
        "set_aside": _counts(report.set_aside),
        "rejected_file": report.rejected_file,
        "calls": usage.calls,
        "tokens": usage.tokens_in + usage.tokens_out,
        "seconds": round(report.seconds, 3),
    }


def _counts(counter: Mapping[str, int]) -> dict[str, int]:
    return {key: count for key, count in sorted(counter.items()) if count}


_TITLES = {
    "runs": "runs of the bank by state",
    "received": "received in this build",
    "lessons": "lessons stored",
    "folded": "lessons folded",
    "refused": "lessons refused by reason",
    "failures": "derivations that failed",
    "steps": "maintenance steps",
    "placed": "lessons placed",
    "waiting": "lessons still waiting",
    "operations": "operations by kind",
    "rejections": "rejections by reason",
    "set_aside": "set aside by code",
    "rejected_file": "set aside in",
    "calls": "controller calls",
    "tokens": "tokens",
    "seconds": "seconds",
}


def _draw_table(values: Mapping[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, title="build", title_justify="left")
    for name, title in _TITLES.items():
        value = values[name]
        if isinstance(value, Mapping):
            shown = ", ".join(f"{key} {count}" for key, count in value.items())
        else:
            shown = str(value)
        if shown:
            table.add_row(title, Text(visible(shown)))
    draw(table)
