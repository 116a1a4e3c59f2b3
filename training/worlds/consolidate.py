"""Consolidate: what the lessons of a category share, who supports it, and what conflicts with it."""

from __future__ import annotations

import random
from typing import Literal

from epimem.protocols import ConsolidateRequest
from epimem.schema.lesson import IndexText
from epimem.schema.proposal import Consolidate
from training.worlds.agreement import agreed
from training.worlds.practice import PracticeBank, changed
from training.worlds.shelf import Known, Shelf, category

Case = Literal["agreed", "conflict", "nothing"]
SHARES: dict[Case, float] = {"agreed": 0.6, "conflict": 0.25, "nothing": 0.15}
"""How often each case comes up (ours)."""
STANDING, UNNAMED = 0.4, 0.4
"""Shares of categories (ours) that have guidance already, and that have no name yet."""


def consolidate(
    bank: PracticeBank, chance: random.Random
) -> tuple[ConsolidateRequest, Consolidate]:
    """Return a request and what its lessons have in common."""
    case = chance.choices(list(SHARES), weights=list(SHARES.values()))[0]
    house, topic = chance.choice(bank.houses), chance.choice(bank.world.topics)
    named = True if case == "conflict" else None
    positive = 1 if case == "nothing" else chance.randint(2, 5)
    lessons = [bank.lesson(house, topic, chance, named=named) for _ in range(positive)]
    if case == "conflict":
        before = changed(house, topic, chance)
        lessons += [
            bank.lesson(before, topic, chance, named=True)
            for _ in range(chance.randint(1, positive))
        ]
    wrong = chance.randint(1, 2) if case == "nothing" else int(chance.random() < 0.2)
    lessons += [bank.lesson(house, topic, chance, right=False) for _ in range(wrong)]
    chance.shuffle(lessons)
    # The order of ids is the order of creation, and that of the request.
    lessons = _renumbered(bank, lessons)
    words = bank.words(house, topic)
    node = category(Shelf(house, topic, words, bank.ids(), tuple(lessons)), bank.ids())
    if chance.random() < UNNAMED:
        node = node.model_copy(update={"title": "", "index": IndexText()})
    standing = agreed(words, node, lessons, chance)
    if standing.guidance and chance.random() < STANDING:
        supporters = standing.supported_by[:2]
        node = node.model_copy(
            update={
                "kind": "summary",
                "guidance": standing.guidance,
                "applies_when": standing.applies_when,
                "supported_by": supporters,
                "consolidated_at": len(supporters),
            }
        )
    nodes = tuple(known.node for known in lessons)
    return ConsolidateRequest(node, nodes), agreed(words, node, lessons, chance)


def _renumbered(bank: PracticeBank, lessons: list[Known]) -> list[Known]:
    """Return the lessons with new ids, which rise."""
    return [
        Known(known.node.model_copy(update={"node_id": bank.ids()}), known.episode)
        for known in lessons
    ]
