from __future__ import annotations

from typing import Any

import pytest

from controllers.replies.objects import members_of, objects_of
from controllers.replies.thinking import without_thinking

NO_WORDS: frozenset[str] = frozenset()


def found(text: str, **more: Any) -> list[Any]:
    return [item.data for item in objects_of(text, NO_WORDS, **more).held if not item.problem]


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        '  {"a": 1}\n',
        '```json\n{"a": 1}\n```',
        '```\n{"a": 1}\n```\nThat is all.',
        'Here it is: {"a": 1}. I hope {this} helps.',
        'A set {x} and a list [1], then {"a": 1}',
        '<think>{"a": 2}</think>{"a": 1}',
        '<THINKING> maybe {"a": 2} </THINKING> {"a": 1}',
        'well, {"a": 2}, or </think> {"a": 1}',
        '<think> {"unclosed: {{{ </think>{"a": 1}',
        '[THINK]{"a": 2}[/THINK]{"a": 1}',
        '◁think▷{"a": 2}◁/think▷{"a": 1}',
        '<think>one</think><think>{"a": 2}</think>{"a": 1}',
        '<think>let me see {"a": 2}, no: {"a": 1}',
        '{"b" 2} or rather {"a": 1}',
    ],
)
def test_an_object_is_found_wherever_it_stands(text: str) -> None:
    assert found(text)[0] == {"a": 1}


def test_objects_come_in_order() -> None:
    assert found('{"a": 1} then {"a": 2}') == [{"a": 1}, {"a": 2}]
    assert found('[{"a": 1}, {"a": 2}]') == [[{"a": 1}, {"a": 2}]]


def test_marks_of_thinking_inside_a_text_are_text() -> None:
    assert found('{"a": "use <think> and </think>"}') == [{"a": "use <think> and </think>"}]
    fenced = '```json\n{"a": "</think> b"}\n```'
    assert found(fenced) == [{"a": "</think> b"}]


def test_unclosed_thinking_that_was_cut_off_holds_no_answer() -> None:
    text = '<think>a draft: {"a": 2} but then'
    assert found(text) == [{"a": 2}]
    assert found(text, truncated=True) == []


def test_what_is_inside_a_broken_object_is_no_object() -> None:
    assert found('{"lessons": [{"a": 1}, {"a": 2, "b": "cut he') == []
    assert objects_of('{"lessons": [{"a": 1}, {"a": 2, "b": "cut he', NO_WORDS).cut
    assert found('{"lessons": [{"a": 1}, oops]}') == []


@pytest.mark.parametrize(
    ("text", "attempted"),
    [("no object", False), ("a {set} of", False), ('{"a": oops}', True), ('{"a": "cut', True)],
)
def test_an_attempt_is_told_from_prose(text: str, *, attempted: bool) -> None:
    assert objects_of(text, NO_WORDS).attempted is attempted


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 2}', '{a: 1, "a": 1}', '{"a": 9223372036854775808}', '{"a": 1e999}']
)
def test_the_strict_reader_has_the_last_word(text: str) -> None:
    (held,) = objects_of(text, NO_WORDS).held
    assert held.problem
    assert held.data is None


def test_words_before_an_object_are_kept_apart() -> None:
    assert objects_of('I think so. {"a": 1} Bye.', NO_WORDS).said == "I think so. "
    assert objects_of('I think so. {"a": "cut', NO_WORDS).said == "I think so. "


def test_members_of_a_schema() -> None:
    schema = {
        "properties": {
            "a": {"anyOf": [{"enum": ["L1", "L2"]}, {"type": "null"}]},
            "b": {"enum": [0]},
        }
    }
    assert members_of(schema) == {"L1", "L2"}


@pytest.mark.parametrize(
    "part", ["{", "[{", '{"a":', '{"a":[', "{//", "{/*", "{#", "{'a", '{"a":"', "<think>"]
)
def test_reading_takes_time_in_proportion_to_the_text(part: str) -> None:
    # 60,000 characters: what is not linear takes minutes.
    objects_of(part * (60_000 // len(part)), NO_WORDS)


@pytest.mark.parametrize(
    ("text", "said", "unclosed"),
    [
        ("a <think>b</think> c", "a  c", ""),
        ("b</think>c", "c", ""),
        ("<think>b", "", "b"),
        ("a<think>b<think>c</think>d</think>e", "e", ""),
        ("a < think > b < / think >c", "a c", ""),
    ],
)
def test_thinking_is_taken_out(text: str, said: str, unclosed: str) -> None:
    spoken = without_thinking(text)
    assert (spoken.said, spoken.unclosed) == (said, unclosed)
