"""What the value of a demonstration names although its request does not show it.

Shown is what `controllers.prompts` gives an alias to: the first so many categories or lessons,
candidates, pages, and turns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from controllers.prompts.consolidate import MAX_LESSONS
from controllers.prompts.place import MAX_CATEGORIES
from controllers.prompts.trace import shown_pages, transcript
from epimem.protocols import (
    ConsolidateRequest,
    Derived,
    DeriveRequest,
    MergeRequest,
    PlaceRequest,
    SelectRequest,
    SplitRequest,
    UpdateRequest,
)
from epimem.schema.memory_input import Selection
from epimem.schema.proposal import Consolidate, Merge, Place, SplitLift
from epimem.schema.run import Run
from epimem.schema.working_memory import Update
from training.demonstrations.record import OperationName

Named = Iterator[str]


def strangers(operation: OperationName, request: object, value: object) -> list[str]:
    """Return each id that the value names and the request does not show, with what it stands for."""
    return list(_FINDERS[operation](request, value)) if operation in _FINDERS else []


def _derive(request: DeriveRequest, value: Derived) -> Named:
    run = request.run
    pages = shown_pages(request.pages, run)
    turns = {turn.seq for turn in transcript(run, pages).turns.values()}
    images = {picture.image_id for picture in pages.values()}
    for draft in value.drafts:
        yield from _beyond("run", draft.run_ids, {run.run_id})
        for item in draft.evidence:
            yield from _beyond("image", [item.image_id], images)
            if item.turn is not None:
                yield from _beyond("run", [item.turn.run_id], {run.run_id})
                if item.turn.seq not in turns:
                    yield f"turn {item.turn.seq}"


def _update(request: UpdateRequest, value: Update) -> Named:
    run = request.trace if isinstance(request.trace, Run) else None
    images = {picture.image_id for picture in shown_pages(request.pages, run).values()}
    if value.evidence is not None:
        yield from _beyond("image", [value.evidence.image_id], images)


def _place(request: PlaceRequest, value: Place) -> Named:
    views = request.candidates[:MAX_CATEGORIES]
    yield from _beyond("lesson", [value.lesson_id], {request.lesson.node_id})
    if value.category_id is not None:
        yield from _beyond("category", [value.category_id], {view.node.node_id for view in views})
    if value.parent_id is not None:
        yield from _beyond("group", [value.parent_id], {view.parent_id for view in views})


def _merge(request: MergeRequest, value: Merge | None) -> Named:
    if value is not None:
        yield from _beyond("category", [value.kept_id], {request.kept.node_id})
        yield from _beyond("category", [value.absorbed_id], {request.absorbed.node_id})


def _split_lift(request: SplitRequest, value: SplitLift) -> Named:
    children = {child.node_id for child in request.children}
    yield from _beyond("node", [value.node_id], {request.node.node_id})
    for part in value.parts:
        yield from _beyond("child", part.child_ids, children)


def _consolidate(request: ConsolidateRequest, value: Consolidate) -> Named:
    lessons = {node.node_id for node in request.lessons[:MAX_LESSONS]}
    yield from _beyond("node", [value.node_id], {request.node.node_id})
    yield from _beyond("lesson", value.supported_by, lessons)
    for conflict in value.conflicts:
        yield from _beyond("lesson", conflict.first.items, lessons)
        yield from _beyond("lesson", conflict.second.items, lessons)


def _select(request: SelectRequest, value: Selection) -> Named:
    candidates = {each.node_id for each in request.candidates if each.node_id in request.nodes}
    yield from _beyond("candidate", value.item_ids, candidates)


def _beyond(kind: str, names: Collection[str], shown: Collection[str]) -> Named:
    return (f"{kind} {name}" for name in names if name not in shown)


_FINDERS: Mapping[str, Callable[..., Named]] = {
    "derive": _derive,
    "update": _update,
    "place": _place,
    "merge": _merge,
    "split_lift": _split_lift,
    "consolidate": _consolidate,
    "select": _select,
}
