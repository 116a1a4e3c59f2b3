"""Place: put a lesson from the inbox under a category, or open a new category for it.

A lesson and its category share namespace, form and audience. A new category goes under a node that
holds categories of lessons (height 2), never beside a taller one. The category may be over-full
afterwards: dividing it is the next operation, not this one.
"""

from __future__ import annotations

from epimem.operations.base import Context, Edit, authority_of, name, reject
from epimem.schema.lesson import IndexText
from epimem.schema.proposal import NewCategory, Outcome, Place, Rejection
from epimem.schema.tree import Node, Tree


def apply(tree: Tree, proposal: Place, context: Context) -> Outcome:
    """Place one lesson of `context.inbox`, or say why not."""
    lesson = context.inbox.get(proposal.lesson_id)
    refused = _check_lesson(tree, proposal, lesson)
    if refused is not None or lesson is None:
        return refused or reject(proposal, "unknown_id", f"lesson {name(proposal.lesson_id)}")
    if proposal.new is not None:
        return _into_new(tree, proposal, lesson, context)
    return _into_existing(tree, proposal, lesson)


def _check_lesson(tree: Tree, proposal: Place, lesson: Node | None) -> Rejection | None:
    if (proposal.category_id is None) == (proposal.new is None):
        return reject(proposal, "schema", "exactly one of category_id and new")
    if proposal.lesson_id in tree:
        return reject(proposal, "stale", "the lesson is in the tree already")
    if lesson is None:
        return None
    if lesson.lesson is None or lesson.height != 0:
        return reject(proposal, "scope", "only a lesson can be placed")
    if lesson.namespace != tree.root.namespace:
        return reject(proposal, "scope", "lesson and tree are of different namespaces")
    return None


def _into_existing(tree: Tree, proposal: Place, lesson: Node) -> Outcome:
    category = tree.nodes.get(proposal.category_id or "")
    if category is None:
        return reject(proposal, "unknown_id", f"category {name(proposal.category_id or '')}")
    if category.height != 1:
        return reject(proposal, "scope", "a lesson goes under a category of lessons")
    if category.shelf != lesson.shelf:
        return reject(proposal, "scope", "form or audience differs from the category's")
    if proposal.parent_id not in {None, category.parent_id}:
        return reject(proposal, "schema", "parent_id is not the category's parent")
    edit = Edit(tree)
    edit.put(lesson.model_copy(update={"parent_id": category.node_id}))
    return edit.accepted("place")


def _into_new(tree: Tree, proposal: Place, lesson: Node, context: Context) -> Outcome:
    parent_id = proposal.parent_id or context.parent_hint or _default_parent(tree)
    parent = tree.nodes.get(parent_id)
    if parent is None:
        return reject(proposal, "unknown_id", f"parent {name(parent_id)}")
    if parent.height != 2:
        return reject(proposal, "scope", "a new category goes under a node of categories")
    edit = Edit(tree)
    category = _category(context.ids(), parent, lesson, proposal.new or NewCategory())
    edit.put(category, lesson.model_copy(update={"parent_id": category.node_id}))
    edit.note_sources(category.node_id, (lesson.node_id,))
    return edit.accepted("place")


def _category(node_id: str, parent: Node, lesson: Node, new: NewCategory) -> Node:
    index = lesson.index if new.index == IndexText() else new.index
    form, audience = lesson.shelf
    return Node(
        node_id=node_id,
        namespace=parent.namespace,
        kind="category",
        height=1,
        parent_id=parent.node_id,
        title=new.title or new.index.topic or lesson.title or lesson.index.topic,
        index=index,
        form=form,
        audience=audience,
        authority=authority_of((lesson,)),
    )


def _default_parent(tree: Tree) -> str:
    """Return the first node of height 2 in walking order."""
    node_id = tree.root_id
    while tree.node(node_id).height > 2:
        node_id = tree.children_of(node_id)[0]
    return node_id
