"""Attempts on tasks: construction, held-out tasks with suggestions, and the permuted control."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.arc.grids import Grid, as_text
from benchmarks.arc.programs import Program, read_programs
from benchmarks.arc.search import (
    Found,
    SearchResult,
    first_in,
    fitting_programs,
    search,
    search_order,
    with_suggestions,
)
from benchmarks.arc.tasks import ArcTask, Oracle
from epimem.schema.memory_input import MemoryInput

CAUTIONS = 3
"""How many attempts that found no program are contributed beside those that did (ours)."""


@dataclass(frozen=True, eq=False)
class Explored:
    """A task, every program that reproduces its demonstrations, and the seconds that took."""

    task: ArcTask
    fitting: tuple[Found, ...]
    seconds: float


@dataclass(frozen=True, eq=False)
class Attempt:
    """What the host did on one task, and how it was judged.

    `stated` is the program that the run names: the one found, unless a control swaps it.
    """

    task: ArcTask
    seed: int
    budget: int
    result: SearchResult
    stated: Program | None
    right: bool
    seconds: float


def split(explored: Sequence[Explored], seed: int) -> tuple[list[Explored], list[Explored]]:
    """Return the construction half and the held-out half."""
    shuffled = list(explored)
    random.Random(f"split {seed}").shuffle(shuffled)
    half = len(shuffled) // 2
    return shuffled[:half], shuffled[half:]


def contributed(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return the attempts that become runs: all that found a program, and some that did not."""
    found = [attempt for attempt in attempts if attempt.stated is not None]
    failed = [attempt for attempt in attempts if attempt.stated is None]
    return found + failed[:CAUTIONS]


def permuted(attempts: Sequence[Attempt], seed: int) -> list[Attempt]:
    """Return the attempts with the programs of the right ones permuted over them: the control."""
    places = [index for index, attempt in enumerate(attempts) if attempt.right]
    programs = [attempts[index].stated for index in places]
    random.Random(f"permuted {seed}").shuffle(programs)
    result = list(attempts)
    for index, program in zip(places, programs, strict=True):
        result[index] = replace(attempts[index], stated=program)
    return result


def suggested_programs(answer: MemoryInput) -> tuple[Program, ...]:
    """Return the programs that the guidance of the items names, best item first.

    Cautions say what was judged wrong, so they suggest nothing.
    """
    guidance = [item.guidance for item in answer.items if item.polarity == "positive"]
    return read_programs("\n".join(guidance))


def explore(task: ArcTask) -> Explored:
    """Try every program on a task."""
    started = time.monotonic()
    fitting = fitting_programs(task.demonstrations)
    return Explored(task=task, fitting=fitting, seconds=time.monotonic() - started)


def attempt(explored: Explored, order: Sequence[Program], oracle: Oracle, *, seed: int) -> Attempt:
    """Take the first program of `order` that fits, with unlimited tries, and have it judged."""
    task = explored.task
    result = first_in(order, explored.fitting)
    submitted = result.found.answer(task.test_inputs) if result.found else []
    return Attempt(
        task=task,
        seed=seed,
        budget=len(order),
        result=result,
        stated=result.found.program if result.found else None,
        right=oracle.right(task.task_id, submitted),
        seconds=explored.seconds,
    )


def held_out_order(task: ArcTask, seed: int) -> tuple[Program, ...]:
    """Return the order in which a held-out task is searched: the same in every arm of a seed."""
    return search_order(f"{seed} {task.task_id}")


def best_within(
    explored: Explored, suggested: Sequence[Program], order: Sequence[Program], *, tries: int
) -> list[Grid | None]:
    """Return the answer of the first program that fits within the budget, suggestions first.

    What `search` would give, from the programs that are known to fit; empty where none does.
    """
    tried = with_suggestions(suggested, order)[:tries]
    found = first_in(tried, explored.fitting).found
    return found.answer(explored.task.test_inputs) if found is not None else []


def answer_text(grids: Sequence[Grid | None]) -> str:
    """Return submitted grids as the oracle writes its reference; empty where one is missing."""
    made = [grid for grid in grids if grid is not None]
    return as_text(made) if len(made) == len(grids) else ""


def solved(
    task: ArcTask, suggested: Sequence[Program], oracle: Oracle, *, seed: int, tries: int
) -> bool:
    """Solve a held-out task within the budget, suggestions first; tell whether it is right."""
    order = with_suggestions(suggested, held_out_order(task, seed))
    found = search(task.demonstrations, order, budget=tries).found
    return found is not None and oracle.right(task.task_id, found.answer(task.test_inputs))
