"""Merge: join two sibling categories of lessons into one.

The lessons of the absorbed category move to the kept one. Guidance of both is taken back, because
it was written for other groups; conflicts of both are kept. The parent is repaired afterwards.
"""

from __future__ import annotations

from epimem.operations.base import Context, Edit, authority_of, name, reject
from epimem.operations.conflicts import joined
from epimem.operations.repair import repair
from epimem.operations.rules import cleared
from epimem.schema.proposal import Merge, Outcome, Rejection
from epimem.schema.tree import Node, Tree


def apply(tree: Tree, proposal: Merge, context: Context) -> Outcome:
    """Merge two categories, or say why not."""
    kept = tree.nodes.get(proposal.kept_id)
    absorbed = tree.nodes.get(proposal.absorbed_id)
    if kept is None or absorbed is None:
        missing = proposal.kept_id if kept is None else proposal.absorbed_id
        return reject(proposal, "unknown_id", f"node {name(missing)}")
    refused = _check(tree, proposal, kept, absorbed) or _check_size(tree, proposal, context)
    if refused is not None:
        return refused
    edit = Edit(tree)
    lessons = tree.child_nodes(kept.node_id) + tree.child_nodes(absorbed.node_id)
    merged = cleared(kept, joined(kept, absorbed, lessons)).model_copy(
        update={
            "title": proposal.title or kept.title,
            "authority": authority_of((kept, absorbed)),
        }
    )
    edit.put(merged)
    edit.move(tree.children_of(absorbed.node_id), to=kept.node_id)
    edit.drop(absorbed.node_id)
    edit.note_sources(kept.node_id, (lesson.node_id for lesson in lessons))
    if kept.parent_id is not None:
        repair(edit, (kept.parent_id,), context)
    return edit.accepted("merge")


def _check(tree: Tree, proposal: Merge, kept: Node, absorbed: Node) -> Rejection | None:
    if kept.node_id == absorbed.node_id:
        return reject(proposal, "cycle", "a category cannot absorb itself")
    if tree.root_id in {kept.node_id, absorbed.node_id}:
        return reject(proposal, "scope", "the root merges with nothing")
    if (kept.height, absorbed.height) != (1, 1):
        return reject(proposal, "scope", "only categories of lessons merge")
    if kept.parent_id != absorbed.parent_id:
        return reject(proposal, "scope", "only siblings merge")
    if kept.shelf != absorbed.shelf:
        return reject(proposal, "scope", "form or audience differs")
    return None


def _check_size(tree: Tree, proposal: Merge, context: Context) -> Rejection | None:
    together = len(tree.children_of(proposal.kept_id)) + len(tree.children_of(proposal.absorbed_id))
    capacity = context.limits.capacity
    if together > capacity:
        return reject(proposal, "limit", f"{together} lessons together, capacity {capacity}")
    return None
