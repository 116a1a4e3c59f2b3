"""Drawing from a stream: the same seed draws the same tasks in the same order."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from harness_adapters.streams.task import StreamTask


def sampled(found: Sequence[StreamTask], count: int, seed: int, name: str) -> list[StreamTask]:
    """Return so many tasks drawn by a seed and a name, in the order in which they stood."""
    chance = random.Random(f"{seed}/{name}")  # noqa: S311 - a sample, no secret
    places = sorted(chance.sample(range(len(found)), min(count, len(found))))
    return [found[place] for place in places]


def per_niche(tasks: Iterable[StreamTask], count: int, seed: int) -> list[StreamTask]:
    """Return so many tasks of every niche, or all that there are, niches in order of arrival."""
    niches: dict[str, list[StreamTask]] = {}
    for task in tasks:
        niches.setdefault(task.niche, []).append(task)
    return [task for name, found in niches.items() for task in sampled(found, count, seed, name)]


def shuffled(tasks: Sequence[StreamTask], seed: int) -> list[StreamTask]:
    """Return the tasks in an order drawn by a seed."""
    chance = random.Random(f"{seed}/order")  # noqa: S311 - an order, no secret
    return chance.sample(list(tasks), len(tasks))
