"""Split + Lift: balanced spherical k-means over the index vectors, parts named by their terms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from controllers.embedded.partition import balanced_parts, part_count
from controllers.embedded.term_weights import class_titles, node_text, term_vectors
from epimem.protocols import SplitRequest
from epimem.schema.lesson import IndexText
from epimem.schema.proposal import Part, SplitLift
from epimem.schema.tree import Node


def split_lift(request: SplitRequest) -> SplitLift | None:
    """Return a partition of an over-full node, None when its children make no two parts.

    Children are taken in the order of their ids, so that the order of the request decides nothing.
    """
    children = sorted(request.children, key=lambda child: child.node_id)
    parts = part_count(len(children), capacity=request.capacity, min_group=request.min_group)
    if parts < 2:
        return None
    vectors = _vectors(request, children)
    groups, centers = balanced_parts(
        vectors, parts, smallest=request.min_group, largest=request.capacity
    )
    texts = ["\n".join(node_text(children[row]) for row in rows) for rows in groups]
    titles = class_titles(texts)
    return SplitLift(
        node_id=request.node.node_id,
        parts=tuple(
            Part(
                child_ids=tuple(children[row].node_id for row in rows),
                title=title,
                index=_medoid_index(children, rows, vectors, center),
            )
            for rows, title, center in zip(groups, titles, centers, strict=True)
        ),
    )


def _vectors(request: SplitRequest, children: list[Node]) -> NDArray[np.float32]:
    """Return unit rows, those of the index texts; of the term weights where one is missing."""
    found = [request.vectors.get(child.node_id) for child in children]
    given = [vector for vector in found if vector is not None and vector.any()]
    if len(given) < len(children):
        return term_vectors([node_text(child) for child in children])
    return np.stack(given).astype(np.float32)


def _medoid_index(
    children: list[Node],
    rows: list[int],
    vectors: NDArray[np.float32],
    center: NDArray[np.float32],
) -> IndexText:
    """Return the index text of the child nearest to the center of its part."""
    likeness = np.round(vectors[rows] @ center, 5)
    child = children[rows[int(np.argmax(likeness))]]
    if child.lesson is not None and not child.index.text:
        return child.lesson.index
    return child.index
