"""What the formulas do with agents whose skill is known; signs over seeds, no sizes."""

from __future__ import annotations

import pytest

from benchmarks.evochamber.simulation import (
    NICHES,
    alive,
    by_niche,
    line,
    niches_of,
    score,
    solved,
    unreached,
)

SEEDS = range(4)
TASKS = 150


def mean(values):
    found = list(values)
    return sum(found) / len(found)


def test_specialists_emerge_and_not_where_labels_are_mixed_up():
    found = [by_niche(*solved(seed, tasks=TASKS)[:2]) for seed in SEEDS]
    mixed = [by_niche(*solved(seed, tasks=TASKS, mixed_up=True)[:2]) for seed in SEEDS]
    assert all(one > two for one, two in zip(found, mixed, strict=True))


def test_a_scout_keeps_everyone_alive():
    with_scout = [alive(*solved(seed, tasks=TASKS)[1:]) for seed in SEEDS]
    without = [alive(*solved(seed, tasks=TASKS, team=2)[1:]) for seed in SEEDS]
    assert all(one > two for one, two in zip(with_scout, without, strict=True))


def test_a_scout_does_so_with_as_many_seats_too():
    with_scout = [alive(*solved(seed, tasks=TASKS)[1:]) for seed in SEEDS]
    without = [alive(*solved(seed, tasks=TASKS, team=2)[1:], last=2) for seed in SEEDS]
    assert mean(with_scout) > mean(without)


def test_transfer_is_what_they_gain_by():
    found = mean(score(solved(seed, tasks=TASKS)[1]) for seed in SEEDS)
    alone = mean(
        score(solved(seed, tasks=TASKS, without=("structures", "codream"))[1]) for seed in SEEDS
    )
    assert found > alone


@pytest.mark.parametrize("niches", [1, 4])
def test_early_in_a_stream_a_literal_median_wastes_what_the_default_does_not(niches):  # E11
    shares = {
        median: mean(
            unreached(solved(seed, tasks=60, niches=NICHES[:niches], median=median)[1])
            for seed in SEEDS
        )
        for median in ("literal", "seen")
    }
    assert shares["literal"] > 0.1
    assert shares["seen"] < shares["literal"] / 2


def test_the_pool_is_bounded_by_default_and_grows_for_ever_in_the_paper():  # E9
    assert max(each.pool for each in solved(0, tasks=TASKS)[1]) <= 40
    sizes = [each.pool for each in solved(0, tasks=TASKS, profile="paper")[1]]
    assert sizes[-1] > 60


def test_three_agents_come_near_to_twenty():
    many = mean(score(solved(seed, tasks=TASKS)[1]) for seed in SEEDS)
    few = mean(score(solved(seed, tasks=TASKS, agents=3)[1]) for seed in SEEDS)
    assert abs(many - few) < 0.2


def test_the_mean_over_niches_is_that_of_the_niches():
    true, episodes, _ = solved(0, tasks=60)
    found = niches_of(true, episodes)
    assert set(found) == set(NICHES)
    assert by_niche(true, episodes) == pytest.approx(mean(found.values()))


def test_a_row_has_mean_interval_and_ends():
    words = ["x", "2.000", "[-0.484,", "4.484]", "1.000", "..", "3.000"]
    assert line("x", [1.0, 2.0, 3.0]).split() == words
