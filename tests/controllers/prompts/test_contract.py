"""What a prompt asks for is what its parser reads: the schema, the example and the record agree."""

from __future__ import annotations

import copy
import importlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from controllers.prompts import (
    OPERATIONS,
    Refused,
    consolidate,
    derive,
    gate,
    merge,
    place,
    select,
    split_lift,
    update,
)
from controllers.prompts.schema import fields
from epimem.schema.lesson import LessonDraft
from epimem.schema.proposal import Merge
from tests.controllers.prompts import samples

Path = tuple[str | int, ...]
EXAMPLES = {
    "derive": [derive.EXAMPLE],
    "update": [update.EXAMPLE],
    "gate": [gate.EXAMPLE],
    "place": place.EXAMPLE,
    "merge": [merge.EXAMPLE],
    "split_lift": [split_lift.EXAMPLE],
    "consolidate": [consolidate.EXAMPLE],
    "select": [select.EXAMPLE],
}


def leaves(schema: dict, path: Path = ()) -> Iterator[tuple[Path, dict]]:
    """Every place of a reply that holds a plain value, lists by their first entry, and every list."""
    if "anyOf" in schema:
        yield from leaves(schema["anyOf"][0], path)
    elif schema["type"] == "object":
        for name, part in schema["properties"].items():
            yield from leaves(part, (*path, name))
    elif schema["type"] == "array":
        yield path, schema
        yield from leaves(schema["items"], (*path, 0))
    else:
        yield path, schema


def at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def changed(reply: dict, path: Path, schema: dict) -> dict | None:
    """The reply with another lawful value at one place; None where null stands there."""
    reply = copy.deepcopy(reply)
    try:
        old = at(reply, path)
    except (TypeError, KeyError):
        return None
    if old is None:
        return None
    at(reply, path[:-1])[path[-1]] = _other(old, schema)
    return reply


def _other(old: Any, schema: dict) -> Any:
    if isinstance(old, list):
        return old[:-1]
    if isinstance(old, bool):
        return not old
    if "enum" in schema:
        return next(member for member in schema["enum"] if member != old)
    return old + 30 if isinstance(old, int) else f"{old} changed"


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_field_asked_for_makes_a_difference(name: str) -> None:
    operation, request = OPERATIONS[name], samples.REQUESTS[name]()
    schema = operation.render(request).schema
    replies = [samples.REPLIES[name]]
    if name == "place":
        replies.append({"category": "C1", "new": None, "under": None})
    tried = set()
    for reply in replies:
        meant = operation.parse(request, reply)
        for path, part in leaves(schema):
            other = changed(reply, path, part)
            if other is None:
                continue
            tried.add(path)
            try:
                read = operation.parse(request, other)
            except Refused:
                continue  # it was looked at
            assert read != meant, path
    assert tried == {path for path, _ in leaves(schema)}


class Spy(dict):
    """A part of a reply that notes which of its fields are read."""

    def __init__(self, values: dict, read: set[str]) -> None:
        super().__init__({key: _spied(value, read) for key, value in values.items()})
        self.read = read

    def __iter__(self) -> Iterator[str]:  # so that ** reads field by field
        return super().__iter__()

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)


def _spied(value: Any, read: set[str]) -> Any:
    if isinstance(value, list):
        return [_spied(item, read) for item in value]
    return Spy(value, read) if isinstance(value, dict) else value


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_parser_reads_what_was_asked_for_and_nothing_else(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: set[str] = set()
    module = importlib.import_module(f"controllers.prompts.{name}")
    conform = module.conform
    monkeypatch.setattr(module, "conform", lambda *a, **k: Spy(conform(*a, **k), read))
    request = samples.REQUESTS[name]()
    OPERATIONS[name].parse(request, samples.REPLIES[name])
    assert read == set(_names(OPERATIONS[name].render(request).schema))


def _names(schema: dict) -> Iterator[str]:
    schema = schema.get("anyOf", [schema])[0]
    for name, part in schema.get("properties", {}).items():
        yield name
        yield from _names(part)
    if "items" in schema:
        yield from _names(schema["items"])


@pytest.mark.parametrize("name", OPERATIONS)
def test_example_schema_and_target_name_the_same_fields_in_the_same_order(name: str) -> None:
    operation, request = OPERATIONS[name], samples.REQUESTS[name]()
    prompt = operation.render(request)
    for example in EXAMPLES[name]:
        assert json.dumps(example) in "\n".join(message.text for message in prompt.messages)
        _same_shape(example, prompt.schema)
    said = operation.target(request, operation.parse(request, samples.REPLIES[name]))
    _same_shape(said, prompt.schema, ordered=False)


def _same_shape(value: Any, schema: dict, *, ordered: bool = True) -> None:
    if value is None:
        return
    schema = schema.get("anyOf", [schema])[0]
    if isinstance(value, dict):
        names = list(schema["properties"])
        assert (list(value) if ordered else sorted(value)) == (names if ordered else sorted(names))
        for key, item in value.items():
            _same_shape(item, schema["properties"][key], ordered=ordered)
    elif isinstance(value, list):
        for item in value:
            _same_shape(item, schema["items"], ordered=ordered)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_schema_keeps_to_what_all_constrained_decoders_take(name: str) -> None:
    for text in ("", "x"):
        _plain_schema(OPERATIONS[name].render(samples.REQUESTS[name](text)).schema)


def test_a_schema_without_anything_to_name_is_still_one() -> None:
    bare = [
        ("derive", replace(samples.derive(), pages=())),
        ("update", replace(samples.update(), pages=())),
        ("update", samples.update(visual="none")),
        ("place", samples.place(categories=0)),
        ("select", samples.select(lessons=0)),
        ("select", replace(samples.select(), max_rules=0, max_lessons=0)),
    ]
    for name, request in bare:
        _plain_schema(OPERATIONS[name].render(request).schema)
    lessons_alone = replace(samples.select(), candidates=samples.select().candidates[2:])
    rules = OPERATIONS["select"].render(lessons_alone).schema["properties"]["rules"]
    assert rules == {"type": "array", "items": {"type": "string"}, "maxItems": 0}


def _plain_schema(schema: Any) -> None:
    keys = set(schema)
    if "anyOf" in schema:
        assert keys == {"anyOf"}
        first, second = schema["anyOf"]
        assert second == {"type": "null"}
        _plain_schema(first)
        return
    kind = schema["type"]
    allowed = {
        "object": {"properties", "required", "additionalProperties"},
        "array": {"items", "minItems", "maxItems"},
        "string": {"enum"},
        "integer": {"enum", "minimum", "maximum"},
        "boolean": set(),
        "null": set(),
    }[kind]
    assert keys - {"type"} <= allowed
    assert schema.get("enum") != []
    if kind == "object":
        assert schema["required"] == list(schema["properties"])
        assert schema["additionalProperties"] is False
        for part in schema["properties"].values():
            _plain_schema(part)
    if kind == "array":
        assert schema["maxItems"] >= 0
        _plain_schema(schema["items"])


def test_a_field_that_a_record_does_not_have_cannot_be_named() -> None:
    with pytest.raises(KeyError, match="absorbed"):
        fields(Merge, filled=("absorbed",))
    with pytest.raises(KeyError, match="guide"):
        fields(LessonDraft, changed={"guide": {}})


def test_a_new_field_of_a_record_is_asked_for_by_itself() -> None:
    class Wider(Merge):
        why: str = ""

    assert set(fields(Wider, filled=("op", "kept_id"))) == {"absorbed_id", "title", "why"}
