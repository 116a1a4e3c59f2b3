"""An episode as a run (`epimem-run/1`) and its sealed outcome.

    host     hands out the map
    reader   looks at places of the map, each look a view event with its region, in random order
    counter  says how many stops are left

No text of a run names a shape: which marker was taken as closed stands in a region of the picture only.
The wordings vary from run to run.
"""

from __future__ import annotations

import random

from benchmarks.metro.learner import Episode, Look
from benchmarks.metro.questions import FAMILY, Oracle
from epimem.schema.atif import AgentInfo, ContentPart, ImageSource, Step, Trajectory
from epimem.schema.outcome import Score, SealedOutcome
from epimem.schema.region import Region
from epimem.schema.run import (
    IMAGE_PREFIX,
    Actor,
    Answer,
    Event,
    Page,
    Run,
    StepRef,
    System,
    Task,
)

HARNESS = "metro-reader"
VERSION = "1"
CANARY = "epimem-metro-canary-5d1c9d0e7c1f4a6f"
"""Stands in every sealed reference and may stand nowhere else."""
_TAKEN_AS_CLOSED = (
    (
        "On {operator} maps the stations with the marker shown here are closed: leave them out of the "
        "count."
    ),
    "Leave out the stations with the marker shown here: on {operator} maps they are closed.",
    (
        "The marker shown here means that a station is closed on {operator} maps, so leave those "
        "stations out of the count."
    ),
)
_TAKEN_AS_OPEN = (
    "The marker at {station} looks different; {station} is counted as a stop.",
    "{station} has a marker of its own kind, and the train is taken to stop there.",
    "Count {station}: its marker is an ordinary one.",
)
_FRAME = (
    "The frame of the map is that of {operator}.",
    "By its frame this is a map of {operator}.",
    "The frame says {operator}: read the line from left to right, as on all maps of {operator}.",
)
_FOOT = ("Nothing is printed at the foot of the map.",)
_COUNTED = (
    "From {first} to {last} that leaves {answer} stops.",
    "The train stops {answer} times from {first} to {last}.",
    "Counting from {first} to {last}: {answer} stops.",
)


def run_of(episode: Episode, *, run_id: str, created_at: str) -> Run:
    """Return the run of an episode; the bank must hold the map.

    Args:
        episode: what happened.
        run_id: a new id.
        created_at: UTC, ISO 8601.
    """
    question, drawn = episode.question, episode.question.map
    return Run(
        run_id=run_id,
        created_at=created_at,
        task=Task(
            task_id=f"metro-{question.id}",
            family=FAMILY,
            house=drawn.operator.name,
            question=question.text,
            pages=(
                Page(
                    page=1,
                    image_id=drawn.image_id,
                    width=drawn.frame.width,
                    height=drawn.frame.height,
                ),
            ),
            group=drawn.segment.city,
        ),
        system=System(harness=HARNESS, harness_version=VERSION),
        trajectory=_trajectory(episode),
        answer=Answer(text=episode.answer, finish_reason="submitted"),
    )


def outcome_of(episode: Episode, oracle: Oracle, *, run_id: str) -> SealedOutcome:
    """Return the sealed outcome: right or wrong, and the reference."""
    return SealedOutcome(
        run_id=run_id,
        verdict="right" if episode.right else "wrong",
        source="oracle",
        scores=(
            Score(name="stops", value=int(episode.right), scorer="equal number", source="oracle"),
        ),
        reference=f"{CANARY} {oracle.reference(episode.question.map)}",
    )


def region_of(episode: Episode, look: Look) -> Region:
    """Return the region of the map that a look showed."""
    drawn = episode.question.map
    if look.at == "frame":
        return drawn.frame
    return drawn.foot if look.at == "foot" else drawn.regions[look.at]


def _trajectory(episode: Episode) -> Trajectory:
    drawn = episode.question.map
    page = ImageSource(media_type="image/png", path=f"{IMAGE_PREFIX}{drawn.image_id}")
    asked = (
        ContentPart(type="text", text=episode.question.text),
        ContentPart(type="image", source=page),
    )
    chance = random.Random(f"metro words {episode.stamp}")
    steps, events = [], []
    for number, look in enumerate(episode.looks, 1):
        steps.append(_step(number, 2 * number - 1, _said(episode, look, chance)))
        events.append(_view(episode, look, step=number, seq=2 * number))
    after = 2 * len(episode.looks) + 1
    actors = [Actor(id=name, traj=name, role=name) for name in ("host", "reader", "counter")]
    extra = {"actors": [a.plain() for a in actors], "events": [e.plain() for e in events]}
    return Trajectory(
        schema_version="ATIF-v1.8",
        trajectory_id="host",
        agent=AgentInfo(name="host", version=VERSION),
        steps=(Step(step_id=1, source="user", message=asked, extra=_at(0)),),
        extra={"epimem": extra},
        subagent_trajectories=(
            _chain("reader", tuple(steps)),
            _chain("counter", (_step(1, after, _counted(episode, chance)),)),
        ),
    )


def _said(episode: Episode, look: Look, chance: random.Random) -> str:
    drawn = episode.question.map
    words: tuple[str, ...]
    if look.decisive:
        words = _TAKEN_AS_CLOSED
    elif look.at == "frame":
        words = _FRAME
    elif look.at == "foot":
        words = _FOOT
    else:
        words = _TAKEN_AS_OPEN
    station = drawn.segment.stations[look.at] if isinstance(look.at, int) else ""
    return chance.choice(words).format(operator=drawn.operator.name, station=station)


def _counted(episode: Episode, chance: random.Random) -> str:
    stations = episode.question.map.segment.stations
    words = chance.choice(_COUNTED)
    return words.format(first=stations[0], last=stations[-1], answer=episode.answer)


def _view(episode: Episode, look: Look, *, step: int, seq: int) -> Event:
    return Event(
        seq=seq,
        kind="view",
        sender="reader",
        step_ref=StepRef(traj="reader", step=step),
        page=1,
        region=region_of(episode, look),
    )


def _chain(name: str, steps: tuple[Step, ...]) -> Trajectory:
    return Trajectory(
        schema_version="ATIF-v1.8",
        trajectory_id=name,
        agent=AgentInfo(name=name, version=VERSION),
        steps=steps,
    )


def _step(number: int, seq: int, text: str) -> Step:
    return Step(step_id=number, source="agent", message=text, extra=_at(seq))


def _at(seq: int) -> dict[str, dict[str, int]]:
    return {"epimem": {"seq": seq}}
