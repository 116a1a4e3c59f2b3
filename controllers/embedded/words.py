"""Words of a text as the embedded controllers compare them: tokens, stems, stop words.

The stemmer and both word lists are ours: small, fixed, and the same for every bank, so that the
same texts give the same lessons everywhere. Han, kana and Hangul runs have no spaces; they are
compared as character pairs.
"""

from __future__ import annotations

import re
from functools import lru_cache

CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
TOKEN = re.compile(rf"[{CJK}]+|\d+(?:[.,:/]\d+)*|[^\W\d_{CJK}]+(?:['\u2019][^\W\d_{CJK}]+)*")
_CJK_RUN = re.compile(rf"[{CJK}]+")
_MINIMUM_STEM = 3

# Function words of English: they carry no subject.
_STOP = """
    a about above after again all also am an and any are as at be because been before being below
    both but by can could did do does doing done down during each either even ever every few first
    for from further get gets got had has have having he her here hers him his how however i if in
    into is it its itself just let may me might more most much must my neither next no nor not now
    of off on once one ones only onto or other others our out over own per please same shall she
    should since so some still such than that the their them then there therefore these they this
    those through thus to too toward under until up upon us very was we well were what when where
    whether which while who whom whose why will with within without would yes yet you your
"""
STOP_WORDS = frozenset(_STOP.split())
# Nouns so general that they distinguish nothing ("one class of marker", "the case").
_GENERIC = "case class group item kind part set sort thing type way"


def tokens(text: str) -> list[str]:
    """Return the words and numbers of a text as they stand, in order."""
    return TOKEN.findall(text)


def is_cjk(token: str) -> bool:
    """Tell whether a token is a run of Han, kana or Hangul."""
    return _CJK_RUN.match(token) is not None


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Return a stem: case folded, without possessive, plural, -ed, -ing, final e, doubled letter.

    Ours. It only has to bring the forms of one word together ("hatched", "hatching"; "totals",
    "totalling"); it is applied to both sides of every comparison, so it need not be a real word.
    """
    word = word.casefold().replace("\u2019", "'")
    if word.endswith("n't"):
        return "not"
    word = word.split("'")[0]
    if not word.isascii() or len(word) <= _MINIMUM_STEM:
        return word
    word = _without_plural(word)
    for ending in ("ing", "ed"):
        root = word.removesuffix(ending)
        if root != word and len(root) >= _MINIMUM_STEM and any(c in "aeiouy" for c in root):
            word = root
            break
    if word.endswith("e") and len(word) > _MINIMUM_STEM:
        word = word[:-1]
    if word.endswith("y"):
        word = word[:-1] + "i"
    if len(word) > _MINIMUM_STEM and word[-1] == word[-2]:
        word = word[:-1]
    return word


def _without_plural(word: str) -> str:
    if word.endswith(("ies", "ied")) and len(word) > _MINIMUM_STEM + 1:
        return word[:-2]
    if word.endswith(("sses", "xes", "shes", "ches", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


_GENERIC_STEMS = frozenset(map(stem, _GENERIC.split()))


@lru_cache(maxsize=8192)
def content_words(text: str) -> tuple[str, ...]:
    """Return the stems of the content words in order; numbers, letters, function words left out.

    A run of CJK characters gives its overlapping pairs (a single character stands for itself).
    """
    found: list[str] = []
    for token in tokens(text):
        if token[0].isdigit() or (len(token) == 1 and token.isascii()):
            continue
        if is_cjk(token):
            found += [token[i : i + 2] for i in range(max(1, len(token) - 1))]
        elif token.casefold() not in STOP_WORDS:
            root = stem(token)
            if root not in STOP_WORDS and root not in _GENERIC_STEMS:
                found.append(root)
    return tuple(found)


def overlap(left: frozenset[str] | set[str], right: frozenset[str] | set[str]) -> float:
    """Return |left and right| / min(|left|, |right|) in [0, 1]; 0 when one is empty."""
    smaller = min(len(left), len(right))
    return len(left & right) / smaller if smaller else 0.0
