"""Episodes: one page, one question, and what a reader did on it, as a run (`epimem-run/1`).

host     hands out the page
reader   looks at places of the page in random order; at one of them it takes a mark for the one
         with the meaning
solver   gives the answer that follows
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from epimem.schema.atif import AgentInfo, ContentPart, ImageSource, Step, Trajectory
from epimem.schema.region import Region
from epimem.schema.run import (
    IMAGE_PREFIX,
    Actor,
    Answer,
    Event,
    Run,
    StepRef,
    System,
    Task,
)
from epimem.schema.run import Page as RunPage
from training.worlds.page import Page
from training.worlds.wordings import Words

HARNESS = "world-reader"
VERSION = "1"
CREATED_AT = "2026-01-01T00:00:00.000+00:00"
NAMED, SHOWN_BOXES = 0.5, 0.6
"""Shares (ours) of runs that name the mark, and of runs whose views say where they looked."""
_HEADER = ("The head says {house}.", "This page is by {house}.", "By its head: {house}.")
_SPARE = ("Nothing is printed here.", "This corner is empty.")
_PLAIN = ("A plain one; it counts as it stands.", "Nothing special about this one.")
_OTHER = (
    "Another mark; it is taken as an ordinary one.",
    "This one differs, but it counts as usual.",
)
_ANSWERED = ("The answer is {answer}.", "That gives {answer}.", "So: {answer}.")
_READ_OFF = (
    "The head of the page names it: {house}.",
    "It is printed at the top: {house}.",
)
_WHOSE = ("Who published this {page}?", "Which house is this {page} by?")


@dataclass(frozen=True)
class Look:
    """A look at a region of the page, and what was said of it."""

    region: Region
    text: str
    decisive: bool = False


@dataclass(frozen=True, eq=False)
class Episode:
    """What happened on a page.

    Attributes:
        words: of topic and house.
        page: that was looked at.
        question: as it was asked.
        assumed: the option taken for the one with the meaning; None: the run teaches nothing.
        named: whether the words of the run name the mark.
        looks: in order.
        answer: that was given.
        run: the record.
    """

    words: Words
    page: Page
    question: str
    assumed: str | None
    named: bool
    looks: tuple[Look, ...]
    answer: str
    run: Run

    @property
    def right(self) -> bool:
        """Whether the answer is the one of the house's own convention."""
        return self.assumed is None or self.answer == self.page.answer()

    @property
    def decisive(self) -> Look:
        """The look at the mark that the answer rests on."""
        return next(look for look in self.looks if look.decisive)

    @property
    def decisive_seq(self) -> int:
        """The `seq` of the turn that says what the mark means."""
        return 1 + 2 * self.looks.index(self.decisive)

    @property
    def verdict(self) -> Literal["right", "wrong"]:
        """What an oracle says of the answer."""
        return "right" if self.right else "wrong"

    @property
    def shown_option(self) -> str | None:
        """The option as words may have it: None where the run leaves it to the picture."""
        return self.assumed if self.named else None


def solve(
    words: Words,
    page: Page,
    chance: random.Random,
    *,
    assumed: str,
    run_id: str,
    group: str,
    named: bool | None = None,
) -> Episode:
    """Return the episode of a reader who takes an option for the one with the meaning.

    Args:
        words: of topic and house.
        page: with a mark of that option on it.
        chance: of looks and words.
        assumed: the option.
        run_id: of the run.
        group: of the task.
        named: whether the run names the mark; None: by chance.
    """
    named = chance.random() < NAMED if named is None else named
    said = words.said(chance, assumed if named else None)
    decisive = Look(chance.choice(page.marked(assumed)).region, said, decisive=True)
    looks = [decisive, *_other_looks(page, chance, decisive.region)]
    chance.shuffle(looks)
    answer = page.answer(assumed)
    question = words.question(chance, page.subject)
    final = chance.choice(_ANSWERED).format(answer=answer)
    run = _run(page, words, question, looks, final, answer, chance, run_id=run_id, group=group)
    return Episode(words, page, question, assumed, named, tuple(looks), answer, run)


def read_off(
    words: Words, page: Page, chance: random.Random, *, run_id: str, group: str
) -> Episode:
    """Return the episode of a question whose answer is printed: it teaches nothing."""
    house = page.house.name
    question = chance.choice(_WHOSE).format(page=words.world.page)
    said = chance.choice(_READ_OFF).format(house=house)
    looks = [Look(page.header, said, decisive=True), Look(page.spare, chance.choice(_SPARE))]
    final = chance.choice(_ANSWERED).format(answer=house)
    run = _run(page, words, question, looks, final, house, chance, run_id=run_id, group=group)
    return Episode(
        words, page, question, None, named=True, looks=tuple(looks), answer=house, run=run
    )


def _other_looks(page: Page, chance: random.Random, decisive: Region) -> list[Look]:
    header = chance.choice(_HEADER).format(house=page.house.name)
    found = [Look(page.header, header), Look(page.spare, chance.choice(_SPARE))]
    others = [mark for mark in page.marks if mark.region != decisive]
    if others:
        mark = chance.choice(others)
        found.append(Look(mark.region, chance.choice(_OTHER if mark.option else _PLAIN)))
    return found


def _run(
    page: Page,
    words: Words,
    question: str,
    looks: Sequence[Look],
    final: str,
    answer: str,
    chance: random.Random,
    *,
    run_id: str,
    group: str,
) -> Run:
    picture = page.picture
    with_boxes = chance.random() < SHOWN_BOXES
    return Run(
        run_id=run_id,
        created_at=CREATED_AT,
        task=Task(
            task_id=f"{words.world.name}-{run_id}",
            family=words.world.family,
            house=words.house,
            question=question,
            pages=(
                RunPage(
                    page=1,
                    image_id=picture.image_id,
                    width=picture.width,
                    height=picture.height,
                ),
            ),
            group=group,
        ),
        system=System(harness=HARNESS, harness_version=VERSION),
        trajectory=_trajectory(picture.image_id, question, looks, final, with_boxes=with_boxes),
        answer=Answer(text=answer, finish_reason="submitted"),
    )


def _trajectory(
    image_id: str, question: str, looks: Sequence[Look], final: str, *, with_boxes: bool
) -> Trajectory:
    source = ImageSource(media_type="image/png", path=f"{IMAGE_PREFIX}{image_id}")
    asked = (
        ContentPart(type="text", text=question),
        ContentPart(type="image", source=source),
    )
    steps, events = [], []
    for number, look in enumerate(looks, 1):
        steps.append(_step(number, 2 * number - 1, look.text))
        events.append(
            Event(
                seq=2 * number,
                kind="view",
                sender="reader",
                step_ref=StepRef(traj="reader", step=number),
                page=1,
                region=look.region if with_boxes else None,
            )
        )
    actors = [Actor(id=name, traj=name, role=name) for name in ("host", "reader", "solver")]
    extra = {"actors": [a.plain() for a in actors], "events": [e.plain() for e in events]}
    return Trajectory(
        schema_version="ATIF-v1.8",
        trajectory_id="host",
        agent=AgentInfo(name="host", version=VERSION),
        steps=(Step(step_id=1, source="user", message=asked, extra=_at(0)),),
        extra={"epimem": extra},
        subagent_trajectories=(
            _chain("reader", tuple(steps)),
            _chain("solver", (_step(1, 2 * len(looks) + 1, final),)),
        ),
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
