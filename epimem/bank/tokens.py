"""Terms: what a text is cut into, so that words can be compared in any script.

A term is a word of letters, digits and marks; a pair of neighboring characters where a script
writes no spaces; an emoji sequence or another symbol; or a letter with the sign that makes it
another name (C++, C#). All else separates: nothing in a text is query syntax. What a reader takes
for the same is folded, for comparison only (sources: Unicode NFKC and full case folding; the rest
ours):

- invisible: variation selectors, soft hyphens, joiners outside emoji;
- optional: Hebrew points, Arabic vowel signs and tatweel, emoji skin tones;
- the four i of Latin scripts (dotted and dotless, capital and small) are one;
- decimal digits of other scripts are those of ASCII.

Symbols are those of the categories So, Sc and Sm outside ASCII. ASCII symbols, their typographic
doubles (the minus sign, say) and box drawing separate: they are markup more often than meaning.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

_ASCII_WORD = re.compile(r"[0-9a-z]+")
# One letter and a sign. Both the name and the letter are terms, so that "C" finds "C++" too.
_SIGNED = re.compile(r"(?<![0-9a-z])[a-z](?:\+\+|#)(?![0-9a-z+#])")
_KEYCAP = re.compile("([0-9#*])\u20e3")
_SEQUENCE = re.compile("[\U0001f1e6-\U0001f1ff]{2}|[^\u200d](?:\u200d[^\u200d])*")
_JOINER = "\u200d"
# Symbols that NFKC spells out in letters or digits ("5㎏", "Acme™", "1½"): words of their own.
_SPELLED_OUT = re.compile(
    "([\u00bc-\u00be\u2116\u2120\u2122\u2150-\u215f\u2189\u2460-\u24ff\u3200-\u33ff"
    "\U0001f100-\U0001f1e5\U0001f200-\U0001f2ff])"
)
# Scripts whose words are not set apart by spaces, or only in part: Thai, Lao, Myanmar, Hangul,
# Khmer, kana and bopomofo, Han with its extensions and compatibility forms.
_UNSPACED = (
    (0x0E01, 0x0EFF),
    (0x1000, 0x109F),
    (0x1100, 0x11FF),
    (0x1780, 0x17FF),
    (0x3005, 0x3007),
    (0x3040, 0x31BF),
    (0x31F0, 0x31FF),
    (0x3400, 0x9FFF),
    (0xA960, 0xA97F),
    (0xAC00, 0xD7FF),
    (0xF900, 0xFAFF),
    (0x1B000, 0x1B16F),
    (0x20000, 0x3FFFF),
)
_DROPPED = (
    (0x00AD, 0x00AD),  # soft hyphen
    (0x0591, 0x05BD),  # Hebrew points and accents
    (0x05BF, 0x05BF),
    (0x05C1, 0x05C2),
    (0x05C4, 0x05C5),
    (0x05C7, 0x05C7),
    (0x0640, 0x0640),  # Arabic tatweel and vowel signs
    (0x064B, 0x0652),
    (0x0670, 0x0670),
    (0xFE00, 0xFE0F),  # variation selectors
    (0x1F3FB, 0x1F3FF),  # skin tones
    (0xE0100, 0xE01EF),  # variation selectors
)
# Arabic, Persian, nine scripts of India, Thai, Lao, Myanmar, Khmer.
_ZEROS = (0x660, 0x6F0, *range(0x966, 0xD67, 0x80), 0xE50, 0xED0, 0x1040, 0x17E0)
_FOLDED: dict[int, str | None] = {
    **{point: None for low, high in _DROPPED for point in range(low, high + 1)},
    **{zero + digit: str(digit) for zero in _ZEROS for digit in range(10)},
    0x0131: "i",  # dotless
    # Letters by category, apostrophes by use: the okina, and the Ukrainian apostrophe.
    0x02BB: "'",
    0x02BC: "'",
    # Typographic dashes, quotation marks and bullets: with them an English text still goes
    # the short way.
    **dict.fromkeys(range(0x2010, 0x2028), " "),
}
# Typographic doubles of ASCII signs: fraction and division slash, minus, asterisk, bar, tilde.
_DOUBLES = frozenset("\u2044\u2215\u2212\u2217\u2223\u223c")
_BOXES = range(0x2500, 0x25A0)


def tokens(text: str) -> list[str]:
    """Return the terms of a text, repeated as often as they stand there."""
    return _terms(text)[0]


def document_terms(text: str) -> tuple[Counter[str], int]:
    """Return how often a text offers each term, and its length in terms as `tokens` has them.

    A text offers the single characters of its unspaced runs besides their pairs, so that a question
    of one character finds the words that hold it; a longer question asks for pairs only.
    """
    found, singles = _terms(text)
    return Counter(found + singles), len(found)


def question_terms(question: str) -> NDArray[np.uint64]:
    """Return the distinct terms of a question, in the order in which they first appear."""
    distinct = dict.fromkeys(tokens(question))
    return np.array([term_hash(token) for token in distinct], dtype=np.uint64)


@lru_cache(maxsize=65536)
def term_hash(token: str) -> int:
    """Return the 64 bits under which a term is indexed, so that no file holds readable text."""
    data = token.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def _terms(text: str) -> tuple[list[str], list[str]]:
    """Return the terms of a text, and the single characters of runs that gave pairs."""
    folded = text.lower() if text.isascii() else _folded(text)
    found = _SIGNED.findall(folded) if "#" in folded or "++" in folded else []
    if folded.isascii():
        return found + _ASCII_WORD.findall(folded), []
    for base in _KEYCAP.findall(folded):
        found += [f"{base}\u20e3", *_ASCII_WORD.findall(base)]
    singles: list[str] = []
    for kind, run in _runs(_KEYCAP.sub(" ", folded)):
        if kind == "word":
            found.append(run)
        elif kind == "symbol":
            found += _sequences(run)
        elif len(run) == 1:
            found.append(run)
        else:
            found += [run[place : place + 2] for place in range(len(run) - 1)]
            singles += [one for one in run if _character_kind(one) != "mark"]
    return found, singles


def _folded(text: str) -> str:
    spelled = unicodedata.normalize("NFKC", _SPELLED_OUT.sub(r" \1 ", text))
    folded = unicodedata.normalize("NFKC", spelled.casefold()).translate(_FOLDED)
    return folded.replace("i\u0307", "i")  # what case folding makes of the dotted capital


def _runs(folded: str) -> Iterator[tuple[str, str]]:
    """Yield runs of characters of one kind with that kind; what separates is left out."""
    run: list[str] = []
    previous = ""
    for character in folded:
        kind = _character_kind(character)
        if kind == "joiner":  # joins emoji, and only shapes letters
            run += [character] if previous == "symbol" else []
            continue
        if kind == "mark":
            if previous == "symbol":
                continue
            kind = previous
        if kind != previous and run:
            yield previous, "".join(run)
            run = []
        if kind:
            run.append(character)
        previous = kind
    if run:
        yield previous, "".join(run)


def _sequences(run: str) -> Iterator[str]:
    """Yield the symbols of a run: flags, joined sequences and their members, single ones."""
    for sequence in _SEQUENCE.findall(run):
        yield sequence
        if _JOINER in sequence:
            yield from sequence.split(_JOINER)


@lru_cache(maxsize=8192)
def _character_kind(character: str) -> str:
    """Return "word", "unspaced", "symbol", "mark" (as what stands before it), "joiner" or ""."""
    category = unicodedata.category(character)
    point = ord(character)
    if category in {"So", "Sc", "Sm"}:
        separates = point < 0x80 or point in _BOXES or character in _DOUBLES
        return "" if separates else "symbol"
    if category[0] not in "LMN":
        return "joiner" if character == _JOINER else ""
    if category[0] == "M":
        return "mark"
    unspaced = any(low <= point <= high for low, high in _UNSPACED)
    return "unspaced" if unspaced else "word"
