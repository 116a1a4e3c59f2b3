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
from functools import cached_property, lru_cache
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
_MANY = 1024  # documents from which on it pays to look whether a term has to be added to all; ours
_LOOKED_UP = 8  # documents added to in the time of looking one up; ours
_ROUNDING = 1e-9  # above the rounding of a sum of shares
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


class _Term:
    """What one term adds to the scores of allowed slots, and the most that it could add to any.

    Args:
        slots: those that hold it, rising.
        counts: how often each does.
        holding: how many documents count as holding it.
        view: the rows that are searched.
    """

    def __init__(
        self,
        slots: NDArray[np.int32],
        counts: NDArray[np.uint16],
        holding: int,
        view: _View,
    ) -> None:
        self.slots, self._counts, self._view = slots, counts, view
        idf = math.log1p((view.rows + COUNT - holding + 0.5) / (holding + 0.5))
        self.most = idf * (K1 + 1)

    @cached_property
    def shares(self) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """The allowed slots that hold it, and what it adds to each."""
        keep = self._view.allowed[self.slots]
        slots = self.slots[keep]
        return slots, self._scores(slots, self._counts[keep])

    def at(self, slots: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return what it adds to each of these slots; 0 where it is not held."""
        places = np.searchsorted(self.slots, slots)
        places[places == len(self.slots)] = 0
        held = self.slots[places] == slots if len(self.slots) else np.zeros(len(slots), np.bool_)
        scores = np.zeros(len(slots), dtype=np.float64)
        scores[held] = self._scores(slots[held], self._counts[places[held]])
        return scores

    def _scores(
        self, slots: NDArray[np.integer], counts: NDArray[np.uint16]
    ) -> NDArray[np.float64]:
        often = counts.astype(np.float64)
        weight = K1 * (1 - B + B * self._view.lengths[slots] / self._view.mean)
        scores: NDArray[np.float64] = self.most * often / (often + weight)
        return scores


@dataclass(frozen=True)
class _View:
    """The rows that are searched, their lengths and mean length, and the terms met so far."""

    allowed: Mask
    rows: int
    mean: float
    lengths: NDArray[Any]
    terms: dict[int, _Term] = field(default_factory=dict)


class WordScores:
    """The scores of one question; see `LexicalIndex.scored`.

    A slot's score is summed in one order, the rarest term first, whoever asks for it: equal
    documents have equal scores.
    """

    def __init__(self, catalog: Catalog, terms: Sequence[_Term], allowed: Mask) -> None:
        self._catalog, self._terms, self._allowed = catalog, terms, allowed
        self._maximum = sum(term.most for term in terms)

    def at(self, slots: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the score of each of these slots: 0 where nothing is shared or it is not allowed."""
        totals = np.zeros(len(slots), dtype=np.float64)
        for term in self._terms:
            totals += term.at(slots)
        totals[~self._allowed[slots]] = 0.0
        return self._shares_of_maximum(totals)

    def top(self, k: int) -> list[tuple[str, float]]:
        """Return the `k` best as (node id, score in (0, 1]), best first, equal ones by node id."""
        hits, totals = self._hits(k)
        scores = self._shares_of_maximum(totals)
        if len(hits) > k > 0:
            kept = scores >= _bar(scores, k)
            hits, scores = hits[kept], scores[kept]
        names = self._catalog.names
        found = zip((names[slot] for slot in hits.tolist()), scores.tolist(), strict=True)
        return sorted(found, key=lambda item: (-item[1], item[0]))[: max(k, 0)]

    def best(self) -> float:
        """Return the best score of all slots, 0 where none matches."""
        _, totals = self._hits(1)
        return float(self._shares_of_maximum(totals).max(initial=0.0))

    def _shares_of_maximum(self, totals: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.minimum(totals / self._maximum, 1.0) if self._terms else totals

    def _hits(self, k: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return slots and totals of all that may be among the `k` best, ties with the last included.

        As soon as the terms that are left cannot bring a further slot among them (MaxScore, Turtle
        and Flood 1995), they are looked up for those that can still be: common words stand in
        nearly all documents and tell nearly nothing.
        """
        totals = np.zeros(self._catalog.size, dtype=np.float64)
        left = self._maximum
        for number, term in enumerate(self._terms):
            if len(term.slots) > _MANY and self._maximum > 2 * left:
                hits = np.flatnonzero(totals)
                if len(hits) >= k > 0 and (bar := _bar(totals[hits], k)) > left + _ROUNDING:
                    hits = hits[totals[hits] >= bar - left - _ROUNDING]
                    if len(hits) * _LOOKED_UP < len(term.slots):
                        return hits, self._completed(totals[hits], hits, number)
            slots, scores = term.shares
            totals[slots] += scores
            left -= term.most
        hits = np.flatnonzero(totals)
        return hits, totals[hits]

    def _completed(
        self, totals: NDArray[np.float64], slots: NDArray[np.int64], number: int
    ) -> NDArray[np.float64]:
        for term in self._terms[number:]:
            totals += term.at(slots)
        return totals


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return arrays as one; a single one is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _bar(scores: NDArray[np.float64], k: int) -> float:
    """Return the k-th best of at least `k` scores."""
    return float(np.partition(scores, len(scores) - k)[len(scores) - k])


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
        """Return the `k` best allowed nodes as (node id, score in (0, 1]), best first.

        Only nodes that share a term come back; equal scores are ordered by node id. A question
        without terms finds nothing.
        """
        return self.scored(question, allowed).top(k)

    def scored(self, question: str, allowed: Mask) -> WordScores:
        """Return the scores of a question, to be asked for before the index changes.

        BM25 over the question's own maximum: the sum of idf * (k1 + 1) over its distinct terms,
        where a term that no allowed row holds counts with the idf of document frequency 0. N and n
        count the allowed rows and the general questions; the mean length is that of allowed rows.
        """
        return self._scored(question, self._view(allowed))

    def best(self, questions: Sequence[str], allowed: Mask) -> NDArray[np.float64]:
        """Return the best score of each question over the allowed slots; 0 where none matches."""
        view = self._view(allowed)
        tops = [self._scored(question, view).best() for question in questions]
        return np.array(tops, dtype=np.float64)

    def _view(self, allowed: Mask) -> _View:
        rows, mean = self._size(allowed)
        return _View(allowed, rows, mean, self._lengths.view)

    def _counted(self, allowed: Mask) -> tuple[int, float]:
        """Return how many rows are allowed, and their mean length (at least 1)."""
        rows = int(np.count_nonzero(allowed))
        mean = float(self._lengths.view[allowed].mean()) if rows else 0.0
        return rows, max(mean, 1.0)

    def _scored(self, question: str, view: _View) -> WordScores:
        asked = question_terms(question) if view.rows else ()
        found = [(self._term(term, view), int(term)) for term in asked]
        found.sort(key=lambda item: (-item[0].most, item[1]))
        return WordScores(self._catalog, [term for term, _ in found], view.allowed)

    def _term(self, term: np.uint64, view: _View) -> _Term:
        known = view.terms.get(int(term))
        if known is not None:
            return known
        parts = [postings.find(term) for postings in self._postings()] or [_NOTHING]
        slots, counts = (_joined([part[column] for part in parts]) for column in (0, 1))
        whole = view.rows == len(view.allowed)
        held = len(slots) if whole else int(np.count_nonzero(view.allowed[slots]))
        holding = held + background_frequencies().get(int(term), 0)
        found = view.terms[int(term)] = _Term(slots, counts, holding, view)
        return found

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
