"""Figures over all seeds: shares of right answers, crops, paired differences, and what banks held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from benchmarks.metro.questions import has_legend
from benchmarks.metro.seed_results import SeedResults
from epimem.evaluation import Difference, paired_difference
from epimem.evaluation.rows import Row
from epimem.evaluation.statistics import mean_and_sd


class Figures:
    """The results of several seeds, asked by evaluation and arm.

    Args:
        results: by seed.
        deciding: episodes at which memory is judged.
        largest: episodes of the largest bank.
    """

    def __init__(self, results: Mapping[int, SeedResults], *, deciding: int, largest: int) -> None:
        self.results = results
        self.deciding, self.largest = str(deciding), str(largest)
        self.leaks = [leak for found in results.values() for leak in found.leaks]

    def evaluations(self) -> list[str]:
        """Return the names of the evaluations in the order of the first seed."""
        return list(next(iter(self.results.values())).rows)

    def arms(self, evaluation: str) -> list[str]:
        """Return the arms of an evaluation."""
        return list(dict.fromkeys(row.arm for row in self._rows(evaluation)))

    def share(self, evaluation: str, arm: str, *, legend: bool | None = None) -> float:
        """Return the share of right answers; of maps with or without a legend where that is given."""
        rows = self._rows(evaluation, arm, legend=legend)
        return sum(row.right for row in rows) / len(rows)

    def spread(self, evaluation: str, arm: str, *, legend: bool | None = None) -> float:
        """Return the standard deviation of that share over seeds."""
        shares = []
        for seed in self.results:
            rows = [row for row in self._rows(evaluation, arm, legend=legend) if row.seed == seed]
            shares.append(sum(row.right for row in rows) / len(rows))
        return mean_and_sd(shares)[1]

    def crops(self, evaluation: str, arm: str) -> int:
        """Return the number of crops that were handed out."""
        return sum(row.crops for row in self._rows(evaluation, arm))

    def difference(
        self, evaluation: str, first: str, second: str, *, legend: bool | None = None
    ) -> Difference:
        """Return the paired difference of two arms; seeds and cities are resampled."""
        rows = {arm: self._rows(evaluation, arm, legend=legend) for arm in (first, second)}
        rights = {
            arm: {(row.seed, row.task): row.right for row in found} for arm, found in rows.items()
        }
        # A task id stands for another map under every seed; the city is what seeds have in common.
        units = {f"{row.seed} {row.task}": row.group for row in rows[first]}
        renamed = {
            arm: {(seed, f"{seed} {task}"): right for (seed, task), right in found.items()}
            for arm, found in rights.items()
        }
        found = paired_difference((first, second), renamed[first], renamed[second], units)
        assert found is not None
        return found

    def by_seed(self, evaluation: str, first: str, second: str) -> dict[int, int]:
        """Return by seed how many questions more the first arm had right."""
        count = {arm: Counter[int]() for arm in (first, second)}
        for arm, rights in count.items():
            rights.update({row.seed: 0 for row in self._rows(evaluation, arm)})
            rights.update(row.seed for row in self._rows(evaluation, arm) if row.right)
        return {seed: count[first][seed] - count[second][seed] for seed in count[first]}

    def measured(self, name: str) -> dict[int, dict[str, Any]]:
        """Return by seed what was measured under this name."""
        return {seed: found.measures[name] for seed, found in self.results.items()}

    def _rows(
        self, evaluation: str, arm: str | None = None, *, legend: bool | None = None
    ) -> list[Row]:
        return [
            row
            for found in self.results.values()
            for row in found.rows[evaluation]
            if (arm is None or row.arm == arm)
            and (legend is None or has_legend(row.task) == legend)
        ]
