"""Gate: crops go along where the mark can be seen in them alone.

That is where the text leaves the mark to a picture and the page that is asked about prints no key. They
stay out where a key is printed, where the words name the mark, where what was selected is about
something else, and where the question has no page.
"""

from __future__ import annotations

import random
from typing import Literal

from epimem import compose
from epimem.protocols import GateRequest, Picture
from training.worlds.practice import PracticeBank

Case = Literal["needed", "key printed", "named", "other matter", "no page"]
SHARES: dict[Case, float] = {
    "needed": 0.5,
    "key printed": 0.25,
    "named": 0.13,
    "other matter": 0.07,
    "no page": 0.05,
}
"""How often each case comes up (ours): crops are needed in half, so that no constant does well."""


def gate(bank: PracticeBank, chance: random.Random) -> tuple[GateRequest, Literal[0, 1]]:
    """Return a request and whether crops go along."""
    case = chance.choices(list(SHARES), weights=list(SHARES.values()))[0]
    house, topic = chance.choice(bank.houses), chance.choice(bank.world.topics)
    nodes = [
        bank.lesson(house, topic, chance, named=case == "named").node
        for _ in range(chance.choice((1, 1, 2)))
    ]
    if case == "other matter":
        house = chance.choice(bank.houses)
        topic = chance.choice([each for each in bank.world.topics if each is not topic])
    question, page = bank.question(house, topic, chance, with_key=case == "key printed")
    pages: tuple[Picture, ...] = () if case == "no page" else (page.picture,)
    evidence = compose.evidence(nodes, {})
    request = GateRequest(
        question=question,
        question_images=len(pages),
        items=compose.items(nodes, {}),
        crops={key: len(found) for key, found in evidence.items()},
        notes={key: tuple(item.note for item in found) for key, found in evidence.items()},
        pages=pages,
    )
    return request, 1 if case == "needed" else 0
