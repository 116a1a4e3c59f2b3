"""What a trained model is held against: constants, a threshold, `embedded`, random labels."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from benchmarks.training.choices import NOTHING, choices, chosen, value_of
from controllers.embedded.merge import merge
from controllers.embedded.place import place
from controllers.embedded.select import select
from epimem.config import TreeConfig
from training.demonstrations.record import Demonstration

Choose = Callable[[Demonstration], str]


def first(demonstration: Demonstration) -> str:
    """Choose the first candidate, whatever it is; two categories are merged."""
    return choices(demonstration)[0].name


def nothing(demonstration: Demonstration) -> str:
    """Choose nothing, whatever there is."""
    del demonstration
    return NOTHING


def embedded(demonstration: Demonstration) -> str:
    """Choose as the embedded organizer does with the settings of a new bank."""
    request, settings = demonstration.request, TreeConfig()
    if demonstration.operation == "place":
        value = place(request, place_min=settings.place_min, scope_min=settings.scope_min)
        return chosen("place", value)
    if demonstration.operation == "merge":
        return chosen("merge", merge(request, merge_min=settings.merge_min))
    return chosen("select", select(request))


def threshold(training: Iterable[Demonstration]) -> Choose:
    """Return who takes the first candidate where it is alike enough, by the best bound in training.

    One bound for each operation. This is what could be had without a language model: likeness is from
    the text encoder, and stands in the prompts of place and merge, not in those of select.
    """
    cases: dict[str, list[tuple[float, str, str]]] = {}
    for each in training:
        case = likeness_of(each), first(each), chosen(each.operation, each.value)
        cases.setdefault(each.operation, []).append(case)
    bounds = {operation: _bound(found) for operation, found in cases.items()}

    def choose(demonstration: Demonstration) -> str:
        alike = likeness_of(demonstration) >= bounds[demonstration.operation]
        return first(demonstration) if alike else NOTHING

    return choose


def likeness_of(demonstration: Demonstration) -> float:
    """Return how alike the first candidate is, in [-1, 1]."""
    request = demonstration.request
    if demonstration.operation == "place":
        return float(request.candidates[0].likeness)
    if demonstration.operation == "merge":
        return float(request.likeness)
    return float(request.candidates[0].dense)


def with_random_labels(demonstrations: Sequence[Demonstration], seed: int) -> list[Demonstration]:
    """Return the same requests, each with a choice drawn at random: nothing can be learnt but the form.

    Half of them choose nothing, as in the requests themselves.
    """
    rng = random.Random(f"random labels {seed}")
    found = []
    for each in demonstrations:
        names = [choice.name for choice in choices(each)]
        name = rng.choice(names[:-1]) if rng.random() < 0.5 else NOTHING
        found.append(replace(each, value=value_of(each, name)))
    return found


def _bound(cases: Sequence[tuple[float, str, str]]) -> float:
    def right(bound: float) -> int:
        return sum(
            (taken if alike >= bound else NOTHING) == wanted for alike, taken, wanted in cases
        )

    likenesses = sorted(alike for alike, _, _ in cases)
    middles = [(one + other) / 2 for one, other in pairwise(likenesses)]
    return max([likenesses[0], *middles], key=right)
