from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.prompts import OPERATIONS
from controllers.prompts.message import Message, Refused, Text
from controllers.replies.asking_again import QUOTED_CHARS, again, in_sections
from controllers.replies.reading import MAX_CHARS, Read, read
from controllers.replies.sections import instructions
from epimem.errors import RecordError
from epimem.schema.working_memory import VisualEvidence
from tests.controllers.prompts import samples

REQUESTS = {name: make() for name, make in samples.REQUESTS.items()}
PROMPTS = {name: OPERATIONS[name].render(request) for name, request in REQUESTS.items()}
GOOD = {name: json.dumps(reply) for name, reply in samples.REPLIES.items()}
VALUES = {
    name: OPERATIONS[name].parse(REQUESTS[name], samples.REPLIES[name]) for name in OPERATIONS
}


def reading(name: str, text: str, **more: Any) -> Read[Any]:
    return read(text, PROMPTS[name], partial(OPERATIONS[name].parse, REQUESTS[name]), **more)


WRAPPINGS = {
    "alone": "{}",
    "fenced": "```json\n{}\n```",
    "in prose": "Sure! Here is the object you asked for: {} I hope that it helps.",
    "after thinking": "<think>What is asked? A short object {{not this}}.</think>\n{}",
    "after thinking without an opening": 'What is asked? "gate": ...</think>\n{}',
    "in thinking that is not closed": "<think>What is asked? I say: {}",
    "after an attempt": '{{"thoughts": "hm"}}\n{}',
    "twice": "{}\n{}",
    "followed by rambling that is cut": '{}\nAnd another: {{"gate": 0, "rul',
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_a_good_reply_is_read_whatever_stands_around_it(name: str, wrapping: str) -> None:
    text = WRAPPINGS[wrapping].format(*[GOOD[name]] * 2)
    found = reading(name, text)
    assert (found.value, found.refused) == (VALUES[name], None)
    assert (found.json, found.protocol) == (True, "json")


SPELLINGS: dict[str, Callable[[Any], str]] = {
    "json": json.dumps,
    "indented": lambda data: json.dumps(data, indent=2),
    "python": repr,
    "bare names": lambda data: re.sub(r'"(\w+)":', r"\1:", json.dumps(data)),
    "trailing commas": lambda data: re.sub(r"([\]}])", r",\1", json.dumps(data)).replace("[,", "["),
    "comments": lambda data: json.dumps(data).replace(", ", ", // and then\n"),
}
NAMES: dict[str, Callable[[str], str]] = {
    "as asked": lambda name: name,
    "in capitals": str.upper,
    "in camel case": lambda name: re.sub(r"_(\w)", lambda match: match[1].upper(), name),
    "with spaces": lambda name: name.replace("_", " "),
}


def called(data: Any, name: Callable[[str], str]) -> Any:
    if isinstance(data, dict):
        return {name(key): called(value, name) for key, value in data.items()}
    return [called(item, name) for item in data] if isinstance(data, list) else data


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from(sorted(OPERATIONS)),
    st.sampled_from(sorted(WRAPPINGS)),
    st.sampled_from(sorted(SPELLINGS)),
    st.sampled_from(sorted(NAMES)),
)
def test_every_style_says_the_same_or_nothing(
    name: str, wrapping: str, spelling: str, names: str
) -> None:
    """What is read out of a reply in any mixture of styles is the value that went into it."""
    data = called(samples.REPLIES[name], NAMES[names])
    text = WRAPPINGS[wrapping].format(*[SPELLINGS[spelling](data)] * 2)
    found = reading(name, text)
    if spelling != "bare names" or names != "with spaces":
        assert found.refused is None
        assert found.value == VALUES[name]
    else:
        assert found.refused is not None or found.value == VALUES[name]


@pytest.mark.parametrize("name", OPERATIONS)
def test_renamed_and_extra_fields_are_noted(name: str) -> None:
    first, *_ = samples.REPLIES[name]
    reply = {"confidence": 0.9, **samples.REPLIES[name]}
    reply[first.title()] = reply.pop(first)
    found = reading(name, json.dumps(reply))
    assert found.value == VALUES[name]
    assert set(found.notes) == {"left out confidence", f"read {first.title()} as {first}"}


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_reply_that_is_cut_anywhere_is_refused(name: str) -> None:
    for size in range(len(GOOD[name])):
        found = reading(name, GOOD[name][:size])
        assert found.value is None
        assert found.refused is not None
        assert found.refused.reason == "not_json"


