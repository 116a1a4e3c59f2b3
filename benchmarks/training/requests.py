"""Requests of the tree organizer made of families of real questions, each with its right answer.

A lesson tells the answer to a question; what a category or a candidate is about shows in questions and
answers alone, and no text names a family. Lessons of one family belong together. Likeness comes from
the text encoder, as in a bank, and candidates stand in its order. Requests are small (texts cut short,
one category without its lessons; ours): a small model on a processor has to read them hundreds of times.

In half of the requests, for each operation, there is nothing to join: no category of the lesson's
family, two families, no candidate that applies. So constant answers are right in half of the cases
at most.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.text.bbh import Item
from controllers.embedded import place as embedded
from controllers.prompts.select import selection
from epimem.bank.encoder import NodeVectors, node_vectors
from epimem.bank.likeness import likeness
from epimem.protocols import (
    CategoryView,
    Encoder,
    MergeRequest,
    PlaceRequest,
    SelectRequest,
)
from epimem.schema.ids import sha256
from epimem.schema.lesson import IndexText, Lesson
from epimem.schema.memory_input import Candidate, Selection
from epimem.schema.proposal import Merge, NewCategory, Place
from epimem.schema.tree import Node
from training.demonstrations.record import Demonstration, OperationName, Provenance

ANCHOR_CHARS, ANSWER_CHARS, QUESTION_CHARS = 40, 20, 100
CATEGORIES, CANDIDATES = 1, 2
SIZES = range(2, 13)
SOURCE = "bbh"
TEACHER = "family labels"


@dataclass(frozen=True)
class _Category:
    """A category of one family: its node, and a lesson in it."""

    group: str
    node: Node
    lesson: Node


class RequestMaker:
    """Makes demonstrations from families of items.

    Args:
        items: by group; requests about one group show others of these beside it, and none else.
        encoder: for likeness.
        seed: other seeds make other requests.
    """

    def __init__(self, items: Mapping[str, Sequence[Item]], encoder: Encoder, *, seed: int) -> None:
        self._items = {group: items[group] for group in sorted(items)}
        self._encoder = encoder
        self._seed = seed

    def demonstrations(self, operation: OperationName, count: int) -> Iterator[Demonstration]:
        """Yield `count` demonstrations: groups in turn, half of each with something to join."""
        groups = list(self._items)
        for number in range(count):
            group, turn = groups[number % len(groups)], number // len(groups)
            rng = random.Random(f"{self._seed}/{operation}/{group}/{turn}")
            joins = 1 - turn % 2
            request, value = _MAKERS[operation](self, rng, group, joins)
            yield Demonstration(
                id=sha256(f"{operation}/{group}/{turn}/{self._seed}".encode()),
                operation=operation,
                group=group,
                request=request,
                value=value,
                provenance=Provenance(teacher=TEACHER, source=SOURCE, seed=self._seed),
            )

    def _place(self, rng: random.Random, group: str, joins: int) -> tuple[PlaceRequest, Place]:
        item, *own = rng.sample(self._items[group], 3)
        lesson = lesson_of(item)
        shown = self._nearest(rng, lesson, group, CATEGORIES - joins)
        if joins:
            shown.append(_category(group, own))
        vectors = self._vectors([lesson, *(category.node for category in shown)])
        views = [
            CategoryView(
                node=category.node,
                likeness=likeness(vectors[0], other).mean,
                scope_likeness=0.0,
                parent_id="root",
                size=rng.choice(SIZES),
                examples=(),
            )
            for category, other in zip(shown, vectors[1:], strict=True)
        ]
        views.sort(key=lambda view: (-view.likeness, view.node.node_id))
        request = PlaceRequest(lesson=lesson, candidates=tuple(views))
        if joins:
            return request, Place(lesson_id=lesson.node_id, category_id=shown[-1].node.node_id)
        return request, new_place(request)

    def _merge(
        self, rng: random.Random, group: str, joins: int
    ) -> tuple[MergeRequest, Merge | None]:
        own = rng.sample(self._items[group], 4)
        kept = _category(group, own[:2])
        absorbed = (
            _category(group, own[2:]) if joins else self._nearest(rng, kept.node, group, 1)[0]
        )
        one, other = self._vectors([kept.lesson, absorbed.lesson])
        request = MergeRequest(
            kept=kept.node,
            absorbed=absorbed.node,
            kept_lessons=(kept.lesson,),
            absorbed_lessons=(absorbed.lesson,),
            likeness=likeness(one, other).mean,
        )
        merged = Merge(kept_id=kept.node.node_id, absorbed_id=absorbed.node.node_id)
        return request, merged if joins else None

    def _select(
        self, rng: random.Random, group: str, joins: int
    ) -> tuple[SelectRequest, Selection]:
        asked, taught = rng.sample(self._items[group], 2)
        about = lesson_of(asked)
        others = self._nearest(rng, about, group, CANDIDATES - joins)
        lessons = [category.lesson for category in others] + [lesson_of(taught)] * joins
        vectors = self._vectors([about, *lessons])
        found = [
            Candidate(
                node_id=lesson.node_id,
                kind="lesson",
                dense=round(likeness(vectors[0], other).mean, 6),
                passes=True,
            )
            for lesson, other in zip(lessons, vectors[1:], strict=True)
        ]
        found.sort(key=lambda candidate: (-(candidate.dense or 0.0), candidate.node_id))
        request = SelectRequest(
            question=short(asked.question, QUESTION_CHARS),
            family="",
            candidates=tuple(found),
            nodes={lesson.node_id: lesson for lesson in lessons},
            max_rules=0,
            max_lessons=1,
        )
        return request, selection(request, (), lessons[-1].node_id if joins else None)

    def _nearest(self, rng: random.Random, to: Node, group: str, count: int) -> list[_Category]:
        """Return categories of other families, one of each, the nearest `count`."""
        others = [
            _category(other, rng.sample(items, 2))
            for other, items in self._items.items()
            if other != group
        ]
        target, *vectors = self._vectors([to, *(category.node for category in others)])
        alike = [likeness(target, other).mean for other in vectors]
        order = sorted(range(len(others)), key=lambda place: -alike[place])
        return [others[place] for place in order[:count]]

    def _vectors(self, nodes: Sequence[Node]) -> list[NodeVectors]:
        found = [node.index if node.lesson is None else node.lesson.index for node in nodes]
        return node_vectors(self._encoder, found)


_MAKERS: Mapping[OperationName, Callable[..., tuple[Any, Any]]] = {
    "place": RequestMaker._place,  # noqa: SLF001 - the table of this class
    "merge": RequestMaker._merge,  # noqa: SLF001
    "select": RequestMaker._select,  # noqa: SLF001
}


def lesson_of(item: Item) -> Node:
    """Return the lesson of an item: what was asked, and what the right answer was."""
    lesson = Lesson(
        guidance=f"The right answer was: {short(item.answer, ANSWER_CHARS)}",
        index=IndexText(question_anchor=short(item.question, ANCHOR_CHARS)),
        contributor="proof",
        organisation="proof",
    )
    return Node(
        node_id=f"lesson-{item.task}-{item.number}",
        namespace="proof",
        kind="lesson",
        lesson=lesson,
    )


def new_place(request: PlaceRequest) -> Place:
    """Return the Place that opens a new category, named as the embedded organizer names it.

    By its title alone (ours): the index text would be copied from the lesson, and in the loss, which
    weighs every token alike, a hundred copied tokens hide the one that says that there is to be a new
    category.
    """
    found = embedded.place(request, place_min=2.0, scope_min=2.0)  # likeness is at most 1
    assert found.new is not None
    return found.model_copy(update={"new": NewCategory(title=found.new.title)})


def short(text: str, chars: int) -> str:
    """Return the beginning of a text."""
    return text[:chars].strip()


def _category(group: str, items: Sequence[Item]) -> _Category:
    """Return a category that the first of two items founded, with the second one in it."""
    founder, lesson = map(lesson_of, items)
    named = embedded.place(
        PlaceRequest(lesson=founder, candidates=()), place_min=2.0, scope_min=2.0
    ).new
    assert named is not None
    node = Node(
        node_id=f"category-{founder.node_id}",
        namespace="proof",
        kind="category",
        height=1,
        parent_id="root",
        title=named.title,
        index=IndexText(question_anchor=named.index.question_anchor),
    )
    return _Category(group, node, lesson)
