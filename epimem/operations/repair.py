"""Repair: keep every node legal after something was taken out, as a B-tree does on deletion.

An empty category goes. A non-root node above the categories with fewer than `min_group` children is
joined with its nearest sibling; where the two are over capacity together, their children are dealt
out anew, alike ones together, at least `min_group` to each. A root with a single child above the
categories collapses by one level. So a tree of height h > 2 has at least 2 * min_group^(h - 2)
categories, which bounds its depth.
"""

from __future__ import annotations

from collections.abc import Iterable

from epimem.operations.base import Context, Edit, authority_of, name, refusal
from epimem.operations.capacity import halve
from epimem.operations.nearness import known_vectors, medoid, nearest
from epimem.operations.rules import cleared
from epimem.schema.proposal import Outcome
from epimem.schema.tree import Node, Tree


def remove(tree: Tree, node_ids: Iterable[str], context: Context) -> Outcome:
    """Take nodes out and repair what is left.

    Lessons that are not named stay: those below a named category move to a fresh one without
    guidance, which is named after the most typical of them. Guidance and conflicts that rest on a
    lesson taken out are taken back. The root cannot be removed.
    """
    gone = set(node_ids)
    unknown = sorted(node_id for node_id in gone if node_id not in tree)
    if unknown:
        return refusal("repair", "unknown_id", f"node {name(unknown[0])}")
    if tree.root_id in gone:
        return refusal("repair", "scope", "the root stays")
    edit = Edit(tree)
    dirty: set[str] = set()
    for node_id in sorted(gone, key=lambda key: (tree.node(key).height, key)):
        dirty |= _take_out(edit, edit.tree.node(node_id), context)
    repair(edit, dirty, context)
    return edit.accepted("repair")


def repair(edit: Edit, dirty: Iterable[str], context: Context) -> None:
    """Make the nodes in `dirty`, and what that touches, legal again.

    Empty nodes go first, lowest first; then the tallest node that needs it. A node without a
    sibling is its parent's only child, so the parent is mended first: it is the root, which
    collapses, or it is itself below `min_group`. Every round takes out a node, ends an underflow
    without causing another, or turns to such a parent; so the rounds end.
    """
    pending = set(dirty)
    while True:
        nodes = [edit.tree.node(key) for key in pending if key in edit.tree]
        broken = [node for node in nodes if _is_broken(edit.tree, node, context)]
        if not broken:
            return
        pending |= _mend(edit, min(broken, key=lambda node: _urgency(edit.tree, node)), context)


def _is_broken(tree: Tree, node: Node, context: Context) -> bool:
    size = len(tree.children_of(node.node_id))
    if node.node_id == tree.root_id:
        return node.height > 2 and size < 2
    return size < (context.limits.min_group if node.height >= 2 else node.height)


def _urgency(tree: Tree, node: Node) -> tuple[bool, int, str]:
    empty = node.node_id != tree.root_id and not tree.children_of(node.node_id)
    return not empty, node.height if empty else -node.height, node.node_id


def _mend(edit: Edit, node: Node, context: Context) -> set[str]:
    tree = edit.tree
    if node.parent_id is None:
        _collapse(edit, node)
        return {node.node_id}
    if not tree.children_of(node.node_id):
        edit.drop(node.node_id)
        return {node.parent_id}
    siblings = tree.siblings(node.node_id)
    if siblings:
        _join(edit, node, nearest(tree, node.node_id, siblings, context.vectors), context)
    return {node.parent_id}


def _collapse(edit: Edit, root: Node) -> None:
    """Let the root take the children of its only child, and lose a level."""
    children = edit.tree.child_nodes(root.node_id)
    height = children[0].height if children else 2
    edit.put(root.model_copy(update={"height": height}))
    for child in children:
        edit.move(edit.tree.children_of(child.node_id), to=root.node_id)
        edit.drop(child.node_id)


def _join(edit: Edit, node: Node, sibling_id: str, context: Context) -> None:
    tree = edit.tree
    own, theirs = tree.children_of(node.node_id), tree.children_of(sibling_id)
    if len(own) + len(theirs) <= context.limits.capacity:
        edit.move(own, to=sibling_id)
        edit.drop(node.node_id)
        return
    union = (*own, *theirs)
    vectors = known_vectors(tree, union, context.vectors)
    first, second = halve(union, vectors, smallest=context.limits.min_group)
    stays, goes = sorted((first, second), key=lambda part: -len(set(part) & set(theirs)))
    edit.move(stays, to=sibling_id)
    edit.move(goes, to=node.node_id)
    typical = medoid(edit.tree, goes, context.vectors)
    edit.put(_named(node, typical))
    edit.note_sources(node.node_id, (typical.node_id,))


def _take_out(edit: Edit, node: Node, context: Context) -> set[str]:
    """Take one node out and return what may need repair."""
    tree = edit.tree
    survivors = tree.children_of(node.node_id)
    parent = tree.node(node.parent_id or tree.root_id)
    dirty = {parent.node_id}
    if survivors:
        typical = medoid(tree, survivors, context.vectors)
        fresh = cleared(node).model_copy(update={"node_id": context.ids()})
        edit.put(_named(fresh, typical))
        edit.move(survivors, to=fresh.node_id)
        edit.note_sources(fresh.node_id, (typical.node_id,))
        dirty.add(fresh.node_id)
    edit.drop(node.node_id)
    if node.height == 0:
        _forget(edit, parent, node.node_id)
    return dirty


def _forget(edit: Edit, category: Node, lesson_id: str) -> None:
    """Take back what a category says on the strength of a lesson that is gone."""
    kept = tuple(
        conflict
        for conflict in category.conflicts
        if lesson_id not in (*conflict.first.items, *conflict.second.items)
    )
    if lesson_id in category.supported_by or len(kept) < len(category.conflicts):
        edit.put(cleared(category, kept))


def _named(node: Node, child: Node) -> Node:
    return node.model_copy(
        update={
            "title": child.title or child.index.topic,
            "index": child.index,
            "authority": authority_of((child,)),
        }
    )
