"""Split + Lift: divide a node's children into parts, and lift the parts to be its siblings.

The largest part keeps the node's id, without its guidance; parts of the root become its new
children, and the root grows by one level. The parent may be over-full afterwards: see
`registry.settle`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from epimem.operations.base import Context, Edit, authority_of, name, reject
from epimem.operations.conflicts import concerning
from epimem.operations.nearness import medoid
from epimem.operations.rules import cleared
from epimem.schema.proposal import Outcome, Part, Rejection, SplitLift
from epimem.schema.tree import Node, Tree


def apply(tree: Tree, proposal: SplitLift, context: Context) -> Outcome:
    """Split a node, or say why not.

    Any node with two parts' worth of children may be split, over capacity or not ("separate broad
    groups"); the root only when it is over capacity, since it alone adds a level.
    """
    node = tree.nodes.get(proposal.node_id)
    if node is None:
        return reject(proposal, "unknown_id", f"node {name(proposal.node_id)}")
    refused = _check_node(tree, proposal, node, context) or _check_parts(tree, proposal, context)
    if refused is not None:
        return refused
    edit = Edit(tree)
    lift(edit, node, proposal.parts, context)
    return edit.accepted("split_lift")


def lift(edit: Edit, node: Node, parts: Sequence[Part], context: Context) -> None:
    """Make the parts siblings of the node, or children of the root; parts are checked before."""
    root = node.node_id == edit.tree.root_id
    parent_id = node.node_id if root else node.parent_id
    if root:
        edit.put(node.model_copy(update={"height": node.height + 1}))
    # Python's max keeps the first of equals.
    largest = max(range(len(parts)), key=lambda index: len(parts[index].child_ids))
    children = edit.tree.child_nodes(node.node_id)
    made = []
    for index, part in enumerate(parts):
        node_id = context.ids() if root or index != largest else node.node_id
        group = _group(node, children, part)
        made.append((group.model_copy(update={"node_id": node_id, "parent_id": parent_id}), part))
    for group, part in made:
        named, source = _named(edit.tree, group, part, context)
        sources = [child.node_id for child in children] if source is None else [source]
        edit.put(named)
        if group.node_id != node.node_id:
            edit.move(part.child_ids, to=group.node_id)
        edit.note_sources(group.node_id, sources)


def _named(tree: Tree, group: Node, part: Part, context: Context) -> tuple[Node, str | None]:
    """Return the group with its text, and the one child that the text is from.

    What the part does not say is taken from its medoid child. There is no single source when a
    controller wrote some of the text, or a conflict came along: both saw all children.
    """
    child = medoid(tree, part.child_ids, context.vectors)
    topic = part.index.topic if part.index is not None else ""
    named = group.model_copy(
        update={
            "title": part.title or topic or child.title or child.index.topic,
            "index": part.index if part.index is not None else child.index,
        }
    )
    copied = part.index is None and not part.title and not group.conflicts
    return named, child.node_id if copied else None


def _group(node: Node, children: Sequence[Node], part: Part) -> Node:
    return cleared(node, concerning(node.conflicts, part.child_ids)).model_copy(
        update={"authority": authority_of(children)}
    )


def _check_node(tree: Tree, proposal: SplitLift, node: Node, context: Context) -> Rejection | None:
    limits, size = context.limits, len(tree.children_of(node.node_id))
    if node.height == 0:
        return reject(proposal, "scope", "a lesson has nothing to split")
    if size < 2 * limits.min_group:
        return reject(proposal, "limit", f"{size} children make no two parts")
    if node.node_id == tree.root_id and size <= limits.capacity:
        return reject(proposal, "limit", "the root is split only when it is over capacity")
    return None


def _check_parts(tree: Tree, proposal: SplitLift, context: Context) -> Rejection | None:
    limits = context.limits
    children = tree.children_of(proposal.node_id)
    named = Counter(child for part in proposal.parts for child in part.child_ids)
    strange = sorted(named.keys() - set(children))
    if strange:
        return reject(proposal, "unknown_id", f"not a child of the node: {name(strange[0])}")
    repeated = sorted(child for child, times in named.items() if times > 1)
    if repeated:
        return reject(proposal, "duplicate", f"in two parts: {name(repeated[0])}")
    missing = [child for child in children if child not in named]
    if missing:
        return reject(proposal, "schema", f"{len(missing)} children in no part")
    sizes = [len(part.child_ids) for part in proposal.parts]
    if len(sizes) < 2 or min(sizes) < limits.min_group or max(sizes) > limits.capacity:
        bounds = f"{limits.min_group} to {limits.capacity}"
        return reject(proposal, "limit", f"parts of {sizes}; two or more of {bounds} are wanted")
    return None
