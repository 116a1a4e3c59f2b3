"""The bootstrap: against scipy where the designs agree, and what it must not believe."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from epimem.evaluation.statistics import Difference, bootstrap, mean_and_sd, paired_difference

NAMES = ("product", "shuffled")


def arms(
    differences: np.ndarray,
) -> tuple[dict[tuple[int, str], bool], dict[tuple[int, str], bool]]:
    """Return two arms whose differences are these, shape (seeds, tasks), each -1, 0 or 1."""
    first, second = {}, {}
    for (seed, task), value in np.ndenumerate(differences):
        first[seed, f"t{task}"] = value > 0
        second[seed, f"t{task}"] = value < 0
    return first, second


def compared(
    differences: np.ndarray, *, groups: dict[str, str] | None = None, replicates: int = 4000
) -> Difference:
    first, second = arms(differences)
    units = {task: task for _, task in first} | (groups or {})
    found = paired_difference(NAMES, first, second, units, replicates=replicates)
    assert found is not None
    return found


def test_one_seed_gives_the_interval_of_scipy() -> None:
    values = np.random.default_rng(1).choice([-1, 0, 1], p=[0.1, 0.5, 0.4], size=(1, 200))

    found = compared(values, replicates=20_000)

    expected = stats.bootstrap(
        (values[0].astype(float),), np.mean, method="percentile", n_resamples=20_000, rng=2
    ).confidence_interval
    assert found.mean == pytest.approx(values.mean())
    assert found.low == pytest.approx(expected.low, abs=0.01)
    assert found.high == pytest.approx(expected.high, abs=0.01)


def test_ten_seeds_that_say_the_same_say_no_more_than_one() -> None:
    one = np.random.default_rng(3).choice([-1, 0, 1], size=(1, 100))

    single, ten = compared(one), compared(np.repeat(one, 10, axis=0))

    assert ten.high - ten.low == pytest.approx(single.high - single.low, rel=0.1)


def test_questions_of_one_group_count_once() -> None:
    one = np.random.default_rng(4).choice([-1, 0, 1], size=(1, 50))
    four = np.repeat(one, 4, axis=1)  # t0..t3 are the same question four times

    grouped = compared(four, groups={f"t{task}": f"g{task // 4}" for task in range(200)})
    loose = compared(four)

    assert grouped.high - grouped.low == pytest.approx(
        compared(one).high - compared(one).low, rel=0.1
    )
    assert loose.high - loose.low < 0.7 * (grouped.high - grouped.low)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """Questions differ in what memory is worth for them, and seeds do; both count."""
    generator = np.random.default_rng(5)
    inside = 0
    for _ in range(150):
        question = generator.normal(0.2, 0.5, size=(1, 40))
        seed = generator.normal(0.0, 0.1, size=(8, 1))
        chance = np.clip(question + seed, -1, 1)
        drawn = np.sign(chance) * (generator.random((8, 40)) < np.abs(chance))
        found = compared(drawn.astype(int), replicates=400)
        inside += found.low <= 0.2 * 0.95 <= found.high  # clipping moves the mean a little
    assert inside / 150 >= 0.9


def test_seeds_and_signs_are_counted() -> None:
    values = np.array([[1, 1, 0, 0], [1, -1, 0, 0], [-1, -1, 0, 0]])

    found = compared(values)

    assert found.by_seed == {0: 2, 1: 0, 2: -2}
    assert (found.above, found.mean, found.mean_count, found.pairs) == (1, 0.0, 0.0, 12)
    assert found.low < 0 < found.high
    assert compared(np.ones((3, 4), dtype=int)).low == 1.0


def test_only_questions_that_both_arms_answered_are_compared() -> None:
    first = {(0, "a"): True, (0, "b"): True, (1, "a"): True}
    second = {(0, "a"): False, (1, "a"): True, (1, "c"): True}
    units = {"a": "a", "b": "b", "c": "c"}

    found = paired_difference(NAMES, first, second, units)

    assert found is not None
    assert (found.pairs, found.by_seed) == (2, {0: 1, 1: 0})
    assert paired_difference(NAMES, first, {}, units) is None


def test_tasks_may_differ_from_seed_to_seed() -> None:
    first = {(0, "a"): True, (1, "b"): True}
    second = dict.fromkeys(first, False)

    found = paired_difference(NAMES, first, second, {"a": "a", "b": "b"})

    assert found is not None
    assert (found.low, found.high) == (1.0, 1.0)  # replicates that drew no pair at all are left out
    assert np.isfinite(bootstrap(np.eye(2), np.eye(2), 100)).all()


def test_the_interval_is_the_same_at_every_call() -> None:
    values = np.random.default_rng(6).choice([-1, 0, 1], size=(3, 30))

    assert compared(values) == compared(values)


def test_mean_and_deviation() -> None:
    assert mean_and_sd([1.0, 2.0, 3.0, 4.0]) == (2.5, pytest.approx(1.2909944487))
    assert mean_and_sd([3.0]) == (3.0, 0.0)