@settings(deadline=None)
@given(st.sampled_from(sorted(OPERATIONS)), st.data())
def test_a_damaged_reply_gains_no_text(name: str, data: st.DataObject) -> None:
    text = GOOD[name]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 12)))
    put = data.draw(st.sampled_from(["", '"', "'", ",", ":", "}", "]", "null", "True", "x", " "]))
    damaged = text[:start] + put + text[end:]
    found = reading(name, damaged)
    if found.refused is None and found.value is not None:
        said = OPERATIONS[name].target(REQUESTS[name], found.value)
        assert all(word in damaged or word in FILLED_IN for word in _words(said))


def _filled_in() -> tuple[str, ...]:
    """What `derive` takes from the run where a reply leaves it out."""
    (lesson,) = samples.REPLIES["derive"]["lessons"]
    reply = {"lessons": [{**lesson, "scope": "", "question_anchor": ""}]}
    value = OPERATIONS["derive"].parse(REQUESTS["derive"], reply)
    (said,) = OPERATIONS["derive"].target(REQUESTS["derive"], value)["lessons"]
    return said["scope"], said["question_anchor"]


FILLED_IN = _filled_in()


def _words(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [word for item in value.values() for word in _words(item)]
    if isinstance(value, list):
        return [word for item in value for word in _words(item)]
    return [value] if isinstance(value, str) else []


def test_an_object_that_is_well_formed_and_unlawful_is_what_was_meant() -> None:
    found = reading(
        "select", '{"rules": ["R9"], "lesson": null} or {"rules": ["R1"], "lesson": null}'
    )
    assert found.refused is not None
    assert found.refused.reason == "not_shown"


def test_an_object_with_a_wrong_type_makes_way_for_the_next() -> None:
    found = reading("select", '{"rules": 1} no: {"rules": ["R1"], "lesson": null}')
    assert found.value.rule_ids == VALUES["select"].rule_ids[1:]


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_stands_in_the_prompt_is_no_answer(name: str) -> None:
    prompt = PROMPTS[name]
    for text in (
        json.dumps(prompt.schema),
        f"The schema is {json.dumps(prompt.schema)}",
        prompt.messages[0].text,
        prompt.messages[1].text,
        prompt.messages[1].text.splitlines()[-1],
        instructions(prompt.schema),
        *(line for line in prompt.messages[1].text.splitlines() if line.startswith("{")),
    ):
        for sections in (False, True):
            assert reading(name, text, sections=sections).refused is not None, text


@pytest.mark.parametrize(
    "text",
    [
        '{"gate": 1}',
        'So: {"gate": 1}',
        '{"type": "object", "properties": {"gate": {"type": "integer"}}, "gate": 1}',
        '{"gate": 1, "additionalProperties": false}',
        '{"gate": 1, "reply": {"$schema": "x"}}',
    ],
)
def test_an_example_and_a_schema_are_no_answers_however_lawful(text: str) -> None:
    system = Message("system", (Text('Reply like this: {"gate": 1}'),))
    prompt = replace(PROMPTS["gate"], messages=(system, PROMPTS["gate"].messages[1]))
    parse = partial(OPERATIONS["gate"].parse, REQUESTS["gate"])
    found = read(text, prompt, parse)
    assert found.refused is not None
    assert found.refused.detail == "the object is copied from the instructions"
    assert read('{"gate": 0}', prompt, parse).value == 0


def test_a_sentence_of_the_prompt_is_no_answer_and_its_object_alone_is() -> None:
    sentence = 'Return only the JSON object: {"gate": 1} to send the crops.'
    prompt = replace(PROMPTS["gate"], messages=(Message("user", (Text(sentence),)),))

    def value(text: str) -> Any:
        return read(text, prompt, partial(OPERATIONS["gate"].parse, REQUESTS["gate"])).value

    assert value('{"gate": 1}') == 1
    assert value('I say {"gate": 1}') == 1
    assert value('{"gate": 1}\n') == 1
    assert value(sentence) is None
    assert value('the JSON object:  {"gate": 1}') is None
    assert value('{"gate": 1} to send the crops') is None


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't assist with that.",
        "I'm sorry, I can't help. {\"gate\": 0}",
        "As an AI language model, I cannot see images.\n## GATE\n0",
    ],
)
def test_a_refusal_is_no_answer(text: str) -> None:
    for sections in (False, True):
        found = reading("gate", text, sections=sections)
        assert found.refused is not None
        assert found.refused.detail == "the reply declines to answer"
        assert not found.json


def test_a_refusal_in_a_field_is_no_guidance() -> None:
    reply = {**samples.REPLIES["consolidate"], "guidance": "I cannot provide guidance on this."}
    found = reading("consolidate", json.dumps(reply))
    assert found.refused is not None
    assert "declines" in found.refused.detail


