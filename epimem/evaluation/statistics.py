"""Means over seeds, and paired differences with a bootstrap interval.

Two arms answer the same questions under the same seeds, so their difference is taken question by
question. Two things vary by chance: which seeds were drawn, and which questions. Both are resampled
with replacement and independently of each other: a replicate weighs every seed and every group of
questions by how often it was drawn, and its value is the weighted mean difference. The interval is
that of the percentiles of the replicates (Efron and Tibshirani, An Introduction to the Bootstrap,
1993, chapters 8 and 13). Seeds and questions are crossed, and every seed meets the same drawn questions
(the pigeonhole bootstrap: Owen, Annals of Applied Statistics 1(2), 2007, 386-411): questions drawn
anew for each seed would treat one hard question as several. Questions of one group (a document, a
map) are drawn together, as they are not independent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from epimem.schema.base import Record, StrictFloat, StrictInt

REPLICATES = 10_000
LEVEL = 0.95
_CHUNK = 500


class Difference(Record):
    """How much better the first arm is than the second.

    `mean`, `low` and `high` are shares of questions in [-1, 1]: the mean over all pairs and its 95 %
    interval. `by_seed` is the number of questions solved more, for each seed; `above` counts the seeds
    where that is more than 0.
    """

    first: str
    second: str
    mean: StrictFloat
    low: StrictFloat
    high: StrictFloat
    by_seed: dict[int, StrictInt]
    pairs: StrictInt

    @property
    def above(self) -> int:
        """In how many seeds the first arm solved more questions."""
        return sum(value > 0 for value in self.by_seed.values())

    @property
    def mean_count(self) -> float:
        """Questions solved more by the first arm, mean over seeds."""
        return sum(self.by_seed.values()) / len(self.by_seed)


def mean_and_sd(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and the standard deviation over seeds (n - 1); that of one value is 0."""
    array = np.asarray(values, dtype=np.float64)
    return float(array.mean()), float(array.std(ddof=1)) if len(array) > 1 else 0.0


def paired_difference(
    names: tuple[str, str],
    first: Mapping[tuple[int, str], bool],
    second: Mapping[tuple[int, str], bool],
    units: Mapping[str, str],
    *,
    replicates: int = REPLICATES,
) -> Difference | None:
    """Compare two arms over the questions that both answered; None where there is none.

    Args:
        names: of the arms.
        first: right or wrong by (seed, task).
        second: the same of the other arm.
        units: the group of each task.
        replicates: of the bootstrap, whose random numbers are the same at each call.
    """
    pairs = sorted(first.keys() & second.keys())
    if not pairs:
        return None
    seeds = sorted({seed for seed, _ in pairs})
    groups = sorted({units[task] for _, task in pairs})
    rows = {seed: row for row, seed in enumerate(seeds)}
    columns = {group: column for column, group in enumerate(groups)}
    sums = np.zeros((len(seeds), len(groups)))
    counts = np.zeros_like(sums)
    for seed, task in pairs:
        place = rows[seed], columns[units[task]]
        sums[place] += int(first[seed, task]) - int(second[seed, task])
        counts[place] += 1
    values = bootstrap(sums, counts, replicates)
    tail = 50.0 * (1.0 - LEVEL)
    low, high = np.percentile(values, (tail, 100.0 - tail))
    return Difference(
        first=names[0],
        second=names[1],
        mean=float(sums.sum() / counts.sum()),
        low=float(low),
        high=float(high),
        by_seed={seed: round(float(sums[row].sum())) for seed, row in rows.items()},
        pairs=len(pairs),
    )


def bootstrap(
    sums: NDArray[np.float64], counts: NDArray[np.float64], replicates: int
) -> NDArray[np.float64]:
    """Return the mean difference of each replicate.

    Args:
        sums: shape (seeds, groups), the sum of the differences of a group under a seed.
        counts: the number of its questions there.
        replicates: how many; one that drew nothing is left out.
    """
    generator = np.random.default_rng(0)
    seeds, groups = sums.shape
    values = []
    for start in range(0, replicates, _CHUNK):
        size = min(_CHUNK, replicates - start)
        by_seed = _drawn(generator, seeds, size)
        by_group = _drawn(generator, groups, size)
        total = np.einsum("rs,sr->r", by_seed, sums @ by_group.T)
        weight = np.einsum("rs,sr->r", by_seed, counts @ by_group.T)
        values.append(total[weight > 0] / weight[weight > 0])
    return np.concatenate(values)


def _drawn(generator: np.random.Generator, size: int, replicates: int) -> NDArray[np.float64]:
    """Return how often each of `size` things is drawn in `size` draws, one row a replicate."""
    return generator.multinomial(size, np.full(size, 1.0 / size), size=replicates).astype(
        np.float64
    )
