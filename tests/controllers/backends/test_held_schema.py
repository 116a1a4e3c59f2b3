from __future__ import annotations

import json

import pytest

from controllers.backends.held_schema import held
from controllers.prompts import OPERATIONS
from tests.controllers.prompts import samples


def test_lengths_of_strings_are_left_out_at_any_depth():
    text = {"type": "string", "maxLength": 9, "minLength": 1}
    schema = {"properties": {"a": text, "b": {"anyOf": [{"items": text}, {"type": "null"}]}}}
    plain = {"type": "string"}
    expected = {"properties": {"a": plain, "b": {"anyOf": [{"items": plain}, {"type": "null"}]}}}
    assert held(schema) == expected


def test_all_else_stays():
    schema = {
        "type": "object",
        "properties": {"maxLength": {"enum": ["maxLength", 2]}, "b": {"maxItems": 3}},
        "required": ["maxLength", "b"],
        "additionalProperties": False,
    }
    assert held(schema) == schema


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_schema_of_an_operation_is_left_as_it_was(name):
    schema = OPERATIONS[name].render(getattr(samples, name)()).schema
    before = json.dumps(schema)
    after = json.dumps(held(schema))
    assert json.dumps(schema) == before
    assert "Length" not in after
    assert held(schema)["required"] == schema["required"]
