"""How alike two texts and two regions are: token F1 and intersection over union."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from epimem.schema.region import Region

T = TypeVar("T")
_TOKEN = re.compile(r"\w+")


def token_f1(first: str, second: str) -> float:
    """Return the F1 of the two bags of words, in [0, 1]; case and marks do not count.

    The measure of SQuAD (Rajpurkar et al., EMNLP 2016, section 6.1), articles kept (ours: guidance is
    no answer of three words). Two texts without words are alike.
    """
    bags = [Counter(_TOKEN.findall(text.casefold())) for text in (first, second)]
    sizes = [bag.total() for bag in bags]
    if not all(sizes):
        return float(sizes[0] == sizes[1])
    return 2.0 * (bags[0] & bags[1]).total() / sum(sizes)


def overlap(first: Region, second: Region) -> float:
    """Return the area that two regions share over the area of both together, in [0, 1]."""
    width = min(first.x1, second.x1) - max(first.x0, second.x0)
    height = min(first.y1, second.y1) - max(first.y0, second.y0)
    shared = max(width, 0) * max(height, 0)
    return shared / (_area(first) + _area(second) - shared)


def best(wanted: Sequence[T], got: Sequence[T], alike: Callable[[T, T], float]) -> float:
    """Return the mean over what was wanted of the likeness to the nearest of what came; 0 for none."""
    return sum(max((alike(w, g) for g in got), default=0.0) for w in wanted) / len(wanted)


def matched(wanted: Sequence[T], got: Sequence[T], alike: Callable[[T, T], float]) -> float:
    """Return the same both ways round (ours), so that saying much at random does not pay.

    The likeness of each on one side to the nearest on the other, mean over both sides together.
    """
    if not got:
        return 0.0
    both = len(wanted) * best(wanted, got, alike) + len(got) * best(got, wanted, alike)
    return both / (len(wanted) + len(got))


def set_f1(wanted: Sequence[str], got: Sequence[str]) -> float:
    """Return the F1 of two sets of names, of which the wanted one is not empty."""
    return 2.0 * len(set(wanted) & set(got)) / (len(set(wanted)) + len(set(got)))


def _area(region: Region) -> int:
    return (region.x1 - region.x0) * (region.y1 - region.y0)
