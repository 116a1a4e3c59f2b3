"""Scripted controllers and small banks: for our tests, and for authors of controllers and adapters."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal

from epimem.protocols import (
    ConsolidateRequest,
    Derived,
    DeriveRequest,
    GateRequest,
    MergeRequest,
    PlaceRequest,
    Reply,
    SelectRequest,
    SplitRequest,
    UpdateRequest,
)
from epimem.schema.atif import AgentInfo, Step, Trajectory
from epimem.schema.lesson import IndexText, LessonDraft
from epimem.schema.memory_input import Selection
from epimem.schema.proposal import Consolidate, Merge, NewCategory, Part, Place, SplitLift
from epimem.schema.run import Answer, Run, System, Task
from epimem.schema.working_memory import Update

Script = Callable[[Any], Any]


class ScriptedMemoryController:
    """A memory controller that follows a script: one function per method, one request at a time.

    A function may return a value, a `Reply`, or raise. Without a script, `derive` yields one lesson
    whose guidance is the run's answer, `gate` opens where crops are there, and `update` notes the
    answer and retains the evidence.
    """

    name = "scripted"

    def __init__(
        self,
        *,
        derive: Script | None = None,
        gate: Script | None = None,
        update: Script | None = None,
        prompt_version: str = "1",
    ) -> None:
        self.prompt_version = prompt_version
        self._update = update or answer_as_memory
        self._derive = derive or answer_as_lesson
        self._gate = gate or (lambda request: 1 if any(request.crops.values()) else 0)
        self.calls: list[str] = []

    def derive(self, requests: Sequence[DeriveRequest]) -> Sequence[Reply[Derived]]:
        """Return what the script says of each run."""
        self.calls.append("derive")
        return [_reply(self._derive(request)) for request in requests]

    def gate(self, requests: Sequence[GateRequest]) -> Sequence[Reply[Literal[0, 1]]]:
        """Return what the script says of each question."""
        self.calls.append("gate")
        return [_reply(self._gate(request)) for request in requests]

    def update(self, requests: Sequence[UpdateRequest]) -> Sequence[Reply[Update]]:
        """Return what the script says of each attempt."""
        self.calls.append("update")
        return [_reply(self._update(request)) for request in requests]


class ScriptedTreeOrganizer:
    """A tree organizer that follows a script; by default the plainest lawful answer.

    Defaults: the nearest category at 0.9 or more, else a new one; merge every pair asked about; split
    in order of ids; the first lesson's guidance for all that say the same; the first candidate.
    """

    name = "scripted"

    def __init__(self, *, prompt_version: str = "1", **scripts: Script) -> None:
        self.prompt_version = prompt_version
        self._scripts = scripts
        self.calls: list[str] = []

    def _answer(self, name: str, default: Script, requests: Sequence[Any]) -> list[Reply[Any]]:
        self.calls.append(name)
        script = self._scripts.get(name, default)
        return [_reply(script(request)) for request in requests]

    def place(self, requests: Sequence[PlaceRequest]) -> Sequence[Reply[Place]]:
        """Return a place per lesson."""
        return self._answer("place", nearest_or_new, requests)

    def merge(self, requests: Sequence[MergeRequest]) -> Sequence[Reply[Merge]]:
        """Return a merge per pair."""
        return self._answer("merge", merge_always, requests)

    def split_lift(self, requests: Sequence[SplitRequest]) -> Sequence[Reply[SplitLift]]:
        """Return a partition per node."""
        return self._answer("split_lift", split_in_order, requests)

    def consolidate(self, requests: Sequence[ConsolidateRequest]) -> Sequence[Reply[Consolidate]]:
        """Return common guidance per category."""
        return self._answer("consolidate", first_guidance, requests)

    def select(self, requests: Sequence[SelectRequest]) -> Sequence[Reply[Selection]]:
        """Return a selection per question."""
        return self._answer("select", first_candidate, requests)


def _reply(value: Any) -> Any:
    return value if isinstance(value, Reply) else Reply(value=value)


def answer_as_lesson(request: DeriveRequest) -> Derived:
    """Derive one lesson whose guidance is the run's answer."""
    run = request.run
    if not run.answer.text.strip():
        return Derived((), nothing="no answer")
    draft = LessonDraft(
        polarity="negative" if request.verdict == "wrong" else "positive",
        guidance=run.answer.text,
        index=IndexText(
            topic=run.task.family, scope=run.task.house, question_anchor=run.task.question
        ),
    )
    return Derived((draft,))


