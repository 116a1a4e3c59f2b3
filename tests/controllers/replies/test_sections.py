from __future__ import annotations

from typing import Any

import pytest

from controllers.prompts import OPERATIONS
from controllers.replies.sections import instructions, leaves, read_sections
from controllers.replies.shape import Notes, shaped
from tests.controllers.prompts import samples

SCHEMAS = {name: OPERATIONS[name].render(make()).schema for name, make in samples.REQUESTS.items()}


def told(value: Any, schema: Any, path: str = "") -> list[str]:
    """Write a reply in sections, as the instructions ask for it: an independent writer."""
    if "anyOf" in schema:
        schema = schema["anyOf"][0]
    lines: list[str] = []
    if isinstance(value, dict):
        for name, item in value.items():
            inner = schema["properties"][name]
            lines += told(item, inner, f"{path} {name.replace('_', ' ').upper()}")
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for at, item in enumerate(value, 1):
            lines += told(item, schema["items"], f"{path} {at}")
    elif isinstance(value, list):
        lines = [f"##{path}", ", ".join(map(str, value)) or "none"]
    elif isinstance(value, bool):
        lines = [f"##{path}", "yes" if value else "no"]
    else:
        lines = [f"##{path}", "none" if value in (None, "") else str(value)]
    return lines


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_is_said_in_sections(name: str) -> None:
    request = samples.REQUESTS[name]()
    reply = samples.REPLIES[name]
    text = "\n".join(told(reply, SCHEMAS[name]))
    data = read_sections(text, SCHEMAS[name])
    notes = Notes()
    found = OPERATIONS[name].parse(request, shaped(data, SCHEMAS[name], notes))
    assert found == OPERATIONS[name].parse(request, reply)


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_field_is_asked_for_once(name: str) -> None:
    text = instructions(SCHEMAS[name])
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert len(headings) == len(set(headings)) == len(leaves(SCHEMAS[name])) > 0
    assert "{" not in text


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_instructions_themselves_say_nothing(name: str) -> None:
    data = read_sections(instructions(SCHEMAS[name]), SCHEMAS[name])
    assert data == {}


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("## RULES\nR1, R2\n## LESSON\nL1", {"rules": ["R1", "R2"], "lesson": "L1"}),
        ("## Rules\n- R1\n- R2\n## Lesson\nnone", {"rules": ["R1", "R2"], "lesson": None}),
        ("##RULES: R1\n##LESSON: L1", {"rules": ["R1"], "lesson": "L1"}),
        ("**Rules:** R1 and R2\n**Lesson:** None.", {"rules": ["R1", "R2"], "lesson": None}),
        ("RULES: none\nLESSON: L2", {"rules": [], "lesson": "L2"}),
        ("### Selected rules\nR1\n### Lesson id\nL1", {"rules": ["R1"], "lesson": "L1"}),
        ('Well:\n## RULES\nR1\n## RULES\nR2\n## LESSON\n"L1"', {"rules": ["R1"], "lesson": "L1"}),
        ("## RULES\nR1\n## Why\nR2 is old\n## LESSON\nL1", {"rules": ["R1"], "lesson": "L1"}),
        (
            "## RULES\nR1\nLesson: is this one?\n## LESSON\nL1",
            {"rules": ["R1", "Lesson:", "is", "this", "one?"], "lesson": "L1"},
        ),
    ],
)
def test_headings_in_several_styles(text: str, data: dict) -> None:
    assert read_sections(text, SCHEMAS["select"]) == data


@pytest.mark.parametrize(
    "text", ["", "rules R1", "I would choose R1.", '{"rules": ["R1"]}', "## Answer\nR1"]
)
def test_prose_has_no_sections(text: str) -> None:
    assert read_sections(text, SCHEMAS["select"]) is None


def test_an_empty_section_says_nothing() -> None:
    text = "## RULES\n### no\n\nR1\n## LESSON\nL1"
    assert read_sections(text, SCHEMAS["select"]) == {"lesson": "L1"}
    assert read_sections("## RULES\n\n## LESSON\n", SCHEMAS["select"]) == {}


def test_a_hint_under_another_heading_says_nothing() -> None:
    hints = "<some of L1, L2, L3, or none>", "`<a text, or none>`"
    text = "## GUIDANCE\n{}\n## TITLE\n{}\n## SUPPORTED BY\nL1".format(*hints)
    assert read_sections(text, SCHEMAS["consolidate"]) == {"supported_by": ["L1"]}


def test_an_object_with_nothing_in_it_is_none() -> None:
    text = "## TITLE\nmarks\n## INDEX TOPIC\nnone\n## INDEX SCOPE\nNone."
    assert read_sections(text, SCHEMAS["consolidate"]) == {"title": "marks", "index": None}


def test_entries_of_a_list_are_numbered() -> None:
    text = "## PARTS 2 CHILDREN\nN2\n## PARTS 1 CHILDREN\nN1\n## PARTS 1 TITLE\nodd"
    assert read_sections(text, SCHEMAS["split_lift"]) == {
        "parts": [{"children": ["N1"], "title": "odd"}, {"children": ["N2"]}]
    }


def test_a_text_keeps_its_lines_and_loses_its_quotes() -> None:
    text = '## GUIDANCE\n"Count.\nThen check."\n## CAUTIONS\n1. One.\n- Two.\n## STOP\nyes'
    data = read_sections(text, SCHEMAS["update"])
    assert data == {"guidance": "Count.\nThen check.", "cautions": ["One.", "Two."], "stop": "yes"}
