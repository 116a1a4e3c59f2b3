"""Arms: where the memory for a question comes from. The same questions are asked in every arm.

    Nothing      no memory
    Retrieved    what a bank answers: the product, and with a side bank flat and shuffled
    Wrong        what the bank answered another question with, of the same size
    Given        whatever a function of the host says

`epimem.evaluation.composed` has the two that choose lessons without the product's selection.
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from epimem.config import GateMode
from epimem.evaluation.handout import Handout, handout
from epimem.evaluation.tasks import PublicTask
from epimem.memory import ExperienceMemory
from epimem.schema.lesson import Authority
from epimem.schema.memory_input import Budget, MemoryInput


@dataclass(frozen=True)
class Asking:
    """How a bank is asked: the arguments of `retrieve` that are the same for all questions.

    `namespace`, `budget`, `k`, `mode` and `gate` are those of the bank's settings where None.
    """

    namespace: str | None = None
    reader: str = ""
    budget: Budget | None = None
    k: int | None = None
    mode: Literal["fused", "dense", "lexical"] | None = None
    minimum_authority: Authority = "none"
    gate: GateMode | None = None

    def ask(self, memory: ExperienceMemory, task: PublicTask) -> MemoryInput:
        """Retrieve for a task."""
        return memory.retrieve(
            task.question,
            images=task.image_ids,
            namespace=self.namespace,
            family=task.family,
            reader=self.reader,
            k=self.k,
            mode=self.mode,
            budget=self.budget,
            minimum_authority=self.minimum_authority,
            gate=self.gate,
        )

    def plain(self) -> dict[str, Any]:
        """Return what differs from the defaults, as JSON data."""
        given = {
            item.name: getattr(self, item.name)
            for item in fields(self)
            if item.default != getattr(self, item.name)
        }
        return {
            name: value.plain() if isinstance(value, Budget) else value
            for name, value in given.items()
        }

    def space(self, memory: ExperienceMemory) -> str:
        """Return the namespace that is asked."""
        return self.namespace if self.namespace is not None else memory.config.namespace

    def limits(self, memory: ExperienceMemory) -> Budget:
        """Return the budget that holds."""
        return self.budget or memory.config.budget


class Arm(ABC):
    """One arm. `handouts` gives the alternatives for a question: a task is right if one of them is.

    An arm is asked by one thread. What it looks up it keeps, so that the same arm may serve several
    evaluations (of several budgets of a solver, say) with one retrieval a question. `asking` says how
    it asks a bank.
    """

    asking = Asking()

    @abstractmethod
    def handouts(self, task: PublicTask, seed: int) -> Iterable[Handout]:
        """Return the alternatives, best first; none at all is the same as one without items."""

    def prepare(self, tasks: Sequence[PublicTask]) -> None:  # noqa: B027 - a hook that most arms leave
        """Get ready for all tasks of a seed; what this takes is no cost of a question."""

    def banks(self) -> tuple[ExperienceMemory, ...]:
        """Return the banks opened so far, which must be frozen and stay as they are."""
        return ()

    def close(self) -> None:  # noqa: B027 - the same
        """Close what this arm opened itself."""


class Nothing(Arm):
    """No memory."""

    def handouts(self, task: PublicTask, seed: int) -> Iterable[Handout]:
        """Return nothing."""
        del task, seed
        return ()


class Given(Arm):
    """What a function of the host gives: one memory input, several alternatives, or None.

    Args:
        function: of task and seed.
        banks: what it reads from, to be watched.
    """

    def __init__(
        self,
        function: Callable[[PublicTask, int], Handout | Sequence[Handout] | None],
        banks: Sequence[ExperienceMemory] = (),
    ) -> None:
        self._function = function
        self._banks = tuple(banks)

    def handouts(self, task: PublicTask, seed: int) -> Iterable[Handout]:
        """Return what the function says."""
        given = self._function(task, seed)
        if given is None:
            return ()
        return (given,) if isinstance(given, Handout) else given

    def banks(self) -> tuple[ExperienceMemory, ...]:
        """Return the banks that were named."""
        return self._banks


class Retrieved(Arm):
    """What `retrieve` of a bank answers; once per task, whatever the seed.

    Args:
        memory: the bank, opened by the host; or a function that makes and opens it when it is first
            asked, and whose result this arm closes.
        asking: how it is asked.
    """

    def __init__(
        self,
        memory: ExperienceMemory | Callable[[], ExperienceMemory],
        asking: Asking | None = None,
    ) -> None:
        self._open = None if isinstance(memory, ExperienceMemory) else memory
        self._memory = memory if isinstance(memory, ExperienceMemory) else None
        self.asking = asking or Asking()
        self._known: dict[PublicTask, Handout] = {}

    @property
    def memory(self) -> ExperienceMemory:
        """The bank, opened now where it was not yet."""
        if self._memory is None:
            assert self._open is not None
            self._memory = self._open()
        return self._memory

    def prepare(self, tasks: Sequence[PublicTask]) -> None:
        """Open the bank, load encoder, index and controllers."""
        memory = self.memory
        _ = memory.controllers
        memory.recall.find(tasks[0].question, namespace=self.asking.space(memory))

    def handouts(self, task: PublicTask, seed: int) -> Iterable[Handout]:
        """Return the one answer of the bank."""
        del seed
        return (self.answer(task),)

    def answer(self, task: PublicTask) -> Handout:
        """Return the answer of the bank to a task, kept from the first time it was asked."""
        if task not in self._known:
            memory = self.memory
            started = time.perf_counter()
            answer = self.asking.ask(memory, task)
            seconds = time.perf_counter() - started
            self._known[task] = handout(memory, answer, seconds)
        return self._known[task]

    def banks(self) -> tuple[ExperienceMemory, ...]:
        """Return the bank, if it is open."""
        return (self._memory,) if self._memory is not None else ()

    def close(self) -> None:
        """Close the bank, if this arm opened it; answers that were given are kept."""
        if self._open is not None and self._memory is not None:
            self._memory.close()
            self._memory = None


class Wrong(Arm):
    """What the bank answered the question of another group with: as long, about something else.

    Of the other tasks whose answer has no item and no guidance in common with the task's own, one is
    drawn at random among those that come nearest in number of items and crops. Where the bank has
    nothing for the task, or nothing else for any other, nothing is handed out.

    Args:
        product: the arm whose answers are exchanged.
    """

    def __init__(self, product: Retrieved) -> None:
        self._product, self.asking = product, product.asking
        self._tasks: tuple[PublicTask, ...] = ()

    def prepare(self, tasks: Sequence[PublicTask]) -> None:
        """Take the tasks whose answers may be handed out."""
        self._tasks = tuple(tasks)

    def handouts(self, task: PublicTask, seed: int) -> Iterable[Handout]:
        """Return another task's answer."""
        own = self._product.answer(task)
        if not own.input.items:
            return ()
        others = [other for other in self._tasks if other.unit != task.unit]
        random.Random(f"wrong {seed} {task.id}").shuffle(others)  # noqa: S311 - no secret
        answers = [self._product.answer(other) for other in others]
        apart = [answer for answer in answers if answer.input.items and _apart(own, answer)]
        return sorted(apart, key=lambda answer: _distance(own, answer))[:1]

    def banks(self) -> tuple[ExperienceMemory, ...]:
        """Return the bank of the product."""
        return self._product.banks()


def _apart(first: Handout, second: Handout) -> bool:
    return not (_said(first) & _said(second))


def _said(given: Handout) -> set[str]:
    items = given.input.items
    return {item.node_id for item in items} | {
        " ".join(item.guidance.casefold().split()) for item in items
    }


def _distance(own: Handout, other: Handout) -> tuple[int, int]:
    items = abs(len(own.input.items) - len(other.input.items))
    return items, abs(len(own.input.crops) - len(other.input.crops))
