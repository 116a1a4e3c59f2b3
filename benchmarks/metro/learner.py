"""The learner: it tries which marker means closed, is told right or wrong, and hands in what it did.

On a map of construction it takes one shape after the other to be closed, in random order, each a whole
attempt, until the oracle calls an answer right or `ATTEMPTS` are spent. It hands in the last attempt.
A right answer may come by luck (another shape stands as often on that map) or by a misread marker,
so a good share of what it hands in as right rests on the wrong marker.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.metro.networks import City
from benchmarks.metro.operators import OPERATORS, Operator
from benchmarks.metro.questions import Oracle, Question, construction_question
from benchmarks.metro.reading import Reading, read_map, with_mistakes
from benchmarks.metro.shapes import Shape

ATTEMPTS = 4
"""Attempts at one map at most (ours): then the learner gives up and hands in a wrong one."""
LOOKS = 4
"""View events of a run: one of the marker it assumed closed, the others of something else."""


@dataclass(frozen=True, eq=False)
class Look:
    """A look at a station of the map by its number, at its frame or at its foot; one is `decisive`."""

    at: int | Literal["frame", "foot"]
    decisive: bool = False


@dataclass(frozen=True, eq=False)
class Episode:
    """The last attempt at a construction question: the shape taken as closed, looks, answer, verdict.

    `stamp` seeds the words in which it is told.
    """

    question: Question
    assumed: Shape
    looks: tuple[Look, ...]
    answer: str
    right: bool
    attempts: int
    stamp: str

    @property
    def decisive(self) -> Look:
        """The look at the marker that was taken as closed."""
        return next(look for look in self.looks if look.decisive)


def learn(question: Question, oracle: Oracle, *, rate: float, stamp: str) -> Episode:
    """Attempt one construction question.

    Args:
        question: on a map without a legend.
        oracle: says right or wrong after each attempt.
        rate: of misread markers.
        stamp: seeds what is drawn at random.
    """
    chance = random.Random(f"metro learn {stamp}")
    reading = with_mistakes(read_map(question.map.pixels), rate=rate, stamp=stamp)
    seen = sorted({shape for shape in reading.markers if shape is not None})
    chance.shuffle(seen)
    for attempt, assumed in enumerate(seen[:ATTEMPTS], 1):
        answer = str(reading.stops(assumed))
        right = oracle.right(question.map, answer)
        if right or attempt == min(ATTEMPTS, len(seen)):
            break
    looks = _looks(reading, assumed, chance)
    return Episode(question, assumed, looks, answer, right, attempt, stamp)


def episodes(
    cities: Sequence[City], oracle: Oracle, *, count: int, rate: float, seed: int
) -> list[Episode]:
    """Return episodes in rounds of all operators, so that any first n hold as many of each."""
    chance = random.Random(f"metro episodes {seed}")
    found = []
    for number in range(count):
        if number % len(OPERATORS) == 0:
            order = chance.sample(OPERATORS, len(OPERATORS))
        question = construction_question(number, cities, order[number % len(OPERATORS)], chance)
        found.append(learn(question, oracle, rate=rate, stamp=f"{seed} {number}"))
    return found


def later_episodes(
    cities: Sequence[City],
    oracle: Oracle,
    operator: Operator,
    *,
    count: int,
    rate: float,
    seed: int,
) -> list[Episode]:
    """Return episodes of one operator, after those of `episodes`."""
    chance = random.Random(f"metro later episodes {seed}")
    found = []
    for number in range(count):
        question = construction_question(10_000 + number, cities, operator, chance)
        found.append(learn(question, oracle, rate=rate, stamp=f"later {seed} {number}"))
    return found


def _looks(reading: Reading, assumed: Shape, chance: random.Random) -> tuple[Look, ...]:
    """Return the looks in random order: a marker taken as closed, the frame, others."""
    places = list(range(len(reading.markers)))
    chosen = chance.choice([at for at in places if reading.markers[at] == assumed])
    others = [at for at in places if reading.markers[at] != assumed]
    chance.shuffle(others)
    looks = [Look(chosen, decisive=True), Look("frame"), *map(Look, others), Look("foot")][:LOOKS]
    chance.shuffle(looks)
    return tuple(looks)
