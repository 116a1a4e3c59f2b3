"""Means of measures with bootstrap intervals over groups, and paired differences.

Demonstrations of one group (a house, a document) are not independent, so whole groups are drawn with
replacement and a measure is the mean over the demonstrations of the drawn groups; the interval is that
of the percentiles of the replicates (Efron and Tibshirani, An Introduction to the Bootstrap, 1993,
chapters 8 and 13). In a replicate all controllers meet the same groups, so a difference is paired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from epimem.evaluation.statistics import LEVEL, REPLICATES
from epimem.schema.base import Record, StrictFloat, StrictInt

_CHUNK = 500
K = TypeVar("K")


class Estimate(Record):
    """A mean, its 95 % interval, and over how many demonstrations of how many groups.

    `low` and `high` are None where there are fewer than two groups to draw.
    """

    mean: StrictFloat
    low: StrictFloat | None = None
    high: StrictFloat | None = None
    items: StrictInt
    groups: StrictInt


class Resampled(Generic[K]):
    """Columns of values, resampled together.

    Args:
        columns: by key, the group and the value of each demonstration that has this number.
        seed: of the random numbers; the same columns and seed give the same intervals.
        replicates: of the bootstrap.
    """

    def __init__(
        self,
        columns: Mapping[K, Sequence[tuple[str, float]]],
        *,
        seed: int = 0,
        replicates: int = REPLICATES,
    ) -> None:
        groups = sorted({group for values in columns.values() for group, _ in values})
        rows = {group: row for row, group in enumerate(groups)}
        self._places = {key: place for place, key in enumerate(columns)}
        self._sums = np.zeros((len(groups), len(columns)))
        self._counts = np.zeros_like(self._sums)
        for key, values in columns.items():
            for group, value in values:
                self._sums[rows[group], self._places[key]] += value
                self._counts[rows[group], self._places[key]] += 1
        self._drawn = _ratios(self._sums, self._counts, seed, replicates)

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def estimate(self, *keys: K) -> Estimate:
        """Return the mean of one column, or of the means of several, each of them weighing the same."""
        return self._of(keys, self._points(keys), self._replicates(keys))

    def difference(self, first: Sequence[K], second: Sequence[K]) -> Estimate:
        """Return how much higher the first is than the second, over the same drawn groups."""
        mean = self._points(first) - self._points(second)
        return self._of(first, mean, self._replicates(first) - self._replicates(second))

    def _points(self, keys: Sequence[K]) -> float:
        found = [self._places[key] for key in keys]
        return float((self._sums[:, found].sum(axis=0) / self._counts[:, found].sum(axis=0)).mean())

    def _replicates(self, keys: Sequence[K]) -> NDArray[np.float64]:
        values: NDArray[np.float64] = self._drawn[:, [self._places[key] for key in keys]].mean(
            axis=1
        )
        return values

    def _of(self, keys: Sequence[K], mean: float, values: NDArray[np.float64]) -> Estimate:
        counts = self._counts[:, [self._places[key] for key in keys]]
        groups = int((counts > 0).any(axis=1).sum())
        # A replicate that drew nothing of a column has no value.
        kept = values[~np.isnan(values)]
        tail = 50.0 * (1.0 - LEVEL)
        low, high = np.percentile(kept, (tail, 100.0 - tail)) if groups > 1 else (None, None)
        return Estimate(
            mean=mean,
            low=None if low is None else float(low),
            high=None if high is None else float(high),
            items=int(counts.sum()),
            groups=groups,
        )


def _ratios(
    sums: NDArray[np.float64], counts: NDArray[np.float64], seed: int, replicates: int
) -> NDArray[np.float64]:
    """Return the mean of each column in each replicate, shape (replicates, columns)."""
    generator = np.random.default_rng(seed)
    groups = len(sums)
    found = np.empty((replicates, sums.shape[1]))
    for start in range(0, replicates, _CHUNK):
        size = min(_CHUNK, replicates - start)
        drawn = generator.multinomial(groups, np.full(groups, 1.0 / groups), size=size)
        with np.errstate(invalid="ignore"):
            found[start : start + size] = (drawn @ sums) / (drawn @ counts)
    return found
