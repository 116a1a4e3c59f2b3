"""Consolidation: write what the lessons of a category have in common, and where they conflict.

The model writes the texts and names the supporting lessons; the level follows from counters. All
lessons of the category were shown to the model, so its authority is the lowest among them.
"""

from __future__ import annotations

from collections.abc import Sequence

from epimem.operations.base import Context, Edit, authority_of, name, reject
from epimem.operations.conflicts import Refusal, standing_authority, updated
from epimem.operations.rules import Standing, cleared, relevel, support
from epimem.schema.lesson import AUTHORITIES
from epimem.schema.proposal import Consolidate, Outcome, Rejection
from epimem.schema.tree import Conflict, Node, Tree


def apply(tree: Tree, proposal: Consolidate, context: Context) -> Outcome:
    """Consolidate one category of lessons, or say why not.

    Guidance that reaches no level (fewer than two supports) is not kept.
    """
    node = tree.nodes.get(proposal.node_id)
    if node is None:
        return reject(proposal, "unknown_id", f"node {name(proposal.node_id)}")
    if node.height != 1:
        return reject(proposal, "scope", "only a category of lessons is consolidated")
    lessons = tree.child_nodes(node.node_id)
    refused = _check_supports(proposal, lessons) or _check_displaced(node, proposal, lessons)
    if refused is not None:
        return refused
    conflicts = updated(node, proposal, lessons)
    if isinstance(conflicts, Refusal):
        return reject(proposal, conflicts.reason, conflicts.detail)
    standing = context.standing.get(node.node_id, Standing())
    written = relevel(_written(node, proposal, lessons, conflicts), lessons, standing)
    written = written.model_copy(update={"consolidated_at": support(lessons)})
    edit = Edit(tree)
    edit.put(written)
    edit.note_sources(node.node_id, (lesson.node_id for lesson in lessons))
    return edit.accepted("consolidate")


def _check_supports(proposal: Consolidate, lessons: Sequence[Node]) -> Rejection | None:
    present = {lesson.node_id for lesson in lessons}
    strange = sorted(set(proposal.supported_by) - present)
    if strange:
        return reject(proposal, "unknown_id", f"not a lesson of the category: {name(strange[0])}")
    if bool(proposal.guidance) != bool(proposal.supported_by):
        return reject(proposal, "schema", "guidance and its supporting lessons go together")
    if len(_polarities(proposal, lessons)) > 1:
        return reject(proposal, "contradiction", "negative and positive lessons support nothing")
    return None


def _check_displaced(
    node: Node, proposal: Consolidate, lessons: Sequence[Node]
) -> Rejection | None:
    """Refuse guidance on wholly other lessons that have less authority than the standing ones.

    A conflict would not open for them, so they may not take the place without one either (ours).
    """
    new = set(proposal.supported_by)
    if not node.guidance or not new or new & set(node.supported_by):
        return None
    own = authority_of(lesson for lesson in lessons if lesson.node_id in new)
    if AUTHORITIES.index(own) < AUTHORITIES.index(standing_authority(node, proposal, lessons)):
        return reject(proposal, "authority", "the standing guidance has more authority")
    return None


def _written(
    node: Node,
    proposal: Consolidate,
    lessons: Sequence[Node],
    conflicts: tuple[Conflict, ...],
) -> Node:
    negative = _polarities(proposal, lessons) == {"negative"}
    return cleared(node, conflicts).model_copy(
        update={
            "title": proposal.title or node.title,
            "index": proposal.index if proposal.index is not None else node.index,
            "authority": authority_of(lessons),
            "guidance": proposal.guidance,
            "guidance_polarity": "negative" if negative else "positive",
            "applies_when": proposal.applies_when,
            "cautions": proposal.cautions,
            "supported_by": tuple(sorted(set(proposal.supported_by))),
        }
    )


def _polarities(proposal: Consolidate, lessons: Sequence[Node]) -> set[str]:
    supporting = set(proposal.supported_by)
    return {lesson.polarity for lesson in lessons if lesson.node_id in supporting}
