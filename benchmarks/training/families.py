"""Families of BIG-Bench Hard as groups of lessons: which are for practice, and which decide.

Variants of one task (three, five and seven objects) are one group: a model that has seen one of them has
seen all. Nothing that was tried or tuned has looked at the groups that decide.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.text.bbh import FOLDER, Item, load_items

SPLIT_SEED = 1
DECIDING = 10
_VARIANT = re.compile(r"_(three|five|seven)_objects$")


@dataclass(frozen=True)
class Families:
    """Items by group. `practice` is for trying and training, `deciding` for the result alone."""

    items: Mapping[str, tuple[Item, ...]]
    practice: tuple[str, ...]
    deciding: tuple[str, ...]

    def development(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return groups to train on and to look at while trying: a third of `practice` is held out."""
        held = len(self.practice) // 3
        return self.practice[held:], self.practice[:held]


def group_of(task: str) -> str:
    """Return the group of a task: its name without the number of objects."""
    return _VARIANT.sub("", task)


def load(folder: Path = FOLDER) -> Families:
    """Return the families.

    Raises:
        FileNotFoundError: the data is not beside this checkout.
    """
    return divided(load_items(folder))


def divided(items: Sequence[Item]) -> Families:
    """Return items as families; which groups decide follows from their names alone."""
    by_group: dict[str, list[Item]] = {}
    for item in items:
        by_group.setdefault(group_of(item.task), []).append(item)
    names = sorted(by_group)
    random.Random(SPLIT_SEED).shuffle(names)
    return Families(
        {name: tuple(found) for name, found in by_group.items()},
        practice=tuple(names[DECIDING:]),
        deciding=tuple(names[:DECIDING]),
    )
