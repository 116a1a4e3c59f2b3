"""Claims: what the clauses of a guidance say, in a form in which two wordings can be compared.

A claim has content words, numbers, and one of three kinds: "" (do, count, take), "out" (do not,
leave out, skip) and "minus" (subtract, treat as negative). Where a lesson counts, subtracting
from the count and leaving out of it are the same, so "minus" becomes "out" there. Clauses are cut
at commas, colons and conjunctions in front of a verb of instruction; a clause without content of
its own belongs to the one before it ("treat diamonds as passed and leave them out"). A leading
"In ..., when ..., if ..." clause is a condition, not a claim. Text in parentheses is an aside and
is not compared. Inline code (`name`) is kept apart: it is exact, so two claims that quote other
code speak of other things, whatever words they share. The word lists are English and ours; text in
other languages gives claims of kind "" unless it holds one of the few negations listed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from controllers.embedded.contrasts import Contrasts, contrasts
from controllers.embedded.fitting import joined
from controllers.embedded.words import content_words, stem, tokens

Kind = Literal["", "out", "minus"]

_VERB_LIST = """
    add answer apply avoid begin calculate check choose combine compare compute confirm convert
    count deduct discard divide double drop exclude find give halve ignore include keep leave list
    locate look make mark match measure multiply note omit order pick place read recheck record
    regroup remove repeat report round scale scan search select skip sort split start stop subtract
    sum take test total treat try turn use verify write
"""
_VERBS = _VERB_LIST.split()
# An instruction opens a clause with such a verb and names something to do it to.
_INSTRUCTION = re.compile(
    rf"(?:\A|:\s+|[,;]\s*(?:(?:and|but|or|then|so|also|instead)\s+)*|\s(?:and|but|then|so)\s+)"
    rf"(?:(?:do\s+not|don['\u2019]t|never|always|not)\s+)?(?:{'|'.join(_VERBS)})\b"
    r"(?!\s*(?:[:=.,;]|\Z|(?:is|are|was|were|found)\b))"
    r"|\b(?:must|should|ought\s+to|ha(?:s|ve)\s+to|needs?\s+to)\b",
    re.IGNORECASE,
)
_ASIDE = re.compile(r"\([^()]*\)|\uff08[^\uff08\uff09]*\uff09|\[[^\[\]]*\]")
_SEGMENT_END = re.compile(r"(?<=[.!?])\s+|\s*;\s+|\n+|(?<=[。\uff01\uff1f\uff1b])")
_BORDER = re.compile(
    r":\s+|\uff0c|(?:,\s*(?:(?:and|but|or|then|so|also|instead)\s+)*"
    r"|\s+(?:(?:and|but|or|then|so)\s+)+)"
    rf"(?=(?:{'|'.join(_VERBS)}|not|never|do\s+not|don['\u2019]t)\b)"
    r"|\s+(?=(?:rather\s+than|instead\s+of)\b)",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\A(?:after|as|at|because|before|by|during|for|from|given|if|in|on|once|since|unless|when|where"
    r"|whenever|while|with|within)\b",
    re.IGNORECASE,
)
_POINTS = re.compile(
    r"\b(?:shown|seen|pictured|drawn|marked|circled|boxed|highlighted) (?:here|there)\b"
    r"|\b(?:in|of|from) (?:this|the) (?:view|crop|region|cut-?out)\b|\blike (?:this|that|these|those)\b"
    r"|\bth(?:is|at) one\b|\bth(?:e|o)se ones\b",
    re.IGNORECASE,
)
_REFERS_BACK = re.compile(
    rf"(?:(?:do\s+not|don['\u2019]t|never|always|not)\s+)?(?:{'|'.join(_VERBS)})\s+(?:out\s+)?"
    r"(?:them|it|these|those|such)\b",
    re.IGNORECASE,
)
_NOT = re.compile(
    r"\b(?:not|never|no|without|except|neither|nor|cannot|rather than|instead of)\b"
    r"|n['\u2019]t\b|不|没有|勿|除|(?<![特识类分个级性区差])别|禁止|無|无"
    r"|(?<!少)ない|ません|なし|지 (?:마|말|않)|없"
    r"|\b(?:nicht|nie|niemals|keine?[mnrs]?|ohne|ne|pas|jamais|sans|nunca|jamás|não|sem|non(?!-))\b"
    r"|\b(?:не|нет|никогда|без|нельзя)\b",
    re.IGNORECASE,
)
_EXCLUDE = r"ignor\w+|skip\w*|omit\w*|exclud\w+|drop\w*|remov\w+|discard\w*|disregard\w*|avoid\w*"
_OUT = re.compile(
    rf"\b(?:{_EXCLUDE})\b|\b(?:leave|leaves|leaving|left)\b.{{0,120}}\bout\b|忽略|跳过|排除",
    re.IGNORECASE,
)
_DOUBLE = re.compile(
    rf"(?:\b(?:not|never)\b|n['\u2019]t\b)\s+(?:to\s+)?(?:{_EXCLUDE}|leave\b.{{0,120}}\bout\b)",
    re.IGNORECASE,
)
_MINUS = re.compile(r"\b(?:subtract\w*|deduct\w*|minus|negative\w*)\b|减去|扣除", re.IGNORECASE)
_CODE = re.compile(r"`([^`\n]+)`")
_COUNTS = re.compile(r"\bcount\w*\b|数出|计数", re.IGNORECASE)
_PARTIAL = re.compile(
    r"(?:\bnot\b|n['\u2019]t\b|\bnever\b)[^,;:]{0,120}\b(?:every|all|each)\b", re.IGNORECASE
)
_NUMBER_WORDS = {
    "zero": "0", "once": "1", "two": "2", "twice": "2", "double": "2", "doubled": "2", "three": "3",
    "thrice": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9",
    "ten": "10", "eleven": "11", "twelve": "12", "dozen": "12", "dozens": "12", "half": "1/2",
    "hundred": "100", "hundreds": "100", "thousand": "1000", "thousands": "1000",
}  # fmt: skip
# Verbs of instruction and of presentation say how to act or how a thing appears, not what it is.
_LIGHT_LIST = """
    add answer ask between calculate count deduct do draw drawn drop exclude final find first give
    ignore include keep leave left list locate look make minus negative note obtain omit pass passed
    print put read remove report result said say says see seen set show shown skip state subtract
    take taken treat use
