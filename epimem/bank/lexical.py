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
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epimem.bank.catalog import Catalog, Delta, Mask, PerMask, within
from epimem.bank.general_questions import COUNT, general_questions
from epimem.bank.growing import Growing
from epimem.bank.tokens import document_terms, question_terms, term_hash

K1 = 1.2
B = 0.75
_FRESH = 64  # documents that are sorted anew for a question, some 0.5 ms; ours
_STEP = 4  # a part is merged into the one before it when that is at most this many times as large

_Flat = tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.uint16]]
_NOTHING = (np.zeros(0, np.int32), np.zeros(0, np.uint16))


@lru_cache(maxsize=1)
def background_frequencies() -> dict[int, int]:
    """Return in how many of the general questions each of their terms stands."""
    offered = [document_terms(question)[0] for question in general_questions()]
    return dict(Counter(term_hash(token) for counts in offered for token in counts))


class _Postings:
    """Which slots hold a term and how often: `slots[starts[i]:starts[i + 1]]` for `terms[i]`.

    `terms` rise; slots rise within a term.
    """

    def __init__(
        self,
        terms: NDArray[np.uint64],
        starts: NDArray[np.int64],
        slots: NDArray[np.int32],
        counts: NDArray[np.uint16],
    ) -> None:
        self.terms, self.starts, self.slots, self.counts = terms, starts, slots, counts

    def __len__(self) -> int:
        return len(self.slots)

    @classmethod
    def of(cls, flat: _Flat) -> _Postings:
        """Take terms, slots and counts of equal length, ordered by term, then slot."""
        terms, slots, counts = flat
        fresh = np.flatnonzero(np.concatenate([np.ones(1, np.bool_), terms[1:] != terms[:-1]]))
        fresh = fresh if len(terms) else fresh[:0]
        return cls(terms[fresh], np.append(fresh, len(terms)).astype(np.int64), slots, counts)

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
        return _Postings.of(
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
    terms = np.array([term_hash(token) for token in counts], dtype=np.uint64)
    often = np.minimum(np.array(list(counts.values()), dtype=np.int64), 65535)
    return terms, np.full(len(terms), slot, dtype=np.int32), often.astype(np.uint16)


def _gathered(documents: Sequence[_Flat]) -> _Postings:
    """Sort the terms of some documents into postings."""
    nothing = _document(0, Counter())
    columns = [np.concatenate(column) for column in zip(nothing, *documents, strict=True)]
    order = np.lexsort((columns[1], columns[0]))
    return _Postings.of((columns[0][order], columns[1][order], columns[2][order]))


class LexicalIndex:
    """BM25 ranking over live rows, following the same rows as the dense index.

    New rows are sorted for each question until there are 64, then become a part of the postings; a
    part that is not much smaller than the one before it is merged into it. So a new row costs little
    however many there are, and there are few parts.

    Args:
        catalog: names the slots.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._parts: list[_Postings] = []
        self._fresh: list[_Flat] = []
        self._fresh_part: _Postings | None = None
        self._lengths = Growing(np.zeros(0, dtype=np.int32))
        self._size = PerMask(self._counted)

    def apply(self, delta: Delta) -> None:
        """Follow a change of the catalog; slots that are gone drop out at the next merge."""
        if not delta.added:
            return
        self._lengths.pad(self._catalog.size, 0)
        lengths = self._lengths.view
        for slot, row in delta.added.items():
            counts, lengths[slot] = document_terms(row.text)
            self._fresh.append(_document(slot, counts))
        self._fresh_part = None
        if len(self._fresh) >= _FRESH:
            self._settle()

    def _postings(self) -> list[_Postings]:
        if not self._fresh:
            return self._parts
        if self._fresh_part is None:
            self._fresh_part = _gathered(self._fresh)
        return [*self._parts, self._fresh_part]

    def _settle(self, *, wholly: bool = False) -> None:
        """Make the fresh rows a part, and merge parts: those of like size, or all into one."""
        parts = self._postings()
        alive = np.zeros(self._catalog.size, dtype=np.bool_)
        alive[self._catalog.live_slots()] = True
        while len(parts) > 1 and (wholly or len(parts[-2]) <= _STEP * len(parts[-1])):
            parts = [*parts[:-2], parts[-2].merged(parts[-1], alive)]
        if wholly and parts:
            parts = [_Postings.of(parts[0].flat(alive))]
        self._parts, self._fresh, self._fresh_part = parts, [], None

    def search(self, question: str, *, k: int, allowed: Mask) -> list[tuple[str, float]]:
        """Return the `k` best allowed nodes as (node id, score in [0, 1]), best first.

        Only nodes that share a term come back; equal scores are ordered by node id. A question
        without terms finds nothing.
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
        rows, mean = self._size(allowed)
        return _View(allowed, rows, mean)

    def _counted(self, allowed: Mask) -> tuple[int, float]:
        """Return how many rows are allowed, and their mean length (at least 1)."""
        rows = int(np.count_nonzero(allowed))
        mean = float(self._lengths.view[allowed].mean()) if rows else 0.0
        return rows, max(mean, 1.0)

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
        parts = [_NOTHING, *(postings.find(term) for postings in self._postings())]
        slots = np.concatenate([part[0] for part in parts])
        counts = np.concatenate([part[1] for part in parts]).astype(np.float64)
        keep = view.allowed[slots]
        slots, counts = slots[keep], counts[keep]
        holding = len(slots) + background_frequencies().get(int(term), 0)
        idf = math.log1p((view.rows + COUNT - holding + 0.5) / (holding + 0.5))
        weight = K1 * (1 - B + B * self._lengths.view[slots] / view.mean)
        return _Share(slots, idf * counts * (K1 + 1) / (counts + weight), idf * (K1 + 1))

    def best(self, questions: Sequence[str], allowed: Mask) -> NDArray[np.float64]:
        """Return the best score of each question over the allowed slots; 0 where none matches."""
        view = self._view(allowed)
        tops = [self._scores(question, view).max(initial=0.0) for question in questions]
        return np.array(tops, dtype=np.float64)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the postings as arrays for a derived file; slots count in `live_slots`."""
        self._settle(wholly=True)
        whole = self._parts[0] if self._parts else _gathered([])
        live = self._catalog.live_slots()
        places = np.zeros(self._catalog.size, dtype=np.int32)
        places[live] = np.arange(len(live), dtype=np.int32)
        return {
            "terms": whole.terms,
            "starts": whole.starts,
            "slots": places[whole.slots],
            "counts": whole.counts,
            "lengths": self._lengths.view[live],
        }

    @classmethod
    def from_arrays(cls, catalog: Catalog, arrays: Mapping[str, NDArray[Any]]) -> LexicalIndex:
        """Rebuild an index from `arrays` over a catalog that was rebuilt beside it.

        The postings are viewed, not copied.

        Raises:
            ValueError: the arrays do not belong together.
        """
        index = cls(catalog)
        terms, starts = arrays["terms"].astype(np.uint64), arrays["starts"].astype(np.int64)
        slots, counts, lengths = arrays["slots"], arrays["counts"], arrays["lengths"]
        if (
            starts.shape != (len(terms) + 1,)
            or starts[0] != 0
            or starts[-1] != len(slots)
            or (np.diff(starts) < 0).any()
            or slots.shape != counts.shape
            or slots.dtype != np.int32
            or counts.dtype != np.uint16
            or lengths.shape != (catalog.size,)
            or not within(slots, 0, catalog.size)
        ):
            raise ValueError("the postings do not fit the catalog")
        index._parts = [_Postings(terms, starts, slots, counts)]
        index._lengths = Growing(lengths.astype(np.int32))
        return index
