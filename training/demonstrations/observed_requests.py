"""From a worked example to the request that a bank would make of it, and the value that was given.

An example names lessons by their task id, categories by an id of its own, rules by their house. What it
does not say is filled in as a bank would have it (ours): likeness from the index texts, categories in
their order; the smallest part from the design, and a capacity that the node exceeds by one; the question
anchor of a new category from its lesson.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from epimem.bank.likeness import likeness
from epimem.errors import RecordError
from epimem.protocols import (
    CategoryView,
    ConsolidateRequest,
    MergeRequest,
    PlaceRequest,
    SplitRequest,
)
from epimem.schema.lesson import IndexText
from epimem.schema.proposal import Consolidate, Merge, NewCategory, Part, Place, SplitLift
from epimem.schema.tree import Conflict, ConflictSide, Kind, Node
from training.demonstrations.observed_lessons import NAMESPACE, ObservedLessons
from training.demonstrations.observed_selections import Example, Made, Rules, select

ROOT = "root"
SHOWN_LESSONS = 3
MIN_GROUP, LEAST_CAPACITY = 4, 7


def made(example: Example, lessons: ObservedLessons, rules: Rules) -> Iterator[Made]:
    """Yield the operation, request and value of an example; of a selection, those of its gate too.

    Args:
        example: a line of the file.
        lessons: all that there are.
        rules: by house.

    Raises:
        RecordError: no such operation, or it names what there is not.
    """
    operation = str(example.get("op"))
    if operation not in _MAKERS:
        raise RecordError("no such operation", field="op", got=operation)
    try:
        yield from _MAKERS[operation](example["input"], example["target"], lessons, rules)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"not an example of {operation}: {error!r}", field="input") from error


def rules_of(examples: Sequence[Example], lessons: ObservedLessons) -> dict[str, Node]:
    """Return what the consolidations of these examples make, as summaries, by house.

    An example that cannot be read makes none.
    """
    found: dict[str, Node] = {}
    for example in examples:
        if example.get("op") != "consolidate":
            continue
        try:
            ((_, request, value),) = made(example, lessons, {})
            house = lessons.seen[example["input"]["lessons"][0]].house
        except (RecordError, KeyError):
            continue
        found[house] = request.node.model_copy(
            update={
                "node_id": f"rule-{house}",
                "kind": "summary",
                "guidance": value.guidance,
                "applies_when": value.applies_when,
                "cautions": value.cautions,
                "supported_by": value.supported_by,
                "conflicts": value.conflicts,
            }
        )
    return found


def _place(given: Example, target: Example, lessons: ObservedLessons, _: Rules) -> Iterator[Made]:
    lesson = lessons.node(given["lesson"])
    views = [_view(lesson, category, lessons) for category in given["categories"]]
    views.sort(key=lambda view: (-view.likeness, view.node.node_id))
    value = Place(lesson_id=lesson.node_id, category_id=target.get("category"))
    if target.get("category") is None:
        new = target["new"]
        index = IndexText(
            topic=new["topic"],
            scope=new["scope"],
            question_anchor=lesson.index.question_anchor,
        )
        category = NewCategory(title=new["title"], index=index)
        value = Place(lesson_id=lesson.node_id, new=category)
    yield "place", PlaceRequest(lesson, tuple(views)), value


def _view(lesson: Node, category: Example, lessons: ObservedLessons) -> CategoryView:
    members = lessons.of(category["members"])
    node = _category(category, members)
    own, theirs = lessons.vectors([lesson.index, node.index])
    near = likeness(own, theirs)
    return CategoryView(
        node,
        round(near.mean, 6),
        round(near.scope, 6),
        parent_id=ROOT,
        size=len(members),
        examples=members[:SHOWN_LESSONS],
    )


def _merge(given: Example, target: Example, lessons: ObservedLessons, _: Rules) -> Iterator[Made]:
    pairs = [
        (_category(each, found), found)
        for each, found in (
            (each, lessons.of(each["members"])) for each in (given["a"], given["b"])
        )
    ]
    pairs.sort(key=lambda pair: (-len(pair[1]), pair[0].node_id))
    (kept, ours), (absorbed, theirs) = pairs
    vectors = lessons.vectors([node.index for node in (*ours, *theirs)])
    least = min(
        likeness(one, other).mean for one in vectors[: len(ours)] for other in vectors[len(ours) :]
    )
    request = MergeRequest(kept, absorbed, ours, theirs, round(least, 6))
    merged = Merge(
        kept_id=kept.node_id, absorbed_id=absorbed.node_id, title=target.get("title", "")
    )
    yield "merge", request, merged if target["merge"] else None


def _split(given: Example, target: Example, lessons: ObservedLessons, _: Rules) -> Iterator[Made]:
    group = given["group"]
    children = lessons.of(group["members"])
    node = _category(group, children)
    made_of = lessons.vectors([child.index for child in children])
    request = SplitRequest(
        node,
        children,
        {child.node_id: each.index for child, each in zip(children, made_of, strict=True)},
        capacity=max(len(children) - 1, LEAST_CAPACITY),
        min_group=MIN_GROUP,
    )
    parts = tuple(_part(part, lessons.of(part["members"])) for part in target["groups"])
    yield "split_lift", request, SplitLift(node_id=node.node_id, parts=parts)


def _part(part: Example, members: Sequence[Node]) -> Part:
    node = _category({**part, "id": "part"}, members)
    return Part(
        child_ids=tuple(member.node_id for member in members), title=node.title, index=node.index
    )


def _consolidate(
    given: Example, target: Example, lessons: ObservedLessons, _: Rules
) -> Iterator[Made]:
    shown = lessons.of(given["lessons"])
    house = lessons.seen[given["lessons"][0]].house
    node = _category({**given["group"], "id": f"category-{house}"}, shown)
    value = Consolidate(
        node_id=node.node_id,
        guidance=target["guidance"],
        applies_when=target.get("applies_when", ""),
        cautions=(target["cautions"],) if target.get("cautions") else (),
        supported_by=tuple(found.node_id for found in lessons.of(target["supports"])),
        conflicts=_conflicts(target, lessons),
    )
    yield "consolidate", ConsolidateRequest(node, shown), value


def _conflicts(target: Example, lessons: ObservedLessons) -> tuple[Conflict, ...]:
    """Return one conflict for each lesson that contradicts the guidance, with all it was set against."""
    against: dict[str, list[str]] = {}
    for conflict in target.get("conflicts", ()):
        between = conflict["between"]
        (other,) = (task_id for task_id in between if task_id not in target["supports"])
        against.setdefault(other, []).extend(task_id for task_id in between if task_id != other)
    found = []
    for other, ours in against.items():
        second = lessons.node(other)
        assert second.lesson is not None
        found.append(
            Conflict(
                first=ConflictSide(
                    statement=target["guidance"],
                    applies_when=target.get("applies_when", ""),
                    items=tuple(node.node_id for node in lessons.of(sorted(set(ours)))),
                ),
                second=ConflictSide(
                    statement=second.lesson.guidance,
                    applies_when=second.lesson.applies_when,
                    items=(second.node_id,),
                ),
            )
        )
    return tuple(found)


def _category(given: Example, members: Sequence[Node], kind: Kind = "category") -> Node:
    first = members[0]
    return Node(
        node_id=given["id"],
        namespace=NAMESPACE,
        kind=kind,
        height=1,
        parent_id=ROOT,
        title=given["title"],
        index=IndexText(
            topic=given["title"],
            scope=given["scope"],
            question_anchor=first.index.question_anchor,
        ),
        form=first.shelf[0],
        authority=first.authority,
    )


_MAKERS: Mapping[str, Callable[[Example, Example, ObservedLessons, Rules], Iterator[Made]]] = {
    "place": _place,
    "merge": _merge,
    "split_lift": _split,
    "consolidate": _consolidate,
    "select": select,
}
