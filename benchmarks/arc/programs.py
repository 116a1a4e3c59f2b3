"""Programs: one or two grid operations, and a recoloring that is fitted on the demonstrations.

A program travels through the bank as text, and only as text: `Program.text` writes it in words,
`read_programs` finds all of them in whatever text memory returned. The round trip is exact.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from benchmarks.arc.grid_operations import OPERATIONS
from benchmarks.arc.grids import COLORS, VALUES, Grid

Demonstration = tuple[Grid, Grid]

_PHRASE = re.compile(r"\bapply `([a-z_]+)`(?: then `([a-z_]+)`)?", re.IGNORECASE)
_UNKNOWN = 255
_EMPTY_TABLE: NDArray[np.uint8] = np.full(VALUES, _UNKNOWN, dtype=np.uint8)


@dataclass(frozen=True)
class Program:
    """One or two operation names, applied in order."""

    operations: tuple[str, ...]

    @property
    def text(self) -> str:
        """The program in words; that the recoloring is fitted is understood."""
        steps = " then ".join(f"`{name}`" for name in self.operations)
        return f"apply {steps}, then recolor"

    def run(self, grid: Grid) -> Grid | None:
        """Apply the operations; None where one of them does not apply."""
        result: Grid | None = grid
        for name in self.operations:
            result = None if result is None else OPERATIONS[name](result)
        return result


def read_programs(text: str) -> tuple[Program, ...]:
    """Return the programs that a text names, in order, each once.

    A phrase with a name that is no operation is passed over.
    """
    found: dict[Program, None] = {}
    for match in _PHRASE.finditer(text):
        names = tuple(name for name in match.groups() if name)
        if all(name in OPERATIONS for name in names):
            found.setdefault(Program(names))
    return tuple(found)


@cache
def all_programs() -> tuple[Program, ...]:
    """Return every program, single operations first; `keep` is left out of pairs."""
    moving = [name for name in OPERATIONS if name != "keep"]
    single = [Program((name,)) for name in OPERATIONS]
    return (*single, *(Program((first, second)) for first in moving for second in moving))


class Recoloring:
    """A map from values to colors, fitted pair by pair; values never seen keep their color."""

    def __init__(self) -> None:
        self._table = _EMPTY_TABLE

    def fit(self, made: Grid, wanted: Grid) -> bool:
        """Extend the map so that `made` turns into `wanted`; False when no map does."""
        if made.shape != wanted.shape:
            return False
        table = self._table.copy()
        table[made] = wanted
        known = self._table != _UNKNOWN
        if not (table[made] == wanted).all() or (table != self._table)[known].any():
            return False
        self._table = table
        return True

    def apply(self, grid: Grid) -> Grid | None:
        """Recolor a grid; None when a mark is left that no demonstration gave a color."""
        table = np.where(self._table == _UNKNOWN, np.arange(VALUES), self._table)
        result = table.astype(np.uint8)[grid]
        return result if result.max() < COLORS else None
