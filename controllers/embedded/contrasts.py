"""Contrasts: small words and signs that turn a statement round while its content words stay.

"Keep values above 10" and "keep values below 10" share every content word and every number, and so
do "round up" and "round down", "the first column" and "the second", "-1" and "1", "5 mg" and "5 Mg".
A contrast is a dimension with the side that a text takes in it; two texts are opposed where both
take sides in one dimension and have none in common. The list is English and ours, and holds only
what the comparison of content words (see `words`) does not see.
"""

from __future__ import annotations

import re
from functools import lru_cache

from epimem.schema.text import folded

Contrasts = frozenset[tuple[str, str]]

_MOVED = r"(?:round|count|scale|move|shift|step|turn|go)\w*(?: \w+){0,4}"
_SWITCHED = r"(?:turn|switch|power|keep|leave)\w*(?: \w+){0,4}"
_SIDES = (
    ("bound", "low", r"above|greater|at least|more than|no (?:less|fewer) than|over(?= [\d$€£])"),
    ("bound", "high", r"below|(?:less|fewer) than|at most|no more than|under(?= [\d$€£])"),
    ("switch", "on", rf"{_SWITCHED} on"),
    ("switch", "off", rf"{_SWITCHED} off"),
    ("direction", "up", rf"{_MOVED} up|upwards?"),
    ("direction", "down", rf"{_MOVED} down|downwards?"),
    ("movement", "in", r"into"),
    ("movement", "out", r"out of"),
    ("amount", "all", r"all|every|each"),
    ("amount", "some", r"some|few"),
)
_WORDS = re.compile(
    "|".join(rf"(?P<side{at}>\b(?:{words})\b)" for at, (_, _, words) in enumerate(_SIDES)),
    re.IGNORECASE,
)
_TIME = re.compile(
    r"\b(?:(before|prior to|until)|(after|since)) (?:the |you |an? )?(\w+)", re.IGNORECASE
)
_RELATION = re.compile(r"[<>]=?|[≤≥≠]|[!=]=")
_RELATIONS = {
    "<=": ("≤", "high"), "≤": ("≤", "high"), "<": ("<", "high"), "!=": ("≠", ""), "≠": ("≠", ""),
    ">=": ("≥", "low"), "≥": ("≥", "low"), ">": (">", "low"), "==": ("=", ""),
}  # fmt: skip
_ORDINAL_LIST = "first second third fourth fifth sixth seventh eighth ninth tenth"
_ORDINALS = {word: str(at) for at, word in enumerate(_ORDINAL_LIST.split(), start=1)}
_ORDINAL = re.compile(
    rf"\b(?:(\d+)(?:st|nd|rd|th)|({'|'.join(_ORDINALS)}|last|next))\b", re.IGNORECASE
)
# A sign stands directly before its number and behind neither a letter nor a digit: 3-5 is a range.
_NUMBER = re.compile(r"((?<![\w)\]])[-\u2212])?(?<![\w.,])(\d+(?:[.,]\d+)*)\s?(%|‰|[^\W\d_]+)?")
_UNIT = re.compile(r"[^\W\d_aeiouyAEIOUY]{1,4}")
_SHORT_WORD = re.compile(r"[^\W\d_]{2,5}")


@lru_cache(maxsize=16384)
def contrasts(text: str) -> Contrasts:
    """Return the dimensions in which a text takes sides, with the sides."""
    found: set[tuple[str, str]] = set()
    for match in _WORDS.finditer(text):
        found.add(_SIDES[int((match.lastgroup or "").removeprefix("side"))][:2])
    for before, _, of in _TIME.findall(text):
        found.add((f"time of {of.casefold()}", "before" if before else "after"))
    for sign in _RELATION.findall(text):
        relation, bound = _RELATIONS[sign]
        found.add(("relation", relation))
        found |= {("bound", bound)} if bound else set()
    for figure, word in _ORDINAL.findall(text):
        found.add(("place", figure or _ORDINALS.get(word.casefold(), word.casefold())))
    for sign, number, unit in _NUMBER.findall(text):
        found.add((f"sign of {number}", "minus" if sign else "plus"))
        found.add((f"share of {number}", unit if unit in {"%", "‰"} else "whole"))
        if _UNIT.fullmatch(unit):
            found.add((f"unit of {number}", unit))
    for word in _SHORT_WORD.findall(text):
        if not folded(word).islower() or (_UNIT.fullmatch(word) and not word.islower()):
            found.add((f"case of {word.casefold()}", word))
    return frozenset(found)


def opposed(one: Contrasts, other: Contrasts) -> bool:
    """Tell whether two texts take sides in one dimension and have no side in common there."""
    shared = {dimension for dimension, _ in one} & {dimension for dimension, _ in other}
    return not shared <= {dimension for dimension, _ in one & other}
