from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.embedded.presence import excludes, presences


def said(text: str) -> dict[str, bool]:
    return {item.thing: item.there for item in presences(text)}


@pytest.mark.parametrize(
    ("text", "thing", "there"),
    [
        ("Charts without a legend.", "legend", False),
        ("Charts with no legend", "legend", False),
        ("The chart has no legend.", "legend", False),
        ("There is no legend on the page.", "legend", False),
        ("The legend is missing.", "legend", False),
        ("In this chart no legend is given.", "legend", False),
        ("The legend is not printed here.", "legend", False),
        ("The chart doesn't show a legend.", "legend", False),
        ("A chart that lacks a legend", "legend", False),
        ("Charts with a legend", "legend", True),
        ("The chart comes with a printed legend of colours.", "legend", True),
        ("There is a legend on the page.", "legend", True),
        ("A legend is printed on the page.", "legend", True),
        ("The legend isn't missing.", "legend", True),
        ("Invoices that bear a stamp", "stamp", True),
        ("Statements that do not carry a stamp", "stamp", False),
    ],
)
def test_having_and_lacking_are_told_apart(text: str, thing: str, *, there: bool) -> None:
    assert said(text) == {thing: there}


@pytest.mark.parametrize(
    "text",
    [
        "What is the total of the year?",
        "Charts with or without a legend",
        "Charts without or with a legend",
        "Does the page have a stamp?",
        "Is there a legend?",
        "",
    ],
)
def test_what_says_neither_says_nothing(text: str) -> None:
    assert not presences(text)


@pytest.mark.parametrize(
    "text",
    [
        "Not for charts with a legend.",
        "All charts, unless the chart has a legend.",
        "Charts of this house, except where a legend is printed.",
        "It does not apply where there is a legend.",
    ],
)
def test_an_exception_turns_round_what_it_names(text: str) -> None:
    assert said(text) == {"legend": False}


def test_an_exception_ends_with_its_sentence() -> None:
    assert said("Not for pages with a seal. The chart has a legend.") == {
        "seal": False,
        "legend": True,
    }


@pytest.mark.parametrize(
    ("conditions", "question"),
    [
        ("Bar charts without data labels", "What is the total? The chart has data labels."),
        ("Letters that bear a stamp", "Who signed this letter, which is printed without a stamp?"),
        ("Ledgers in which no currency is given", "The currency is given. What was paid?"),
        ("Questions like: What does the axis show? The scale is missing.", "A scale is drawn."),
    ],
)
def test_contrary_conditions_exclude_either_way(conditions: str, question: str) -> None:
    assert excludes([conditions], question)
    assert excludes([question], conditions)


@pytest.mark.parametrize(
    ("conditions", "question"),
    [
        ("Bar charts without data labels", "What is the total? The chart has no data labels."),
        ("Bar charts without data labels", "What is the total?"),
        ("Bar charts without data labels", "The chart has a title."),
        ("Bar charts without a colour legend", "The chart has a size legend."),
        ("Charts without a legend, some with a legend", "The chart has a legend."),
        ("Charts without a legend", "One page has a legend, the other has no legend."),
    ],
)
def test_other_things_and_doubt_exclude_nothing(conditions: str, question: str) -> None:
    assert not excludes([conditions], question)


def test_a_bare_noun_stands_for_every_kind_of_it() -> None:
    assert excludes(["Charts without a legend"], "The chart has a colour legend.")


@given(st.text(max_size=200))
def test_any_text_is_read_and_excludes_itself_never(text: str) -> None:
    assert not excludes([text], text)
