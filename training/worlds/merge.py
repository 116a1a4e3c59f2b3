"""Merge: two categories of one house and topic are one; near ones of another kind are not."""

from __future__ import annotations

import random
from typing import Literal

from epimem.protocols import MergeRequest
from epimem.schema.proposal import Merge
from epimem.schema.tree import Tree
from training.worlds.house import House
from training.worlds.practice import PracticeBank, changed
from training.worlds.shelf import Shelf, category, inner, under
from training.worlds.topic import Topic

Case = Literal["same", "other house", "other topic", "contradiction"]
SHARES: dict[Case, float] = {
    "same": 0.5,
    "other house": 0.2,
    "other topic": 0.15,
    "contradiction": 0.15,
}
"""How often each case comes up (ours): half are one and the same."""
FEWEST, MOST = 2, 4
"""Lessons of each category (ours): together they find room in one."""


def merge(bank: PracticeBank, chance: random.Random) -> tuple[MergeRequest, Merge | None]:
    """Return a request and the merge, None to leave the two apart."""
    case = chance.choices(list(SHARES), weights=list(SHARES.values()))[0]
    house, topic = chance.choice(bank.houses), chance.choice(bank.world.topics)
    named = True if case == "contradiction" else None
    ours = _lessons(bank, house, topic, chance, named=named)
    if case == "other house":
        house = chance.choice([each for each in bank.houses if each is not house])
    elif case == "other topic":
        topic = chance.choice([each for each in bank.world.topics if each is not topic])
    elif case == "contradiction":
        house = changed(house, topic, chance)
    theirs = _lessons(bank, house, topic, chance, named=named)
    request = _request(bank, ours, theirs)
    if case != "same":
        return request, None
    title = bank.words(house, topic).title()
    return request, Merge(
        kept_id=request.kept.node_id, absorbed_id=request.absorbed.node_id, title=title
    )


def _lessons(
    bank: PracticeBank,
    house: House,
    topic: Topic,
    chance: random.Random,
    *,
    named: bool | None,
) -> Shelf:
    lessons = tuple(
        bank.lesson(house, topic, chance, named=named) for _ in range(chance.randint(FEWEST, MOST))
    )
    return Shelf(house, topic, bank.words(house, topic), bank.ids(), lessons)


def _request(bank: PracticeBank, ours: Shelf, theirs: Shelf) -> MergeRequest:
    """Return the request for two siblings, with their likeness as the product measures it."""
    root_id = bank.ids()
    nodes = [inner(root_id, None, bank.world.name, height=2)]
    for shelf in (ours, theirs):
        nodes.append(category(shelf, root_id))
        nodes += [under(known.node, shelf.category_id) for known in shelf.lessons]
    growth = bank.grown(Tree.build(nodes, root_id))
    return growth.merge_requests([ours.category_id], minimum=-1.0)[0]
