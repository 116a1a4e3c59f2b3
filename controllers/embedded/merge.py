"""Merge: complete link, and only where all scopes agree."""

from __future__ import annotations

from controllers.embedded.scopes import all_agree, node_scope
from epimem.protocols import MergeRequest
from epimem.schema.proposal import Merge


def merge(request: MergeRequest, *, merge_min: float) -> Merge | None:
    """Return a Merge when the two least alike lessons are alike enough, else None.

    Args:
        request: `likeness` is that of the two least alike lessons (complete link).
        merge_min: its floor, in [-1, 1].
    """
    lessons = (*request.kept_lessons, *request.absorbed_lessons)
    family = next((node.lesson.family for node in lessons if node.lesson is not None), "")
    scopes = [node_scope(node, family) for node in (request.kept, request.absorbed, *lessons)]
    if request.likeness < merge_min or not all_agree(scopes):
        return None
    return Merge(kept_id=request.kept.node_id, absorbed_id=request.absorbed.node_id)
