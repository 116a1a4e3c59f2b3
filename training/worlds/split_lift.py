"""Split + Lift: a category with lessons of several houses, or on several topics of one, is divided."""

from __future__ import annotations

import random

from epimem.operations.base import Limits
from epimem.protocols import SplitRequest
from epimem.schema.proposal import Part, SplitLift
from epimem.schema.tree import Tree
from training.worlds.agreement import category_index
from training.worlds.practice import PracticeBank
from training.worlds.shelf import inner, under
from training.worlds.wordings import Words

CAPACITIES = (8, 8, 12, 16)
"""Of the nodes that are divided (ours): the default, and smaller ones, whose prompts are short."""
MIN_GROUP = 4


def split_lift(bank: PracticeBank, chance: random.Random) -> tuple[SplitRequest, SplitLift]:
    """Return a request and the parts, in the order of their first children."""
    capacity = chance.choice(CAPACITIES)
    parts = _subjects(bank, chance, most=(capacity + 1) // MIN_GROUP)
    sizes = _sizes(capacity + chance.randint(1, 3), len(parts), capacity, chance)
    dealt = [words for words, size in zip(parts, sizes, strict=True) for _ in range(size)]
    chance.shuffle(dealt)
    root_id, node_id = bank.ids(), bank.ids()
    house_of = {house.name: house for house in bank.houses}
    # Ids rise, so that the parts stand in the order of their first children.
    members: dict[Words, list[str]] = {}
    nodes = [inner(root_id, None, bank.world.name, height=2)]
    for words in dealt:
        lesson = bank.lesson(house_of[words.house], words.topic, chance).node
        members.setdefault(words, []).append(lesson.node_id)
        nodes.append(under(lesson, node_id))
    first = nodes[1]
    nodes.append(
        inner(node_id, root_id, bank.world.name, height=1, title=first.title, index=first.index)
    )
    tree = Tree.build(nodes, root_id)
    growth = bank.grown(tree, Limits(capacity, MIN_GROUP))
    children = tree.children_of(node_id)
    request = SplitRequest(
        node=tree.node(node_id),
        children=tree.child_nodes(node_id),
        vectors=growth.index_vectors(children),
        capacity=capacity,
        min_group=MIN_GROUP,
    )
    made = tuple(
        Part(child_ids=tuple(found), title=words.title(), index=category_index(words))
        for words, found in members.items()
    )
    return request, SplitLift(node_id=node_id, parts=made)


def _subjects(bank: PracticeBank, chance: random.Random, *, most: int) -> list[Words]:
    """Return what the parts are about: houses on one topic, or topics of one house; two at least."""
    count = chance.randint(2, min(most, 3))
    if chance.random() < 0.5:
        topic = chance.choice(bank.world.topics)
        return [bank.words(house, topic) for house in chance.sample(bank.houses, count)]
    house = chance.choice(bank.houses)
    return [bank.words(house, topic) for topic in chance.sample(bank.world.topics, count)]


def _sizes(total: int, parts: int, capacity: int, chance: random.Random) -> list[int]:
    """Return sizes from `MIN_GROUP` to `capacity` with this sum."""
    sizes = [MIN_GROUP] * parts
    for _ in range(total - MIN_GROUP * parts):
        open_ = [at for at, size in enumerate(sizes) if size < capacity]
        sizes[chance.choice(open_)] += 1
    return sizes
