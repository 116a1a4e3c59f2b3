"""Names in a text: runs of capitalized words that a sentence start does not explain, and CJK runs.

The rules are ours. They read Latin, Greek and Cyrillic capitals; in a text written mostly in Han,
kana or Hangul a run of such characters is ordinary prose, so it is a name only inside other
prose.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from controllers.embedded.words import CJK, STOP_WORDS, TOKEN, is_cjk

_LINKS = frozenset({" ", "-", " & ", "&", "/", "'", "\u2019"})
_CONNECTOR_LIST = "al d da de del der des di du e el la le of ter the van von y"
_CONNECTORS = frozenset(_CONNECTOR_LIST.split())
_SENTENCE_END = re.compile(r"[.!?。\uff01\uff1f:;\n][\s\"'“”\u2018\u2019()\[\]*_#-]*\Z")
_CJK_CHARACTER = re.compile(rf"[{CJK}]")
_LETTER = re.compile(r"[^\W\d_]")
_PROSE_SHARE = 0.5
_GAP_CHARACTERS = 40


@dataclass(frozen=True)
class NameRun:
    """A name as it stands: character offsets [start, end) and its words, case folded."""

    start: int
    end: int
    words: tuple[str, ...]


@dataclass(frozen=True)
class _Token:
    text: str
    start: int
    end: int
    opens_sentence: bool


def name_runs(text: str) -> tuple[NameRun, ...]:
    """Return the names of a text in order.

    A capitalized word is (part of) a name unless it opens a sentence; there it needs a capitalized
    word after it and must not be a function word ("Clarke Quay is ...", but not "On Monday ...").
    Connecting words ("of", "de", "&") stay inside a run.
    """
    found = list(_tokens(text))
    prose_is_cjk = _mostly_cjk(text)
    runs: list[NameRun] = []
    position = 0
    while position < len(found):
        token = found[position]
        if is_cjk(token.text):
            if not prose_is_cjk:
                runs.append(NameRun(token.start, token.end, (token.text,)))
            position += 1
        elif _opens_name(found, position, text):
            last = _name_end(found, position, text)
            words = tuple(
                item.text.casefold()
                for item in found[position : last + 1]
                if item.text.casefold() not in _CONNECTORS
            )
            runs.append(NameRun(token.start, found[last].end, words))
            position = last + 1
        else:
            position += 1
    return tuple(runs)


@lru_cache(maxsize=8192)
def name_words(text: str) -> frozenset[str]:
    """Return the words of all names in a text, case folded."""
    return frozenset(word for run in name_runs(text) for word in run.words)


def _tokens(text: str) -> list[_Token]:
    result: list[_Token] = []
    before = 0
    for match in TOKEN.finditer(text):
        gap = text[max(before, match.start() - _GAP_CHARACTERS) : match.start()]
        opens = not result or _SENTENCE_END.search(gap) is not None
        result.append(_Token(match.group(), match.start(), match.end(), opens))
        before = match.end()
    return result


def _mostly_cjk(text: str) -> bool:
    letters = len(_LETTER.findall(text))
    return letters > 0 and len(_CJK_CHARACTER.findall(text)) > _PROSE_SHARE * letters


def _is_capital(token: _Token) -> bool:
    word = token.text
    return word[0].isupper() and word != "I" and not word.startswith(("I'", "I\u2019"))


def _opens_name(found: list[_Token], position: int, text: str) -> bool:
    token = found[position]
    if not _is_capital(token):
        return False
    if not token.opens_sentence:
        return True
    if token.text.casefold() in STOP_WORDS or position + 1 >= len(found):
        return False
    following = found[position + 1]
    return _is_capital(following) and text[token.end : following.start] in _LINKS


def _name_end(found: list[_Token], position: int, text: str) -> int:
    """Return the index of the last token of the run that opens at `position`."""
    last = position
    ahead = position + 1
    while ahead < len(found):
        if text[found[ahead - 1].end : found[ahead].start] not in _LINKS:
            break
        if _is_capital(found[ahead]):
            last = ahead
        elif found[ahead].text.casefold() not in _CONNECTORS:
            break
        ahead += 1
    return last
