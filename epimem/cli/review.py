"""`epimem review`: what other organisations handed in, to be let in or refused."""

from __future__ import annotations

from pathlib import Path

import click

from epimem.cli.options import bank_argument, command, open_bank
from epimem.cli.output import emit, note


@command(
    "review",
    summary="List what waits in quarantine, and approve or refuse it.",
    text="What contributors of other organisations hand in to a server waits until twenty of their "
    "lessons were let in: no question and no job sees it. Approved, a lesson goes to the inbox and a "
    "run to the queue, with its id and its origin. Refused, it is revoked, and its text cannot be "
    "offered again.\n\n"
    "Prints one JSON line for each decision, then one for each thing that still waits: id, kind, "
    "namespace, contributor, organisation, text.",
    examples=(
        "epimem review my-bank",
        "epimem review my-bank --approve 01a2... --approve 01a3... --refuse 01a4...",
        "epimem review my-bank --approve-all-of codex",
    ),
)
@bank_argument
@click.option("--approve", multiple=True, metavar="ID", help="Let in; repeatable.")
@click.option("--refuse", multiple=True, metavar="ID", help="Revoke; repeatable.")
@click.option(
    "--approve-all-of",
    "contributor",
    metavar="NAME",
    help="Let in all that a contributor handed in.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="Most of either kind.",
)
def review(
    bank: Path,
    *,
    approve: tuple[str, ...],
    refuse: tuple[str, ...],
    contributor: str | None,
    limit: int,
) -> None:
    """Decide, then list."""
    with open_bank(bank) as memory:
        chosen = [*approve]
        if contributor is not None:
            every = sum(memory.bank.quarantine_counts())
            waiting = memory.quarantined(limit=every)
            chosen += [each.id for each in waiting if each.contributor == contributor]
        for item_id in chosen:
            emit({"approved": item_id, **memory.approve(item_id).plain()})
        for item_id in refuse:
            memory.refuse(item_id)
            emit({"refused": item_id})
        for each in memory.quarantined(limit=limit):
            emit(each)
        lessons, runs = memory.bank.quarantine_counts()
    note(f"epimem: {lessons} lessons and {runs} runs wait for review")
