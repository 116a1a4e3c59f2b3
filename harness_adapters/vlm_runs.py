"""Importer of runs of a vision-language model with regions, their outcomes and ready lessons.

A folder with `runs.jsonl`, and beside it `outcomes.jsonl`, `lessons.jsonl` (both optional) and the
images that the runs name. Lines belong together by `task_id`.

    run line ──> Run            a chain per actor; a region becomes a `view` event on page 1 that
        │                       follows its step; regions are 0..1000 in the file, pixels here
        ├──────> SealedOutcome  right or wrong, and the reference
        └──────> LessonDraft    what was derived from the run with the outcome in view
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from epimem.errors import ConfigError, NotFoundError
from epimem.schema.atif import AgentInfo, Step, Trajectory
from epimem.schema.base import Record, StrictBool, StrictInt
from epimem.schema.ids import IdGenerator, uuid7
from epimem.schema.lesson import Evidence, IndexText, LessonDraft
from epimem.schema.outcome import SealedOutcome
from epimem.schema.region import Region
from epimem.schema.run import (
    Actor,
    Answer,
    Event,
    Native,
    Page,
    Run,
    StepRef,
    System,
    Task,
)
from harness_adapters.documents import Document, Foreign, documents, guarded
from harness_adapters.importer import (
    Admit,
    FieldTally,
    Imported,
    Refused,
    Stamps,
    reference_text,
    split_sealed,
)
from harness_adapters.line_index import LineIndex
from harness_adapters.pictures import Pictures, page, read_beside

HARNESS = "reader-checker"
METHOD = "outcome-in-view"
RUNS, OUTCOMES, LESSONS = "runs.jsonl", "outcomes.jsonl", "lessons.jsonl"

Take = Literal["runs", "lessons", "both"]
Box = tuple[StrictInt, StrictInt, StrictInt, StrictInt]


class _Step(Record):
    actor: str = Field(min_length=1)
    text: str
    region: Box | None = None


class _Line(Foreign):
    task_id: str
    question: str
    image: str
    steps: tuple[_Step, ...]
    answer: str | int | float
    family: str = ""
    house: str = ""
    round: StrictInt | None = None


class _Outcome(Record):
    task_id: str
    correct: StrictBool
    reference: str | int | float


class _Evidence(Record):
    region: Box
    note: str = ""


class _Lesson(Record):
    task_id: str
    guidance: str
    applies_when: str = ""
    cautions: str = ""
    topic: str = ""
    scope: str = ""
    question_anchor: str = ""
    evidence: _Evidence | None = None


@dataclass(frozen=True)
class _Beside:
    """The files beside the runs that are asked for."""

    outcomes: LineIndex | None
    lessons: LineIndex | None

    @classmethod
    def of(cls, folder: Path, take: Take) -> _Beside:
        outcomes = LineIndex(folder, OUTCOMES, single=True) if take != "lessons" else None
        return cls(outcomes, LineIndex(folder, LESSONS) if take != "runs" else None)


class VlmRunsImporter:
    """Reads such a folder; `take` says whether runs, ready lessons or both are wanted."""

    name = "vlm-runs"
    help = "vision-language runs with regions, sealed outcomes and ready lessons (--take)"

    def __init__(
        self,
        *,
        take: Take = "both",
        ids: IdGenerator = uuid7,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if take not in {"runs", "lessons", "both"}:
            raise ConfigError("take is runs, lessons or both", field="take", got=take)
        self._take = take
        self._stamps = Stamps(ids, clock)

    def read(self, path: Path, *, admit: Admit) -> Iterator[Imported | Refused]:
        """Yield one record per run line, then what beside it fits no run; see `Importer.read`."""
        runs = path / RUNS if path.is_dir() else path
        beside = _Beside.of(runs.parent, self._take)
        if self._take == "lessons" and beside.lessons and not beside.lessons.present:
            raise NotFoundError("there are no ready lessons beside the runs", hint=LESSONS)
        convert = partial(_convert, stamps=self._stamps, admit=admit, beside=beside)
        for document in documents(runs, (".jsonl",)):
            result = document if isinstance(document, Refused) else guarded(document, convert)
            if isinstance(result, Refused) or result.run is not None or result.lessons:
                yield result
        for index in (beside.outcomes, beside.lessons):
            if index is not None:
                yield from index.left()


def _convert(
    document: Document, tally: FieldTally, *, stamps: Stamps, admit: Admit, beside: _Beside
) -> Imported:
    value, replaced = document.parse(tally)
    line = _Line.model_validate(value)
    native, labels = split_sealed(line.model_extra or {})
    _count(value, native, tally)
    pictures = Pictures(admit, tally)
    image = page(1, pictures.add(read_beside(document.folder, line.image), line.image))
    run = Run(
        run_id=stamps.ids(),
        created_at=stamps.created_at(),
        task=Task(
            task_id=line.task_id,
            family=line.family,
            house=line.house,
            question=line.question,
            public={} if line.round is None else {"round": line.round},
            pages=(image,),
        ),
        system=System(harness=HARNESS),
        trajectory=_trajectory(line.steps, image, native),
        answer=Answer(text=reference_text(line.answer)),
        native=Native(format="vlm-runs"),
        replaced=replaced,
    )
    lessons: list[LessonDraft] = []
    if beside.lessons is not None:
        build = partial(_lesson, run=run, imported=beside.outcomes is not None)
        lessons = beside.lessons.take(line.task_id, build, tally)
    images = tuple(pictures.images)
    if beside.outcomes is None:
        return Imported(None, None, tuple(lessons), images, document.label, tally.report())
    outcome = _outcome(beside.outcomes, run, labels, tally)
    return Imported(run, outcome, tuple(lessons), images, document.label, tally.report())


def _trajectory(steps: tuple[_Step, ...], image: Page, native: dict[str, Any]) -> Trajectory:
    chains: dict[str, list[Step]] = {}
    events: list[Event] = []
    seq = 0
    for step in steps:
        chain = chains.setdefault(step.actor, [])
        number = len(chain) + 1
        extra = {"epimem": {"seq": seq}}
        chain.append(Step(step_id=number, source="agent", message=step.text, extra=extra))
        seq += 1
        if step.region is not None:
            ref = StepRef(traj=step.actor, step=number)
            events.append(_view(seq, step.actor, ref, step.region, image))
            seq += 1
    envelope = {
        "actors": [Actor(id=name, traj=name, role=name).plain() for name in chains],
        "events": [event.plain() for event in events],
    }
    return Trajectory(
        schema_version="ATIF-v1.8",
        agent=AgentInfo(name=HARNESS, version="unknown"),
        steps=(),
        subagent_trajectories=tuple(
            Trajectory(
                schema_version="ATIF-v1.8",
                trajectory_id=name,
                agent=AgentInfo(name=name, version="unknown"),
                steps=tuple(chain),
            )
            for name, chain in chains.items()
        ),
        extra={"epimem": envelope, **({"native": native} if native else {})},
    )


def _view(seq: int, actor: str, ref: StepRef, box: Box, image: Page) -> Event:
    region = Region.from_scaled(box, image.width, image.height)
    return Event(seq=seq, kind="view", sender=actor, step_ref=ref, page=image.page, region=region)


def _outcome(
    index: LineIndex, run: Run, labels: dict[str, Any], tally: FieldTally
) -> SealedOutcome | None:
    found = index.take(run.task.task_id, _Outcome.model_validate, tally)
    if not found:
        tally.note("no_outcome", run.task.task_id)
        return SealedOutcome(run_id=run.run_id, labels=labels) if labels else None
    return SealedOutcome(
        run_id=run.run_id,
        verdict="right" if found[0].correct else "wrong",
        source="oracle",
        reference=reference_text(found[0].reference),
        labels=labels,
    )


def _lesson(value: dict[str, Any], *, run: Run, imported: bool) -> LessonDraft:
    """Return a ready lesson of a run; it names the run where that is imported along."""
    lesson = _Lesson.model_validate(value)
    image = run.task.pages[0]
    evidence: tuple[Evidence, ...] = ()
    if lesson.evidence is not None:
        region = Region.from_scaled(lesson.evidence.region, image.width, image.height)
        note = lesson.evidence.note
        evidence = (Evidence(image_id=image.image_id, region=region, note=note),)
    return LessonDraft(
        guidance=lesson.guidance,
        applies_when=lesson.applies_when,
        cautions=(lesson.cautions,) if lesson.cautions else (),
        title=lesson.topic,
        index=IndexText(
            topic=lesson.topic, scope=lesson.scope, question_anchor=lesson.question_anchor
        ),
        evidence=evidence,
        family=run.task.family,
        question_key=run.task.question_key,
        group_key=run.task.group_key,
        verdict_source="oracle",
        method=METHOD,
        harness=HARNESS,
        run_ids=(run.run_id,) if imported else (),
    )


def _count(value: dict[str, Any], native: dict[str, Any], tally: FieldTally) -> None:
    for key in value:
        tally.count(key, "extra" if key in native else "mapped")
    for step in value["steps"]:
        for key in step:
            tally.count(f"steps[].{key}", "mapped")
