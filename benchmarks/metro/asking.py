"""How the arms ask a bank: once for each wording; and the two arms that stand for a broken product."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from epimem import ExperienceMemory
from epimem.evaluation import Asking, Frequent, Handout, PublicTask, Wrong
from epimem.schema.memory_input import Budget, MemoryInput

IMAGES = 16
"""The memory-image budget of every arm (ours; default 4, at most 16): a crop is 50 pixels wide."""
BUDGET = Budget(images=IMAGES)
FEW = 60
"""Tasks among whose answers a wrong lesson is looked for (ours)."""


@dataclass(frozen=True)
class OnceAWording(Asking):
    """Asks once for each wording of a question: the answer depends on nothing else."""

    known: dict[tuple[Path, str, str, int], MemoryInput] = field(
        default_factory=dict, compare=False
    )

    def ask(self, memory: ExperienceMemory, task: PublicTask) -> MemoryInput:
        """Return the answer to this wording, kept from the first time."""
        key = (memory.bank.path, task.question, task.family, len(task.image_ids))
        if key not in self.known:
            self.known[key] = super().ask(memory, task)
        return self.known[key]


class FrequentOnce(Frequent):
    """The frequency prior, composed once for each wording."""

    def __init__(self, memory: ExperienceMemory, asking: Asking) -> None:
        super().__init__(memory, asking)
        self._composed: dict[str, tuple[Handout, ...]] = {}

    def handouts(self, task: PublicTask, seed: int) -> Iterable[Handout]:
        """Return the prior as it is handed out for this wording."""
        if task.question not in self._composed:
            self._composed[task.question] = tuple(super().handouts(task, seed))
        return self._composed[task.question]


class WrongOfFew(Wrong):
    """The wrong lesson, looked for among the first tasks only: all wordings are among them."""

    def prepare(self, tasks: Sequence[PublicTask]) -> None:
        """Take the tasks whose answers may be handed out."""
        super().prepare(tasks[:FEW])


@dataclass(frozen=True)
class AtRandom(OnceAWording):
    """Sabotage: asks with the question of another task, drawn at random."""

    tasks: tuple[PublicTask, ...] = ()

    def ask(self, memory: ExperienceMemory, task: PublicTask) -> MemoryInput:
        """Return the answer to some question of the same stream."""
        chance = random.Random(f"metro at random {task.id}")
        return super().ask(memory, chance.choice(self.tasks))


def at_random(tasks: Sequence[PublicTask]) -> AtRandom:
    """Return the sabotage of retrieval for these tasks."""
    return AtRandom(budget=BUDGET, tasks=tuple(tasks))
