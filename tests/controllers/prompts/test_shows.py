"""What a model gets to see, by operation: each row is a piece of the user message."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controllers.prompts import OPERATIONS
from epimem.schema.working_memory import WorkingMemory
from tests.controllers.prompts import samples

ROWS = [
    ("derive", '"question": "How many stops from A to B? "'),
    ("derive", '"family": "metro"'),
    ("derive", '"scope": "metro, Norden"'),
    ("derive", '"text": "Turn 2: "'),
    ("derive", '"looked at": "P2 box [91, 34, 270, 83]"'),
    ("derive", '{"answer": "nine "}'),
    ("derive", "Verdict on the answer: right; source: oracle."),
    ("update", '"question": "How many stops? "'),
    ("update", '"guidance": "look at the legend "'),
    ("update", '"applies_when": "on page 1 "'),
    ("update", '"cautions": ["not the frame "]'),
    ("update", '"evidence": "P1 box [10, 20, 30, 40]", "evidence shows": "x ", "gate": 0'),
    ("update", "Image E1: the evidence that the notes hold, 40 x 30 pixels."),
    ("update", '"text": "Turn 0: "'),
    ("update", '{"answer": "nine "}'),
    ("update", "This was attempt 2; 3 more may follow."),
    ("update", "gate is 1 when the next attempt should see a crop"),
    ("gate", '"question": "How many stops? "'),
    ("gate", "Images of the question itself: 2."),
    ("gate", '"title": "markers ", "guidance": "count filled ones ", "applies_when": "metro "'),
    ("gate", '"cautions": ["rings "], "crops": 2, "crops show": ["a ring "]'),
    ("place", '"id": "lesson", "title": "markers", "topic": "markers", "scope": "metro, Norden"'),
    ("place", '"question_anchor": "How many stops? ", "guidance": "Count filled markers only 99 "'),
    ("place", '"applies_when": "Norden maps ", "cautions": ["rings are closed ", "short lines "]'),
    ("place", '{"id": "C2", "title": "markers"'),
    ("place", '"g": "G2", "lessons": 3, "likeness": 0.8}'),
    ("place", '{"id": "lesson of C2", "title": "markers"'),
    ("merge", '{"id": "first", "title": "markers"'),
    ("merge", '{"id": "second", "title": "markers"'),
    ("merge", "lessons of the first, 2 of 2>>"),
    ("merge", '"guidance": "Count filled markers only 101 "'),
    ("merge", "Likeness of their least alike lessons: 0.91 of 1."),
    ("split_lift", '{"id": "group", "title": "markers"'),
    ("split_lift", '{"id": "N8", "title": "markers"'),
    ("split_lift", "Deal all 8 children, N1 to N8, into 2 or more parts of 4 to 7 children each."),
    ("consolidate", '{"id": "category", "kind": "rule", "title": "markers"'),
    ("consolidate", '"guidance": "Count filled markers ", "applies_when": "metro maps "'),
    ("consolidate", '{"one": "count all ", "other": "count filled "}'),
    ("consolidate", '{"id": "L3", "title": "markers"'),
    ("consolidate", '"questions": 1}'),
    ("select", '{"question": "How many stops? ", "family": "metro "}'),
    ("select", '{"id": "R1", "kind": "rule", "title": "markers"'),
    ("select", '{"id": "R2", "kind": "summary"'),
    ("select", '{"id": "L2", "title": "markers"'),
    ("select", '"short lines "], "family": "metro "}'),
    ("select", '"not settled": [{"one": "count all ", "other": "count filled "}]'),
    ("select", "at most 3 rules, at most one lesson; nothing where nothing applies."),
]


@pytest.mark.parametrize(("name", "piece"), ROWS)
def test_a_prompt_shows(name: str, piece: str) -> None:
    assert piece in OPERATIONS[name].render(samples.REQUESTS[name]()).messages[1].text


@pytest.mark.parametrize("verdict", ["right", "wrong", "unknown"])
def test_the_verdict_is_said_by_code_and_changes_what_is_asked(verdict: str) -> None:
    text = OPERATIONS["derive"].render(samples.derive(verdict=verdict)).messages[1].text
    assert f"Verdict on the answer: {verdict}; source: oracle." in text
    assert ("every polarity negative" in text) == (verdict == "wrong")


def test_a_memory_without_notes_is_said_to_be_empty() -> None:
    request = replace(samples.update(held=False), memory=WorkingMemory())
    text = OPERATIONS["update"].render(request).messages[1].text
    assert "There are no notes yet." in text
    assert "notes so far>>" not in text
    assert "notes yet" not in OPERATIONS["update"].render(samples.update()).messages[1].text


def test_a_trace_may_be_a_text() -> None:
    request = replace(samples.update(), trace="I looked twice.\nNine.")
    text = OPERATIONS["update"].render(request).messages[1].text
    assert '{"transcript": "I looked twice.\\nNine."}' in text


def test_evidence_on_a_page_that_is_not_shown_is_said_to_be_elsewhere() -> None:
    request = replace(samples.update(), pages=samples.PAGES[1:])
    text = OPERATIONS["update"].render(request).messages[1].text
    assert '"evidence": "an image that is not shown box [10, 20, 30, 40]"' in text


def test_what_a_request_forbids_the_last_line_forbids() -> None:
    strict = OPERATIONS["select"].render(samples.select(strict=True)).messages[1].text
    assert strict.endswith("not both rules and a lesson; nothing where nothing applies.")
    no_lesson = replace(samples.select(), max_lessons=0)
    assert "lesson null; nothing" in OPERATIONS["select"].render(no_lesson).messages[1].text
    no_category = OPERATIONS["place"].render(samples.place(categories=0)).messages[1].text
    assert "No category is near: open a new one." in no_category
