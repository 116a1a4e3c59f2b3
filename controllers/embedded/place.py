"""Place: the nearest category above the floors, else a new one named by its terms."""

from __future__ import annotations

from controllers.embedded.scopes import node_scope
from controllers.embedded.term_weights import class_titles, node_text
from epimem.protocols import CategoryView, PlaceRequest
from epimem.schema.lesson import IndexText
from epimem.schema.proposal import NewCategory, Place
from epimem.schema.tree import Node


def place(request: PlaceRequest, *, place_min: float, scope_min: float) -> Place:
    """Return where a lesson goes.

    Args:
        request: the lesson and the nearest categories.
        place_min: floor of the likeness (mean of scope and question anchor), in [-1, 1].
        scope_min: floor of the likeness of the scopes alone; not asked where neither side has a
            scope, nor (ours) where both hold the same names, which says more than a cosine.
    """
    lesson = request.lesson
    fitting = [
        view
        for view in request.candidates
        if view.likeness >= place_min and _same_scope(lesson, view, scope_min)
    ]
    if fitting:
        best = min(fitting, key=lambda view: (-view.likeness, view.node.node_id))
        return Place(lesson_id=lesson.node_id, category_id=best.node.node_id)
    return Place(lesson_id=lesson.node_id, new=_new_category(request))


def _same_scope(lesson: Node, view: CategoryView, scope_min: float) -> bool:
    index = lesson.index if lesson.lesson is None or lesson.index.scope else lesson.lesson.index
    if not index.scope and not view.node.index.scope:
        return True
    family = lesson.lesson.family if lesson.lesson is not None else ""
    ours, theirs = node_scope(lesson), node_scope(view.node, family)
    same_names = bool(ours.names and theirs.names)
    return ours.agrees(theirs) and (same_names or view.scope_likeness >= scope_min)


def _new_category(request: PlaceRequest) -> NewCategory:
    """Name a category by what its first lesson says and the shown categories do not."""
    lesson = request.lesson
    own = lesson.lesson.index if lesson.lesson is not None else lesson.index
    shown = [
        "\n".join([node_text(view.node), *map(node_text, view.examples)])
        for view in request.candidates
    ]
    title = class_titles([node_text(lesson), *shown])[0]
    return NewCategory(
        title=title,
        index=IndexText(topic=title, scope=own.scope, question_anchor=own.question_anchor),
    )
