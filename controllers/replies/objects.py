"""The JSON objects that a reply holds, in order, without what is only thought.

reply ── one object and nothing else? ───────────────────────────────┐
  │                                                                  │
  └─ think blocks out ─ each "{", or "[" before a "{" ─ lenient ─ strict reader ─> objects
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from controllers.replies.lenient import Found, Unreadable, scan
from controllers.replies.thinking import without_thinking
from epimem.errors import RecordError
from epimem.schema import strict_json

_START = re.compile(r"\{|\[(?=\s*\{)")
_CONTEXT = 24
_FENCED = re.compile(r"\s*```\w*\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)
_FIELD = re.compile(r"""\{\s*["']?[^\W\d]\w*["']?\s*:""")


@dataclass(frozen=True)
class Held:
    """An object of a reply: its data, or why it is none; and what was read with lenience.

    `around` is the text before it, the text of it and the text after it, as they came.
    """

    data: Any
    problem: str = ""
    repairs: tuple[str, ...] = ()
    around: tuple[str, str, str] = ("", "", "")


@dataclass(frozen=True)
class Objects:
    """What a reply holds: objects in order, the words before the first, whether the last is cut off.

    `attempted` says that something like an object was there, readable or not.
    """

    held: tuple[Held, ...]
    said: str
    cut: bool = False
    attempted: bool = False


def objects_of(text: str, words: AbstractSet[str], *, truncated: bool = False) -> Objects:
    """Return the objects of a reply.

    Args:
        text: the reply.
        words: what may stand as a value without quotes.
        truncated: the limit on tokens ended the reply; thinking that is not closed is then no answer.
    """
    alone = _alone(text, words)
    if alone is not None:
        return Objects((alone,), "", attempted=True)
    spoken = without_thinking(text)
    found = search(spoken.said, words)
    if not found.attempted and spoken.unclosed and not truncated:
        # A model that ends its thinking without a word answers last.
        found = search(spoken.unclosed, words)
        return Objects(tuple(reversed(found.held)), found.said, found.cut, found.attempted)
    return found


def _alone(text: str, words: AbstractSet[str]) -> Held | None:
    """Return the object where the reply is nothing else; marks of thinking in a text of it are text."""
    fenced = _FENCED.match(text)
    text = (fenced.group(1) if fenced else text).strip()
    if not text.startswith("{"):
        return None
    try:
        found = scan(text, 0, words)
    except Unreadable:
        return None
    return _held(text, found) if found.end == len(text) else None


def search(text: str, words: AbstractSet[str] = frozenset()) -> Objects:
    """Return the objects in a text, whatever stands around them."""
    held: list[Held] = []
    first: int | None = None
    at = 0
    while start := _START.search(text, at):
        attempt = _FIELD.match(text, start.start()) is not None or start.group() == "["
        try:
            found = scan(text, start.start(), words)
        except Unreadable as error:
            at = max(error.at, start.end())
            if attempt:
                first = start.start() if first is None else first
                held.append(Held(None, f"{error.message} (character {error.at - start.start()})"))
            if error.cut:
                return Objects(tuple(held), text[:first], cut=True, attempted=attempt or bool(held))
            continue
        first = start.start() if first is None else first
        held.append(_held(text, found))
        at = found.end
    return Objects(tuple(held), text[:first], attempted=bool(held))


def _held(text: str, found: Found) -> Held:
    try:
        data = strict_json.loads(found.json)
    except RecordError as error:
        return Held(None, error.message)
    before = text[max(found.start - _CONTEXT, 0) : found.start]
    around = (before, text[found.start : found.end], text[found.end : found.end + _CONTEXT])
    return Held(data, repairs=found.repairs, around=around)


def members_of(schema: Any) -> frozenset[str]:
    """Return the names that enums of a schema list: what may stand without quotes."""
    found: set[str] = set()
    stack = [schema]
    while stack:
        part = stack.pop()
        if isinstance(part, Mapping):
            found.update(item for item in part.get("enum", ()) if isinstance(item, str))
            stack.extend(part.values())
        elif isinstance(part, list | tuple):
            stack.extend(part)
    return frozenset(found)
