"""The lexical index: BM25 over words and, where a script writes no spaces, character pairs.

Postings are NumPy arrays, not SQLite FTS5: they share the slots and masks of the dense index (so
the scope is applied before ranking, and document frequencies are those of what the reader may see,
not of other namespaces), no text of a question ever becomes query syntax, and 10,000 rows load in
milliseconds. Terms are kept as 64-bit hashes, so a cached index holds no readable text.

Source of the score: Robertson and Zaragoza, "The Probabilistic Relevance Framework" (2009), with
k1 = 1.2, b = 0.75 and the idf that is never negative, ln(1 + (N - n + 0.5) / (n + 0.5)). Ours: the
division by the question's own maximum, and that the 512 general questions count as documents in N
and n, from which a bank of three lessons learns that "the" is a common word.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epimem.bank.catalog import Catalog, Delta, Mask
from epimem.bank.general_questions import COUNT, general_questions

K1 = 1.2
B = 0.75
_TAIL = 2048  # documents; ours: sorting them takes about 10 ms, merging 1e5 about 0.1 s
_ASCII_WORD = re.compile(r"[0-9a-z]+")
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


def tokens(text: str) -> list[str]:
    """Return the terms of a text: words of letters, digits and marks; pairs in unspaced scripts.

    Compatibility forms (NFKC) and case are folded for matching only. Everything else separates.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    if folded.isascii():
        return _ASCII_WORD.findall(folded)
    found: list[str] = []
    run: list[str] = []
    previous = ""
    for character in folded:
        kind = _character_kind(character)
        if kind == "mark":
            kind = previous
        if kind != previous:
            _close(run, previous, found)
        if kind:
            run.append(character)
        previous = kind
    _close(run, previous, found)
    return found


def _close(run: list[str], kind: str, found: list[str]) -> None:
    """End a run of one kind of character."""
    if kind == "word":
        found.append("".join(run))
    elif kind == "unspaced":
        pairs = ["".join(run[place : place + 2]) for place in range(len(run) - 1)]
        found.extend(pairs or ["".join(run)])
    run.clear()


@lru_cache(maxsize=8192)
def _character_kind(character: str) -> str:
    """Return "word", "unspaced", "mark" (as the character before it), or nothing."""
    category = unicodedata.category(character)
    if category[0] not in "LMN":
        return ""
    point = ord(character)
    if any(low <= point <= high for low, high in _UNSPACED):
        return "unspaced"
    return "mark" if category[0] == "M" else "word"


@lru_cache(maxsize=65536)
def _term(token: str) -> int:
    data = token.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def question_terms(question: str) -> NDArray[np.uint64]:
    """Return the distinct terms of a question, in the order in which they first appear."""
    return np.array([_term(token) for token in dict.fromkeys(tokens(question))], dtype=np.uint64)


_Flat = tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.uint16]]


@lru_cache(maxsize=1)
def background_frequencies() -> dict[int, int]:
    """Return in how many of the general questions each of their terms stands."""
    terms = [question_terms(question).tolist() for question in general_questions()]
    return dict(Counter(term for question in terms for term in question))


def word_overlap(one: str, other: str) -> float:
    """Return the share of the distinct terms of the shorter text that the other has too, in [0, 1].

    The overlap coefficient (Szymkiewicz and Simpson); 0 where a text has no terms. It tells "Kite
    Research charts" and "Kite Research bar charts" from two houses of one trade, which cosines of
    short texts do not.
    """
    first, second = set(tokens(one)), set(tokens(other))
    smaller = min(len(first), len(second))
    return len(first & second) / smaller if smaller else 0.0


