"""What is read out of a model's reply; whatever it says, nothing is raised."""

from __future__ import annotations

import json
from typing import Any

from epimem.errors import EpimemError
from epimem.schema import strict_json
from epimem.schema.text import escape_unstorable

MOST_ITEMS = 8
MOST_CHARS = 1500


def json_in(reply: str) -> Any:
    """Return the last JSON object or list that stands in a reply, None where there is none.

    The last, because models think aloud before they answer.
    """
    decoder = json.JSONDecoder()
    found, end = None, 0
    for start, character in enumerate(reply):
        if start < end or character not in "[{":
            continue
        try:
            _, end = decoder.raw_decode(reply, start)
            found = strict_json.loads(reply[start:end].encode("utf-8", "replace"))
        except (ValueError, RecursionError, EpimemError):
            continue
    return found


def items_in(reply: str, name: str) -> list[dict[str, Any]]:
    """Return the objects of a list: the reply's JSON itself, or what stands under a name in it.

    At most eight, only those that have a `text`, which is cut at 1,500 characters.
    """
    value = json_in(reply)
    if isinstance(value, dict):
        value = value.get(name, [value])
    if not isinstance(value, list):
        return []
    texts = [each if isinstance(each, dict) else {"text": each} for each in value]
    return [
        {**each, "text": cleaned(each["text"])}
        for each in texts
        if isinstance(each.get("text"), str) and each["text"].strip()
    ][:MOST_ITEMS]


def numbers_in(reply: str, name: str) -> set[int]:
    """Return the whole numbers listed under a name in the reply's JSON object."""
    value = json_in(reply)
    listed = value.get(name, []) if isinstance(value, dict) else []
    if not isinstance(listed, list):
        return set()
    return {each for each in listed if isinstance(each, int) and not isinstance(each, bool)}


def cleaned(text: str) -> str:
    """Return a text that any record can hold, of at most 1,500 characters."""
    return escape_unstorable(text.strip()[:MOST_CHARS])[0]
