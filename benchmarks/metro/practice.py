"""Practice banks of the metro bench: what its runs teach, and what follows for five operations.

Rules and lessons say that stations with the marker of their crop are closed. A map that prints a legend
needs neither them nor their crops.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from benchmarks.demonstration_sets import demonstration
from benchmarks.metro.experiment import MISREAD
from benchmarks.metro.learner import Episode, episodes
from benchmarks.metro.lessons import COMMON, CONDITION, TITLE, derive_request, derived, index_of
from benchmarks.metro.maps import MetroMap, draw_map
from benchmarks.metro.networks import City, segment
from benchmarks.metro.operators import OPERATORS, Operator, draw_conventions
from benchmarks.metro.questions import ASKED, FAMILY, Oracle
from controllers.prompts import select as prompt
from epimem import compose
from epimem.bank.images import MARGIN, widened
from epimem.growth import Growth
from epimem.operations.base import Limits
from epimem.protocols import (
    ConsolidateRequest,
    GateRequest,
    Picture,
    PlaceRequest,
    SelectRequest,
)
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

OF_A_BANK = 40
"""Episodes of a bank (ours): eight of each operator, six of which stand in its tree."""
STORED = 30
CAPACITY = 32
LEAST = 2
CANDIDATES, PASSING = 8, 6
LEGEND = 0.4
"""Share of questions (ours) about a map with a legend."""


class MetroBank:
    """Episodes of one seed, their lessons, and a tree with a category for each operator but one.

    Args:
        cities: of construction.
        seed: a development seed.
        count: episodes, at most `OF_A_BANK`.
    """

    def __init__(self, cities: Sequence[City], seed: int, count: int) -> None:
        self._cities, self.seed = cities, seed
        self._conventions = draw_conventions(seed)
        self._ids = counting_ids(seed << 24)
        self._chance = random.Random(f"metro demonstrations {seed}")
        oracle = Oracle(self._conventions)
        self.episodes = episodes(cities, oracle, count=count, rate=MISREAD, seed=seed)
        self._maps = {each.question.map.image_id: each.question.map for each in self.episodes}
        self.left_out = self._chance.choice(OPERATORS).name
        self.requests = [self._request(at) for at in range(count)]
        self.values = [
            derived(request, episode, self._chance)
            for request, episode in zip(self.requests, self.episodes, strict=True)
        ]
        self.lessons = [lesson_node(value.drafts[0], self._ids(), FAMILY) for value in self.values]
        self.categories = {
            each.name: self._ids() for each in OPERATORS if each.name != self.left_out
        }
        self.consolidations: list[tuple[ConsolidateRequest, Consolidate]] = []
        self.growth = self._tree()

    def demonstrations(self) -> Iterator[Demonstration]:
        """Yield all demonstrations of the bank."""
        found: list[tuple[OperationName, Any, Any]] = [
            ("derive", request, value)
            for request, value in zip(self.requests, self.values, strict=True)
        ]
        found += [("consolidate", *pair) for pair in self.consolidations]
        found += [("place", *self._place(at)) for at in range(STORED, len(self.episodes))]
        for _ in self.episodes:
            found.append(("gate", *self._gate()))
            found.append(("select", *self._select()))
        for at, (operation, request, value) in enumerate(found):
            yield demonstration(
                operation,
                request,
                value,
                bench=FAMILY,
                group=f"{FAMILY}-{self.seed}",
                seed=self.seed,
                at=at,
            )

    # -- bank --------------------------------------------------------------------------------------

    def _request(self, at: int) -> Any:
        episode = self.episodes[at]
        batch = tuple(each.question.text for each in self.episodes)
        return derive_request(episode, run_id=f"{FAMILY}-{self.seed}-{at}", batch=batch)

    def _stored(self, operator: str) -> list[Node]:
        """Return the lessons of an operator that stand in the tree, in the order of their ids."""
        return [
            node
            for node, episode in zip(self.lessons[:STORED], self.episodes, strict=False)
            if _operator(episode) == operator
        ]

    def _tree(self) -> Growth:
        root_id = self._ids()
        nodes = [inner(root_id, None, FAMILY, height=2)]
        for operator, category_id in self.categories.items():
            stored = self._stored(operator)
            if stored:
                title, index = stored[0].title, stored[0].index
                nodes.append(
                    inner(category_id, root_id, FAMILY, height=1, title=title, index=index)
                )
                nodes += [under(node, category_id) for node in stored]
        namer = EncoderVectors(default_encoder())
        growth = Growth(Tree.build(nodes, root_id), 0, namer, Limits(CAPACITY), self._ids)
        for operator, category_id in self.categories.items():
            if category_id in growth.tree:
                self._consolidate(growth, operator, category_id)
        return growth

    def _consolidate(self, growth: Growth, operator: str, category_id: str) -> None:
        node, stored = growth.tree.node(category_id), growth.tree.child_nodes(category_id)
        value = consolidated(node, stored, operator)
        self.consolidations.append((ConsolidateRequest(node, stored), value))
        result = growth.check(value)
        assert isinstance(result, Accepted), result
        growth.advance(result, 0, growth.vectors_of_new(result))

    # -- requests ----------------------------------------------------------------------------------

    def _place(self, at: int) -> tuple[PlaceRequest, Place]:
        lesson, operator = self.lessons[at], _operator(self.episodes[at])
        self.growth.learn([lesson])
        request = self.growth.place_requests([lesson], limit=CANDIDATES)[0]
        category_id = self.categories.get(operator, "")
        if category_id in self.growth.tree:
            return request, Place(lesson_id=lesson.node_id, category_id=category_id)
        new = NewCategory(title=TITLE.format(operator=operator), index=index_of(operator))
        return request, Place(lesson_id=lesson.node_id, new=new)

    def _question(self, operator: Operator) -> tuple[str, MetroMap]:
        """Return a question about a new map of an operator, with a legend or without."""
        legend = self._chance.random() < LEGEND
        closed = self._conventions[operator.name] if legend else None
        drawn = draw_map(segment(self._cities, self._chance), operator, self._chance, closed=closed)
        return ASKED.of(operator.name, legend=legend), drawn

    def _gate(self) -> tuple[GateRequest, Literal[0, 1]]:
        """Return a request about a rule or lesson that leaves the marker to its crop."""
        known = [node for node in self.growth.tree.walk() if _advises(node)]
        chosen = self._chance.choice(known)
        operator = next(each for each in OPERATORS if chosen.title.endswith(each.name))
        question, drawn = self._question(operator)
        evidence = compose.evidence([chosen], self._sources([chosen]))
        request = GateRequest(
            question=question,
            question_images=1,
            items=compose.items([chosen], self._sources([chosen])),
            crops={key: len(found) for key, found in evidence.items()},
            notes={key: tuple(item.note for item in found) for key, found in evidence.items()},
            pages=(_picture(drawn),),
        )
        return request, 0 if drawn.legend else 1

    def _select(self) -> tuple[SelectRequest, Selection]:
        operator = self._chance.choice(OPERATORS)
        question, drawn = self._question(operator)
        candidates = recalled(self.growth, default_encoder(), question, passing=PASSING, below=1)
        nodes = {each.node_id: self.growth.tree.node(each.node_id) for each in candidates}
        evidence = compose.evidence(list(nodes.values()), self._sources(list(nodes.values())))
        request = SelectRequest(
            question=question,
            family=FAMILY,
            candidates=candidates,
            nodes=nodes,
            max_rules=3,
            max_lessons=1,
            families=dict.fromkeys(nodes, FAMILY),
            crops={key: tuple(map(self._crop, found[:2])) for key, found in evidence.items()},
            pages=(_picture(drawn),),
        )
        fitting = [
            nodes[each.node_id]
            for each in candidates
            if each.passes
            and not drawn.legend
            and nodes[each.node_id].title.endswith(operator.name)
            and _advises(nodes[each.node_id])
        ]
        rules = tuple(node.node_id for node in fitting if node.kind != "lesson")
        lesson = None if rules or not fitting else fitting[0].node_id
        return request, prompt.selection(request, rules, lesson)

    def _sources(self, nodes: Sequence[Node]) -> dict[str, Node]:
        return {key: self.growth.tree.node(key) for node in nodes for key in node.supported_by}

    def _crop(self, evidence: Evidence) -> Picture:
        from PIL import Image

        whole = Image.fromarray(self._maps[evidence.image_id].pixels)
        cut = whole.crop(widened(evidence.region, MARGIN).box)
        return picture_of(cut, source=evidence.image_id)


def consolidated(node: Node, lessons: Sequence[Node], operator: str) -> Consolidate:
    """Return the common guidance of the lessons of an operator; wrong ones support nothing."""
    supporters = tuple(each.node_id for each in lessons if each.polarity == "positive")
    if len(supporters) < LEAST:
        return Consolidate(node_id=node.node_id)
    return Consolidate(
        node_id=node.node_id,
        guidance=COMMON.format(operator=operator),
        applies_when=CONDITION.format(operator=operator),
        supported_by=supporters,
    )


def _advises(node: Node) -> bool:
    return node.kind != "category" and node.polarity == "positive"


def _operator(episode: Episode) -> str:
    return episode.question.map.operator.name


def _picture(drawn: MetroMap) -> Picture:
    from PIL import Image

    return picture_of(Image.fromarray(drawn.pixels), page=1)
