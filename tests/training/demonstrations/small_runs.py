"""Small runs of made-up houses with sealed references, and teachers that follow a script."""

from __future__ import annotations

import io
import json

from PIL import Image

from epimem.schema.ids import image_id
from epimem.testing import ScriptedMemoryController, ScriptedTreeOrganizer
from training.demonstrations.asking import Controllers

HOUSES = ("Rubra", "Azul", "Orio")
MARKS = {"Rubra": "white triangles", "Azul": "hatched bars", "Orio": "amounts in brackets"}


def reference_of(house, number):
    """A reference that stands nowhere else: a canary."""
    return f"CANARY-{house}-{number}"


def picture(number=0):
    made = Image.new("RGB", (40, 30), (number * 7 % 256, 90, 30))
    made.putpixel((3, 4), (250, 250, 250))
    buffer = io.BytesIO()
    made.save(buffer, format="PNG")
    name = image_id(40, 30, made.tobytes())
    return buffer.getvalue(), {"page": 1, "image_id": name, "width": 40, "height": 30}


def run_of(house, number, *, attempt=1, answer=None, page=None, **task):
    """A run of a question of a house; attempts of one question differ in their answer."""
    said = answer or f"I counted {number} of them, attempt {attempt}."
    return {
        "schema": "epimem-run/1",
        "run_id": f"{house}-{number}-{attempt}",
        "created_at": f"2026-01-01T00:00:{attempt:02d}Z",
        "task": {
            "task_id": f"{house}-{number}",
            "house": house,
            "family": "counting",
            "question": f"How many {MARKS.get(house, 'marks')} count on {house} page {number}?",
            "pages": [page] if page else [],
            **task,
        },
        "system": {"harness": "test"},
        "trajectory": {
            "schema_version": "ATIF-v1.8",
            "agent": {"name": "solver", "version": "1"},
            "steps": [
                {
                    "step_id": 1,
                    "source": "agent",
                    "message": f"I looked at the {MARKS.get(house, 'marks')}. {said}",
                    "extra": {"epimem": {"seq": 0}},
                }
            ],
        },
        "answer": {"text": said},
    }


def pair_of(house, number, *, verdict="wrong", **more):
    run = run_of(house, number, **more)
    outcome = {
        "run_id": run["run_id"],
        "verdict": verdict,
        "source": "oracle",
        "reference": reference_of(house, number),
    }
    return {"run": run, "outcome": outcome}


def write_runs(path, *pairs):
    path.write_text("".join(json.dumps(pair) + "\n" for pair in pairs), encoding="utf-8")
    return path


def nothing(*_):
    """Progress that nobody looks at."""


def scripted(*, deadline_s=30.0, organizer=None, **scripts):
    """A teacher whose roles follow functions; the defaults are lawful and sound."""
    scripts = {"derive": lesson_of_the_house, "update": notes, **scripts}
    return Controllers(
        ScriptedMemoryController(**scripts),
        ScriptedTreeOrganizer(**(organizer or {})),
        deadline_s,
    )


def lesson_of_the_house(request):
    from epimem.protocols import Derived
    from epimem.schema.lesson import IndexText, LessonDraft

    task = request.run.task
    house = task.house
    return Derived(
        (
            LessonDraft(
                polarity="negative" if request.verdict == "wrong" else "positive",
                guidance=f"On {house} pages check {MARKS.get(house, 'marks')} again.",
                applies_when=f"{house} pages with marks, seen on page {task.task_id}",
                title=f"{house}: marks",
                index=IndexText(
                    topic="marks that count",
                    scope=f"{house} pages",
                    question_anchor=f"How many {MARKS.get(house, 'marks')} count on a {house} page?",
                ),
            ),
        )
    )


def notes(request):
    from epimem.schema.working_memory import Update

    return Update(guidance=f"After attempt {request.attempt}: look at the marks again.")
