"""Sets of demonstrations from the benches: how one is named, and how all are written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from epimem.schema.ids import sha256
from training.demonstrations.record import (
    Demonstration,
    OperationName,
    Provenance,
    runs_named,
)
from training.demonstrations.store import DemonstrationSet


def demonstration(
    operation: OperationName,
    request: Any,
    value: Any,
    *,
    bench: str,
    group: str,
    seed: int,
    at: object,
) -> Demonstration:
    """Return a demonstration of one bank of a bench.

    Args:
        operation: one of the eight.
        request: of its type.
        value: of its type.
        bench: its name.
        group: the bank; with the seed the same for the same input.
        seed: of the bank.
        at: what tells it from the others of its operation and bank.
    """
    return Demonstration(
        id=sha256(f"bench {group} {operation} {at}".encode())[:32],
        operation=operation,
        group=group,
        request=request,
        value=value,
        provenance=Provenance(
            teacher=f"world:{bench}",
            source=f"world:{bench}",
            run_ids=runs_named(request, value),
            seed=seed,
        ),
    )


def write(out: Path, found: Iterable[Demonstration], *, seed: int) -> dict[str, int]:
    """Write a set with its splits, or go on with one; return how many of each operation are in it.

    Raises:
        ConfigError: the folder holds other things.
        BankBusyError: another process writes it.
        BankFrozenError: it is finished.
    """
    counts: dict[str, int] = {}
    made = DemonstrationSet.create(out)
    try:
        for each in found:
            if each.id not in made.done:
                made.add(each)
            counts[each.operation] = counts.get(each.operation, 0) + 1
        made.finish(seed)
    finally:
        made.close()
    return counts
