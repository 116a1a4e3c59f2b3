"""Importer of the Who&When runs: failed multi-agent runs with labels of who failed and when.

Two flavours. `algorithm-generated`: each turn names its speaker, prompts of the experts stand
beside. `hand-crafted`: the role is the speaker, with what it did in brackets: `Orchestrator
(thought)`, `Orchestrator (-> WebSurfer)`, `Orchestrator (termination condition)`.

    file ──> Run            one chain per speaker, one seq per turn; a directed turn is followed by
        │                   its message event
        └──> SealedOutcome  verdict, ground truth, and every other field of the file as a label

The order of all steps by `seq` is the order of the history. Which turns a model made is ours: turns
of the two terminals count as made without one, the human's as the user's, the termination condition
as the system's.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from epimem.schema.atif import AgentInfo, Step, Trajectory
from epimem.schema.base import Record
from epimem.schema.ids import IdGenerator, uuid7
from epimem.schema.outcome import SealedOutcome
from epimem.schema.run import Actor, Answer, Event, Native, Run, StepRef, System, Task
from harness_adapters.documents import Document, Foreign, documents, guarded
from harness_adapters.importer import (
    Admit,
    FieldTally,
    Imported,
    Refused,
    Stamps,
    reference_text,
)

UNKNOWN_VERSION = "unknown"
HARNESSES = {"algorithm-generated": "captain-agent", "hand-crafted": "magentic-one"}
_ROLE = re.compile(r"(?P<speaker>.+?) \((?P<aside>.+)\)", re.DOTALL)
_FINAL_ANSWER = re.compile(r"FINAL ANSWER:[ \t]*(.*?)(?=\nSCENARIO\.PY |\nRUN\.SH |\Z)", re.DOTALL)
_TERMINATE = re.compile(r"[\s#*]*\bTERMINATE\b[\s.*#]*\Z")
_TERMINALS = frozenset({"Computer_terminal", "ComputerTerminal"})
_TRUTH = ("is_correct", "is_corrected")

Flavour = Literal["algorithm-generated", "hand-crafted"]


class _Turn(Record):
    content: str
    role: str = Field(min_length=1)
    name: str | None = Field(default=None, min_length=1)


class _File(Foreign):
    question: str
    history: tuple[_Turn, ...] = Field(min_length=1)
    system_prompt: dict[str, str] = Field(default_factory=dict)
    ground_truth: str | int | float | None = None

    @property
    def labels(self) -> dict[str, Any]:
        """Every field that is not visible to the agents."""
        return dict(self.model_extra or {})

    @property
    def flavour(self) -> Flavour:
        """Told by whether turns name their speaker."""
        named = all(turn.name is not None for turn in self.history)
        return "algorithm-generated" if named else "hand-crafted"


@dataclass(frozen=True)
class _Said:
    """A turn of the history: who spoke, in which manner, and to whom."""

    turn: _Turn
    speaker: str
    aside: str = ""
    to: str = ""

    @property
    def source(self) -> Literal["system", "user", "agent"]:
        if self.aside == "termination condition":
            return "system"
        return "user" if self.speaker == "human" else "agent"


@dataclass
class _Team:
    """Chains by speaker, in the order in which they first speak, and the events between them."""

    chains: dict[str, list[Step]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    seq: int = 0

    def say(self, said: _Said) -> None:
        """Add a turn to its speaker's chain, and the message event of a directed one."""
        chain = self.chains.setdefault(said.speaker, [])
        step = Step(
            step_id=len(chain) + 1,
            source=said.source,
            message=said.turn.content,
            llm_call_count=0 if said.speaker in _TERMINALS else None,
            extra={"epimem": {"seq": self._next()}, "role": said.turn.role},
        )
        chain.append(step)
        if said.to:
            ref = StepRef(traj=said.speaker, step=step.step_id)
            event = Event(
                seq=self._next(),
                kind="message",
                sender=said.speaker,
                to=(said.to,),
                step_ref=ref,
            )
            self.events.append(event)

    def _next(self) -> int:
        self.seq += 1
        return self.seq - 1


class WhoAndWhenImporter:
    """Reads a file, a flavour's folder, or the whole data set."""

    name = "who-and-when"
    help = "failed multi-agent runs with sealed labels (Who&When, both flavours)"

    def __init__(self, *, ids: IdGenerator = uuid7, clock: Callable[[], float] = time.time) -> None:
        self._stamps = Stamps(ids, clock)

    def read(self, path: Path, *, admit: Admit) -> Iterator[Imported | Refused]:
        """Yield one run per file, by flavour and number; see `Importer.read`."""
        del admit  # the data set holds no images
        for document in documents(path, (".json", ".jsonl")):
            if isinstance(document, Refused):
                yield document
            else:
                yield guarded(document, partial(_convert, stamps=self._stamps))


