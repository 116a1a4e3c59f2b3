"""Where a reply chooses: the values that its schema leaves a choice of, apart from free text.

A reply of place opens a category by one token, and a title of thirty follows. With every token weighed
alike, a small model learned to write the title long before it learned when to (measured:
benchmarks/RESULTS.md, "Training"). So the loss weighs the tokens of choices more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from controllers.backends.local_grammar import SEPARATORS

Span = tuple[int, int]


def spans(reply: Any, schema: Mapping[str, Any]) -> list[Span]:
    """Return the half-open spans of choices in the text of a reply, in characters.

    A choice is null, true or false, a number, or one of a list of names; it begins with the character
    before its value, because a token that opens a text already says that null was not chosen.

    Args:
        reply: as plain data.
        schema: that it fulfils; one without alternatives has no choices but those of plain values.
    """
    found: list[Span] = []
    at = 0
    for text, chosen in _pieces(reply, schema):
        if chosen:
            found.append((max(at - 1, 0), at + len(text)))
        at += len(text)
    return found


def overlapping(tokens: Sequence[Span], found: Sequence[Span]) -> list[bool]:
    """Say of each span of a token whether it has a character in common with one that was found."""
    return [any(start < until and begin < end for begin, until in found) for start, end in tokens]


def _pieces(value: Any, schema: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield the text of a value in pieces, each with whether it is a choice."""
    comma, colon = SEPARATORS
    if isinstance(value, Mapping):
        properties = _branch(schema, "object").get("properties", {})
        yield "{", "object" in _alternatives(schema)
        for number, (name, part) in enumerate(value.items()):
            yield f"{comma if number else ''}{_text(name)}{colon}", False
            yield from _pieces(part, properties.get(name, {}))
        yield "}", False
    elif isinstance(value, list | tuple):
        items = _branch(schema, "array").get("items", {})
        yield "[", False
        for number, part in enumerate(value):
            if number:
                yield comma, False
            yield from _pieces(part, items)
        yield "]", False
    else:
        yield _text(value), not isinstance(value, str) or _named(value, schema)


def _branch(schema: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return the part of a schema that is of a type."""
    return next((each for each in _each(schema) if each.get("type") == kind), {})


def _alternatives(schema: Mapping[str, Any]) -> set[str]:
    """Return the types that a schema leaves a choice of; none where there is one alone."""
    kinds = {str(each.get("type")) for each in _each(schema)}
    return kinds if len(kinds) > 1 else set()


def _named(value: str, schema: Mapping[str, Any]) -> bool:
    return any(value in each.get("enum", ()) for each in _each(schema))


def _each(schema: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = schema.get("anyOf", [schema])
    return found


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=SEPARATORS)
