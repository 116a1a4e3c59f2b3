"""Bootstrap intervals over groups: what they are, and that differences are paired."""

from __future__ import annotations

import random

import pytest

from epimem.evaluation.statistics import paired_difference
from training.evaluation.intervals import Resampled


def column(values):
    return [(f"g{at // 2}", float(value)) for at, value in enumerate(values)]


def test_the_mean_is_over_demonstrations_not_over_groups():
    found = Resampled({"a": [("g", 1.0), ("g", 1.0), ("g", 1.0), ("h", 0.0)]}).estimate("a")
    assert (found.mean, found.items, found.groups) == (0.75, 4, 2)


def test_intervals_are_those_of_the_statistics_of_the_project():
    draw = random.Random(3)
    first, second = ([draw.random() < p for _ in range(80)] for p in (0.8, 0.5))
    found = Resampled({"a": column(first), "b": column(second)}).difference(["a"], ["b"])
    rights = [{(0, f"t{at}"): it for at, it in enumerate(side)} for side in (first, second)]
    units = {f"t{at}": f"g{at // 2}" for at in range(80)}
    known = paired_difference(("a", "b"), *rights, units)
    assert found.mean == pytest.approx(known.mean)
    assert found.low == pytest.approx(known.low, abs=0.01)
    assert found.high == pytest.approx(known.high, abs=0.01)


def test_whole_groups_are_drawn():
    alike = [(f"g{at // 10}", float(at // 10 % 2)) for at in range(100)]
    apart = [(f"g{at}", float(at % 2)) for at in range(100)]
    wide = Resampled({"a": alike}).estimate("a")
    narrow = Resampled({"a": apart}).estimate("a")
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


def test_a_difference_is_paired():
    draw = random.Random(1)
    values = [draw.random() for _ in range(60)]
    found = Resampled({"a": column(values), "b": column([it - 0.1 for it in values])})
    over = found.difference(["a"], ["b"])
    assert over.low == pytest.approx(0.1)
    assert over.high == pytest.approx(0.1)
    alone = found.estimate("a")
    assert alone.high - alone.low > 0.1


def test_a_measure_of_two_rates_weighs_both_the_same():
    found = Resampled({"of 0": [("g", 1.0)] * 9 + [("h", 1.0)], "of 1": [("h", 0.0)]})
    assert found.estimate("of 0", "of 1").mean == 0.5
    assert found.estimate("of 0", "of 1").items == 11
    # A replicate without one of the two has no value, and there are others.
    assert found.estimate("of 0", "of 1").low == 0.5


def test_one_group_has_no_interval():
    found = Resampled({"a": [("g", 1.0), ("g", 0.0)]}).estimate("a")
    assert (found.mean, found.low, found.high, found.groups) == (0.5, None, None, 1)


def test_the_seed_decides():
    values = column([random.Random(2).random() for _ in range(3)] + [0.0, 1.0, 0.3, 0.9, 0.4])
    found = [
        Resampled({"a": values}, seed=seed, replicates=200).estimate("a") for seed in (0, 0, 1)
    ]
    assert found[0] == found[1] != found[2]
