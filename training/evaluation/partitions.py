"""How far two partitions of the same things agree: the adjusted Rand index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from math import comb


def adjusted_rand(first: Sequence[Hashable], second: Sequence[Hashable]) -> float:
    """Return the adjusted Rand index of two labellings, thing by thing.

    1 for the same partition, 0 expected by chance, below 0 for less than chance (Hubert and Arabie,
    Journal of Classification 2, 1985, 193-218, equation 5). Where both are one part, or both single
    things, they are the same and the index is 1.

    Args:
        first: the part of each thing.
        second: the same of the other partition, in the same order.

    Raises:
        ValueError: they have different lengths.
    """
    pairs = comb(len(first), 2)
    together = _pairs(Counter(zip(first, second, strict=True)))
    in_first, in_second = _pairs(Counter(first)), _pairs(Counter(second))
    expected = in_first * in_second / pairs if pairs else 0.0
    most = (in_first + in_second) / 2
    if most == expected:
        return 1.0
    return (together - expected) / (most - expected)


def _pairs(sizes: Counter[Hashable]) -> int:
    return sum(comb(size, 2) for size in sizes.values())
