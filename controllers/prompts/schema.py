"""JSON schemas of replies, made from the records that the operations check.

A reply asks for the fields of a record without those that code fills, with ids as enums of the aliases
shown, and with every definition written out in place. All fields are required and no other is allowed:
the subset that constrained decoders of all kinds take. Texts have no `maxLength`: a grammar of xgrammar
0.2.8 for one takes no escapes, so that no quotation mark could be said.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

from epimem.schema.base import Record
from epimem.schema.region import SCALE

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
NULL: Schema = {"type": "null"}
BOX: Schema = {
    "type": "array",
    "items": {"type": "integer", "minimum": 0, "maximum": SCALE},
    "minItems": 4,
    "maxItems": 4,
}
_NOTES = ("title", "description", "default")


def fields(
    model: type[Record],
    *,
    filled: Collection[str] = (),
    changed: Mapping[str, Mapping[str, Schema]] | None = None,
) -> dict[str, Schema]:
    """Return the properties of a reply that stands for a record.

    Args:
        model: the record.
        filled: its fields that code fills.
        changed: its fields that a reply says otherwise: by field, what stands for it, name to schema.

    Raises:
        KeyError: the record has no such field.
    """
    known = _properties(model)
    others = dict(changed or {})
    for name in (*filled, *others):
        if name not in known:
            raise KeyError(name)
    found: dict[str, Schema] = {}
    for name, part in known.items():
        if name not in filled:
            found.update(others.get(name, {name: part}))
    return found


@lru_cache
def _properties(model: type[Record]) -> Mapping[str, Schema]:
    """Return the properties of a record, definitions in place; making them takes milliseconds."""
    whole = model.model_json_schema()
    return {
        name: _inlined(part, whole.get("$defs", {})) for name, part in whole["properties"].items()
    }


def closed(properties: Mapping[str, Schema]) -> Schema:
    """Return an object with exactly these properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def listed(item: Schema, *, most: int) -> Schema:
    """Return a list of at most so many items."""
    return {"type": "array", "items": item, "maxItems": most}


def one_of(names: Sequence[str]) -> Schema:
    """Return one of the names; there must be one."""
    return {"type": "string", "enum": list(names)}


def one_or_none(names: Sequence[str]) -> Schema:
    """Return one of the names or null; null alone where there are none."""
    return nullable(one_of(names)) if names else NULL


def some_of(names: Sequence[str], *, most: int) -> Schema:
    """Return a list of the names, at most `most`; an empty list where there are none."""
    return listed(one_of(names) if names else STRING, most=min(most, len(names)))


def nullable(item: Schema) -> Schema:
    """Return the item or null."""
    return {"anyOf": [item, NULL]}


def _inlined(part: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(part, list):
        return [_inlined(item, definitions) for item in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        return _inlined(definitions[part["$ref"].rsplit("/", 1)[1]], definitions)
    found = {key: _inlined(value, definitions) for key, value in part.items() if key not in _NOTES}
    if part.get("type") == "object":
        # Names of properties are no keywords: "title" may be one.
        properties = part.get("properties", {})
        return closed({name: _inlined(item, definitions) for name, item in properties.items()})
    return found
