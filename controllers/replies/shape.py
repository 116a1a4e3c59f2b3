"""A reply brought into the shape of its schema, where a person would read the same.

Fields get the names of the schema, fields that it does not have are left out and noted, and a value in
another spelling of the same (a number in quotes, one item where a list is wanted, "none" for null)
gets the type it stands for. Nothing is added, and nothing is judged: what still does not fit is for the
operation's `parse` to refuse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from controllers.prompts.message import Refused
from controllers.replies.names import rename

Schema = Mapping[str, Any]
_NONE = frozenset({"none", "null", "n/a", "nothing", "nil"})
_TRUE = frozenset({"true", "yes"})
_FALSE = frozenset({"false", "no"})
_SHOWN = 8
_AROUND = " \t\r\n[]()<>'\"`."


class Notes:
    """What was done to a reply on the way, for the detail of an accepted one."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}
        self.unknown = 0

    def add(self, line: str) -> None:
        """Note a change, once."""
        self._lines[line] = None

    def left_out(self, names: list[str]) -> None:
        """Note fields that the schema does not have."""
        self.unknown += len(names)
        for name in names[:_SHOWN]:
            self.add(f"left out {shown(name)}")

    def __iter__(self) -> Iterator[str]:
        yield from self._lines

    def __bool__(self) -> bool:
        return bool(self._lines)


def shown(name: str) -> str:
    """Return a name out of a reply as it may stand in a message of ours: one line, ASCII, short."""
    return ascii(name)[1:-1][:40]


def shaped(value: Any, schema: Schema, notes: Notes) -> dict[str, Any]:
    """Return the object that a reply holds, as the schema would have it.

    An object around the object is taken off: {"place": {...}}, [{...}]; so is a list put around the
    items of a schema whose only field is a list.

    Raises:
        Refused: `schema`; it is no such object, for no field of it is known.
    """
    properties = schema["properties"]
    if isinstance(value, list):
        value = _unlisted(value, properties, notes)
    if not isinstance(value, dict):
        raise Refused("schema", "the reply must be one object")
    found, names = rename(value, properties)
    if not found:
        inner = [item for item in value.values() if isinstance(item, dict)]
        if len(inner) == 1:
            found, names = rename(inner[0], properties)
            notes.add("took off the object around it")
            value = inner[0]
    if not found:
        known = ", ".join(properties)
        raise Refused("schema", f"the reply has none of the fields {known}")
    return _object(value, found, names, schema, notes)


def free_texts(value: Any, schema: Schema) -> Iterator[str]:
    """Yield the texts of a shaped reply that are the model's own words: no name from a list."""
    if "anyOf" in schema:
        schema = schema["anyOf"][0]
    if isinstance(value, str):
        if "enum" not in schema:
            yield value
    elif isinstance(value, list):
        for item in value:
            yield from free_texts(item, schema.get("items", {}))
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from free_texts(item, schema.get("properties", {}).get(name, {}))


def _unlisted(value: list[Any], properties: Mapping[str, Schema], notes: Notes) -> Any:
    lists = [name for name, part in properties.items() if part.get("type") == "array"]
    if len(properties) == 1 and lists and value and all(isinstance(item, dict) for item in value):
        notes.add(f"a list in place of {lists[0]}")
        return {lists[0]: value}
    if len(value) == 1:
        notes.add("took off the list around it")
        return value[0]
    return value


def _object(
    value: Mapping[str, Any],
    found: Mapping[str, Any],
    names: Mapping[str, str],
    schema: Schema,
    notes: Notes,
) -> dict[str, Any]:
    for name, field in names.items():
        if name != field:
            notes.add(f"read {shown(name)} as {field}")
    notes.left_out([name for name in value if name not in names])
    properties = schema["properties"]
    return {field: _value(item, properties[field], notes) for field, item in found.items()}


def _value(value: Any, schema: Schema, notes: Notes) -> Any:
    if "anyOf" in schema:
        if value is None:
            return None
        inner = schema["anyOf"][0]
        if _is_none(value, inner):
            notes.add("a word for null")
            return None
        return _value(value, inner, notes)
    wanted = schema.get("type")
    if wanted == "object" and isinstance(value, dict):
        found, names = rename(value, schema["properties"])
        return _object(value, found, names, schema, notes)
    if wanted == "array":
        return _list(value, schema, notes)
    return _scalar(value, schema, notes)


def _is_none(value: Any, schema: Schema) -> bool:
    """A word for null, where no text is wanted that could be that word."""
    free = schema.get("type") == "string" and "enum" not in schema
    return isinstance(value, str) and not free and value.strip().casefold() in _NONE


def _list(value: Any, schema: Schema, notes: Notes) -> Any:
    if value is None or _is_none(value, schema):
        notes.add("a word for an empty list")
        return []
    if not isinstance(value, list):
        notes.add("one item in place of a list")
        value = [value]
    items = schema.get("items", {})
    return [_value(item, items, notes) for item in value]


def _scalar(value: Any, schema: Schema, notes: Notes) -> Any:
    wanted = schema.get("type")
    if "enum" in schema and isinstance(value, str) and value not in schema["enum"]:
        return _member(value, schema["enum"], notes)
    if wanted == "null" and _is_none(value, schema):
        notes.add("a word for null")
        return None
    if wanted == "string" and value is None and "enum" not in schema:
        notes.add("null for an empty text")
        return ""
    if wanted == "integer":
        return _integer(value, notes)
    if wanted == "boolean":
        return _boolean(value, notes)
    return value


def _member(value: str, members: list[Any], notes: Notes) -> Any:
    bare = value.strip(_AROUND)
    same = [
        name
        for name in members
        if isinstance(name, str) and bare.isascii() and name.casefold() == bare.casefold()
    ]
    if len(same) == 1:
        notes.add("a name in another spelling")
        return same[0]
    numbers = [name for name in members if type(name) is int and str(name) == value.strip()]
    if numbers:
        notes.add("a number in quotes")
        return numbers[0]
    return value


def _integer(value: Any, notes: Notes) -> Any:
    if isinstance(value, bool):
        notes.add("true or false for 1 or 0")
        return int(value)
    if isinstance(value, float) and value.is_integer():
        notes.add("a whole number with a point")
        return int(value)
    if isinstance(value, str) and value.strip().isdecimal() and len(value.strip()) <= 9:
        notes.add("a number in quotes")
        return int(value)
    return value


def _boolean(value: Any, notes: Notes) -> Any:
    if type(value) is int and value in {0, 1}:
        notes.add("1 or 0 for true or false")
        return value == 1
    word = value.strip().casefold() if isinstance(value, str) else ""
    if word in _TRUE | _FALSE:
        notes.add("a word for true or false")
        return word in _TRUE
    return value
