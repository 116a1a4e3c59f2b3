"""Practice banks: a few houses of one world, the lessons about them, and a tree made of these.

A bank is what the groups of a split are: no house stands in two. Historical lessons and the pages
that are asked about are drawn apart. All of it follows from world, seed and number.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property

from epimem.bank.encoder import NodeVectors, TableEncoder, node_vectors
from epimem.growth import Growth
from epimem.operations.base import Limits
from epimem.protocols import Encoder, Picture
from epimem.schema.ids import counting_ids
from epimem.schema.lesson import Evidence, IndexText
from epimem.schema.proposal import Accepted
from epimem.schema.tree import Node, Tree
from training.worlds.agreement import agreed
from training.worlds.chance import chance
from training.worlds.derive import derive_request, derived
from training.worlds.episode import Episode, solve
from training.worlds.house import House, draw_house
from training.worlds.page import Page
from training.worlds.shelf import Known, Shelf, category, inner, lesson_node, under
from training.worlds.topic import Topic
from training.worlds.wordings import Words
from training.worlds.world import World

HOUSES = 6
"""Houses of a bank (ours); on the last one it has no lesson yet."""
PAGES = 2
"""Pages that the lessons on one topic of one house come from (ours); each is looked at several times."""
KEPT, NEGATIVE = 0.7, 0.12
"""Shares (ours) of topics of a house that the bank has lessons on, and of lessons from wrong runs."""
LESSONS = (2, 6)
RULES = 0.6
"""Share of categories (ours) that are consolidated where their lessons share advice."""
OWN_MARK = 0.7
"""Share of questions (ours) about a page that surely shows a mark with the meaning."""


class PracticeBank:
    """A bank of one world.

    Args:
        world: whose.
        number: counts the banks of a world and seed from 0.
        seed: of everything that is drawn.
        encoder: of likenesses and scores; None: hashed trigrams, which cost next to nothing.
    """

    def __init__(
        self, world: World, number: int, *, seed: int, encoder: Encoder | None = None
    ) -> None:
        self.world, self.number, self.seed = world, number, seed
        self.group = f"{world.name}-{seed}-{number}"
        self.encoder = encoder or default_encoder()
        self.ids = counting_ids(number << 24)
        self.houses = tuple(
            draw_house(world.name, HOUSES * number + at, world.topics, seed=seed)
            for at in range(HOUSES)
        )
        self._runs = 0
        self._pages: dict[tuple[str, str, str, str, int], Page] = {}
        self._crops: dict[tuple[str, tuple[int, int, int, int]], Picture] = {}

    def chance(self, *parts: object) -> random.Random:
        """Return a generator for these parts of this bank."""
        return chance(self.group, *parts)

    # -- lessons -----------------------------------------------------------------------------------

    def words(self, house: House, topic: Topic) -> Words:
        """Return the words for a topic of a house."""
        return Words(self.world, topic, house.name)

    def episode(
        self,
        house: House,
        topic: Topic,
        drawn: random.Random,
        *,
        right: bool = True,
        fresh: bool = False,
        named: bool | None = None,
    ) -> Episode:
        """Return a new episode, on a page that lessons come from or on a `fresh` one."""
        own = house.options[topic.name]
        others = [name for name in topic.options if name != own]
        assumed = own if right else drawn.choice(others)
        place = (house.name, topic.name, own, assumed, drawn.randrange(PAGES))
        if fresh:
            page = self._new_page(house, topic, assumed, drawn)
        else:
            if place not in self._pages:
                page = self._new_page(house, topic, assumed, self.chance("page", *place))
                self._pages[place] = page
            page = self._pages[place]
        return self.solved(house, topic, page, drawn, assumed=assumed, named=named)

    def solved(
        self,
        house: House,
        topic: Topic,
        page: Page,
        drawn: random.Random,
        *,
        assumed: str,
        named: bool | None = None,
    ) -> Episode:
        """Return the episode of a page, read with an option taken for the one with the meaning."""
        return solve(
            self.words(house, topic),
            page,
            drawn,
            assumed=assumed,
            run_id=self.run_id(),
            group=self.group,
            named=named,
        )

    def _new_page(self, house: House, topic: Topic, assumed: str, drawn: random.Random) -> Page:
        """Return a page without a key; a wrong reading of it gives another answer than the right one."""
        page = self.world.new_page(house, topic, drawn, want=assumed)
        while assumed != house.options[topic.name] and page.answer(assumed) == page.answer():
            page = self.world.new_page(house, topic, drawn, want=assumed)
        return page

    def run_id(self) -> str:
        """Return a new run id."""
        self._runs += 1
        return f"{self.group}-run-{self._runs}"

    def lesson(
        self,
        house: House,
        topic: Topic,
        drawn: random.Random,
        *,
        right: bool = True,
        named: bool | None = None,
    ) -> Known:
        """Return a new lesson, not in the tree; `named` asks for one that names the mark, or not."""
        episode = self.episode(house, topic, drawn, right=right, named=named)
        draft = derived(derive_request(episode), episode, drawn).drafts[0]
        return Known(lesson_node(draft, self.ids(), self.world.name), episode)

    def crop(self, evidence: Evidence) -> Picture:
        """Return what a lesson of this bank was learned from, as a bank delivers it."""
        place = (evidence.image_id, evidence.region.box)
        if place not in self._crops:
            page = next(each for each in self._pages.values() if each.image_id == place[0])
            self._crops[place] = page.crop(evidence.region)
        return self._crops[place]

    # -- the tree ----------------------------------------------------------------------------------

    @cached_property
    def shelves(self) -> tuple[Shelf, ...]:
        """Every topic of every house; some without lessons."""
        found = []
        for house in self.houses:
            for topic in self.world.topics:
                drawn = self.chance("shelf", house.name, topic.name)
                category_id = self.ids()
                lessons: tuple[Known, ...] = ()
                if house is not self.houses[-1] and drawn.random() < KEPT:
                    lessons = tuple(
                        self.lesson(house, topic, drawn, right=drawn.random() >= NEGATIVE)
                        for _ in range(drawn.randint(*LESSONS))
                    )
                words = self.words(house, topic)
                found.append(Shelf(house, topic, words, category_id, lessons))
        return tuple(found)

    @cached_property
    def filled(self) -> tuple[Shelf, ...]:
        """The shelves with lessons."""
        return tuple(shelf for shelf in self.shelves if shelf.lessons)

    @cached_property
    def growth(self) -> Growth:
        """The tree of the bank under maintenance: a category a shelf, in every second bank by house."""
        root_id = self.ids()
        by_house = {house.name: self.ids() if self.number % 2 else root_id for house in self.houses}
        nodes = [inner(root_id, None, self.world.name, height=3 if self.number % 2 else 2)]
        if self.number % 2:
            nodes += [
                inner(key, root_id, self.world.name, height=2, title=name)
                for name, key in by_house.items()
            ]
        for shelf in self.filled:
            nodes.append(category(shelf, by_house[shelf.house.name]))
            nodes += [under(known.node, shelf.category_id) for known in shelf.lessons]
        growth = self.grown(Tree.build(nodes, root_id))
        for shelf in self.filled:
            drawn = self.chance("rule", shelf.category_id)
            if drawn.random() < RULES:
                self._consolidate(growth, shelf, drawn)
        return growth

    def _consolidate(self, growth: Growth, shelf: Shelf, drawn: random.Random) -> None:
        """Write common guidance into a category where its lessons share any."""
        node = growth.tree.node(shelf.category_id)
        result = growth.check(agreed(shelf.words, node, shelf.lessons, drawn))
        assert isinstance(result, Accepted), result
        growth.advance(result, 0, growth.vectors_of_new(result))

    def grown(self, tree: Tree, limits: Limits | None = None) -> Growth:
        """Return a tree under maintenance, with the vectors of this bank's encoder."""
        return Growth(tree, 0, EncoderVectors(self.encoder), limits or Limits(), self.ids)

    # -- questions ---------------------------------------------------------------------------------

    def question(
        self, house: House, topic: Topic, drawn: random.Random, *, with_key: bool
    ) -> tuple[str, Page]:
        """Return a question about a new page."""
        want = None if drawn.random() < OWN_MARK else drawn.choice(list(topic.options))
        page = self.world.new_page(house, topic, drawn, want=want, with_key=with_key)
        return self.words(house, topic).question(drawn, page.subject), page


class EncoderVectors:
    """Vectors of nodes and index texts by an encoder, for a tree under maintenance."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def of_nodes(self, nodes: Sequence[Node]) -> Mapping[str, NodeVectors]:
        """Return the vectors of these nodes by id."""
        made = self.of_texts([node.index for node in nodes])
        return {node.node_id: vectors for node, vectors in zip(nodes, made, strict=True)}

    def of_texts(self, texts: Sequence[IndexText]) -> Sequence[NodeVectors]:
        """Return the vectors of these index texts, in order."""
        return node_vectors(self._encoder, texts)


@cache
def default_encoder() -> Encoder:
    """Return the encoder of banks that are given none."""
    return TableEncoder(256)


def changed(house: House, topic: Topic, drawn: random.Random) -> House:
    """Return a house under the same name that had another convention for a topic."""
    others = [name for name in topic.options if name != house.options[topic.name]]
    return replace(house, options={**house.options, topic.name: drawn.choice(others)})
