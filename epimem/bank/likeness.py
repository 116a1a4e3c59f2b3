"""Likeness of index texts: the mean of the cosines of scope and question anchor.

Reference: the design's journey B. A field that one side lacks does not count (ours): with one field
in common the likeness is that cosine, with none it is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epimem.bank.encoder import NodeVectors

_ROUNDING = 1e-5  # above that of float32 products of unit vectors


@dataclass(frozen=True)
class Likeness:
    """`mean` over the common fields, and `scope` alone; in [-1, 1], 0 with nothing in common."""

    mean: float
    scope: float


@dataclass(frozen=True)
class Near:
    """One of the nodes nearest to another."""

    node_id: str
    likeness: Likeness


def likeness(one: NodeVectors, other: NodeVectors) -> Likeness:
    """Return the likeness of two index texts; symmetric."""
    return _exact(one, other.scope[None], other.anchor[None])[0]


class Shelf:
    """Nodes to compare many others with: their vectors stacked once.

    Args:
        ids: the n node ids.
        scopes: shape (n, dimension), the scope vectors of the nodes; zero rows where there is none.
        anchors: same for the question anchors.
    """

    def __init__(
        self, ids: Sequence[str], scopes: NDArray[np.float32], anchors: NDArray[np.float32]
    ) -> None:
        self._ids = ids
        self._scopes, self._anchors = scopes, anchors
        self._has_scope, self._has_anchor = scopes.any(axis=1), anchors.any(axis=1)

    def nearest(self, target: NodeVectors, k: int) -> list[Near]:
        """Return the `k` nodes most like `target`, best first; equal ones by id."""
        if not self._ids or k < 1:
            return []
        rough = _means(
            self._scopes @ target.scope,
            self._anchors @ target.anchor,
            np.logical_and(self._has_scope, target.scope.any()),
            np.logical_and(self._has_anchor, target.anchor.any()),
        )
        places = np.arange(len(self._ids))
        if len(self._ids) > k:
            bar = np.partition(rough, len(self._ids) - k)[len(self._ids) - k]
            places = np.flatnonzero(rough >= bar - _ROUNDING)
        found = _exact(target, self._scopes[places], self._anchors[places])
        pairs = zip(places.tolist(), found, strict=True)
        near = [Near(self._ids[place], value) for place, value in pairs]
        return sorted(near, key=lambda item: (-item.likeness.mean, item.node_id))[:k]


def nearest(
    target: NodeVectors,
    scopes: NDArray[np.float32],
    anchors: NDArray[np.float32],
    ids: Sequence[str],
    k: int,
) -> list[Near]:
    """Return the `k` nodes most like `target`: a `Shelf` used once."""
    return Shelf(ids, scopes, anchors).nearest(target, k)


def _exact(
    target: NodeVectors, scopes: NDArray[np.float32], anchors: NDArray[np.float32]
) -> list[Likeness]:
    """Return likenesses that depend on the vectors only, not on where a row stands."""
    by_scope, by_anchor = _cosines(target.scope, scopes), _cosines(target.anchor, anchors)
    has_scope, has_anchor = _common(target.scope, scopes), _common(target.anchor, anchors)
    means = _means(by_scope, by_anchor, has_scope, has_anchor)
    pairs = zip(means.tolist(), by_scope.tolist(), strict=True)
    return [Likeness(mean, scope) for mean, scope in pairs]


def _means(
    by_scope: NDArray[np.floating],
    by_anchor: NDArray[np.floating],
    has_scope: NDArray[np.bool_],
    has_anchor: NDArray[np.bool_],
) -> NDArray[np.floating]:
    """Return the mean over the fields in common; the cosine of one that is not is zero already."""
    fields = np.maximum(has_scope.astype(np.int64) + has_anchor, 1)
    means: NDArray[np.floating] = (by_scope + by_anchor) / fields
    return means


def _common(vector: NDArray[np.float32], rows: NDArray[np.float32]) -> NDArray[np.bool_]:
    if not vector.any():
        return np.zeros(len(rows), dtype=np.bool_)
    present: NDArray[np.bool_] = np.square(rows).sum(axis=1) > 0
    return present


def _cosines(vector: NDArray[np.float32], rows: NDArray[np.float32]) -> NDArray[np.float64]:
    products = rows.astype(np.float64) * vector.astype(np.float64)
    cosines: NDArray[np.float64] = np.clip(products.sum(axis=1), -1.0, 1.0)
    return cosines
