"""Operation accuracy on held-out demonstrations, measured while training as it would be in serving.

The model that is being trained answers through the backend that serves it: same prompts, same grammar,
same reading, asked again once where a reply is refused.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controllers.backends.local_base import Base
from controllers.backends.transformers import ROWS, TransformersBackend
from controllers.model.asking import ask
from controllers.model.protocols import Protocols

if TYPE_CHECKING:
    from training.demonstrations.record import Demonstration


@dataclass(frozen=True)
class Accuracy:
    """Accuracy by operation, each in [0, 1], and of how many demonstrations of it."""

    by_operation: Mapping[str, float]
    counts: Mapping[str, int]

    @property
    def mean(self) -> float:
        """The mean over operations, each counting the same however many rows it has (ours)."""
        return sum(self.by_operation.values()) / len(self.by_operation)


class Served(TransformersBackend):
    """A model in training, behind the backend that serves it.

    Args:
        base: of the model; it stays whoever's it is.
    """

    def __init__(self, base: Base) -> None:
        self.name = "training"
        self._rows = ROWS
        self._deadline_s = None
        self._base = base
        self._adapter = None


def drawn(found: Sequence[Demonstration], rows: int, seed: int) -> list[Demonstration]:
    """Return at most so many demonstrations, the same number of each operation as far as they go."""
    if len(found) <= rows:
        return list(found)
    by_operation: dict[str, list[Demonstration]] = defaultdict(list)
    for demonstration in random.Random(seed).sample(list(found), len(found)):  # noqa: S311
        by_operation[demonstration.operation].append(demonstration)
    turns = [by_operation[name][at : at + 1] for at in range(rows) for name in sorted(by_operation)]
    return [demonstration for turn in turns for demonstration in turn][:rows]


def measure(backend: TransformersBackend, found: Sequence[Demonstration]) -> dict[str, float]:
    """Return the accuracy of the reply to each demonstration, by id."""
    from training.evaluation.measures import score, value_of

    by_operation: dict[str, list[Demonstration]] = defaultdict(list)
    for demonstration in found:
        by_operation[demonstration.operation].append(demonstration)
    accuracies: dict[str, float] = {}
    for name, alike in by_operation.items():
        replies = ask(backend, Protocols(), name, [each.request for each in alike])
        for each, reply in zip(alike, replies, strict=True):
            measured = score(name, each.request, each.value, value_of(reply))
            accuracies[each.id] = measured.accuracy
    return accuracies


def summed(found: Sequence[Demonstration], accuracies: Mapping[str, float]) -> Accuracy:
    """Return the accuracy by operation."""
    values: dict[str, list[float]] = defaultdict(list)
    for each in found:
        values[each.operation].append(accuracies[each.id])
    return Accuracy(
        {name: sum(many) / len(many) for name, many in sorted(values.items())},
        {name: len(many) for name, many in sorted(values.items())},
    )


def exhausted(history: Sequence[float], patience: int) -> bool:
    """Say whether the last `patience` accuracies were all no better than one before; 0: never."""
    if not patience or len(history) <= patience:
        return False
    return max(history[-patience:]) <= max(history[:-patience])


def log_line(step: int, accuracy: Accuracy, seconds: float) -> dict[str, Any]:
    """Return the line of the log for one measurement."""
    return {
        "event": "dev",
        "step": step,
        "operation_accuracy": accuracy.mean,
        "by_operation": dict(accuracy.by_operation),
        "rows": sum(accuracy.counts.values()),
        "seconds": round(seconds, 3),
    }
