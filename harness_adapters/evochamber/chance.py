"""Chance without a state: the same words give the same draw, so a run can be gone on with."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")


def draw(seed: int, *words: object) -> float:
    """Return a number in [0, 1) that depends on the seed and the words alone."""
    text = "\x1f".join(map(str, (seed, *words)))
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=7).digest()) / 2**56


def shuffled(items: Sequence[T], seed: int, *words: object) -> list[T]:
    """Return items in an order drawn for the seed and the words."""
    order = sorted(range(len(items)), key=lambda at: draw(seed, *words, at))
    return [items[at] for at in order]