class _Postings:
    """Which slots hold a term and how often: `slots[starts[i]:starts[i + 1]]` for `terms[i]`."""

    def __init__(self, flat: _Flat) -> None:
        """Take terms, slots and counts of equal length, ordered by term, then slot."""
        terms, self.slots, self.counts = flat
        fresh = np.flatnonzero(np.concatenate([np.ones(1, np.bool_), terms[1:] != terms[:-1]]))
        fresh = fresh if len(terms) else fresh[:0]
        self.terms = terms[fresh]
        self.starts = np.append(fresh, len(terms)).astype(np.int64)

    def find(self, term: np.uint64) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
        place = int(np.searchsorted(self.terms, term))
        if place == len(self.terms) or self.terms[place] != term:
            return self.slots[:0], self.counts[:0]
        span = slice(int(self.starts[place]), int(self.starts[place + 1]))
        return self.slots[span], self.counts[span]

    def flat(self, alive: Mask) -> _Flat:
        """Return terms, slots and counts without the slots that are gone."""
        keep = alive[self.slots]
        terms = np.repeat(self.terms, np.diff(self.starts))
        return terms[keep], self.slots[keep], self.counts[keep]

    def merged(self, other: _Postings, alive: Mask) -> _Postings:
        """Return both as one; the slots of `other` are higher than those here."""
        terms, slots, counts = self.flat(alive)
        more, more_slots, more_counts = other.flat(alive)
        places = np.searchsorted(terms, more, side="right")
        return _Postings(
            (
                np.insert(terms, places, more),
                np.insert(slots, places, more_slots),
                np.insert(counts, places, more_counts),
            )
        )


@dataclass(frozen=True)
class _Share:
    """What a term adds to the scores of slots, and the most that it could add to any."""

    slots: NDArray[np.int32]
    scores: NDArray[np.float64]
    most: float


@dataclass(frozen=True)
class _View:
    """The rows that one search may see, their mean length, and the shares worked out so far."""

    allowed: Mask
    rows: int
    mean: float
    shares: dict[int, _Share] = field(default_factory=dict)


def _document(slot: int, counts: Counter[str]) -> _Flat:
    terms = np.array([_term(token) for token in counts], dtype=np.uint64)
    often = np.minimum(np.array(list(counts.values()), dtype=np.int64), 65535)
    return terms, np.full(len(terms), slot, dtype=np.int32), often.astype(np.uint16)


def _gathered(documents: Sequence[_Flat]) -> _Postings:
    """Sort the terms of some documents into postings."""
    nothing = _document(0, Counter())
    columns = [np.concatenate(column) for column in zip(nothing, *documents, strict=True)]
    order = np.lexsort((columns[1], columns[0]))
    return _Postings((columns[0][order], columns[1][order], columns[2][order]))


