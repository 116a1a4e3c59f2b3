"""The floor: the score below which recall says that nothing in the bank is about the question.

Reference: the design's journey C. The floor of a signal is the 99th percentile of the best score
that the 512 general questions get, one per signal, before fusion; a candidate passes when it
reaches either. It is fitted per namespace (ours), since that is what a question can see, and again
when the number of live rows has grown by 25 % or shrunk as much (the latter ours).

Ours: a lexical floor below a tenth of a question's weight is replaced by the one over those general
questions that share a term with the rows, and is a tenth at least. A bank in Chinese shares nothing
with most of the list, and would otherwise get a floor of zero.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epimem.bank.catalog import Mask
from epimem.bank.derived import read_derived, write_derived
from epimem.bank.general_questions import general_questions, questions_digest
from epimem.bank.index import DenseIndex
from epimem.bank.lexical import LexicalIndex

QUANTILE = 0.99
GROWTH = 0.25
LEAST_LEXICAL = 0.1
FILE_NAME = "floors.derived"
_FORMAT = 1


@dataclass(frozen=True)
class Floor:
    """The floors of one namespace; None where a signal has nothing to search.

    `rows` and `vectors` count what was searched when the floor was fitted.
    """

    dense: float | None
    lexical: float | None
    rows: int
    vectors: int

    def passes(self, dense: float | None, lexical: float | None) -> bool:
        """Whether one of the two scores reaches its floor; a lexical score of zero never does."""
        by_dense = dense is not None and self.dense is not None and dense >= self.dense
        by_words = bool(lexical) and self.lexical is not None and (lexical or 0.0) >= self.lexical
        return by_dense or by_words

    def fits(self, rows: int, vectors: int) -> bool:
        """Whether the floor still stands for a namespace of this size."""
        return _near(self.rows, rows) and _near(self.vectors, vectors)


def _near(fitted: int, now: int) -> bool:
    return now == fitted or abs(now - fitted) < GROWTH * fitted


def fit_floor(
    lexical: LexicalIndex,
    dense: DenseIndex | None,
    allowed: Mask,
    vectors: NDArray[np.float32] | None,
) -> Floor:
    """Fit the floors of the allowed rows.

    Args:
        lexical: the lexical index.
        dense: the dense index, or None without an encoder.
        allowed: all live rows of one namespace.
        vectors: the general questions, shape (512, dimension); None without an encoder.
    """
    rows = int(np.count_nonzero(allowed))
    counted = dense.count(allowed) if dense is not None else 0
    by_words = None
    if rows:
        by_words = _lexical_floor(lexical.best(general_questions(), allowed))
    by_vector = None
    if dense is not None and vectors is not None and counted:
        by_vector = _quantile(dense.best(vectors, allowed))
    return Floor(by_vector, by_words, rows, counted)


def _lexical_floor(scores: NDArray[np.float64]) -> float:
    floor = _quantile(scores)
    return floor if floor >= LEAST_LEXICAL else max(_quantile(scores[scores > 0]), LEAST_LEXICAL)


def _quantile(scores: NDArray[np.floating]) -> float:
    """Return a score that was reached, so that a floor is never between two of them; 0 for none."""
    if not len(scores):
        return 0.0
    return float(np.quantile(scores, QUANTILE, method="higher"))


def read_floors(folder: Path, bank_id: str, fingerprint: str) -> dict[str, Floor]:
    """Return the stored floors by namespace; none unless made for this bank and encoder."""
    stored = read_derived(folder / FILE_NAME, _header(bank_id, fingerprint))
    if stored is None:
        return {}
    values = json.loads(stored.arrays["floors"].tobytes())
    return {namespace: Floor(**value) for namespace, value in values.items()}


def write_floors(folder: Path, bank_id: str, fingerprint: str, floors: Mapping[str, Floor]) -> None:
    """Store floors by namespace as JSON under a checksum.

    Raises:
        OSError: the folder cannot be written to.
    """
    values = {namespace: asdict(floors[namespace]) for namespace in sorted(floors)}
    data = json.dumps(values, allow_nan=False).encode("ascii")
    arrays = {"floors": np.frombuffer(data, dtype=np.uint8)}
    write_derived(folder / FILE_NAME, _header(bank_id, fingerprint), arrays)


def _header(bank_id: str, fingerprint: str) -> dict[str, str | int]:
    return {
        "format": _FORMAT,
        "bank_id": bank_id,
        "fingerprint": fingerprint,
        "questions": questions_digest(),
        "quantile": math.floor(QUANTILE * 1000),
    }
