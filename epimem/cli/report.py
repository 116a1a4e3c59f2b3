"""`epimem log`, `stats` and `check`: what happened to a bank, what it holds, if it is sound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from epimem.cli.options import bank_argument, command, json_option, open_bank
from epimem.cli.output import draw, draws, emit, note, visible
from epimem.errors import EXIT_CODES

if TYPE_CHECKING:
    from epimem.memory import ExperienceMemory

ORPHAN = "orphan"


@command(
    "log",
    summary="Show the last entries of the journal.",
    text="Every commit has an entry: its sequence number, time, kind, contributor, and references "
    "(ids and hashes, never text) to what it changed. A sequence number is a point for show, "
    "diff and restore.\n\n"
    "Draws a table on a terminal, else prints one JSON line an entry, oldest first.",
    examples=("epimem log my-bank", "epimem log my-bank -n 100 --json"),
)
@bank_argument
@click.option(
    "-n",
    "last",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="How many entries.",
)
@json_option
def log(bank: Path, last: int, as_json: bool) -> None:  # noqa: FBT001
    """Show journal rows."""
    from epimem.schema import strict_json

    with open_bank(bank, read_only=True) as memory:
        rows = memory.bank.journal_rows(last=last)
    entries = [{**row, "body": strict_json.loads(row["body"])} for row in rows]
    if not draws(as_json):
        for entry in entries:
            emit(entry)
        return
    table = _table("seq", "time", "kind", "contributor", "changed")
    for entry in entries:
        changed = ", ".join(f"{key} {len(items)}" for key, items in entry["body"].items())
        _row(table, entry["seq"], entry["at"], entry["kind"], entry["contributor"], changed)
    draw(table)


@command(
    "stats",
    summary="Show what a bank holds.",
    text="Runs by state, nodes by kind, lessons that wait for maintenance, operations by kind, "
    "rejections by reason, namespaces, snapshots, encoder, and the sequence number.\n\n"
    "--costs shows instead what models cost that worked for this bank: requests, calls (a request "
    "whose reply could not be read is put once more), refused replies, tokens and seconds, by role, "
    "operation, model and prompt version. --refused N shows the last N refused replies as they came. "
    "Controllers without a model cost nothing and are listed only where they failed.\n\n"
    "Draws a table on a terminal, else prints one JSON line (one a row with --costs or --refused).",
    examples=(
        "epimem stats my-bank",
        "epimem stats my-bank --json | jq .nodes.rule",
        "epimem stats my-bank --costs",
    ),
)
@bank_argument
@click.option("--costs", is_flag=True, help="Show what the calls of models cost.")
@click.option(
    "--refused",
    type=click.IntRange(min=1),
    metavar="N",
    help="Show the last N replies of models that were refused.",
)
@json_option
def stats(
    bank: Path,
    costs: bool,  # noqa: FBT001 - a flag of click
    refused: int | None,
    as_json: bool,  # noqa: FBT001 - a flag of click
) -> None:
    """Show counts, or the account of models."""
    if costs and refused:
        raise click.UsageError("give either --costs or --refused")
    if costs or refused:
        _show_account(bank, refused, as_json=as_json)
        return
    with open_bank(bank, read_only=True) as memory:
        values = bank_values(memory)
    if not draws(as_json):
        emit(values)
        return
    table = _table("what", "value")
    for name, value in values.items():
        _row(table, name.replace("_", " "), _words(value))
    draw(table)


def _show_account(bank: Path, refused: int | None, *, as_json: bool) -> None:
    from epimem.bank.costs import Costs

    with open_bank(bank, read_only=True) as memory:
        account = Costs(memory.bank)
        rows = account.refused(refused) if refused else account.summary()
    if not draws(as_json):
        for row in rows:
            emit(row)
        return
    if not rows:
        note(f"epimem: no {'reply was refused' if refused else 'model has worked'} for this bank")
        return
    _draw_refused(rows) if refused else _draw_costs(rows)


def _draw_costs(rows: Sequence[Mapping[str, Any]]) -> None:
    table = _table(
        "role", "operation", "model", "asked", "calls", "refused", "in", "out", "cached", "seconds"
    )
    for row in rows:
        _row(
            table,
            row["role"],
            row["operation"],
            f"{row['model']}, prompts {row['prompt_version']}",
            row["requests"],
            row["calls"],
            row["refused"],
            row["tokens_in"],
            row["tokens_out"],
            row["cached"],
            f"{row['seconds']:.1f}",
        )
    draw(table)


def _draw_refused(rows: Sequence[Mapping[str, Any]]) -> None:
    table = _table("when", "operation", "model", "reason", "detail", "reply")
    for row in rows:
        names = ("at", "operation", "model", "reason", "detail", "raw")
        _row(table, *(row[name] for name in names))
    draw(table)


def bank_values(memory: ExperienceMemory) -> dict[str, Any]:
    """Return what a bank holds as JSON data."""
    bank = memory.bank
    spaces = bank.namespaces()
    return {
        "bank_id": bank.bank_id,
        "sequence_number": bank.head_seq,
        "frozen": bank.frozen is not None,
        "encoder": bank.encoder.name if bank.encoder is not None else "none",
        "namespaces": list(spaces),
        **bank.counts(),
        "inbox": sum(map(bank.waiting, spaces)),
        "snapshots": {item["name"]: item["seq"] for item in bank.snapshots()},
    }


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {count}" for key, count in sorted(value.items()))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else str(value)


@command(
    "check",
    summary="Verify a whole bank: journal, rows, trees, blobs, images.",
    text="Reads everything and repairs nothing. An orphan, a blob that no row names, is what a "
    "crash may leave; it does no harm and goes with the next freeze. With any other problem the "
    "exit status is 9.\n\n"
    "Draws a table on a terminal; elsewhere prints one JSON line a problem, then one that counts "
    "them.",
    examples=("epimem check my-bank", "epimem check my-bank || echo damaged"),
)
@bank_argument
@json_option
def check(bank: Path, as_json: bool) -> int:  # noqa: FBT001
    """Check and return the exit status."""
    with open_bank(bank, read_only=True) as memory:
        found = memory.check()
        seq = memory.bank.head_seq
    orphans = sum(problem.code == ORPHAN for problem in found)
    problems = len(found) - orphans
    if draws(as_json):
        _draw_problems([(item.code, item.where, item.detail) for item in found])
    else:
        for problem in found:
            emit(problem)
        emit({"problems": problems, "orphans": orphans, "sequence_number": seq})
    return EXIT_CODES["bank_corrupt"] if problems else 0


def _draw_problems(found: Sequence[tuple[str, str, str]]) -> None:
    from rich.text import Text

    if not found:
        draw(Text("sound: no problem was found"))
        return
    table = _table("code", "where", "found")
    for problem in found:
        _row(table, *problem)
    draw(table)


def _table(*columns: str) -> Any:
    from rich.table import Table

    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _row(table: Any, *cells: object) -> None:
    from rich.text import Text

    table.add_row(*(Text(visible(str(cell))) for cell in cells))
