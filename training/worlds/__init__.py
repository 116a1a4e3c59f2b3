"""Procedural worlds: a teacher that costs nothing, because it knows what it drew.

Each world draws pages of made-up houses, every one with conventions that no page states but for a
printed key where there is one. Decisive regions, lessons, groupings and answers are exact.

    for demonstration, pictures in demonstrations("charts", seed=1, count=100):
        store.add(demonstration)  # keeps the pictures of its request
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

from epimem.errors import NotFoundError
from epimem.protocols import Encoder, Picture
from epimem.schema.ids import sha256
from training.demonstrations.record import (
    Demonstration,
    OperationName,
    Provenance,
    pictures_of,
    runs_named,
)
from training.worlds.charts import CHARTS
from training.worlds.ledgers import LEDGERS
from training.worlds.operations import MAKERS
from training.worlds.practice import PracticeBank
from training.worlds.tables import TABLES
from training.worlds.world import World

WORLDS: Mapping[str, World] = {world.name: world for world in (CHARTS, TABLES, LEDGERS)}
"""The worlds by name."""
OF_A_BANK = 6
"""Demonstrations of each operation from one practice bank (ours): its houses stand in one split."""


def demonstrations(
    world: str,
    *,
    seed: int,
    count: int,
    operations: Sequence[OperationName] = get_args(OperationName),
    encoder: Encoder | None = None,
) -> Iterator[tuple[Demonstration, tuple[Picture, ...]]]:
    """Yield `count` demonstrations of each operation, each with the pictures that its request shows.

    The operations take turns, so that any beginning holds as many of each. A group is a practice bank:
    six houses with their conventions, which no other group has; `count` should be 18 or more where
    three splits are wanted. The same world and seed give the same demonstrations, and a smaller count
    gives the beginning of a larger one with the same operations. A crop bears the id of its page, as in
    the product.

    Args:
        world: a name in `WORLDS`.
        seed: of everything that is drawn.
        count: demonstrations of each operation, at least 0.
        operations: which; by default all eight.
        encoder: gives the likenesses and scores that requests show; None: hashed trigrams, quick and
            without meaning. For training, give the encoder that banks will use.

    Raises:
        NotFoundError: there is no such world.
    """
    if world not in WORLDS:
        raise NotFoundError(
            f"no such world; there are {', '.join(WORLDS)}", field="world", got=world
        )
    for number in range(-(-count // OF_A_BANK)):
        bank = PracticeBank(WORLDS[world], number, seed=seed, encoder=encoder)
        for at in range(min(OF_A_BANK, count - OF_A_BANK * number)):
            for operation in operations:
                yield _demonstration(bank, operation, at)


def _demonstration(
    bank: PracticeBank, operation: OperationName, at: int
) -> tuple[Demonstration, tuple[Picture, ...]]:
    request, value = MAKERS[operation](bank, bank.chance(operation, at))
    stamp = f"world {bank.group} {operation} {at} {bank.encoder.fingerprint}"
    found = Demonstration(
        id=sha256(stamp.encode("utf-8"))[:32],
        operation=operation,
        group=bank.group,
        request=request,
        value=value,
        provenance=Provenance(
            teacher=f"world:{bank.world.name}",
            source=f"world:{bank.world.name}",
            run_ids=runs_named(request, value),
            seed=bank.seed,
        ),
    )
    return found, tuple(pictures_of(request))
