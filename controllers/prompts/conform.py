"""A reply held against its schema: types, names, aliases; and what was copied from the example.

Written for the few keywords that `schema` uses. Everything a reply can get wrong in form ends in one
`Refused` that names the place, so that the model can be told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from controllers.prompts.message import Refused
from controllers.prompts.schema import Schema
from epimem.errors import EpimemError
from epimem.schema.base import record_error
from epimem.schema.proposal import Reason

_ALIAS = re.compile(r"[A-Z][0-9]{1,4}\Z")
_TYPES: dict[str, type] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
    "null": type(None),
}
_REASONS: dict[str, Reason] = {"invalid_text": "text", "too_large": "limit"}
T = TypeVar("T")


def conform(
    reply: Any, schema: Schema, *, example: Any, needed: Collection[str] = ()
) -> dict[str, Any]:
    """Return the reply with every field its schema has; a field left out is empty where it may be.

    A text, a list and what may be null may be left out (they are empty), unless named in `needed`.

    Args:
        reply: plain JSON data.
        schema: an object, as `schema.closed` makes it.
        example: the example that the prompt showed; a text of it in the reply was copied, not said.
        needed: fields, at any depth, that must be there.

    Raises:
        Refused: `schema` (names, types, copied example), `not_shown` (an alias), `limit` (a long list).
    """
    copied = frozenset(_plain(text) for text in _texts(example) if text.startswith("<"))
    found = _Check(copied, frozenset(needed)).value(reply, schema, "the reply")
    assert isinstance(found, dict)
    return found


def built(make: Callable[[], T]) -> T:
    """Return the record that `make` builds.

    Raises:
        Refused: `text`, `limit`, `image` or `schema`, naming the field.
    """
    try:
        return make()
    except ValidationError as error:
        found = record_error(error)
        reason = _REASONS.get(found.code, "schema")
        raise Refused(reason, f"{found.field or 'the reply'}: {found.message}") from None
    except EpimemError as error:  # a box that is no region
        raise Refused("image", error.message) from None


class _Check:
    def __init__(self, copied: frozenset[str], needed: frozenset[str]) -> None:
        self._copied = copied
        self._needed = needed

    def value(self, value: Any, schema: Schema, where: str) -> Any:
        if "anyOf" in schema:
            # Only ever "something or null".
            return None if value is None else self.value(value, schema["anyOf"][0], where)
        self._type(value, schema, where)
        if isinstance(value, dict):
            return self._object(value, schema, where)
        if isinstance(value, list):
            return self._list(value, schema, where)
        if "enum" in schema and value not in schema["enum"]:
            self._no_member(value, schema["enum"], where)
        if isinstance(value, str) and _plain(value) in self._copied:
            raise Refused("schema", f"{where} is copied from the example")
        if isinstance(value, int) and not schema.get("minimum", value) <= value <= schema.get(
            "maximum", value
        ):
            raise Refused(
                "schema", f"{where} must lie in {schema['minimum']} to {schema['maximum']}"
            )
        return value

    def _type(self, value: Any, schema: Schema, where: str) -> None:
        wanted = schema["type"]
        if type(value) is _TYPES[wanted]:  # exactly: true is no integer
            return
        if wanted == "null" and isinstance(value, str) and _ALIAS.match(value):
            raise Refused("not_shown", f"{where}: {value} was not shown")
        raise Refused("schema", f"{where} must be {_called(wanted)}, not {_called_of(value)}")

    def _object(self, value: dict[str, Any], schema: Schema, where: str) -> dict[str, Any]:
        properties = schema["properties"]
        strange = [key for key in value if key not in properties]
        if strange:
            known = ", ".join(properties)
            raise Refused(
                "schema", f"{where} has a field {_name(strange[0])}; its fields are {known}"
            )
        found = {}
        for name, part in properties.items():
            inner = name if where == "the reply" else f"{where}.{name}"
            given = value[name] if name in value else self._left_out(name, part, inner)
            found[name] = self.value(given, part, inner)
        return found

    def _left_out(self, name: str, schema: Schema, where: str) -> Any:
        if name not in self._needed:
            if "anyOf" in schema or schema["type"] == "null":
                return None
            if schema["type"] == "array":
                return []
            if schema["type"] == "string" and "enum" not in schema:
                return ""
        raise Refused("schema", f"{where} is missing")

    def _list(self, value: list[Any], schema: Schema, where: str) -> list[Any]:
        most = schema.get("maxItems", len(value))
        if most == 0 and value:
            raise Refused("not_shown", f"{where} must be empty: nothing was shown for it")
        if len(value) < schema.get("minItems", 0):
            raise Refused(
                "schema", f"{where} has {len(value)} entries, {schema['minItems']} wanted"
            )
        found = [
            self.value(item, schema["items"], f"{where}[{at}]") for at, item in enumerate(value)
        ]
        if len(value) > most:
            raise Refused("limit", f"{where} has {len(value)} entries, at most {most} are allowed")
        return found

    def _no_member(self, value: Any, members: list[Any], where: str) -> None:
        listed = ", ".join(str(member) for member in members)
        if all(isinstance(member, str) and _ALIAS.match(member) for member in members):
            raise Refused("not_shown", f"{where}: {_name(value)} was not shown; shown are {listed}")
        raise Refused("schema", f"{where} must be one of {listed}")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _plain(text: str) -> str:
    return text.strip().strip("<>").strip().casefold()


def _name(value: Any) -> str:
    return ascii(value)[:60]


def _called(wanted: str) -> str:
    names = {
        "object": "an object",
        "array": "a list",
        "string": "a text",
        "integer": "a whole number",
    }
    return names.get(wanted, {"boolean": "true or false"}.get(wanted, wanted))


def _called_of(value: Any) -> str:
    found = next((name for name, kind in _TYPES.items() if type(value) is kind), "a number")
    return _called(found)
