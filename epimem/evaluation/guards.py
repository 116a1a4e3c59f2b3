"""What keeps an evaluation honest: frozen banks that stay as they are, references that stay sealed.

A bank must be frozen, and state and file digest are those of its `frozen.json` before and after.
No memory input and no lesson may hold a reference or a canary, and no question of the evaluation may
be one that the bank was built from.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from epimem.bank.versions import file_digest
from epimem.errors import BankConflictError, BankCorruptError
from epimem.evaluation.answers import Scorer, normalised
from epimem.evaluation.side_banks import live_lessons
from epimem.evaluation.tasks import EvalTask, PublicTask
from epimem.memory import ExperienceMemory
from epimem.schema.base import Record
from epimem.schema.tree import Node

LEAST_REFERENCE = 12
"""Characters from which a reference is looked for word by word (ours): "7" stands everywhere."""


class Digests(Record):
    """The two digests of a bank: of its trees, and of its files."""

    bank: str
    state: str
    files: str


class Watch:
    """The banks of a run, which must be frozen and must not change while it goes on."""

    def __init__(self) -> None:
        self.before: dict[Path, Digests] = {}

    def see(self, memories: Iterable[ExperienceMemory]) -> None:
        """Take the digests of banks that were not seen before.

        Raises:
            BankConflictError: a bank is not frozen.
            BankCorruptError: a bank is not what its `frozen.json` says.
        """
        for memory in memories:
            if memory.bank.path in self.before:
                continue
            found = digests(memory)
            frozen = memory.bank.frozen
            assert frozen is not None
            if (found.state, found.files) != (frozen.state_digest, frozen.file_digest):
                raise BankCorruptError(
                    "the bank is not what its frozen.json says",
                    field=str(memory.bank.path),
                    hint="epimem check",
                )
            self.before[memory.bank.path] = found

    def compare(self, memories: Iterable[ExperienceMemory]) -> None:
        """Compare banks with what they were.

        Raises:
            BankCorruptError: a digest differs: the evaluation changed the bank, or somebody else did.
        """
        for memory in memories:
            if digests(memory) != self.before[memory.bank.path]:
                raise BankCorruptError(
                    "the bank changed while it was evaluated", field=str(memory.bank.path)
                )


def digests(memory: ExperienceMemory) -> Digests:
    """Return the digests of a frozen bank, computed from what is on the disk.

    Raises:
        BankConflictError: it is not frozen.
    """
    require_frozen(memory)
    return Digests(
        bank=memory.bank.bank_id,
        state=memory.bank.state_digest(),
        files=file_digest(memory.bank.path),
    )


def require_frozen(memory: ExperienceMemory) -> None:
    """Refuse a bank that others could change.

    Raises:
        BankConflictError: it is not frozen; says how to make a frozen copy.
    """
    if memory.bank.frozen is None:
        path = memory.bank.path
        raise BankConflictError(
            "only a frozen bank is evaluated",
            field=str(path),
            hint=f"freeze a copy: cp -r {path} COPY; epimem freeze COPY",
        )


class Leak(Record):
    """Why a task does not count: what of it the memory holds, and where."""

    task: str
    what: str
    where: str


class Sealed:
    """The references of a run. Each is kept with a canary, which goes off before a scorer sees it.

    The canary is drawn anew for every run. Whatever carries a sealed reference along by mistake
    carries the canary too, so that even a reference of one character is noticed. What goes to a solver
    and what a bank holds is also searched for references of at least 12 characters, as they are, and
    for the canaries of the data set.

    Args:
        tasks: with their references.
        canaries: texts that stand in the data set and nowhere else.
    """

    def __init__(self, tasks: Iterable[EvalTask], canaries: Sequence[str] = ()) -> None:
        self.canary = f"epimem-canary-{secrets.token_hex(16)}"
        self._canaries = tuple(filter(None, map(normalised, (*canaries, self.canary))))
        self._sealed: dict[str, str] = {}
        self._searched: dict[str, str] = {}
        for task in tasks:
            reference = task.reference.get_secret_value()
            self._sealed[task.id] = reference + self.canary
            searched = normalised(reference)
            # What the question itself says is no secret.
            if len(searched) >= LEAST_REFERENCE and searched not in normalised(task.question):
                self._searched[task.id] = searched

    def judge(self, scorer: Scorer, task: PublicTask, answer: str) -> bool:
        """Show the reference to the scorer and return its word."""
        return bool(scorer(task, answer, self._sealed[task.id].removesuffix(self.canary)))

    def in_text(self, task: PublicTask, text: str) -> str:
        """Return what a text for this task must not hold and does: reference, canary, or nothing."""
        searched = normalised(text)
        if any(canary in searched for canary in self._canaries):
            return "canary"
        reference = self._searched.get(task.id)
        return "reference" if reference is not None and reference in searched else ""

    def in_bank(
        self, memory: ExperienceMemory, namespace: str, tasks: Mapping[str, PublicTask]
    ) -> Iterator[Leak]:
        """Yield what the bank holds of the evaluation: references, canaries, questions, groups."""
        lessons = live_lessons(memory, namespace)
        tree = memory.tree(namespace)
        inner = [] if tree is None else [node for node in tree.walk() if node.height > 0]
        # A line of its own for each text, so that no match goes across two.
        everything = "\n".join(
            normalised(text) for node in (*lessons, *inner) for text in _texts(node)
        )
        where = memory.bank.path.name
        if any(canary in everything for canary in self._canaries):
            yield Leak(task="", what="canary", where=where)
        questions, groups = _origins(lessons)
        for name, task in tasks.items():
            if name in self._searched and self._searched[name] in everything:
                yield Leak(task=name, what="reference", where=where)
            if task.question_key in questions:
                yield Leak(task=name, what="question", where=where)
            if task.group and task.group in groups:
                yield Leak(task=name, what="group", where=where)


def _origins(lessons: Sequence[Node]) -> tuple[set[str], set[str]]:
    """Return the keys of the questions and of the groups that lessons came from."""
    found = [node.lesson for node in lessons if node.lesson is not None]
    questions = {support.question_key for lesson in found for support in lesson.supports}
    return questions, {lesson.group_key for lesson in found if lesson.group_key}


def _texts(node: Node) -> Iterator[str]:
    index = node.index
    yield from (node.title, index.topic, index.scope, index.question_anchor)
    yield from (node.guidance, node.applies_when, *node.cautions)
    for conflict in node.conflicts:
        yield from (conflict.first.statement, conflict.second.statement)
    if node.lesson is not None:
        lesson = node.lesson
        yield from (lesson.guidance, lesson.applies_when, *lesson.cautions, lesson.body)
        yield from (statement.text for statement in lesson.statements)
        yield from (item.note for item in lesson.evidence)
        yield from lesson.tags
