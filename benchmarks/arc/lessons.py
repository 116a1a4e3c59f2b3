"""What the runs of the ARC bench teach: the program, and the output grid that it reproduces."""

from __future__ import annotations

import random

from benchmarks.arc.picture import Picture as Drawn
from benchmarks.arc.programs import Program
from benchmarks.arc.run_record import FAMILY, run_of
from benchmarks.arc.solving import Attempt
from benchmarks.arc.tasks import describe, house
from controllers.prompts import OPERATIONS
from controllers.prompts.trace import shown_pages, transcript
from epimem.protocols import Derived, DeriveRequest
from epimem.schema.lesson import IndexText
from epimem.schema.run import interleave
from training.worlds.page import picture_of

CREATED_AT = "2026-01-01T00:00:00Z"
CONDITION = "Tasks of the class “{house}” that look like this one"
COMMON = "On tasks like these, {program}."
_GUIDANCE = (
    COMMON,
    "Try this program first: {program}.",
    "The demonstrations of such a task are reproduced when you {program}.",
)
_WRONG = (
    "Judged wrong: “{program}” reproduced the demonstrations, but not the test. Check it again first.",
    "A run that chose “{program}” was judged wrong; look for another program.",
)
_NOTHING = "The search found no program for the task."
_NOTE = "the first output, which the program must reproduce"


def derive_request(
    attempt: Attempt, drawn: Drawn, *, run_id: str, batch: tuple[str, ...]
) -> DeriveRequest:
    """Return the request for the run of an attempt, judged by the oracle."""
    from PIL import Image

    return DeriveRequest(
        run=run_of(attempt, drawn, run_id=run_id, created_at=CREATED_AT),
        verdict="right" if attempt.right else "wrong",
        verdict_source="oracle",
        batch=batch,
        pages=(picture_of(Image.fromarray(drawn.pixels), page=1),),
    )


def derived(
    request: DeriveRequest, attempt: Attempt, drawn: Drawn, chance: random.Random
) -> Derived:
    """Return the lesson of an attempt, or that there is none where no program was found."""
    if attempt.stated is None:
        return Derived((), nothing=_NOTHING)
    program = attempt.stated.text
    said = chance.choice(_GUIDANCE if attempt.right else _WRONG).format(program=program)
    lesson = {
        "polarity": "positive" if attempt.right else "negative",
        "guidance": said,
        "applies_when": CONDITION.format(house=house(attempt.task)),
        "cautions": [],
        "title": title_of(attempt.stated),
        **index_of(attempt).model_dump(),
        "evidence": [
            {
                "image": "P1",
                "box": list(drawn.outputs[0].to_scaled()),
                "note": _NOTE,
                "turn": _turn(request, program),
            }
        ],
    }
    found = OPERATIONS["derive"].parse(request, {"lessons": [lesson], "nothing": ""})
    assert isinstance(found, Derived)
    return found


def title_of(program: Program) -> str:
    """Return the name of a lesson, and of the category of lessons on this program."""
    return "program " + ", ".join(program.operations)


def index_of(attempt: Attempt) -> IndexText:
    """Return the index text: the words in which the task is described, and its class."""
    task = attempt.task
    return IndexText(
        topic=f"{FAMILY}: programs",
        scope=f"{FAMILY}, {house(task)}",
        question_anchor=describe(task),
    )


def _turn(request: DeriveRequest, program: str) -> str:
    """Return the alias of the turn that names the program first."""
    turn = next(turn for turn in interleave(request.run) if program in turn.text)
    return transcript(request.run, shown_pages(request.pages, request.run)).alias(turn.seq)