class LexicalIndex:
    """BM25 ranking over live rows, following the same rows as the dense index.

    New rows go to a short tail that is merged into the rest when it is full.

    Args:
        catalog: names the slots.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._base = _gathered([])
        self._tail: list[_Flat] = []
        self._tail_postings: _Postings | None = None
        self._lengths = np.zeros(0, dtype=np.int32)

    def apply(self, delta: Delta) -> None:
        """Follow a change of the catalog; slots that are gone drop out at the next merge."""
        missing = self._catalog.size - len(self._lengths)
        if missing > 0:
            self._lengths = np.concatenate([self._lengths, np.zeros(missing, dtype=np.int32)])
        for slot, row in delta.added.items():
            counts = Counter(tokens(row.text))
            self._lengths[slot] = counts.total()
            self._tail.append(_document(slot, counts))
        if delta.added:
            self._tail_postings = None
        if len(self._tail) > _TAIL:
            self._merge()

    def _postings(self) -> tuple[_Postings, _Postings]:
        if self._tail_postings is None:
            self._tail_postings = _gathered(self._tail)
        return self._base, self._tail_postings

    def _merge(self) -> None:
        alive = np.zeros(self._catalog.size, dtype=np.bool_)
        alive[self._catalog.live_slots()] = True
        base, tail = self._postings()
        self._base = base.merged(tail, alive)
        self._tail, self._tail_postings = [], None

    def search(self, question: str, *, k: int, allowed: Mask) -> list[tuple[str, float]]:
        """Return the `k` best allowed nodes as (node id, score in [0, 1]), best first.

        Only nodes that share a term come back; equal scores are ordered by node id. A question
        without letters or digits finds nothing.
        """
        return self.top(self.scores(question, allowed), k)

    def top(self, scores: NDArray[np.float64], k: int) -> list[tuple[str, float]]:
        """Return the `k` best of what `scores` returned, as `search` does."""
        hits = np.flatnonzero(scores)
        if len(hits) > k > 0:
            bar = np.partition(scores[hits], len(hits) - k)[len(hits) - k]
            hits = hits[scores[hits] >= bar]
        names = self._catalog.names
        found = [(names[slot], float(scores[slot])) for slot in hits.tolist()]
        return sorted(found, key=lambda item: (-item[1], item[0]))[: max(k, 0)]

    def scores(self, question: str, allowed: Mask) -> NDArray[np.float64]:
        """Return the score of every slot; 0 where nothing is shared or the slot is not allowed.

        BM25 over the question's own maximum: the sum of idf * (k1 + 1) over its distinct terms,
        where a term that no allowed row holds counts with the idf of document frequency 0. N and n
        count the allowed rows and the general questions; the mean length is that of allowed rows.
        """
        return self._scores(question, self._view(allowed))

    def _view(self, allowed: Mask) -> _View:
        rows = int(np.count_nonzero(allowed))
        mean = float(self._lengths[allowed].mean()) if rows else 0.0
        return _View(allowed, rows, max(mean, 1.0))

    def _scores(self, question: str, view: _View) -> NDArray[np.float64]:
        totals = np.zeros(self._catalog.size, dtype=np.float64)
        terms = question_terms(question)
        if not view.rows or not len(terms):
            return totals
        maximum = 0.0
        for term in terms:
            share = view.shares.get(int(term))
            if share is None:
                share = view.shares[int(term)] = self._share(term, view)
            maximum += share.most
            totals[share.slots] += share.scores
        return np.minimum(totals / maximum, 1.0)

    def _share(self, term: np.uint64, view: _View) -> _Share:
        """Return what one term adds to the score of each allowed slot that holds it."""
        parts = [postings.find(term) for postings in self._postings()]
        slots = np.concatenate([part[0] for part in parts])
        counts = np.concatenate([part[1] for part in parts]).astype(np.float64)
        keep = view.allowed[slots]
        slots, counts = slots[keep], counts[keep]
        holding = len(slots) + background_frequencies().get(int(term), 0)
        idf = math.log1p((view.rows + COUNT - holding + 0.5) / (holding + 0.5))
        weight = K1 * (1 - B + B * self._lengths[slots] / view.mean)
        return _Share(slots, idf * counts * (K1 + 1) / (counts + weight), idf * (K1 + 1))

    def best(self, questions: Sequence[str], allowed: Mask) -> NDArray[np.float64]:
        """Return the best score of each question over the allowed slots; 0 where none matches."""
        view = self._view(allowed)
        tops = [self._scores(question, view).max(initial=0.0) for question in questions]
        return np.array(tops, dtype=np.float64)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the postings as arrays for a derived file; slots count in `live_slots`."""
        self._merge()
        live = self._catalog.live_slots()
        places = np.zeros(self._catalog.size, dtype=np.int32)
        places[live] = np.arange(len(live), dtype=np.int32)
        return {
            "terms": self._base.terms,
            "starts": self._base.starts,
            "slots": places[self._base.slots],
            "counts": self._base.counts,
            "lengths": self._lengths[live],
        }

    @classmethod
    def from_arrays(cls, catalog: Catalog, arrays: Mapping[str, NDArray[Any]]) -> LexicalIndex:
        """Rebuild an index from `arrays` over a catalog that was rebuilt beside it."""
        index = cls(catalog)
        terms = np.repeat(arrays["terms"], np.diff(arrays["starts"]))
        index._base = _Postings((terms, arrays["slots"], arrays["counts"]))
        index._lengths = arrays["lengths"].copy()
        return index
