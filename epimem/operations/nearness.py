"""Which node is nearest, and which child stands for a group: by index vectors where there are any.

Ties, and nodes without a vector, are settled by size and id, so that results do not depend on the
order in which anything was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from epimem.operations.base import Vector
from epimem.schema.tree import Node, Tree

# Similarities that agree to nine digits are equal: sums of floats differ in the last ones.
_DIGITS = 9


def known_vectors(
    tree: Tree, node_ids: Iterable[str], vectors: Mapping[str, Vector]
) -> dict[str, Vector]:
    """Return a vector per node: its own, else the unit mean of its children's; unknown left out."""
    found = {node_id: _vector(tree, node_id, vectors) for node_id in node_ids}
    return {node_id: vector for node_id, vector in found.items() if vector is not None}


def matrix(node_ids: Sequence[str], vectors: Mapping[str, Vector]) -> NDArray[np.float64]:
    """Return one row per id, shape (len(node_ids), dimension); zeros where there is no vector."""
    dimension = next((vectors[key].shape[0] for key in node_ids if key in vectors), 1)
    rows = np.zeros((len(node_ids), dimension))
    for row, node_id in enumerate(node_ids):
        if node_id in vectors:
            rows[row] = vectors[node_id]
    return rows


def medoid(tree: Tree, node_ids: Iterable[str], vectors: Mapping[str, Vector]) -> Node:
    """Return the node most similar to the others of its group; the first by id on a tie."""
    order = sorted(node_ids)
    rows = matrix(order, known_vectors(tree, order, vectors))
    likeness = np.round(rows @ rows.sum(axis=0), _DIGITS)
    return tree.node(order[int(np.argmax(likeness))])


def nearest(tree: Tree, node_id: str, others: Iterable[str], vectors: Mapping[str, Vector]) -> str:
    """Return the id among `others` nearest to a node; on a tie the one with fewest children."""
    order = sorted(others)
    known = known_vectors(tree, (node_id, *order), vectors)
    rows = matrix((node_id, *order), known)
    likeness = np.round(rows[1:] @ rows[0], _DIGITS)

    def key(row: int) -> tuple[float, int, str]:
        return -float(likeness[row]), len(tree.children_of(order[row])), order[row]

    return order[min(range(len(order)), key=key)]


def _vector(tree: Tree, node_id: str, vectors: Mapping[str, Vector]) -> Vector | None:
    own = vectors.get(node_id)
    if own is not None:
        return own
    # The depth of a tree is bounded by the logarithm of its size, so this recursion is shallow.
    below = [_vector(tree, child, vectors) for child in tree.children_of(node_id)]
    known = [vector for vector in below if vector is not None]
    if not known:
        return None
    mean = np.mean(np.stack(known), axis=0, dtype=np.float64)
    norm = float(np.linalg.norm(mean))
    unit: Vector = np.asarray(mean / norm if norm else mean, dtype=np.float32)
    return unit