def answer_as_memory(request: UpdateRequest) -> Update:
    """Note the last answer; leave the evidence as it is."""
    return Update(guidance=f"The last answer was: {request.answer}")


def nearest_or_new(request: PlaceRequest) -> Place:
    """Place a lesson in the nearest category at a likeness of 0.9, else in a new one."""
    lesson = request.lesson
    if request.candidates and request.candidates[0].likeness >= 0.9:
        return Place(lesson_id=lesson.node_id, category_id=request.candidates[0].node.node_id)
    return Place(
        lesson_id=lesson.node_id, new=NewCategory(title=lesson.index.scope, index=lesson.index)
    )


def merge_always(request: MergeRequest) -> Merge:
    """Merge every pair."""
    return Merge(kept_id=request.kept.node_id, absorbed_id=request.absorbed.node_id)


def split_in_order(request: SplitRequest) -> SplitLift:
    """Cut the children into parts of equal size, in order of ids."""
    ids = sorted(child.node_id for child in request.children)
    count = -(-len(ids) // request.capacity)
    count = min(max(count, 2), len(ids) // request.min_group)
    bounds = [round(part * len(ids) / count) for part in range(count + 1)]
    parts = [Part(child_ids=tuple(ids[low:high])) for low, high in pairwise(bounds)]
    return SplitLift(node_id=request.node.node_id, parts=tuple(parts))


def first_guidance(request: ConsolidateRequest) -> Consolidate:
    """Take the first lesson's guidance, supported by the lessons that say the same."""
    first = request.lessons[0].lesson
    assert first is not None
    same = [
        node.node_id
        for node in request.lessons
        if node.lesson is not None
        and (node.lesson.guidance, node.lesson.polarity) == (first.guidance, first.polarity)
    ]
    return Consolidate(
        node_id=request.node.node_id, guidance=first.guidance, supported_by=tuple(same)
    )


def first_candidate(request: SelectRequest) -> Selection:
    """Select the first candidate that passed the floor."""
    for candidate in request.candidates:
        if not candidate.passes:
            continue
        if candidate.kind == "lesson":
            return Selection(lesson_id=candidate.node_id)
        return Selection(rule_ids=(candidate.node_id,))
    return Selection()


def raises(_: object) -> Any:
    """Fail as a broken controller does."""
    raise RuntimeError("scripted failure")


def hangs(_: object) -> Any:
    """Do not come back within any sensible deadline."""
    time.sleep(3600)


def rubbish(_: object) -> Any:
    """Return something that is no reply at all."""
    return "rubbish"


def small_run(
    number: int = 0, *, answer: str = "the answer", family: str = "family", house: str = "house"
) -> Run:
    """Return a small valid run; runs of different numbers have different questions."""
    step = Step(
        step_id=1,
        source="agent",
        message=f"I worked on it. {answer}",
        extra={"epimem": {"seq": 0}},
    )
    return Run(
        run_id=f"run-{number:06d}",
        created_at="2026-01-01T00:00:00.000+00:00",
        task=Task(
            task_id=f"task-{number}",
            family=family,
            house=house,
            question=f"What is number {number}?",
        ),
        system=System(harness="test"),
        trajectory=Trajectory(
            schema_version="ATIF-v1.8", agent=AgentInfo(name="solver", version="1"), steps=(step,)
        ),
        answer=Answer(text=answer),
    )