@pytest.mark.parametrize(
    ("guidance", "wrong"),
    [
        ("<what to do next time>", "copied from the example"),
        ("<what to check again>", "a placeholder"),
        (" < a text > ", "a placeholder"),
        ("L1", "an id"),
        ("L0", "an id"),
        ("See <<0123456789ab lessons>> above", "a mark"),
        ("<5 stops: a local line", ""),
        ("Use <b>bold</b> marks", ""),
        ("M4", ""),
        ("L99", ""),
        ("L1 is closed", ""),
        ("a << b", ""),
    ],
)
def test_what_a_text_was_copied_from(guidance: str, wrong: str) -> None:
    reply = {**samples.REPLIES["consolidate"], "guidance": guidance}
    found = reading("consolidate", json.dumps(reply))
    assert (found.refused is None) == (wrong == "")
    if found.refused is not None:
        assert found.refused.reason == "schema"
        assert wrong in found.refused.detail or wrong == "copied from the example"


@pytest.mark.parametrize("where", ["guidance", "cautions", "title"])
def test_copies_are_found_in_every_text(where: str) -> None:
    value = ["<a caution>"] if where == "cautions" else "<a text>"
    found = reading("consolidate", json.dumps({**samples.REPLIES["consolidate"], where: value}))
    assert found.refused is not None


def test_names_out_of_a_list_are_no_copies() -> None:
    assert reading("select", '{"rules": ["R1"], "lesson": "L2"}').refused is None


def test_sections_that_the_limit_ended_are_not_read() -> None:
    text = "## GUIDANCE\nCount.\n## SUPPORTED BY\nL1, L2\n## TITLE\nmark"
    assert reading("consolidate", text, sections=True).refused is None
    cut = reading("consolidate", text, sections=True, truncated=True)
    assert cut.refused is not None
    assert cut.refused.detail == "the limit on the length of a reply ended it"


def test_sections_are_read_only_where_they_were_asked_for() -> None:
    text = "## GATE\n1"
    assert reading("gate", text, sections=True).value == 1
    assert reading("gate", text, sections=True).protocol == "sections"
    assert reading("gate", text).refused is not None


def test_an_object_is_taken_where_sections_were_asked_for() -> None:
    assert reading("gate", '{"gate": 1}', sections=True).protocol == "json"


def test_a_reply_that_is_too_long_is_not_read() -> None:
    found = reading("gate", '{"gate": 1}' + " " * MAX_CHARS)
    assert found.refused is not None
    assert found.refused.reason == "limit"
    assert reading("gate", '{"gate": 1}' + " " * (MAX_CHARS - 11)).value == 1


@pytest.mark.parametrize(
    "fault", [RecordError("too much", code="too_large"), lambda: VisualEvidence(image_id=1)]
)
def test_a_fault_of_the_record_is_a_refusal(fault: Any) -> None:
    def parse(_: Any) -> None:
        if callable(fault):
            fault()
        raise fault

    found = read('{"gate": 1}', PROMPTS["gate"], parse)
    assert found.refused is not None
    assert found.refused.reason == "schema"
    assert found.refused.detail


def test_left_apart_is_a_value() -> None:
    found = reading("merge", '{"merge": false, "title": ""}')
    assert (found.value, found.refused) == (None, None)


# -- asking again ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPERATIONS)
def test_asking_again_quotes_reply_and_error_after_the_prompt(name: str) -> None:
    prompt = PROMPTS[name]
    asked = again(
        prompt, "a <|im_end|> reply", Refused("schema", "title is missing"), sections=False
    )
    assert asked.messages[:2] == prompt.messages
    assert [message.role for message in asked.messages[2:]] == ["assistant", "user"]
    assert asked.messages[2].text == "a < |im_end|> reply"
    assert "title is missing" in asked.messages[3].text
    assert all(field in asked.messages[3].text for field in prompt.schema["properties"])
    assert asked.schema == prompt.schema


def test_asking_again_is_bounded_and_never_empty() -> None:
    long = again(PROMPTS["gate"], "x" * 10**6, Refused("schema", "y" * 10**6), sections=False)
    assert len(long.messages[2].text) == QUOTED_CHARS
    assert len(long.messages[3].text) < 1000
    assert again(PROMPTS["gate"], " ", Refused("schema", ""), sections=False).messages[2].text


@pytest.mark.parametrize("name", OPERATIONS)
def test_sections_are_asked_for_without_a_schema(name: str) -> None:
    """No backend may hold a model to JSON that is asked for sections."""
    prompt = PROMPTS[name]
    asked = again(prompt, "x", Refused("not_json", "no object"), sections=True)
    assert asked.schema == {}
    assert instructions(prompt.schema) in asked.messages[3].text
    first = in_sections(prompt)
    assert first.schema == {}
    assert first.messages[0] == prompt.messages[0]
    assert first.messages[1].parts[:-1] == prompt.messages[1].parts
    assert first.messages[1] == Message(
        "user", (*prompt.messages[1].parts, Text(instructions(prompt.schema)))
    )
