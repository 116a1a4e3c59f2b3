"""The floor: the score below which recall says that nothing in the bank is about the question.

Reference: the design's journey C. The floor of a signal is the 99th percentile of the best score
that the 512 general questions get, one per signal, before fusion; a candidate passes when it
reaches either. It is fitted per namespace (ours), since that is what a question can see, and again
when the number of live rows has grown by 25 % or shrunk as much (the latter ours).

Ours: the dense floor rises with the company that a candidate keeps. General questions are far from
most banks, so what they reach says little about questions that are near a bank without being of
it: a sum in a story has a cosine of 0.5 to puzzles that have 0.9 to one another. As in the local
outlier factor (Breunig, Kriegel, Ng and Sander 2000) a question is measured by how near the
candidate's own neighbours are: the floor lies a quarter of the way from what general questions
reach to the cosine of the candidate and its nearest relative among the lessons. A candidate
without near relatives keeps the floor as the design has it.

Ours: a lexical floor below a tenth of a question's weight is replaced by the one over those general
questions that share a term with the rows, and is a tenth at least. A bank in Chinese shares nothing
with most of the list, and would otherwise get a floor of zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from epimem.bank.catalog import Catalog, Mask
from epimem.bank.general_questions import general_questions
from epimem.bank.index import DenseIndex
from epimem.bank.lexical import LexicalIndex

QUANTILE = 0.99
GROWTH = 0.25
LEAST_LEXICAL = 0.1
# How far the dense floor rises towards the cosine of a candidate and its nearest relative. A question
# is written otherwise than a lesson's index text: real questions reach a third of that way and more
# with the lessons made for them (the 36 visual runs), so a half would refuse some of them.
NEARER = 0.25
RELATIVES = 2048  # lessons looked at: 3 MB of vectors, about a millisecond for 20 candidates


@dataclass(frozen=True)
class Floor:
    """The floors of one namespace; None where a signal has nothing to search.

    `rows` and `vectors` count what was searched when the floor was fitted; `relatives` are the ids
    of the lessons that candidates are compared with.
    """

    dense: float | None
    lexical: float | None
    rows: int
    vectors: int
    relatives: tuple[str, ...] = field(default=(), repr=False)

    def passes(
        self, dense: float | None, lexical: float | None, nearest: float | None = None
    ) -> bool:
        """Whether one of the two scores reaches its floor; a lexical score of zero never does.

        Args:
            dense: the cosine of question and candidate.
            lexical: the lexical score of the candidate.
            nearest: the cosine of the candidate and its nearest relative, None for none.
        """
        by_words = bool(lexical) and self.lexical is not None and (lexical or 0.0) >= self.lexical
        if by_words or dense is None or self.dense is None:
            return by_words
        return dense >= self._raised(self.dense if nearest is None else nearest)

    def doubtful(self, dense: float | None) -> bool:
        """Whether it depends on its nearest relative if a candidate with this cosine passes."""
        if dense is None or self.dense is None:
            return False
        return self.dense <= dense < self._raised(1.0)

    def _raised(self, nearest: float) -> float:
        assert self.dense is not None
        return self.dense + NEARER * max(nearest - self.dense, 0.0)

    def fits(self, rows: int, vectors: int) -> bool:
        """Whether the floor still stands for a namespace of this size."""
        return _near(self.rows, rows) and _near(self.vectors, vectors)


def _near(fitted: int, now: int) -> bool:
    return now == fitted or abs(now - fitted) < GROWTH * fitted


@dataclass(frozen=True)
class Searched:
    """The indexes that floors are fitted to; they follow one catalog."""

    catalog: Catalog
    lexical: LexicalIndex
    dense: DenseIndex | None

    def size(self, namespace: str) -> tuple[int, int]:
        """Return how many live rows and how many vectors a namespace has."""
        allowed = self.catalog.namespace_mask(namespace)
        vectors = self.dense.count(allowed) if self.dense is not None else 0
        return int(np.count_nonzero(allowed)), vectors


class FloorFit:
    """The fit of one floor, in as many steps as the caller likes.

    It is that of the rows that are live when it begins, whatever is added between the steps; what
    is removed then takes no part any more.

    Args:
        searched: the indexes.
        namespace: whose rows count.
        vectors: the general questions, shape (512, dimension); None without an encoder.
    """

    def __init__(
        self, searched: Searched, namespace: str, vectors: NDArray[np.float32] | None
    ) -> None:
        self.searched = searched
        self.namespace = namespace
        self._rows, self._vectors = searched.size(namespace)
        self._questions = general_questions()
        self._general = vectors if self._vectors else None
        self._slots = searched.catalog.size
        self._relatives = _relatives(searched, namespace)
        self._lexical = np.zeros(0)
        self._dense = np.zeros(0, dtype=np.float32)

    def step(self, questions: int) -> bool:
        """Search for the next so many general questions; return whether all are done."""
        done = len(self._lexical)
        part = slice(done, done + questions)
        allowed = self._allowed()
        found = self.searched.lexical.best(self._questions[part], allowed)
        self._lexical = np.concatenate([self._lexical, found])
        if self.searched.dense is not None and self._general is not None:
            near = self.searched.dense.best(self._general[part], allowed)
            self._dense = np.concatenate([self._dense, near])
        return len(self._lexical) == len(self._questions)

    def floor(self) -> Floor:
        """Return the floor; all steps are done."""
        by_vector = _rounded(_quantile(self._dense)) if self._general is not None else None
        by_words = _lexical_floor(self._lexical) if self._rows else None
        return Floor(by_vector, by_words, self._rows, self._vectors, self._relatives)

    def _allowed(self) -> Mask:
        """Return the rows of the beginning that are still live, as a mask of the present size."""
        now = self.searched.catalog.namespace_mask(self.namespace)
        if len(now) == self._slots:
            return now
        allowed = now.copy()
        allowed[self._slots :] = False  # slots are never given out again
        return allowed


def fit_floor(searched: Searched, namespace: str, vectors: NDArray[np.float32] | None) -> Floor:
    """Fit the floors of a namespace at once; the arguments are those of `FloorFit`."""
    fit = FloorFit(searched, namespace, vectors)
    fit.step(len(general_questions()))
    return fit.floor()


def _rounded(cosine: float) -> float:
    """Round down: the last digits depend on how many questions are searched for at a time."""
    return math.floor(cosine * 1e5) / 1e5


def _relatives(searched: Searched, namespace: str) -> tuple[str, ...]:
    """Return the lessons to compare with: all, or those whose ids have the lowest checksums."""
    if searched.dense is None:
        return ()
    catalog = searched.catalog
    slots = np.flatnonzero(catalog.namespace_mask(namespace)).tolist()
    names = [catalog.names[slot] for slot in slots]
    lessons = [name for name in names if catalog.kind(name) == "lesson"]
    return tuple(sorted(lessons, key=_checksum)[:RELATIVES])


def _checksum(name: str) -> tuple[int, str]:
    return crc32(name.encode("utf-8", "surrogatepass")), name


def _lexical_floor(scores: NDArray[np.float64]) -> float:
    floor = _quantile(scores)
    return floor if floor >= LEAST_LEXICAL else max(_quantile(scores[scores > 0]), LEAST_LEXICAL)


def _quantile(scores: NDArray[np.floating]) -> float:
    """Return a score that was reached, so that a floor is never between two of them; 0 for none."""
    if not len(scores):
        return 0.0
    return float(np.quantile(scores, QUANTILE, method="higher"))
