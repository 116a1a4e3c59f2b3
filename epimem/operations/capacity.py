"""Partition by index vectors: what code does when a controller failed twice on an over-full node.

Items are cut in two along the axis of greatest spread, at the place that makes the two sides
tightest; then the axis is turned toward the two means and the cut made anew, a few times. Each side
is cut again until the wanted number of parts is reached. Every cut leaves room for parts of legal
size on both sides, so every part has between `min_group` and `capacity` items. Deterministic; which
items lie together depends on vectors and, on ties, on ids, never on the order given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from epimem.operations.base import Limits, Vector
from epimem.operations.nearness import matrix
from epimem.schema.tree import Tree

# Parts are filled to three quarters (ours), so that the next arrivals do not split them at once.
FILL = 0.75
_TURNS = 4
_LARGE = 96
_DIGITS = 9

Rows = NDArray[np.float64]
Indices = NDArray[np.int64]


def over_full(tree: Tree, limits: Limits, *, among: Iterable[str] | None = None) -> tuple[str, ...]:
    """Return the nodes with more children than allowed, lowest first.

    Args:
        tree: the tree to look through.
        limits: the capacity.
        among: look at these ids only, where they are in the tree; None means everywhere.
    """
    keys = tree.children if among is None else set(among)
    found = [key for key in keys if key in tree and len(tree.children_of(key)) > limits.capacity]
    return tuple(sorted(found, key=lambda key: (tree.node(key).height, key)))


def partition(
    node_ids: Iterable[str], vectors: Mapping[str, Vector], *, limits: Limits
) -> tuple[tuple[str, ...], ...]:
    """Divide items into parts of `min_group` to `capacity`, alike ones together.

    Args:
        node_ids: distinct ids.
        vectors: unit vectors of one dimension; items without one count as zero.
        limits: sizes of parts.

    Returns:
        The parts, ids sorted in each, ordered by their first id; a single part where there are
        fewer than 2 * min_group items.
    """
    order = sorted(node_ids)
    rows = matrix(order, vectors)
    stack = [(np.arange(len(order)), _part_count(len(order), limits))]
    parts: list[tuple[str, ...]] = []
    while stack:
        members, count = stack.pop()
        if count == 1:
            parts.append(tuple(order[index] for index in sorted(members)))
            continue
        first = count // 2
        rest = count - first
        low = max(first * limits.min_group, len(members) - rest * limits.capacity)
        high = min(first * limits.capacity, len(members) - rest * limits.min_group)
        near, far = _cut(members, rows, low, high, even=len(members) * first / count)
        stack += [(near, first), (far, rest)]
    return tuple(sorted(parts))


def halve(
    node_ids: Iterable[str], vectors: Mapping[str, Vector], *, smallest: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Divide items in two, alike ones together, each side with at least `smallest` of them."""
    order = sorted(node_ids)
    everything = np.arange(len(order))
    rows = matrix(order, vectors)
    near, far = _cut(everything, rows, smallest, len(order) - smallest, even=len(order) / 2)
    first, second = (tuple(order[index] for index in sorted(side)) for side in (near, far))
    return min(first, second), max(first, second)


def _part_count(size: int, limits: Limits) -> int:
    wanted = -(-size // max(limits.min_group, int(FILL * limits.capacity)))
    needed = -(-size // limits.capacity)
    return max(1, needed, min(max(2, wanted), size // limits.min_group))


def _cut(
    members: Indices, rows: Rows, low: int, high: int, *, even: float
) -> tuple[Indices, Indices]:
    """Divide `members` so that the first side has `low` to `high` of them, on a tie about `even`."""
    own = rows[members]
    axis = _spread_axis(own)
    # Of a large set only the position on the axis is looked at, to bound the time.
    shape, turns = (own, _TURNS) if len(own) <= _LARGE else (axis[:, None], 0)
    # Where the two sides may differ in size, it matters which end of the axis comes first.
    ends = [_best_prefix(side, shape, low, high, even) for side in (axis, -axis)]
    near, gain = max(ends, key=lambda cut: cut[1])
    for _ in range(turns):
        inside = np.zeros(len(members), dtype=bool)
        inside[near] = True
        axis = own @ (own[inside].mean(axis=0) - own[~inside].mean(axis=0))
        turned, better = _best_prefix(-axis, own, low, high, even)
        if better <= gain:
            break
        near, gain = turned, better
    far = np.ones(len(members), dtype=bool)
    far[near] = False
    return members[~far], members[far]


def _best_prefix(
    position: Rows, own: Rows, low: int, high: int, even: float
) -> tuple[Indices, float]:
    """Sort by position and return the prefix of legal length that makes both sides tightest.

    Tightness of sides A and B is |sum A|^2 / |A| + |sum B|^2 / |B|: for a fixed set of rows the
    squared distances to the two means are smallest where this is greatest. On a tie the length
    nearest to `even` is taken, which gives each part that is still to come an equal share.
    """
    size = len(own)
    order = np.argsort(np.round(position, _DIGITS), kind="stable")
    sums = np.cumsum(own[order], axis=0)
    lengths = np.arange(low, high + 1)
    head = sums[lengths - 1]
    tail = sums[-1] - head
    gains = np.sum(head**2, axis=1) / lengths + np.sum(tail**2, axis=1) / (size - lengths)
    gains = np.round(gains, _DIGITS)
    unevenness = np.abs(lengths - even)
    best = np.lexsort((lengths, unevenness, -gains))[0]
    return order[: lengths[best]], float(gains[best])


def _spread_axis(own: Rows) -> Rows:
    """Return each row's position on the axis of greatest spread, signed so that ids decide."""
    centered = own - own.mean(axis=0)
    position: Rows
    # The smaller of the two square matrices has the same greatest eigenvalue.
    if len(own) <= own.shape[1]:
        values, axes = np.linalg.eigh(centered @ centered.T)
        position = axes[:, -1] * np.sqrt(max(values[-1], 0.0))
    else:
        _, axes = np.linalg.eigh(centered.T @ centered)
        position = centered @ axes[:, -1]
    position = np.round(position, _DIGITS)
    leading = position[np.flatnonzero(position)[:1]]
    if leading.size and leading[0] > 0:
        position = -position
    return position
