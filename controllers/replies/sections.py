"""The second protocol: a reply in sections under headings, for models that cannot do JSON.

Both directions are made from the prompt's schema, so that no operation has code of its own. A field is
a heading; a field of the second entry of a list has its number in the heading:

    ## PARTS 2 TITLE
    Amounts in brackets
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controllers.replies.names import same_name

Schema = Mapping[str, Any]
_SHOWN_NAMES = 64
_NUMBERED = "For a second entry write its headings again with 2 in place of 1, and so on."
_ASKED = (
    "Answer without JSON, in sections. Write each heading below on a line of its own, as it stands "
    "here, and under it what belongs there in place of the words in < >."
)
_HEADING = re.compile(
    r"^[ \t>]*(?P<hashes>#{1,6})[ \t]*(?P<title>[^#\n:]+?)[ \t]*:?[ \t]*#*[ \t]*$"
)
_TITLED = re.compile(
    r"^[ \t>]*(?P<hashes>#{0,6})[ \t]*(?:\*\*|__)?(?P<title>[A-Za-z][A-Za-z0-9_ ]{0,60}?)(?:\*\*|__)?"
    r"[ \t]*:(?:\*\*|__)?[ \t]*(?P<rest>.*)$"
)
_HASHES = re.compile(r"[ \t>]*#{1,6}[ \t]*[A-Za-z]")
_BULLET = re.compile(r"^[ \t]*(?:[-*\u2022]|\d{1,2}[.)])[ \t]+")
_BETWEEN = re.compile(r"[,;\s]+|\band\b")
_NONE = frozenset({"none", "null", "n/a", "na", "nothing", "-", "empty"})


@dataclass(frozen=True)
class Leaf:
    """A field: the names that lead to it, which of them are lists of objects, and what it holds."""

    path: tuple[str, ...]
    lists: frozenset[int]
    kind: str
    members: tuple[Any, ...] = ()
    many: bool = False
    nullable: bool = False

    @property
    def hint(self) -> str:
        """What is asked for, in words."""
        if self.kind == "box":
            return "four whole numbers: left, top, right, bottom"
        names = ", ".join(str(name) for name in self.members[:_SHOWN_NAMES])
        if self.members:
            found = f"some of {names}" if self.many else f"one of {names}"
        elif self.many:
            found = "short texts, one a line"
        else:
            found = {"integer": "a whole number", "boolean": "yes or no"}.get(self.kind, "a text")
        return f"{found}, or none" if self.many or self.nullable or found == "a text" else found

    def heading(self, number: int) -> str:
        """Return the heading of this field, in the entry of that number."""
        words = []
        for at, name in enumerate(self.path):
            words.append(name.replace("_", " ").upper())
            if at in self.lists:
                words.append(str(number))
        return "## " + " ".join(words)


def leaves(schema: Schema) -> tuple[Leaf, ...]:
    """Return the fields of a schema, in order."""
    return tuple(_leaves(schema, (), frozenset(), nullable=False))


def instructions(schema: Schema) -> str:
    """Return what to tell a model that is to answer in sections."""
    fields = leaves(schema)
    lines = [_ASKED, _NUMBERED] if any(leaf.lists for leaf in fields) else [_ASKED]
    for leaf in fields:
        lines += [leaf.heading(1), f"<{leaf.hint}>"]
    return "\n".join(lines)


def _leaves(
    schema: Schema, path: tuple[str, ...], lists: frozenset[int], *, nullable: bool
) -> Iterator[Leaf]:
    if "anyOf" in schema:
        yield from _leaves(schema["anyOf"][0], path, lists, nullable=True)
        return
    kind = schema.get("type", "string")
    if kind == "null":
        return
    if kind == "object":
        for name, part in schema["properties"].items():
            yield from _leaves(part, (*path, name), lists, nullable=nullable)
        return
    if kind != "array":
        yield Leaf(path, lists, kind, tuple(schema.get("enum", ())), nullable=nullable)
        return
    item = schema.get("items", {})
    if schema.get("maxItems") == 0:
        return
    if item.get("type") == "object":
        yield from _leaves(item, path, lists | {len(path) - 1}, nullable=nullable)
    elif item.get("type") == "integer" and "enum" not in item and schema.get("minItems") == 4:
        yield Leaf(path, lists, "box", nullable=nullable)
    else:
        members = tuple(item.get("enum", ()))
        yield Leaf(path, lists, str(item.get("type", "string")), members, many=True)


# -- reading ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Section:
    leaf: Leaf
    numbers: tuple[int, ...]
    text: str


def read_sections(text: str, schema: Schema) -> dict[str, Any] | None:
    """Return the object that sections make, None where there are none.

    Texts, names and numbers stay texts: bringing them into shape is for `shape`. A section that comes
    twice counts as it came first; an empty one and one with the words of the instructions are left out.
    """
    found: dict[str, Any] = {}
    fields = leaves(schema)
    sections = list(_sections(text, fields))
    hints = {leaf.hint.casefold() for leaf in fields}
    for section in sections:
        # Hints wander: small models write that of one heading under another.
        if section.text.strip() and section.text.strip("<>` ").casefold() not in hints:
            _put(found, section)
    return (_without_numbers(found) or {}) if sections else None


def _sections(text: str, fields: Sequence[Leaf]) -> Iterator[_Section]:
    lines = text.splitlines()
    marks = [(at, *found) for at, line in enumerate(lines) if (found := _heading(line, fields))]
    ends = [at for at, *_ in marks]
    if any(hashes for _, _, _, hashes, _ in marks):
        marks = [mark for mark in marks if mark[3]]
        # A heading of another name ends a section, too.
        ends = [at for at, line in enumerate(lines) if _HASHES.match(line)]
    for at, leaf, numbers, _, rest in marks:
        after = bisect_right(ends, at)
        end = ends[after] if after < len(ends) else len(lines)
        body = "\n".join([rest, *lines[at + 1 : end]]).strip()
        yield _Section(leaf, numbers, body)


def _heading(line: str, fields: Sequence[Leaf]) -> tuple[Leaf, tuple[int, ...], str, str] | None:
    match = _HEADING.match(line) or _TITLED.match(line)
    if match is None:
        return None
    words = match["title"].split()
    for leaf in fields:
        numbers = _numbers(words, leaf)
        if numbers is not None:
            rest = match.groupdict().get("rest") or ""
            return leaf, numbers, match["hashes"], rest
    return None


def _numbers(words: Sequence[str], leaf: Leaf) -> tuple[int, ...] | None:
    """Return the numbers in a heading where it names the field, 1 for each that is left out."""
    numbers: list[int] = []
    at = 0
    for place, name in enumerate(leaf.path):
        length = _prefix(words[at:], name)
        if not length:
            return None
        at += length
        if place in leaf.lists:
            given = words[at].strip(".)#") if at < len(words) else ""
            if given.isdecimal() and len(given) <= 3:
                numbers.append(int(given))
                at += 1
            else:
                numbers.append(1)
    return tuple(numbers) if at == len(words) else None


def _prefix(words: Sequence[str], name: str) -> int:
    """Return how many of the words make the name, 0 where they do not."""
    lengths = range(min(len(words), 4), 0, -1)
    return next((size for size in lengths if same_name("_".join(words[:size]), name)), 0)


def _put(found: dict[str, Any], section: _Section) -> None:
    value = _content(section)
    at, numbers = found, iter(section.numbers)
    for place, name in enumerate(section.leaf.path[:-1]):
        at = at.setdefault(name, {})
        if place in section.leaf.lists:
            at = at.setdefault(next(numbers), {})
    at.setdefault(section.leaf.path[-1], value)


def _without_numbers(found: dict[str, Any]) -> dict[str, Any] | None:
    """Turn the numbered entries of lists into lists, in order of their numbers."""
    result: dict[str, Any] = {}
    for name, value in found.items():
        if isinstance(value, dict) and value and all(isinstance(key, int) for key in value):
            result[name] = [_without_numbers(value[key]) for key in sorted(value)]
        else:
            result[name] = _without_numbers(value) if isinstance(value, dict) else value
    # An object with nothing in it is none: its fields are said one by one.
    return result if any(value is not None for value in result.values()) else None


def _content(section: _Section) -> Any:
    """Return what stands in a section, None for none of it."""
    leaf, text = section.leaf, section.text.strip("`").strip()
    none = text.rstrip(".").casefold() in _NONE
    if leaf.kind == "box":
        return None if none else [int(number) for number in re.findall(r"\d{1,4}", text)]
    if leaf.many:
        return [] if none else _many(text, leaf)
    if none:
        return None if leaf.nullable else ""
    return _unquoted(text)


def _many(text: str, leaf: Leaf) -> list[str]:
    lines = [_unquoted(_BULLET.sub("", line).strip()) for line in text.splitlines()]
    if leaf.members:
        return [part for line in lines for part in _BETWEEN.split(line) if part]
    return [line for line in lines if line]


def _unquoted(text: str) -> str:
    pair = text[:1] + text[-1:]
    return text[1:-1].strip() if len(text) > 1 and pair in {'""', "''"} else text