"""
_LIGHT = frozenset(stem(word) for word in (*_LIGHT_LIST.split(), *_NUMBER_WORDS))
# One mark, several words.
_SAME = {"parenthes": "bracket", "parenthesi": "bracket", "parenthesis": "bracket"}


@dataclass(frozen=True)
class Claim:
    """One clause: content words in order, numbers, kind, the inline code that it quotes, in order.

    `partial` stands for "not every", "not all"; `points` says that it leaves to a picture what it
    speaks of ("the mark shown here").
    """

    words: tuple[str, ...]
    numbers: frozenset[str]
    kind: Kind
    partial: bool
    code: tuple[str, ...] = ()
    contrasts: Contrasts = frozenset()
    points: bool = False

    @cached_property
    def bag(self) -> frozenset[str]:
        """Content words and numbers, without their order."""
        return frozenset(self.words) | self.numbers

    @cached_property
    def before(self) -> dict[str, frozenset[str]]:
        """For each word, the words that stand directly before it."""
        return _beside(self.words[1:], self.words)

    @cached_property
    def after(self) -> dict[str, frozenset[str]]:
        """For each word, the words that stand directly after it."""
        return _beside(self.words, self.words[1:])


@dataclass(frozen=True)
class Segment:
    """A sentence, or a part of one between semicolons, verbatim, with its claims."""

    text: str
    claims: tuple[Claim, ...]


def _beside(words: tuple[str, ...], others: tuple[str, ...]) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for word, other in zip(words, others, strict=False):
        found[word] = found.get(word, frozenset()) | {other}
    return found


@lru_cache(maxsize=4096)
def segments(guidance: str) -> tuple[Segment, ...]:
    """Return the segments of a guidance in order; those without a claim are left out."""
    counts = _COUNTS.search(guidance) is not None
    found: list[Segment] = []
    for raw in _SEGMENT_END.split(guidance):
        text = joined(raw)
        claims = tuple(_claims(text, counts=counts))
        if claims:
            found.append(Segment(text, claims))
    return tuple(found)


@lru_cache(maxsize=16384)
def claim_words(text: str) -> tuple[str, ...]:
    """Return the content words of a text as claims have them: no light verbs, one word per mark."""
    words: list[str] = []
    for word in content_words(text):
        same = _SAME.get(word, word)
        if same in _LIGHT:
            continue
        if same == "bracket" and words and words[-1] == "round":
            words.pop()
        words.append(same)
    return tuple(words)


def instructs(text: str) -> bool:
    """Tell whether a sentence says what to do, in words of English."""
    return _INSTRUCTION.search(text) is not None


def _claims(segment: str, *, counts: bool) -> list[Claim]:
    pieces = [piece for piece in _BORDER.split(_ASIDE.sub(" ", segment)) if piece.strip()]
    stated = [piece for piece in pieces if not _CONDITION.match(piece.strip())]
    if any(map(claim_words, stated)):
        pieces = stated
    whole: list[str] = []
    for piece in pieces:
        if whole and _belongs_to(whole[-1], piece):
            whole[-1] = f"{whole[-1]} {piece}"
        else:
            whole.append(piece)
    claims = [_claim(piece, counts=counts) for piece in whole]
    return [claim for claim in claims if claim.bag]


def _belongs_to(before: str, piece: str) -> bool:
    """Tell whether a clause says nothing of its own: "leave them out", "skip those stations"."""
    words = claim_words(piece)
    if not words:
        return True
    return _REFERS_BACK.match(piece.strip()) is not None and set(words) <= set(claim_words(before))


def _claim(piece: str, *, counts: bool) -> Claim:
    return Claim(
        words=claim_words(piece),
        numbers=_numbers(piece),
        kind=_kind(piece, counts=counts),
        partial=_PARTIAL.search(piece) is not None,
        code=tuple(_CODE.findall(piece)),
        contrasts=contrasts(piece),
        points=_POINTS.search(piece) is not None,
    )


def _kind(piece: str, *, counts: bool) -> Kind:
    if _DOUBLE.search(piece):
        return ""
    if _MINUS.search(piece) and not counts:
        return "minus"
    if _MINUS.search(piece) or _OUT.search(piece) or _NOT.search(piece):
        return "out"
    return ""


def _numbers(piece: str) -> frozenset[str]:
    found: set[str] = set()
    for token in tokens(piece):
        if token[0].isdigit():
            found.add(token.replace(",", ""))
        elif token.casefold() in _NUMBER_WORDS:
            found.add(_NUMBER_WORDS[token.casefold()])
    return frozenset(found)
