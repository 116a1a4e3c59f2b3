"""Partition: spherical k-means with balanced parts, for at most a few hundred vectors.

Source of the clustering: spherical k-means (Dhillon and Modha 2001), rows and centers of unit
length, likeness the cosine. Ours: centers start at farthest points, so that no random number is
drawn; parts are then brought between the smallest and the largest allowed size by moving the
children that lose least; likeness is rounded, so that the last bit of a sum decides nothing.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

FILL = 0.75
ROUNDS = 50
_DECIMALS = 5

Matrix = NDArray[np.float32]
Labels = NDArray[np.int64]


def part_count(size: int, *, capacity: int, min_group: int) -> int:
    """Return how many parts `size` children make: filled to 3/4, at least two; 0 if impossible."""
    most = size // min_group
    return min(most, max(2, math.ceil(size / (FILL * capacity)))) if most >= 2 else 0


def balanced_parts(
    vectors: Matrix, parts: int, *, smallest: int, largest: int
) -> tuple[list[list[int]], Matrix]:
    """Return the row numbers of each part, and the centers.

    Args:
        vectors: shape (n, dimension), rows of unit length (or zero).
        parts: how many, with `parts * smallest <= n <= parts * largest`.
        smallest: rows that every part has at least.
        largest: rows that no part exceeds.

    Returns:
        Parts ordered by their first row, each sorted; centers of shape (parts, dimension) likewise.
    """
    centers = vectors[_farthest_points(vectors, parts)]
    labels = _nearest(vectors, centers)
    for _ in range(ROUNDS):
        centers = _centers(vectors, labels, centers)
        moved = _nearest(vectors, centers)
        if np.array_equal(moved, labels):
            break
        labels = moved
    labels = _balanced(_likeness(vectors, centers), labels, smallest, largest)
    centers = _centers(vectors, labels, centers)
    groups = [np.flatnonzero(labels == part).tolist() for part in range(parts)]
    order = sorted(range(parts), key=lambda part: groups[part][0])
    return [groups[part] for part in order], centers[order]


def _likeness(vectors: Matrix, centers: Matrix) -> NDArray[np.float64]:
    return np.round(vectors.astype(np.float64) @ centers.T.astype(np.float64), _DECIMALS)


def _nearest(vectors: Matrix, centers: Matrix) -> Labels:
    labels: Labels = np.argmax(_likeness(vectors, centers), axis=1).astype(np.int64)
    return labels


def _farthest_points(vectors: Matrix, count: int) -> list[int]:
    """Return rows far from one another: first the one farthest from the mean, then greedily."""
    mean = vectors.mean(axis=0, keepdims=True)
    chosen = [int(np.argmin(_likeness(vectors, mean)[:, 0]))]
    while len(chosen) < count:
        nearest = _likeness(vectors, vectors[chosen]).max(axis=1)
        nearest[chosen] = np.inf
        chosen.append(int(np.argmin(nearest)))
    return chosen


def _centers(vectors: Matrix, labels: Labels, before: Matrix) -> Matrix:
    """Return the unit mean of every part; a part without rows or direction keeps its center."""
    centers = before.copy()
    for part in range(len(before)):
        total = vectors[labels == part].sum(axis=0)
        norm = float(np.linalg.norm(total))
        if norm > 0:
            centers[part] = total / norm
    return centers


def _balanced(likeness: NDArray[np.float64], labels: Labels, smallest: int, largest: int) -> Labels:
    """Move single rows, cheapest first, until every part has an allowed size."""
    labels = labels.copy()
    parts = likeness.shape[1]
    while True:
        sizes = np.bincount(labels, minlength=parts)
        if sizes.max() > largest:
            givers, takers = sizes > largest, sizes < largest
        elif sizes.min() < smallest:
            givers, takers = sizes > smallest, sizes < smallest
        else:
            return labels
        rows = np.flatnonzero(givers[labels])
        own = likeness[rows, labels[rows]]
        loss = own[:, None] - likeness[rows]
        loss[:, ~takers] = np.inf
        row, part = np.unravel_index(int(np.argmin(loss)), loss.shape)
        labels[rows[row]] = part