def _convert(document: Document, tally: FieldTally, stamps: Stamps) -> Imported:
    value, replaced = document.parse(tally)
    file = _File.model_validate(value)
    said = [_heard(turn) for turn in file.history]
    _count(value, tally)
    _check_label(file, said, tally)
    run = Run(
        run_id=stamps.ids(),
        created_at=stamps.created_at(),
        task=Task(
            task_id=f"{file.flavour}/{document.stem}",
            family=f"who-and-when/{file.flavour}",
            question=file.question,
        ),
        system=System(harness=HARNESSES[file.flavour]),
        trajectory=_trajectory(file, said),
        answer=_answer(said, file.flavour),
        native=Native(format=f"who-and-when/{file.flavour}"),
        replaced=replaced,
    )
    outcome = _outcome(file, run.run_id)
    return Imported(run, outcome, (), (), document.label, tally.report())


def _heard(turn: _Turn) -> _Said:
    if turn.name is not None:
        return _Said(turn, turn.name)
    match = _ROLE.fullmatch(turn.role)
    if match is None:
        return _Said(turn, turn.role)
    aside = match["aside"]
    to = aside.removeprefix("-> ").strip() if aside.startswith("-> ") else ""
    return _Said(turn, match["speaker"], aside, to)


def _trajectory(file: _File, said: list[_Said]) -> Trajectory:
    team = _Team()
    for turn in said:
        team.say(turn)
    # An expert with a prompt that never spoke keeps an empty chain, so that its prompt is not lost.
    for name in file.system_prompt:
        team.chains.setdefault(name, [])
    chains = tuple(
        Trajectory(
            schema_version="ATIF-v1.8",
            trajectory_id=name,
            agent=_agent(name, file.system_prompt.get(name)),
            steps=tuple(steps),
        )
        for name, steps in team.chains.items()
    )
    envelope = {
        "actors": [Actor(id=name, traj=name).plain() for name in team.chains],
        "events": [event.plain() for event in team.events],
    }
    return Trajectory(
        schema_version="ATIF-v1.8",
        agent=AgentInfo(name=HARNESSES[file.flavour], version=UNKNOWN_VERSION),
        steps=(),
        subagent_trajectories=chains,
        extra={"epimem": envelope},
    )


def _agent(name: str, prompt: str | None) -> AgentInfo:
    extra = None if prompt is None else {"system_prompt": prompt}
    return AgentInfo(name=name, version=UNKNOWN_VERSION, extra=extra)


def _answer(said: list[_Said], flavour: Flavour) -> Answer:
    """Return the last completed answer that the history shows.

    `hand-crafted`: what follows the last `FINAL ANSWER:`, up to the log lines of the runner, which
    writes it behind the last turn, so that it is no actor's. `algorithm-generated`: the last turn
    of an expert, not a terminal, that says more than TERMINATE, without that word at its end.
    """
    if flavour == "hand-crafted":
        for turn in reversed(said):
            found = [text.strip() for text in _FINAL_ANSWER.findall(turn.turn.content)]
            if any(found):
                text = [text for text in found if text][-1]
                return Answer(text=text, finish_reason="final_answer")
        return Answer()
    reason = "terminate" if _TERMINATE.search(said[-1].turn.content) else ""
    for turn in reversed(said):
        text = _TERMINATE.sub("", turn.turn.content).strip()
        if text and turn.speaker not in _TERMINALS:
            return Answer(text=text, by_actor={turn.speaker: text}, finish_reason=reason)
    return Answer(finish_reason=reason)


def _outcome(file: _File, run_id: str) -> SealedOutcome:
    truth = next((file.labels[key] for key in _TRUTH if key in file.labels), None)
    reference = None if file.ground_truth is None else reference_text(file.ground_truth)
    if not isinstance(truth, bool):
        return SealedOutcome(run_id=run_id, reference=reference, labels=file.labels)
    return SealedOutcome(
        run_id=run_id,
        verdict="right" if truth else "wrong",
        source="oracle",
        reference=reference,
        labels=file.labels,
    )


def _check_label(file: _File, said: list[_Said], tally: FieldTally) -> None:
    """Note a step label that does not point at a turn of the named agent.

    A turn addressed to the agent counts as the agent's, and names are compared without case; both
    are noted under codes of their own.
    """
    agent, step = file.labels.get("mistake_agent"), str(file.labels.get("mistake_step", ""))
    if not isinstance(agent, str) or not step.isdecimal() or int(step) >= len(said):
        if "mistake_step" in file.labels:
            tally.note("label_unreadable", f"step {step[:20]} of {len(said)} turns")
        return
    turn = said[int(step)]
    where = f"step {step} is {turn.turn.name or turn.turn.role!r}, the label names {agent!r}"
    if turn.speaker == agent:
        return
    if turn.speaker.casefold() == agent.casefold():
        tally.note("label_spelling", where)
    elif turn.to.casefold() == agent.casefold():
        tally.note("label_names_recipient", where)
    else:
        tally.note("label_inconsistent", where)


def _count(value: dict[str, Any], tally: FieldTally) -> None:
    for key in value:
        tally.count(key, "mapped")
    for turn in value["history"]:
        for key in turn:
            tally.count(f"history[].{key}", "mapped")
