"""What a controller's value is worth beside the one a demonstration wants, operation by operation.

| operation   | accuracy, in [0, 1]                                                                |
|-------------|------------------------------------------------------------------------------------|
| derive      | mean of the token F1 of guidance and, where regions are wanted, of their best IoU  |
| update      | mean of what is right of stop, visual and gate, and the IoU of a wanted region     |
| gate, merge | the decision is right                                                              |
| place       | the parent is right: the category, or that a new one is opened                     |
| split_lift  | the adjusted Rand index, at least 0                                                |
| consolidate | F1 of the supporting lessons                                                       |
| select      | F1 of the chosen ids                                                               |

Where nothing is wanted (no lesson, no guidance, no choice), accuracy says whether nothing came. A reply
without a value counts as wrong everywhere (ours). The definitions of accuracy for derive and update are
ours: they weigh their parts equally.

Which numbers a demonstration has depends on what is asked and wanted, never on what came, so that
controllers are compared over the same demonstrations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from epimem.protocols import Derived, PlaceRequest, Reply, SplitRequest, UpdateRequest
from epimem.schema.memory_input import Selection
from epimem.schema.proposal import Consolidate, Merge, Place, SplitLift
from epimem.schema.working_memory import Update
from training.evaluation.likeness import best, matched, overlap, set_f1, token_f1
from training.evaluation.partitions import adjusted_rand

Alike = Callable[[str, str], float]
BALANCED: Mapping[str, tuple[str, str]] = {
    "balanced_accuracy": ("right_of_0", "right_of_1"),
    "gate_balanced": ("gate_right_of_0", "gate_right_of_1"),
    "stop_balanced": ("stop_right_of_0", "stop_right_of_1"),
}
"""Measures over many demonstrations that are the mean of two rates, one for each class."""


class Missing(Enum):
    """What stands in place of a value where a reply has none; None is a lawful Merge."""

    NO_VALUE = "no value"


NO_VALUE = Missing.NO_VALUE


@dataclass(frozen=True)
class Measured:
    """How good one value is: `accuracy` and further named numbers, mostly in [0, 1]."""

    accuracy: float
    numbers: Mapping[str, float] = field(default_factory=dict)


def value_of(reply: Reply[Any]) -> Any:
    """Return the value of a reply, `NO_VALUE` where it was refused."""
    return NO_VALUE if reply.reason is not None else reply.value


def score(
    operation: str, request: Any, wanted: Any, got: Any, *, cosine: Alike | None = None
) -> Measured:
    """Measure one value.

    Args:
        operation: one of the eight.
        request: as the controller got it.
        wanted: the value of the demonstration.
        got: that of the controller, or `NO_VALUE`.
        cosine: the likeness of two texts by an encoder, given as `cosine` beside the token F1.
    """
    return _SCORES[operation](request, wanted, got, cosine)


def _derive(
    request: Any, wanted: Derived, got: Derived | Missing, cosine: Alike | None
) -> Measured:
    del request
    drafts = () if isinstance(got, Missing) else got.drafts
    if not wanted.drafts:
        return _empty(came=bool(drafts) or isinstance(got, Missing))
    said = [draft.guidance for draft in drafts]
    numbers = {
        "false_empty": float(not drafts),
        **_texts([draft.guidance for draft in wanted.drafts], said, cosine),
    }
    seen = [item for draft in wanted.drafts for item in draft.evidence]
    parts = [numbers["token_f1"]]
    if seen:
        numbers["region_iou"] = best(seen, [i for d in drafts for i in d.evidence], _iou)
        parts.append(numbers["region_iou"])
    return Measured(sum(parts) / len(parts), numbers)


def _update(
    request: UpdateRequest, wanted: Update, got: Update | Missing, cosine: Alike | None
) -> Measured:
    came = None if isinstance(got, Missing) else got
    decided = ("stop",) if request.visual == "none" else ("stop", "visual", "gate")
    right = {
        name: float(came is not None and getattr(came, name) == getattr(wanted, name))
        for name in decided
    }
    parts = list(right.values())
    numbers = {f"{name}_right": value for name, value in right.items()}
    for name in ("stop", "gate"):
        if name in right:
            numbers[f"{name}_right_of_{int(getattr(wanted, name))}"] = right[name]
    if wanted.evidence is not None:
        regions = [came.evidence] if came is not None and came.evidence is not None else []
        numbers["region_iou"] = best([wanted.evidence], regions, _iou)
        parts.append(numbers["region_iou"])
    if wanted.guidance:
        said = [came.guidance] if came is not None else []
        numbers |= _texts([wanted.guidance], said, cosine)
    return Measured(sum(parts) / len(parts), numbers)


def _gate(request: Any, wanted: int, got: int | Missing, cosine: Alike | None) -> Measured:
    del request, cosine
    return _decision(bool(wanted), None if isinstance(got, Missing) else bool(got))


def _merge(
    request: Any, wanted: Merge | None, got: Merge | Missing | None, cosine: Alike | None
) -> Measured:
    del request, cosine
    came = None if isinstance(got, Missing) else got is not None
    return _decision(wanted is not None, came)


def _place(
    request: PlaceRequest, wanted: Place, got: Place | Missing, cosine: Alike | None
) -> Measured:
    del request, cosine
    came = None if isinstance(got, Missing) else got
    right = float(
        came is not None
        and came.category_id == wanted.category_id
        and (came.new is None) == (wanted.new is None)
    )
    kind = "existing_right" if wanted.new is None else "new_right"
    numbers = {"parent_right": right, kind: right}
    if wanted.new is not None and wanted.parent_id is not None:
        same = came is not None and came.parent_id == wanted.parent_id
        numbers["group_right"] = float(bool(right) and same)
    return Measured(right, numbers)


def _split_lift(
    request: SplitRequest, wanted: SplitLift, got: SplitLift | Missing, cosine: Alike | None
) -> Measured:
    del cosine
    if isinstance(got, Missing):
        return Measured(0.0, {"adjusted_rand": 0.0})
    children = [child.node_id for child in request.children]
    found = adjusted_rand(_labels(wanted, children), _labels(got, children))
    return Measured(max(found, 0.0), {"adjusted_rand": found})


def _consolidate(
    request: Any, wanted: Consolidate, got: Consolidate | Missing, cosine: Alike | None
) -> Measured:
    del request
    guidance, support = ("", ()) if isinstance(got, Missing) else (got.guidance, got.supported_by)
    if not wanted.guidance:
        return _empty(came=bool(guidance) or isinstance(got, Missing))
    shared = len(set(support) & set(wanted.supported_by))
    numbers = {
        "false_empty": float(not guidance),
        # Of no lesson named, none is right (ours).
        "support_precision": shared / len(set(support)) if support else 0.0,
        "support_recall": shared / len(set(wanted.supported_by)) if wanted.supported_by else 1.0,
        **_texts([wanted.guidance], [guidance] if guidance else [], cosine),
    }
    return Measured(_f1(wanted.supported_by, support), numbers)


def _select(
    request: Any, wanted: Selection, got: Selection | Missing, cosine: Alike | None
) -> Measured:
    del request, cosine
    chosen = () if isinstance(got, Missing) else got.item_ids
    if not wanted.item_ids:
        return _empty(came=bool(chosen) or isinstance(got, Missing))
    f1 = set_f1(wanted.item_ids, chosen)
    return Measured(f1, {"f1": f1, "false_empty": float(not chosen)})


_SCORES: Mapping[str, Callable[[Any, Any, Any, Alike | None], Measured]] = {
    "derive": _derive,
    "update": _update,
    "gate": _gate,
    "place": _place,
    "merge": _merge,
    "split_lift": _split_lift,
    "consolidate": _consolidate,
    "select": _select,
}


def _empty(*, came: bool) -> Measured:
    """Measure where nothing was wanted: right if nothing came."""
    return Measured(float(not came), {"empty_right": float(not came)})


def _decision(wanted: bool, got: bool | None) -> Measured:  # noqa: FBT001 - both are one kind of thing
    right = float(got is wanted)
    return Measured(right, {f"right_of_{int(wanted)}": right})


def _texts(wanted: list[str], got: list[str], cosine: Alike | None) -> dict[str, float]:
    found = {"token_f1": matched(wanted, got, token_f1)}
    return found if cosine is None else {**found, "cosine": matched(wanted, got, cosine)}


def _f1(wanted: tuple[str, ...], got: tuple[str, ...]) -> float:
    return set_f1(wanted, got) if wanted or got else 1.0


def _iou(first: Any, second: Any) -> float:
    """Return the overlap of two pieces of evidence; none between regions of different images."""
    if first.image_id != second.image_id:
        return 0.0
    return overlap(first.region, second.region)


def _labels(value: SplitLift, children: list[str]) -> list[str]:
    """Return the part of each child, by its first member; a child in no part is one of its own."""
    part = {child: f"part {at}" for at, part in enumerate(value.parts) for child in part.child_ids}
    return [part.get(child, child) for child in children]
