"""The operations by name, each a function from a practice bank to a request and its value."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from epimem.protocols import Derived, DeriveRequest
from training.demonstrations.record import OperationName
from training.worlds.consolidate import consolidate
from training.worlds.derive import derive_request, derived
from training.worlds.episode import read_off
from training.worlds.gate import gate
from training.worlds.merge import merge
from training.worlds.place import place
from training.worlds.practice import PracticeBank
from training.worlds.select import select
from training.worlds.split_lift import split_lift
from training.worlds.update import update

WRONG, UNJUDGED, EMPTY = 0.3, 0.15, 0.1
"""Shares of runs to derive from (ours): judged wrong, not judged, and with nothing to learn."""
BATCH = 3
"""Questions handed in around that of a run (ours)."""


def derive(bank: PracticeBank, chance: random.Random) -> tuple[DeriveRequest, Derived]:
    """Return a request and the lesson of its run."""
    house, topic = chance.choice(bank.houses), chance.choice(bank.world.topics)
    if chance.random() < EMPTY:
        page = bank.world.new_page(house, topic, chance)
        words = bank.words(house, topic)
        episode = read_off(words, page, chance, run_id=bank.run_id(), group=bank.group)
    else:
        episode = bank.episode(house, topic, chance, right=chance.random() >= WRONG, fresh=True)
    judged = not episode.right or chance.random() >= UNJUDGED
    others = (
        bank.words(chance.choice(bank.houses), chance.choice(bank.world.topics))
        for _ in range(BATCH)
    )
    batch = [episode.question, *(words.question(chance, episode.page.subject) for words in others)]
    request = derive_request(episode, batch=batch, judged=judged)
    return request, derived(request, episode, chance)


Maker = Callable[[PracticeBank, random.Random], tuple[Any, Any]]
MAKERS: Mapping[OperationName, Maker] = {
    "derive": derive,
    "update": update,
    "gate": gate,
    "place": place,
    "merge": merge,
    "split_lift": split_lift,
    "consolidate": consolidate,
    "select": select,
}
