from __future__ import annotations

from typing import Any

import pytest

from controllers.prompts import OPERATIONS, Refused
from controllers.replies.shape import Notes, shaped
from tests.controllers.prompts import samples

SCHEMAS = {name: OPERATIONS[name].render(make()).schema for name, make in samples.REQUESTS.items()}


def shape(name: str, data: Any) -> tuple[dict[str, Any], list[str]]:
    notes = Notes()
    return shaped(data, SCHEMAS[name], notes), list(notes)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_good_reply_stays_as_it_is(name: str) -> None:
    reply = samples.REPLIES[name]
    assert shape(name, reply) == (reply, [])


@pytest.mark.parametrize(
    ("name", "data", "result", "note"),
    [
        ("gate", {"Gate": 1}, {"gate": 1}, "read Gate as gate"),
        ("gate", {"gate": 1, "reason": "x"}, {"gate": 1}, "left out reason"),
        ("gate", {"gate": "1"}, {"gate": 1}, "a number in quotes"),
        ("gate", {"gate": True}, {"gate": 1}, "true or false for 1 or 0"),
        ("gate", {"gate": 1.0}, {"gate": 1}, "a whole number with a point"),
        ("gate", {"gate": {"gate": 1}}, {"gate": {"gate": 1}}, None),
        ("gate", {"answer": {"gate": 1}}, {"gate": 1}, "took off the object around it"),
        ("gate", [{"gate": 1}], {"gate": 1}, "took off the list around it"),
        ("merge", {"merge": "true"}, {"merge": True}, "a word for true or false"),
        ("merge", {"merge": "No"}, {"merge": False}, "a word for true or false"),
        ("merge", {"merge": 0}, {"merge": False}, "1 or 0 for true or false"),
        ("merge", {"merge": 2}, {"merge": 2}, None),
        ("merge", {"merge": "maybe"}, {"merge": "maybe"}, None),
        ("merge", {"title": None}, {"title": ""}, "null for an empty text"),
        ("merge", {"title": 5}, {"title": 5}, None),
        ("merge", {"title": "none"}, {"title": "none"}, None),
        ("place", {"category": "c1"}, {"category": "C1"}, "a name in another spelling"),
        ("place", {"category": "[C1]"}, {"category": "C1"}, "a name in another spelling"),
        ("place", {"category": "none"}, {"category": None}, "a word for null"),
        ("place", {"category": "C9"}, {"category": "C9"}, None),
        ("place", {"category": "C1 or C2"}, {"category": "C1 or C2"}, None),
        ("place", {"category": "\u04211"}, {"category": "\u04211"}, None),  # Cyrillic
        (
            "derive",
            {"lessons": [{"polarity": "po\u017fitive"}]},  # a long s
            {"lessons": [{"polarity": "po\u017fitive"}]},
            None,
        ),
        ("place", {"category": "C1\x00"}, {"category": "C1\x00"}, None),
        ("place", {"new": {"Title": "a"}}, {"new": {"title": "a"}}, "read Title as title"),
        ("place", {"new": {"title": "a", "id": 1}}, {"new": {"title": "a"}}, "left out id"),
        ("select", {"rules": "R1"}, {"rules": ["R1"]}, "one item in place of a list"),
        ("select", {"rules": None}, {"rules": []}, "a word for an empty list"),
        ("select", {"rules": "none"}, {"rules": []}, "a word for an empty list"),
        ("select", {"rules": ["r1"]}, {"rules": ["R1"]}, "a name in another spelling"),
        (
            "split_lift",
            [{"children": ["N1"]}],
            {"parts": [{"children": ["N1"]}]},
            "a list in place of parts",
        ),
    ],
)
def test_spellings_of_the_same_are_brought_into_shape(
    name: str, data: Any, result: Any, note: str | None
) -> None:
    assert shape(name, data) == (result, [note] if note else [])


@pytest.mark.parametrize(
    "data", [{}, {"thoughts": "x"}, [], [1, 2], "gate", 1, None, {"a": {"b": 1}}]
)
def test_an_object_without_any_known_field_is_refused(data: Any) -> None:
    with pytest.raises(Refused) as caught:
        shape("gate", data)
    assert caught.value.reason == "schema"


def test_two_inner_objects_are_not_chosen_between() -> None:
    with pytest.raises(Refused):
        shape("gate", {"first": {"gate": 1}, "second": {"gate": 0}})


def test_unknown_fields_are_counted_and_named_shortly() -> None:
    notes = Notes()
    shaped({"gate": 1, **{f"x{at}\n": at for at in range(20)}}, SCHEMAS["gate"], notes)
    assert notes.unknown == 20
    assert next(iter(notes)) == "left out x0\\n"
    assert len(list(notes)) == 8


def test_nothing_is_added() -> None:
    assert shape("consolidate", {"guidance": "x"})[0] == {"guidance": "x"}
