"""Which rows go through the model together: near in length, within a budget, the same each time.

Packing (several rows in one sequence) is not done. TRL 1.16 refuses it for data with images and for a
collator of our own, and without a kernel for sequences of varying length rows would see each other; the
linear attention of Qwen3.5 would carry its state from one row into the next. Rows of near lengths cost
at most `MAX_WASTE` of padding instead.

Rows of each kind (an operation, and whether it decides for something or for nothing) come evenly over an
epoch. In random order the steps of a short run differ by chance in how often something is right, and a
small model learns that before it learns to look (measured: benchmarks/RESULTS.md, "Training").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epimem.errors import ConfigError

MAX_WASTE = 0.1
"""The share of a batch that may be padding (ours)."""
JITTER = 0.05
"""By how much a length is blurred when rows are sorted, so that an epoch groups them anew (ours)."""

Batch = tuple[int, ...]


@dataclass(frozen=True)
class Schedule:
    """All batches of a run in order.

    `rounds` holds one batch per rank each: what goes through the model at the same time. A batch is a
    tuple of places of rows. A resumed run makes the same schedule again and skips what was done.
    """

    rounds: tuple[tuple[Batch, ...], ...]
    accumulate: int

    @property
    def steps(self) -> int:
        """Optimizer steps of the run; the last may accumulate fewer rounds."""
        return -(-len(self.rounds) // self.accumulate)

    def batches(self, step: int) -> list[Batch]:
        """Return all batches of an optimizer step, which counts from 1."""
        first = (step - 1) * self.accumulate
        return [batch for each in self.rounds[first : first + self.accumulate] for batch in each]

    def of_rank(self, rank: int) -> list[list[int]]:
        """Return the batches of one rank in order."""
        return [list(batches[rank]) for batches in self.rounds]

    def waste(self, lengths: Sequence[int]) -> float:
        """Return the share of all tokens that is padding, in [0, 1)."""
        filled = real = 0
        for batches in self.rounds:
            for batch in batches:
                filled += len(batch) * max(lengths[place] for place in batch)
                real += sum(lengths[place] for place in batch)
        return 1 - real / filled


def schedule(
    lengths: Sequence[int],
    *,
    tokens: int,
    rows: int,
    epochs: int,
    accumulate: int,
    seed: int,
    ranks: int = 1,
    kinds: Sequence[str] = (),
) -> Schedule:
    """Return the batches of a run.

    Args:
        lengths: tokens of each row.
        tokens: of a batch at most, padding included; a longer row stands alone.
        rows: of a batch at most.
        epochs: how often each row is seen.
        accumulate: rounds of an optimizer step.
        seed: of the grouping and the order.
        ranks: processes that train together.
        kinds: of each row, to be spread evenly; none: all are alike.

    Raises:
        ConfigError: fewer rows than ranks.
    """
    if len(lengths) < ranks:
        raise ConfigError(
            "there are fewer rows to train on than processes", got=len(lengths), limit=ranks
        )
    rounds: list[tuple[Batch, ...]] = []
    for epoch in range(epochs):
        draw = np.random.default_rng([seed, epoch])
        blurred = np.asarray(lengths) * draw.uniform(1 - JITTER, 1 + JITTER, len(lengths))
        order = [int(place) for place in np.argsort(blurred, kind="stable")]
        batches = _divisible(_cut(order, lengths, tokens, rows), ranks)
        together = [tuple(batches[at : at + ranks]) for at in range(0, len(batches), ranks)]
        rounds += [together[at] for at in _spread([_kind(each, kinds) for each in together], draw)]
    return Schedule(tuple(rounds), accumulate)


def _kind(together: Sequence[Batch], kinds: Sequence[str]) -> str:
    """Return the kind that most rows of a round are of."""
    count = Counter(kinds[place] for batch in together for place in batch) if kinds else Counter()
    return max(count, key=lambda kind: (count[kind], kind), default="")


def _spread(kinds: Sequence[str], draw: np.random.Generator) -> list[int]:
    """Return places in an order in which each kind comes evenly, and is shuffled in itself."""
    total, seen = Counter(kinds), Counter[str]()
    offset = {kind: draw.uniform() for kind in sorted(total)}
    due = []
    for place in map(int, draw.permutation(len(kinds))):
        kind = kinds[place]
        due.append(((seen[kind] + offset[kind]) / total[kind], place))
        seen[kind] += 1
    return [place for _, place in sorted(due)]


def _cut(order: Sequence[int], lengths: Sequence[int], tokens: int, rows: int) -> list[Batch]:
    """Cut rows into batches where the next one would break a bound."""
    batches: list[Batch] = []
    batch: list[int] = []
    longest = total = 0
    for place in order:
        length = lengths[place]
        filled = (len(batch) + 1) * max(longest, length)
        full = len(batch) == rows or filled > tokens
        if batch and (full or 1 - (total + length) / filled > MAX_WASTE):
            batches.append(tuple(batch))
            batch, longest, total = [], 0, 0
        batch.append(place)
        longest, total = max(longest, length), total + length
    return [*batches, tuple(batch)]


def _divisible(batches: list[Batch], ranks: int) -> list[Batch]:
    """Halve the batches with most rows until every round has one batch per rank.

    Where all of them are single rows, the shortest come a second time to fill the last round.
    """
    while len(batches) % ranks:
        at = max(range(len(batches)), key=lambda place: len(batches[place]))
        batch = batches[at]
        if len(batch) == 1:
            return sorted([*batches, *batches[: -len(batches) % ranks]], key=batches.index)
        batches[at : at + 1] = [batch[: len(batch) // 2], batch[len(batch) // 2 :]]
    return batches
