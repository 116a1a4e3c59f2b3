"""Sentences of a turn, each an exact piece of the turn's clean text with white space joined.

Only what an agent says is read: fenced code is skipped, and of a long turn only its beginning and
its end (bounds are ours; agents put their point first or last, pasted pages in the middle).
"""

from __future__ import annotations

import re

from controllers.embedded.fitting import cleaned, joined, visible
from controllers.embedded.words import CJK

SENTENCE_CHARACTERS = 320
WINDOW_CHARACTERS = 1600
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_BREAK = re.compile(
    rf"(?P<end>[.!?][\"')\]*”\u2019]*)[ \t]+(?=[\"'(\[*“\u2018]*[A-Z0-9{CJK}])"
    r"|(?P<full>[。\uff01\uff1f\uff1b])"
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:[A-Za-z]|St|Mr|Mrs|Ms|Dr|Prof|vs|cf|etc|e\.g|i\.e|No|Fig|Inc|Ltd|Co|Jr|approx))\.\Z"
)
_LEAD = re.compile(
    r"\A(?:[\s>#*•|_~{}\[\],-]+|\d{1,2}[.)]\s+|\"?[\w.:-]{1,40}\"\s*:\s*\"?|\"(?=[A-Z]))+"
)
_TRAIL = ' "{}[],*_|~`'
_CLAUSE_END = re.compile(
    r"[,;:\uff0c\uff1b\uff1a、)\]\uff09](?=\s|\Z)|[\uff0c\uff1b\uff1a、\uff09]"
)
_MINIMUM_CLAUSE = 60


def sentences(text: str) -> list[str]:
    """Return the sentences of a turn in order, none longer than `SENTENCE_CHARACTERS`.

    Each is a piece of `joined(cleaned(text))`, character for character.
    """
    found: list[str] = []
    for window in _windows(text):
        for part in _FENCE.split(cleaned(window)):
            found += _split(part)
    return found


def shortened(sentence: str) -> str:
    """Return the sentence, or its beginning up to the last clause or word border in the bound."""
    if len(sentence) <= SENTENCE_CHARACTERS:
        return sentence
    head = sentence[:SENTENCE_CHARACTERS]
    ends = [match.end() for match in _CLAUSE_END.finditer(head) if match.end() >= _MINIMUM_CLAUSE]
    if ends:
        return head[: ends[-1]].rstrip(" ,;:\uff0c\uff1b\uff1a、")
    space = head.rfind(" ")
    return head[:space] if space >= _MINIMUM_CLAUSE else head


def _windows(text: str) -> tuple[str, ...]:
    """Return the text, or its beginning and end cut at line or word borders when it is long."""
    if len(text) <= 2 * WINDOW_CHARACTERS:
        return (text,)
    head, tail = text[:WINDOW_CHARACTERS], text[-WINDOW_CHARACTERS:]
    stop = max(head.rfind("\n"), head.rfind(" "))
    start = min((at for at in (tail.find("\n"), tail.find(" ")) if at >= 0), default=-1)
    return tuple(
        part for part in (head[: max(stop, 0)], tail[start + 1 :] if start >= 0 else "") if part
    )


def _split(part: str) -> list[str]:
    found: list[str] = []
    for line in part.split("\n"):
        start = 0
        for match in _BREAK.finditer(line):
            end = match.end("full") if match["full"] else match.end("end")
            if match["end"] == "." and _ABBREVIATION.search(line, start, end):
                continue
            found.append(line[start:end])
            start = match.end()
        found.append(line[start:])
    return [text for text in map(_trimmed, found) if text]


def _trimmed(raw: str) -> str:
    text = _LEAD.sub("", joined(raw)).rstrip(_TRAIL)
    if not text.isascii() or len(text) > SENTENCE_CHARACTERS:
        text = joined(cleaned(shortened(text)))
    return text if visible(text) else ""
