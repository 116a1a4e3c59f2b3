"""Means over groups with their uncertainty: groups are drawn again, never single requests.

Requests about one family are alike, so that the families are what was sampled. The interval is the
percentile interval of the bootstrap (Efron and Tibshirani, "An introduction to the bootstrap", 1993,
chapter 13), with whole groups as units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from epimem.evaluation.statistics import LEVEL, REPLICATES, bootstrap


@dataclass(frozen=True)
class Interval:
    """A mean of group means, and where it lies in `LEVEL` of the draws."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} [{self.low:.2f}, {self.high:.2f}]"


def over_groups(values: Mapping[str, Sequence[float]]) -> Interval:
    """Return the interval of the mean over groups.

    Args:
        values: of each group, at least one; groups count equally, however many values they have.

    Raises:
        ValueError: there is no group, or one without values.
    """
    if not values or not all(map(len, values.values())):
        raise ValueError("a mean over groups needs groups with values")
    means = np.array([float(np.mean(values[group])) for group in sorted(values)])
    drawn = bootstrap(means[None, :], np.ones((1, len(means))), REPLICATES)
    tail = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(drawn, [tail, 100 - tail])
    return Interval(float(means.mean()), float(low), float(high))
