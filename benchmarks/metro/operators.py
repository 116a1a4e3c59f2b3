"""The five operators, what anybody may know of them, and their conventions, which nobody may.

A map shows its operator by the colour of its frame. Under each operator one marker shape means
"closed"; no map and no text says which, but for the legend that some maps print.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.metro.shapes import SHAPES, Shape


@dataclass(frozen=True)
class Operator:
    """Name and frame colour (red, green, blue) of an operator."""

    name: str
    color: tuple[int, int, int]


OPERATORS = (
    Operator("Carmine Metro", (150, 0, 24)),
    Operator("Cobalt Metro", (0, 71, 171)),
    Operator("Saffron Metro", (230, 160, 20)),
    Operator("Jade Metro", (0, 128, 90)),
    Operator("Umber Metro", (99, 81, 71)),
)
Conventions = Mapping[str, Shape]
"""Operator name to the shape that means closed. For drawing legends and judging answers only."""


def draw_conventions(seed: int) -> dict[str, Shape]:
    """Return the conventions of a seed: four operators another shape each, the fifth one of these."""
    chance = random.Random(f"metro conventions {seed}")
    shapes = [*SHAPES, chance.choice(SHAPES)]
    chance.shuffle(shapes)
    return {operator.name: shape for operator, shape in zip(OPERATORS, shapes, strict=True)}


def changed(conventions: Conventions, operator: str, seed: int) -> dict[str, Shape]:
    """Return the conventions after one operator took another shape."""
    others = [shape for shape in SHAPES if shape != conventions[operator]]
    return {**conventions, operator: random.Random(f"metro change {seed}").choice(others)}
