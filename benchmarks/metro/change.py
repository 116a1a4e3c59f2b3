"""An operator changes its convention: what becomes of the rule that was learned before.

The host goes on working with the bank. For each new map it retrieves, leaves out what memory shows, and
tells the bank what came of it by `feedback`: the verdict, and where leaving the marker out made the
count wrong, that the guidance was contradicted. Then the learner's run of that map is handed in. The
bank is organized after each `ROUND` maps. Nothing of it goes past the public interface.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.metro.asking import BUDGET
from benchmarks.metro.banks import builder, contribute, organize
from benchmarks.metro.learner import Episode
from benchmarks.metro.measures import rules_for
from benchmarks.metro.questions import FAMILY, Oracle, Question
from benchmarks.metro.reading import read_map, with_mistakes
from benchmarks.metro.solving import closed_marker, saying_closed
from epimem import ExperienceMemory
from epimem.evaluation.handout import Handout, handout

ROUND = 5


@dataclass
class Course:
    """What happened: contradictions reported until the old rule was none any more, None if it stayed."""

    hurt: int = 0
    lost_after: int | None = None


def going_on(
    before: tuple[Sequence[Episode], Oracle],
    after: tuple[Sequence[Episode], Oracle],
    operator: str,
    written: Path,
    *,
    rate: float,
    tells: bool = True,
) -> Callable[[ExperienceMemory], None]:
    """Return the function that fills a bank with episodes of before and after the change.

    Args:
        before: episodes and oracle of the old convention, of all operators.
        after: of the new one, of the operator that changed.
        operator: the one that changed.
        written: takes what happened, as JSON, when the bank is complete.
        rate: of misread markers.
        tells: whether the host gives feedback; without, the runs alone are handed in.
    """

    def make(memory: ExperienceMemory) -> None:
        builder(*before)(memory)
        course = Course()
        old = {node.node_id for node in rules_for(memory, operator)}
        episodes, oracle = after
        for start in range(0, len(episodes), ROUND):
            for episode in episodes[start : start + ROUND]:
                if tells:
                    course.hurt += _use(memory, episode.question, oracle, rate=rate)
                    standing = {node.node_id for node in rules_for(memory, operator)}
                    if course.lost_after is None and old and not old & standing:
                        course.lost_after = course.hurt
                contribute(memory, [episode], oracle)
            organize(memory)
        written.write_text(json.dumps(vars(course)), encoding="utf-8")

    return make


def ask(memory: ExperienceMemory, question: Question) -> Handout:
    """Retrieve for a question, as the host does."""
    answer = memory.retrieve(
        question.text, images=(question.map.image_id,), family=FAMILY, budget=BUDGET
    )
    return handout(memory, answer, 0.0)


def _use(memory: ExperienceMemory, question: Question, oracle: Oracle, *, rate: float) -> bool:
    """Answer a question with memory and tell what came of it; return whether memory was contradicted."""
    given = ask(memory, question)
    closed = closed_marker(given)
    if closed is None:
        return False
    reading = with_mistakes(read_map(question.map.pixels), rate=rate, stamp=f"use {question.id}")
    right = oracle.right(question.map, str(reading.stops(closed)))
    shown = {crop.node_id for crop in given.input.crops} if closed in reading.markers else set()
    named = {item.node_id: item.guidance for item in saying_closed(given) if item.node_id in shown}
    memory.feedback(
        given.input.retrieval_id,
        verdict="right" if right else "wrong",
        source="oracle",
        helped=tuple(named) if right else (),
        hurt={} if right else named,
    )
    return bool(named) and not right
