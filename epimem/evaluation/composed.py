"""The arms that choose items without the product's selection: frequency and oracle.

What they choose is composed as the product composes it: the same budget, the same gate.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from epimem import compose, gate
from epimem.evaluation.arms import Arm, Asking, Retrieved
from epimem.evaluation.handout import Handout, handout
from epimem.evaluation.side_banks import live_lessons
from epimem.evaluation.tasks import PublicTask
from epimem.memory import ExperienceMemory
from epimem.operations.rules import may_select
from epimem.schema.ids import uuid7
from epimem.schema.lesson import AUTHORITIES
from epimem.schema.memory_input import MemoryInput
from epimem.schema.names import addressed
from epimem.schema.tree import Node, family_of

NEAREST = 8
"""How many candidates the oracle may try one by one (ours)."""


def composed(
    memory: ExperienceMemory, asking: Asking, task: PublicTask, chosen: Sequence[Node]
) -> MemoryInput:
    """Return the memory input of these nodes for a task, in this order."""
    bank = memory.bank
    sources = bank.nodes([key for node in chosen for key in node.supported_by])
    items = compose.items(chosen, sources)
    evidence = compose.evidence(chosen, sources)
    opened = gate.decide(
        bank,
        memory.controllers[0],
        task.question,
        task.image_ids,
        items,
        evidence,
        mode=asking.gate or memory.config.gate,
        deadline_s=memory.config.memory_controller.deadline_s,
    )
    return compose.memory_input(
        bank,
        retrieval_id=uuid7(),
        bank_seq=bank.head_seq,
        items=items,
        evidence=evidence,
        gate=opened.value,
        budget=asking.limits(memory),
    ).model_copy(update={"warning": opened.warning})


class Frequent(Arm):
    """The most frequent guidance of the bank, whatever is asked: what a prior alone is worth.

    Guidance is counted by the distinct questions that support it, over rules, summaries and positive
    lessons that say the same words; of the task's family where both name one, as select filters. As
    many are handed out as the budget allows rules and lessons together.

    Args:
        memory: the bank.
        asking: how the product is asked: namespace, reader, authority and budget are used.
    """

    def __init__(self, memory: ExperienceMemory, asking: Asking | None = None) -> None:
        self._memory = memory
        self.asking = asking or Asking()
        self._ranked: dict[str, list[Node]] = {}

    def handouts(self, task: PublicTask, seed: int) -> Iterable[Handout]:
        """Return the prior of the task's family."""
        del seed
        family = task.family.casefold()
        if family not in self._ranked:
            self._ranked[family] = self._rank(family)
        started = time.perf_counter()
        budget = self.asking.limits(self._memory)
        chosen = self._ranked[family][: budget.max_rules + budget.max_lessons]
        answer = composed(self._memory, self.asking, task, chosen)
        return (handout(self._memory, answer, time.perf_counter() - started),)

    def _rank(self, family: str) -> list[Node]:
        lessons = {
            node.node_id: node
            for node in live_lessons(self._memory, self.asking.space(self._memory))
        }
        tree = self._memory.tree(self.asking.namespace)
        inner = [] if tree is None else [node for node in tree.walk() if node.level > 0]
        supports: dict[str, set[str]] = {}
        spokesmen: dict[str, Node] = {}
        # Rules first: where a rule says the same words as its lessons, the rule is handed out.
        for node in [*inner, *lessons.values()]:
            sources = [node] if node.lesson else [lessons[key] for key in node.supported_by]
            if not self._visible(node) or not _of_family(family_of(sources), family):
                continue
            said = " ".join(_guidance(node).casefold().split())
            spokesmen.setdefault(said, node)
            supports.setdefault(said, set()).update(
                support.question_key
                for source in sources
                if source.lesson
                for support in source.lesson.supports
            )
        order = sorted(supports, key=lambda said: (-len(supports[said]), spokesmen[said].node_id))
        return [spokesmen[said] for said in order]

    def _visible(self, node: Node) -> bool:
        reader, least = self.asking.reader, self.asking.minimum_authority
        return (
            may_select(node)
            and node.polarity == "positive"
            and addressed(node.audience, reader)
            and AUTHORITIES.index(node.authority) >= AUTHORITIES.index(least)
        )

    def banks(self) -> tuple[ExperienceMemory, ...]:
        """Return the bank."""
        return (self._memory,)


def _guidance(node: Node) -> str:
    return node.lesson.guidance if node.lesson is not None else node.guidance


def _of_family(own: str, asked: str) -> bool:
    return not own or not asked or own.casefold() == asked


class Best(Arm):
    """The upper bound of selection: right if the product's choice is, any single near item, or none.

    The items are the nearest of recall whether or not they pass its floor. They are tried one after
    the other until one is right, so this arm costs more than any selection could.

    Args:
        product: the arm whose selection is bounded.
        nearest: how many items are tried.
    """

    def __init__(self, product: Retrieved, nearest: int = NEAREST) -> None:
        self._product, self.asking = product, product.asking
        self._nearest = nearest

    def handouts(self, task: PublicTask, seed: int) -> Iterator[Handout]:
        """Yield the product's choice, then each near item alone, then nothing."""
        del seed
        yield self._product.answer(task)
        asking, memory = self.asking, self._product.memory
        started = time.perf_counter()
        found = memory.recall.find(
            task.question,
            namespace=asking.space(memory),
            reader=asking.reader or None,
            minimum_authority=asking.minimum_authority,
            kinds=("rule", "summary", "lesson"),
            k=self._nearest,
            mode=asking.mode or memory.config.recall.mode,
        )
        nodes = memory.bank.nodes([candidate.node_id for candidate in found.candidates])
        for candidate in found.candidates:
            node = nodes[candidate.node_id]
            answer = composed(memory, asking, task, [node])
            yield handout(memory, answer, time.perf_counter() - started)
            started = time.perf_counter()
        yield Handout(MemoryInput(retrieval_id="", bank_seq=found.bank_seq))

    def banks(self) -> tuple[ExperienceMemory, ...]:
        """Return the bank of the product."""
        return self._product.banks()
