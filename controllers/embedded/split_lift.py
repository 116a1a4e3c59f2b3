"""Split + Lift: the partition by index vectors that code would make, its parts named by their terms."""

from __future__ import annotations

import numpy as np

from controllers.embedded.term_weights import class_titles, node_text, term_vectors
from epimem.operations.base import Limits
from epimem.operations.capacity import partition
from epimem.operations.nearness import matrix
from epimem.protocols import SplitRequest, Vector
from epimem.schema.lesson import IndexText
from epimem.schema.proposal import Part, SplitLift
from epimem.schema.tree import Node


def split_lift(request: SplitRequest) -> SplitLift | None:
    """Return a partition of an over-full node, None when its children make no two parts.

    Children are taken in the order of their ids, so that the order of the request decides nothing.
    Children that nothing tells apart are dealt out evenly: parts with room for the next arrivals
    are neither merged nor split again soon.
    """
    limits = Limits(capacity=request.capacity, min_group=request.min_group)
    children = {child.node_id: child for child in sorted(request.children, key=_by_id)}
    vectors = _vectors(request, children)
    groups = partition(children, vectors, limits=limits)
    if len(groups) < 2:
        return None
    parts = [[children[key] for key in group] for group in groups]
    titles = class_titles(["\n".join(map(node_text, part)) for part in parts])
    return SplitLift(
        node_id=request.node.node_id,
        parts=tuple(
            Part(child_ids=group, title=title, index=_medoid_index(part, vectors))
            for group, part, title in zip(groups, parts, titles, strict=True)
        ),
    )


def _by_id(node: Node) -> str:
    return node.node_id


def _vectors(request: SplitRequest, children: dict[str, Node]) -> dict[str, Vector]:
    """Return unit vectors, those of the index texts; of the term weights where one is missing."""
    found = {key: request.vectors[key] for key in children if key in request.vectors}
    if len(found) == len(children) and all(vector.any() for vector in found.values()):
        return found
    rows = term_vectors([node_text(child) for child in children.values()])
    return dict(zip(children, rows, strict=True))


def _medoid_index(part: list[Node], vectors: dict[str, Vector]) -> IndexText:
    """Return the index text of the child most like the others of its part."""
    rows = matrix([child.node_id for child in part], vectors)
    likeness = np.round(rows @ rows.sum(axis=0), 5)
    child = part[int(np.argmax(likeness))]
    if child.lesson is not None and not child.index.text:
        return child.lesson.index
    return child.index
