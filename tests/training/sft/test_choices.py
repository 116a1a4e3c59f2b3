"""Which tokens a reply chooses by, and that the loss weighs them as it says."""

from __future__ import annotations

import json

import pytest

from controllers.backends.local_grammar import SEPARATORS
from controllers.prompts import OPERATIONS
from training.sft.choices import overlapping, spans
from training.sft.rows import reply
from training.worlds import demonstrations


def chosen(value, schema):
    text = json.dumps(value, ensure_ascii=False, separators=SEPARATORS)
    return [text[start:end] for start, end in spans(value, schema)]


OBJECT = {"type": "object", "properties": {"title": {"type": "string"}}}
SCHEMA = {
    "type": "object",
    "properties": {
        "category": {"anyOf": [{"type": "string", "enum": ["C1"]}, {"type": "null"}]},
        "new": {"anyOf": [OBJECT, {"type": "null"}]},
        "boxes": {"type": "array", "items": {"type": "integer"}},
        "say": {"type": "string"},
    },
}


def test_names_nulls_and_numbers_are_choices_and_free_text_is_none():
    joined = {"category": "C1", "new": None, "boxes": [3, 40], "say": 'C1, "null" é'}
    assert chosen(joined, SCHEMA) == [':"C1"', ":null", "[3", ",40"]
    opened = {"category": None, "new": {"title": "C1"}, "boxes": [], "say": "null"}
    assert chosen(opened, SCHEMA) == [":null", ":{"]


@pytest.mark.parametrize("world", ["charts", "tables"])
def test_the_text_that_spans_are_counted_in_is_the_reply(world):
    """Each span holds a value that stands at its place, over all operations of a drawn world."""
    for each, _ in demonstrations(world, seed=5, count=80):
        text = reply(each)
        schema = OPERATIONS[each.operation].render(each.request).schema
        for start, end in spans(json.loads(text), schema):
            value = text[start + 1 : end]
            assert text[start] in ':,["'
            assert value == "{" or json.loads(value) is not ...


def test_a_token_counts_where_it_has_a_character_of_a_choice():
    assert overlapping([(0, 3), (3, 5), (5, 6), (6, 6)], [(4, 6)]) == [False, True, True, False]
