"""Practice banks of the ARC bench: lessons that name programs, sorted by program and class of task.

Whether a rule or lesson applies to a task is decided by running its program on the demonstrations.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.arc.lessons import COMMON, CONDITION, derive_request, derived, index_of, title_of
from benchmarks.arc.picture import draw
from benchmarks.arc.programs import read_programs
from benchmarks.arc.run_record import FAMILY
from benchmarks.arc.search import search_order
from benchmarks.arc.solving import Attempt, Explored, attempt
from benchmarks.arc.tasks import Oracle, describe, house
from benchmarks.demonstration_sets import demonstration
from controllers.prompts import select as prompt
from epimem import compose
from epimem.bank.images import MARGIN, widened
from epimem.growth import Growth
from epimem.operations.base import Limits
from epimem.protocols import ConsolidateRequest, Picture, PlaceRequest, SelectRequest
from epimem.schema.ids import counting_ids
from epimem.schema.lesson import Evidence
from epimem.schema.memory_input import Selection
from epimem.schema.proposal import Accepted, Consolidate, NewCategory, Place
from epimem.schema.tree import Node, Tree
from training.demonstrations.record import Demonstration, OperationName
from training.worlds.page import picture_of
from training.worlds.practice import EncoderVectors, default_encoder
from training.worlds.recalled import recalled
from training.worlds.shelf import inner, lesson_node, under

OF_A_BANK = 30
"""Tasks of a bank (ours); of those with a program two thirds stand in its tree."""
STORED = 2 / 3
CAPACITY = 64
LEAST = 2
CANDIDATES, PASSING = 8, 6


class ArcBank:
    """Attempts at some tasks, their lessons, and a tree with a category for each program and class.

    Args:
        explored: the tasks, each with the programs that fit.
        oracle: judges.
        seed: of the group; also that of the order in which programs are tried.
        number: of the bank.
    """

    def __init__(
        self, explored: Sequence[Explored], oracle: Oracle, *, seed: int, number: int
    ) -> None:
        self.group = f"{FAMILY}-{seed}-{number}"
        self.seed = seed
        self._ids = counting_ids(number << 24)
        self._chance = random.Random(f"arc demonstrations {seed} {number}")
        order = search_order(str(seed))
        self.explored = explored
        self.attempts = [attempt(each, order, oracle, seed=seed) for each in explored]
        self.drawn = [draw(each.task) for each in explored]
        batch = tuple(describe(each.task) for each in explored)
        self.requests = [
            derive_request(done, drawn, run_id=f"{self.group}-{at}", batch=batch)
            for at, (done, drawn) in enumerate(zip(self.attempts, self.drawn, strict=True))
        ]
        self.values = [
            derived(request, done, drawn, self._chance)
            for request, done, drawn in zip(self.requests, self.attempts, self.drawn, strict=True)
        ]
        self.known = {
            at: lesson_node(value.drafts[0], self._ids(), FAMILY)
            for at, value in enumerate(self.values)
            if value.drafts
        }
        places = list(self.known)
        self.stored = places[: round(len(places) * STORED)]
        self.later = places[len(self.stored) :]
        self.categories: dict[tuple[str, str], str] = {}
        self.consolidations: list[tuple[ConsolidateRequest, Consolidate]] = []
        self.growth = self._tree()

    def demonstrations(self) -> Iterator[Demonstration]:
        """Yield all demonstrations of the bank."""
        found: list[tuple[OperationName, Any, Any]] = [
            ("derive", request, value)
            for request, value in zip(self.requests, self.values, strict=True)
        ]
        found += [("consolidate", *pair) for pair in self.consolidations]
        for at in self.later:
            found += [("place", *self._place(at)), ("select", *self._select(at))]
        for at, (operation, request, value) in enumerate(found):
            yield demonstration(
                operation,
                request,
                value,
                bench=FAMILY,
                group=self.group,
                seed=self.seed,
                at=at,
            )

    def _tree(self) -> Growth:
        root_id = self._ids()
        nodes = [inner(root_id, None, FAMILY, height=2)]
        for at in self.stored:
            key, lesson = _kind(self.attempts[at]), self.known[at]
            if key not in self.categories:
                self.categories[key] = self._ids()
                category_id, title = self.categories[key], lesson.title
                nodes.append(
                    inner(category_id, root_id, FAMILY, height=1, title=title, index=lesson.index)
                )
            nodes.append(under(lesson, self.categories[key]))
        namer = EncoderVectors(default_encoder())
        growth = Growth(Tree.build(nodes, root_id), 0, namer, Limits(CAPACITY), self._ids)
        for category_id in self.categories.values():
            self._consolidate(growth, category_id)
        return growth

    def _consolidate(self, growth: Growth, category_id: str) -> None:
        node, lessons = growth.tree.node(category_id), growth.tree.child_nodes(category_id)
        if len(lessons) < LEAST:
            return
        value = consolidated(node, lessons)
        self.consolidations.append((ConsolidateRequest(node, lessons), value))
        result = growth.check(value)
        assert isinstance(result, Accepted), result
        growth.advance(result, 0, growth.vectors_of_new(result))

    def _place(self, at: int) -> tuple[PlaceRequest, Place]:
        lesson, done = self.known[at], self.attempts[at]
        self.growth.learn([lesson])
        request = self.growth.place_requests([lesson], limit=CANDIDATES)[0]
        category_id = self.categories.get(_kind(done), "")
        if category_id in {view.node.node_id for view in request.candidates}:
            return request, Place(lesson_id=lesson.node_id, category_id=category_id)
        assert done.stated is not None
        new = NewCategory(title=title_of(done.stated), index=index_of(done))
        return request, Place(lesson_id=lesson.node_id, new=new)

    def _select(self, at: int) -> tuple[SelectRequest, Selection]:
        """Return a request for a task, and the best candidate whose program fits it."""
        task = self.explored[at].task
        candidates = recalled(
            self.growth, default_encoder(), describe(task), passing=PASSING, below=1
        )
        nodes = {each.node_id: self.growth.tree.node(each.node_id) for each in candidates}
        sources = {
            key: self.growth.tree.node(key) for node in nodes.values() for key in node.supported_by
        }
        evidence = compose.evidence(list(nodes.values()), sources)
        request = SelectRequest(
            question=describe(task),
            family=FAMILY,
            candidates=candidates,
            nodes=nodes,
            max_rules=3,
            max_lessons=1,
            families=dict.fromkeys(nodes, FAMILY),
            crops={key: tuple(map(self._crop, found[:2])) for key, found in evidence.items()},
            pages=self.requests[at].pages,
        )
        programs = {found.program for found in self.explored[at].fitting}
        fitting = [
            nodes[each.node_id]
            for each in candidates
            if each.passes
            and nodes[each.node_id].polarity == "positive"
            and programs.intersection(read_programs(_said(nodes[each.node_id])))
        ]
        rules = tuple(node.node_id for node in fitting if node.kind != "lesson")
        lesson = None if rules or not fitting else fitting[0].node_id
        return request, prompt.selection(request, rules[: request.max_rules], lesson)

    def _crop(self, evidence: Evidence) -> Picture:
        from PIL import Image

        drawn = next(each for each in self.drawn if each.image_id == evidence.image_id)
        cut = Image.fromarray(drawn.pixels).crop(widened(evidence.region, MARGIN).box)
        return picture_of(cut, source=evidence.image_id)


def consolidated(node: Node, lessons: Sequence[Node]) -> Consolidate:
    """Return the common guidance of lessons on one program; wrong ones support nothing."""
    supporters = [each for each in lessons if each.polarity == "positive"]
    if len(supporters) < LEAST:
        return Consolidate(node_id=node.node_id)
    program = read_programs(_said(supporters[0]))[0]
    return Consolidate(
        node_id=node.node_id,
        guidance=COMMON.format(program=program.text),
        applies_when=CONDITION.format(house=node.index.scope.removeprefix(f"{FAMILY}, ")),
        supported_by=tuple(each.node_id for each in supporters),
    )


def _kind(done: Attempt) -> tuple[str, str]:
    """Return the class of the task and the program: what a category holds."""
    assert done.stated is not None
    return house(done.task), done.stated.text


def _said(node: Node) -> str:
    return node.lesson.guidance if node.lesson is not None else node.guidance
