"""`epimem snapshot`, `diff`, `restore`, `freeze` and `revoke`: a bank as a sequence of states."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from epimem.cli.options import Phase, bank_argument, command, open_bank, phase_option
from epimem.cli.output import emit, is_terminal, note, visible
from epimem.errors import BankFrozenError

if TYPE_CHECKING:
    from epimem.bank.revocation import Scope

Target = Literal["item", "run", "contributor"]


@command(
    "snapshot",
    summary="Give the present state of a bank a name, or list the names.",
    text="A snapshot is a name for a sequence number; it copies nothing and costs nothing. Use it "
    "before a large import, then diff against it or restore it.\n\n"
    "Prints one JSON line: name, seq; with --list one for each snapshot.",
    examples=("epimem snapshot my-bank before-import", "epimem snapshot my-bank --list"),
)
@bank_argument
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--list", "listed", is_flag=True, help="List the snapshots.")
@phase_option
def snapshot(bank: Path, name: str | None, listed: bool, phase: Phase) -> None:  # noqa: FBT001
    """Name a state, or list the names."""
    if (name is None) != listed:
        raise click.UsageError("give either a NAME or --list")
    with open_bank(bank, read_only=listed, phase=phase) as memory:
        if name is not None:
            emit({"name": name, "seq": memory.snapshot(name)})
        else:
            for item in memory.bank.snapshots():
                emit(item)


@command(
    "diff",
    summary="Compare two states of a bank.",
    text="A and B are snapshots or sequence numbers. Prints one JSON line: the ids of nodes that "
    "were added, removed, changed and moved between them.",
    examples=("epimem diff my-bank before-import 412",),
)
@bank_argument
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
def diff(bank: Path, first: str, second: str) -> None:
    """Print the difference."""
    with open_bank(bank, read_only=True) as memory:
        emit(memory.diff(first, second))


@command(
    "restore",
    summary="Make the trees of a bank as they were at a point.",
    text="POINT is a snapshot or sequence number. This is a new commit: nothing of the history is "
    "lost, and it can itself be undone by restoring a later point. Lessons that came after POINT "
    "wait in the inbox. What was revoked does not come back.\n\n"
    "Prints one JSON line: the sequence number of the commit.",
    examples=("epimem restore my-bank before-import",),
)
@bank_argument
@click.argument("point", metavar="POINT")
@phase_option
def restore(bank: Path, point: str, phase: Phase) -> None:
    """Restore a state."""
    with open_bank(bank, phase=phase) as memory:
        emit({"restored": point, "seq": memory.restore(point)})


@command(
    "freeze",
    summary="Make a bank immutable, for evaluation or for sharing.",
    text="The folder can then be copied, put on a read-only disk and read by many processes; no "
    "file in it changes any more. Retrieval logs, caches and feedback go beside it. There is no "
    "way back but a copy made before.\n\n"
    "Prints one JSON line: bank_id, seq and the digests of state and files.",
    examples=("epimem freeze my-bank",),
)
@bank_argument
@phase_option
def freeze(bank: Path, phase: Phase) -> None:
    """Freeze and print what was signed off."""
    with open_bank(bank, phase=phase) as memory:
        emit(memory.freeze())


@command(
    "revoke",
    summary="Remove an item, a run or a contributor, and all that came of it, for good.",
    text="Everything derived from it goes as well: lessons of the run, and the guidance of "
    "summaries and rules that rest on them. Text, vectors, images and old versions are "
    "overwritten in the bank, its log and its cache, and the same text is refused if it comes "
    "again. Frozen copies and exports elsewhere are not touched: delete those yourself.\n\n"
    "Says what will be reached and asks on a terminal; elsewhere --yes is needed. Prints one JSON "
    "line: the ids of what was revoked.",
    examples=(
        "epimem revoke my-bank --run RUN_ID",
        "epimem revoke my-bank --contributor mallory --yes",
    ),
)
@bank_argument
@click.option("--item", metavar="ID", help="A lesson, summary or rule.")
@click.option("--run", metavar="ID", help="A run.")
@click.option("--contributor", metavar="NAME", help="Everything of a contributor.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@phase_option
def revoke(
    bank: Path,
    item: str | None,
    run: str | None,
    contributor: str | None,
    yes: bool,  # noqa: FBT001 - a flag of click
    phase: Phase,
) -> int:
    """Revoke after asking; return the exit status."""
    target, name = _target(item, run, contributor)
    with open_bank(bank, phase=phase) as memory:
        if memory.bank.frozen is not None:
            raise BankFrozenError("the bank is frozen", hint="nothing can be revoked from it")
        _announce(memory.bank.reach(target, name), target, name)
        if not yes and not _confirmed():
            note("epimem: nothing was revoked")
            return 1
        scope = memory.revoke(target, name)
    emit(
        {
            "revoked": target,
            "name": name,
            "node_ids": sorted(scope.node_ids),
            "run_ids": sorted(scope.run_ids),
        }
    )
    return 0


def _target(item: str | None, run: str | None, contributor: str | None) -> tuple[Target, str]:
    given: list[tuple[Target, str | None]] = [
        ("item", item),
        ("run", run),
        ("contributor", contributor),
    ]
    found = [(target, name) for target, name in given if name is not None]
    if len(found) != 1:
        raise click.UsageError("give exactly one of --item, --run and --contributor")
    return found[0]


def _announce(scope: Scope, target: Target, name: str) -> None:
    note(
        f"epimem: revoking the {target} {visible(name)} reaches {len(scope.node_ids)} nodes and "
        f"{len(scope.run_ids)} runs of this bank. Frozen copies and exports are not touched."
    )


def _confirmed() -> bool:
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise click.UsageError("this cannot be undone: add --yes")
    return click.confirm("Remove all of this for good?", default=False, err=True)
