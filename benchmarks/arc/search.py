"""Enumerative search: try programs in order until one reproduces every demonstration."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.arc.grid_operations import OPERATIONS
from benchmarks.arc.grids import Grid
from benchmarks.arc.programs import Demonstration, Program, Recoloring, all_programs


@dataclass(frozen=True)
class Found:
    """A program that reproduces every demonstration, with its fitted recoloring."""

    program: Program
    recoloring: Recoloring

    def answer(self, grids: Sequence[Grid]) -> list[Grid | None]:
        """Return what the program makes of each grid; None where it makes nothing."""
        made = [self.program.run(grid) for grid in grids]
        return [None if grid is None else self.recoloring.apply(grid) for grid in made]


@dataclass(frozen=True)
class SearchResult:
    """How many programs were tried, and the first that fits, if any did."""

    tries: int
    found: Found | None = None


def search_order(seed: str) -> tuple[Program, ...]:
    """Return all programs: single operations in random order, then pairs in random order."""
    shuffled = list(all_programs())
    random.Random(seed).shuffle(shuffled)
    return tuple(sorted(shuffled, key=lambda program: len(program.operations)))


def with_suggestions(suggested: Sequence[Program], order: Sequence[Program]) -> tuple[Program, ...]:
    """Return the suggested programs first, the others after them in their order."""
    return tuple(dict.fromkeys((*suggested, *order)))


def search(
    demonstrations: Sequence[Demonstration], order: Sequence[Program], *, budget: int
) -> SearchResult:
    """Try programs in order until one reproduces every demonstration or the budget is spent.

    Args:
        demonstrations: pairs of input and output grid, at least one.
        order: the programs; one that stands there twice costs two tries.
        budget: how many programs may be tried, at least 0.
    """
    workbench = _Workbench([given for given, _ in demonstrations])
    outputs = [made for _, made in demonstrations]
    tried = order[:budget]
    for count, program in enumerate(tried, start=1):
        recoloring = _fit(workbench, program, outputs)
        if recoloring is not None:
            return SearchResult(tries=count, found=Found(program=program, recoloring=recoloring))
    return SearchResult(tries=len(tried))


def fitting_programs(demonstrations: Sequence[Demonstration]) -> tuple[Found, ...]:
    """Try every program; return all that reproduce every demonstration."""
    workbench = _Workbench([given for given, _ in demonstrations])
    outputs = [made for _, made in demonstrations]
    fitted = ((program, _fit(workbench, program, outputs)) for program in all_programs())
    return tuple(
        Found(program=program, recoloring=recoloring)
        for program, recoloring in fitted
        if recoloring is not None
    )


def first_in(order: Sequence[Program], fitting: Sequence[Found]) -> SearchResult:
    """Return what `search` with unlimited tries gives, from the programs that are known to fit."""
    known = {found.program: found for found in fitting}
    for count, program in enumerate(order, start=1):
        if program in known:
            return SearchResult(tries=count, found=known[program])
    return SearchResult(tries=len(order))


def _fit(workbench: _Workbench, program: Program, outputs: Sequence[Grid]) -> Recoloring | None:
    recoloring = Recoloring()
    for index, output in enumerate(outputs):
        made = workbench.run(program, index)
        if made is None or not recoloring.fit(made, output):
            return None
    return recoloring


class _Workbench:
    """Runs programs on fixed inputs and applies an operation to equal grids only once."""

    def __init__(self, inputs: Sequence[Grid]) -> None:
        self._numbers: dict[tuple[bytes, int], int] = {}
        self._grids: list[Grid] = []
        self._inputs = [self._number(grid) for grid in inputs]
        self._made: dict[tuple[int, str], int | None] = {}

    def run(self, program: Program, index: int) -> Grid | None:
        number: int | None = self._inputs[index]
        for name in program.operations:
            if number is None:
                return None
            number = self._apply(number, name)
        return None if number is None else self._grids[number]

    def _apply(self, number: int, name: str) -> int | None:
        key = (number, name)
        if key not in self._made:
            result = OPERATIONS[name](self._grids[number])
            self._made[key] = None if result is None else self._number(result)
        return self._made[key]

    def _number(self, grid: Grid) -> int:
        key = (grid.tobytes(), grid.shape[1])
        if key not in self._numbers:
            self._numbers[key] = len(self._grids)
            self._grids.append(grid)
        return self._numbers[key]
