"""Predictors that look at no question: the floors below which a controller has learnt nothing.

Each decision is answered by what was most frequent in the training groups, each decision by itself, so
that the value as a whole may be unlawful: a floor for the measures, not for a bank.

| operation   | value                                                                              |
|-------------|------------------------------------------------------------------------------------|
| derive      | the most frequent guidance, with a region of the first page; nothing if most have  |
| update      | the most frequent stop, visual, gate and guidance, with a region of the first page |
| gate, merge | the most frequent decision                                                         |
| place       | the first candidate, a new category where there is none                            |
| split_lift  | two halves, in the order of the ids                                                |
| consolidate | every lesson, with the guidance of the first; nothing if most have nothing         |
| select      | nothing                                                                            |

The region is the whole page, or the mean region of the training groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Literal

from epimem.protocols import (
    ConsolidateRequest,
    Derived,
    DeriveRequest,
    MergeRequest,
    Picture,
    PlaceRequest,
    SplitRequest,
    UpdateRequest,
)
from epimem.schema.lesson import Evidence, LessonDraft
from epimem.schema.memory_input import Selection
from epimem.schema.proposal import Consolidate, Merge, NewCategory, Part, Place, SplitLift
from epimem.schema.region import SCALE, Region
from epimem.schema.working_memory import Update, VisualEvidence
from training.demonstrations.record import Demonstration

RegionKind = Literal["whole", "mean"]
_NO_GUIDANCE = "nothing is known"


class Habits:
    """What is most frequent in the training groups.

    Args:
        training: demonstrations of the training groups; the more frequent of two equals is the one that
            sorts first, so that their order does not matter.
    """

    def __init__(self, training: Iterable[Demonstration]) -> None:
        self._counts: dict[str, Counter[Hashable]] = {}
        self._boxes: dict[str, list[tuple[float, float, float, float]]] = {}
        for demonstration in training:
            operation, value = demonstration.operation, demonstration.value
            for name, decision in _decisions(operation, value):
                self._counts.setdefault(f"{operation} {name}", Counter())[decision] += 1
            for region in _regions(operation, value):
                self._boxes.setdefault(operation, []).append(_shares(region))

    def most(self, name: str, *, otherwise: Any) -> Any:
        """Return the most frequent decision of this name, "operation decision"."""
        counts = self._counts.get(name)
        if not counts:
            return otherwise
        most = max(counts.values())
        return min((it for it, count in counts.items() if count == most), key=str)

    def region(self, operation: str, page: Picture, kind: RegionKind) -> Region:
        """Return the constant region on a page; the whole page where no region was noted."""
        boxes = self._boxes.get(operation, ())
        if kind == "whole" or not boxes:
            return Region.whole(page.width, page.height)
        x0, y0, x1, y1 = (
            round(SCALE * sum(edges) / len(boxes)) for edges in zip(*boxes, strict=True)
        )
        left, top = min(x0, SCALE - 1), min(y0, SCALE - 1)
        box = (left, top, max(x1, left + 1), max(y1, top + 1))
        return Region.from_scaled(box, page.width, page.height)


def constant(habits: Habits, operation: str, request: Any, region: RegionKind) -> Any:
    """Return the constant answer to a request."""
    return _ANSWERS[operation](habits, request, region)


def _decisions(operation: str, value: Any) -> Iterator[tuple[str, Hashable]]:
    """Yield what a training value decides, by name."""
    if operation == "derive":
        yield "nothing", not value.drafts
        yield from (("guidance", draft.guidance) for draft in value.drafts)
    elif operation == "update":
        for name in ("stop", "visual", "gate", "guidance"):
            yield name, getattr(value, name)
    elif operation == "gate":
        yield "open", value
    elif operation == "merge":
        yield "joined", value is not None
    elif operation == "consolidate":
        yield "nothing", not value.guidance


def _regions(operation: str, value: Any) -> list[Region]:
    """Return the regions that a training value points to."""
    if operation == "derive":
        return [item.region for draft in value.drafts for item in draft.evidence]
    if operation == "update" and value.evidence is not None:
        return [value.evidence.region]
    return []


def _shares(region: Region) -> tuple[float, float, float, float]:
    """Return a region in shares of its image."""
    width, height = region.width, region.height
    return region.x0 / width, region.y0 / height, region.x1 / width, region.y1 / height


def _derive(habits: Habits, request: DeriveRequest, region: RegionKind) -> Derived:
    if habits.most("derive nothing", otherwise=False):
        return Derived((), nothing="as most runs")
    evidence = tuple(
        Evidence(image_id=page.image_id, region=habits.region("derive", page, region))
        for page in request.pages[:1]
    )
    guidance = habits.most("derive guidance", otherwise=_NO_GUIDANCE)
    return Derived((LessonDraft(guidance=guidance, evidence=evidence),))


def _update(habits: Habits, request: UpdateRequest, region: RegionKind) -> Update:
    seen = [
        VisualEvidence(image_id=page.image_id, region=habits.region("update", page, region))
        for page in request.pages[:1]
    ]
    return Update(
        guidance=habits.most("update guidance", otherwise=""),
        visual=habits.most("update visual", otherwise="retain"),
        evidence=seen[0] if seen else None,
        gate=habits.most("update gate", otherwise=0),
        stop=habits.most("update stop", otherwise=False),
    )


def _gate(habits: Habits, request: Any, region: RegionKind) -> int:
    del request, region
    decision: int = habits.most("gate open", otherwise=0)
    return decision


def _merge(habits: Habits, request: MergeRequest, region: RegionKind) -> Merge | None:
    del region
    if not habits.most("merge joined", otherwise=False):
        return None
    return Merge(kept_id=request.kept.node_id, absorbed_id=request.absorbed.node_id)


def _place(habits: Habits, request: PlaceRequest, region: RegionKind) -> Place:
    del habits, region
    lesson_id = request.lesson.node_id
    if not request.candidates:
        return Place(lesson_id=lesson_id, new=NewCategory())
    return Place(lesson_id=lesson_id, category_id=request.candidates[0].node.node_id)


def _split_lift(habits: Habits, request: SplitRequest, region: RegionKind) -> SplitLift:
    del habits, region
    children = sorted(child.node_id for child in request.children)
    middle = len(children) // 2
    halves = [half for half in (children[:middle], children[middle:]) if half]
    parts = tuple(Part(child_ids=tuple(half)) for half in halves)
    return SplitLift(node_id=request.node.node_id, parts=parts)


def _consolidate(habits: Habits, request: ConsolidateRequest, region: RegionKind) -> Consolidate:
    del region
    node_id = request.node.node_id
    if habits.most("consolidate nothing", otherwise=False):
        return Consolidate(node_id=node_id)
    first = next((node.lesson for node in request.lessons if node.lesson is not None), None)
    return Consolidate(
        node_id=node_id,
        guidance=first.guidance if first is not None else _NO_GUIDANCE,
        supported_by=tuple(node.node_id for node in request.lessons),
    )


def _select(habits: Habits, request: Any, region: RegionKind) -> Selection:
    del habits, request, region
    return Selection()


_ANSWERS: Mapping[str, Callable[[Habits, Any, RegionKind], Any]] = {
    "derive": _derive,
    "update": _update,
    "gate": _gate,
    "merge": _merge,
    "place": _place,
    "split_lift": _split_lift,
    "consolidate": _consolidate,
    "select": _select,
}
