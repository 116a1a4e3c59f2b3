"""What a text says is there or is not there: "a chart without a legend", "the page has a stamp".

Conditions of a lesson often say for which pictures it holds by what is printed in them. A question
about a picture that has what the lesson's pictures lack, or lacks what they have, is outside of those
conditions. Read are English phrases of having and lacking; a thing is known by the head noun of its
phrase ("a printed legend": legend) and by the words before it. All of it is ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from controllers.embedded.words import STOP_WORDS, stem

_HAVING = (
    r"with|ha(?:s|ve|ving)|shows?|showing|bears?|bearing|carr(?:y|ies|ying)|includes?|including"
    r"|contains?|containing|prints?|features?|featuring|there (?:is|are)|comes? with"
)
_LACKING = r"without(?: any)?|lack(?:s|ing)?|miss(?:es|ing)|free of|with(?:out)? no|no"
_GIVEN = r"printed|drawn|shown|given|present|included|visible|provided|attached"
_NOT = r"not|never|no longer|n['\u2019]t"
_PHRASE = r"(?P<thing>(?:[^\W\d_]+(?:-[^\W\d_]+)*\s?){1,5})"
_HAS = re.compile(
    rf"(?<![\w-])(?:(?P<denied>(?:do|does|did|is|are|was|were)?\s?(?:{_NOT}))\s+)?"
    rf"(?:(?P<lacking>{_LACKING})|(?:{_HAVING})(?P<none>\s+no\b)?)\s+{_PHRASE}",
    re.IGNORECASE,
)
_IS = re.compile(
    rf"(?<![\w-])(?P<thing>(?:[^\W\d_]+\s){{1,4}})(?:is|are)\s?(?P<denied>{_NOT})?\s*"
    rf"(?:(?P<gone>missing|absent|left out|omitted)|(?:{_GIVEN}))\b",
    re.IGNORECASE,
)
_EXCEPTION = re.compile(
    r"\b(?:unless|except(?:ing)?|other than|(?:not|never) (?:for|on|in|to|where|when|if|with)"
    r"|(?:do|does) not (?:hold|apply)|not valid)\b",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"(?<=[.;!?])\s+|\n")
_ASKED_WHETHER = re.compile(
    r"\s*(?:does|do|did|is|are|was|were|has|have|can|could)\b.*\?\s*\Z", re.IGNORECASE
)
_ARTICLE_LIST = "a an any its their the this that these those some each every all"
_ARTICLES = frozenset(_ARTICLE_LIST.split())
_MOST_WORDS = 4


@dataclass(frozen=True)
class Presence:
    """A thing that a text says is there, or is not: its head noun and the words before it, stemmed."""

    thing: str
    kind: frozenset[str]
    there: bool

    def denies(self, other: Presence) -> bool:
        """Tell whether one says that the thing is there and the other that it is not.

        Things with different words before the noun ("colour legend", "size legend") are two things.
        """
        same = not self.kind or not other.kind or self.kind == other.kind
        return self.thing == other.thing and same and self.there != other.there


@lru_cache(maxsize=8192)
def presences(text: str) -> frozenset[Presence]:
    """Return what a text says is there or not; in a clause of exception it is turned round."""
    found: set[Presence] = set()
    for clause in _CLAUSE_END.split(text):
        if _ASKED_WHETHER.match(clause):
            continue  # "Does the page have a stamp?" says neither
        exception = _EXCEPTION.search(clause)
        before = clause if exception is None else clause[: exception.start()]
        found.update(_said(before))
        if exception is not None:
            turned = _said(clause[exception.end() :])
            found.update(Presence(item.thing, item.kind, not item.there) for item in turned)
    return frozenset(found)


def excludes(conditions: Iterable[str], question: str) -> bool:
    """Tell whether conditions say of a thing the contrary of what a question says of its picture.

    A thing of which either side says both excludes nothing.
    """
    stated = _settled(item for text in conditions for item in presences(text))
    asked = _settled(presences(question))
    return any(one.denies(other) for one in stated for other in asked)


def _settled(items: Iterable[Presence]) -> frozenset[Presence]:
    found = frozenset(items)
    return frozenset(item for item in found if not any(item.denies(other) for other in found))


def _said(text: str) -> Iterator[Presence]:
    for match in _HAS.finditer(text):
        lacks = bool(match["lacking"]) or bool(match["none"])
        yield from _presence(match["thing"].split(), there=lacks == bool(match["denied"]))
    for match in _IS.finditer(text):
        words = match["thing"].split()
        start = next((at for at in range(len(words), 0, -1) if _is_function(words[at - 1])), 0)
        if start and words[start - 1].casefold() == "no":
            continue  # read above: "no stamp is visible" lacks a stamp
        yield from _presence(words[start:], there=bool(match["gone"]) == bool(match["denied"]))


def _presence(words: list[str], *, there: bool) -> Iterator[Presence]:
    """Yield the thing that a phrase begins with: its words up to the first function word."""
    named: list[str] = []
    for word in words:
        if word.casefold() in _ARTICLES and not named:
            continue
        if _is_function(word) or len(named) == _MOST_WORDS:
            break
        named.append(word.casefold())
    # A word of how it is there ("printed") is no noun.
    nouns = [word for word in named if not re.fullmatch(rf"(?:{_GIVEN})", word)]
    if nouns:
        yield Presence(stem(nouns[-1]), frozenset(map(stem, nouns[:-1])), there)


def _is_function(word: str) -> bool:
    return word.casefold() in STOP_WORDS
