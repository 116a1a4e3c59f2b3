"""Text of items made safe for a prompt: bounded, without control tokens, behind marks it cannot forge.

An item is written as one line of JSON, so that no text of it can begin a line or close its quotes.
Lines of items stand between two marks; the mark is the hash of what it surrounds, so that the same
material always gives the same bytes. What any model family reads as a control token gets a space into
it. The three measures are ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from epimem.schema.ids import sha256
from epimem.schema.text import escape_unstorable

LEFT_OUT = " […] "
MARK_DIGITS = 12
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# <|im_end|> and its full-width kin, <think>, </s>, <0x0A>, <image>; [INST], [/INST], [gMASK], [IMG];
# ◁think▷; ]~b] and [e~[. A tag has no white space in it, so one space breaks it.
_OPENING = re.compile(
    r"<(?=[|\uff5c])|<(?=[^<>\s]{1,128}>)|\[(?=/?[A-Za-z_]*[A-Z]{2}[A-Za-z_]*\])"
    r"|\u25c1(?=\S)|\](?=~)|\[(?=\w{1,8}~\[)"
)


def cut(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters (at least 10): head and tail kept, the cut marked."""
    text = _CONTROL.sub("\ufffd", escape_unstorable(text)[0])
    if len(text) <= limit:
        return text
    room = limit - len(LEFT_OUT)
    tail = room // 3
    return text[: room - tail] + LEFT_OUT + text[len(text) - tail :]


def defused(text: str) -> str:
    """Return a text in which no tokenizer finds a control token: a space stands after its first sign."""
    return _OPENING.sub(lambda match: match.group() + " ", text)


def line(entry: Mapping[str, Any]) -> str:
    """Return one item as a line of JSON, empty fields left out, control tokens defused."""
    kept = {key: value for key, value in entry.items() if value not in ("", [], (), None)}
    return defused(json.dumps(kept, ensure_ascii=False))


def mark_of(bodies: Iterable[str]) -> str:
    """Return the mark for these bodies: hexadecimal digits that follow from them alone."""
    return sha256("\0".join(bodies).encode("utf-8"))[:MARK_DIGITS]


def fenced(mark: str, title: str, body: str) -> str:
    """Return a body between its marks; where it holds the mark itself, that is broken up.

    Args:
        mark: from `mark_of`.
        title: one of our own words for what the body is.
        body: lines of items.
    """
    broken = re.sub(mark, f"{mark[:4]} {mark[4:]}", body, flags=re.IGNORECASE)
    return f"<<{mark} {title}>>\n{broken}\n<<{mark} end>>"
