"""The order of batches: within bounds, little padding, every row once an epoch, the same each time."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epimem.errors import ConfigError
from training.sft.batches import MAX_WASTE, schedule

SETTINGS = {"tokens": 4_000, "rows": 6, "epochs": 2, "accumulate": 3, "seed": 1}


def made(lengths, **changed):
    return schedule(lengths, **{**SETTINGS, **changed})


def batches(plan):
    return [batch for together in plan.rounds for batch in together]


lengths_of_rows = st.lists(st.integers(1, 6_000), min_size=4, max_size=80)


@given(lengths_of_rows, st.integers(1, 4), st.integers(0, 99))
def test_every_row_comes_once_an_epoch_within_both_bounds(lengths, ranks, seed):
    plan = made(lengths, ranks=ranks, seed=seed)
    seen = Counter(place for batch in batches(plan) for place in batch)
    assert set(seen) == set(range(len(lengths)))
    # Rows come again only to fill a round, where there is nothing to halve.
    again = [seen[place] - 2 for place in seen if seen[place] != 2]
    assert all(count > 0 for count in again)
    assert sum(again) < 2 * ranks
    if again:
        assert all(len(batch) == 1 for batch in batches(plan))
    for batch in batches(plan):
        longest = max(lengths[place] for place in batch)
        assert len(batch) <= 6
        assert len(batch) == 1 or len(batch) * longest <= 4_000
    assert all(len(together) == ranks for together in plan.rounds)


@given(lengths_of_rows)
def test_no_batch_is_more_than_a_tenth_padding(lengths):
    plan = made(lengths)
    for batch in batches(plan):
        sizes = [lengths[place] for place in batch]
        assert 1 - sum(sizes) / (len(sizes) * max(sizes)) <= MAX_WASTE + 1e-9
    assert 0 <= plan.waste(lengths) <= MAX_WASTE + 1e-9


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 99))
def test_kinds_come_evenly_in_the_share_that_they_have(many, few, seed):
    kinds = ["a"] * many + ["b"] * few
    plan = made([100] * len(kinds), rows=1, epochs=1, seed=seed, kinds=kinds)
    order = [kinds[place] for batch in batches(plan) for place in batch]
    share = many / len(kinds)
    for width in (8, 16):
        for start in range(len(order) - width + 1):
            count = order[start : start + width].count("a")
            assert abs(count - width * share) <= 2


def test_rows_of_one_kind_are_shuffled_and_those_of_all_kinds_alike_without_kinds():
    kinds = ["a", "b"] * 20
    plan = made([100] * 40, rows=1, epochs=2, kinds=kinds)
    first, second = batches(plan)[:40], batches(plan)[40:]
    assert [kinds[place] for (place,) in first] != sorted(kinds)
    assert first != second
    assert first != sorted(first)
    plain = [place for (place,) in batches(made([100] * 40, rows=1, epochs=1))]
    assert sorted(plain) == list(range(40))
    assert plain != sorted(plain)


def test_waste_is_the_share_of_padding():
    plan = made([90, 100], epochs=1, tokens=200)
    assert plan.rounds == (((0, 1),),)
    assert plan.waste([90, 100]) == pytest.approx(10 / 200)


def test_an_equal_seed_gives_equal_batches_and_another_seed_or_epoch_others():
    lengths = [100 + at % 7 for at in range(60)]
    plan = made(lengths)
    assert plan == made(lengths)
    assert plan != made(lengths, seed=2)
    half = len(plan.rounds) // 2
    first, second = ({frozenset(it[0]) for it in plan.rounds[at : at + half]} for at in (0, half))
    assert first != second


def test_long_and_short_batches_are_mixed():
    lengths = list(range(100, 1_000, 10))
    longest = [max(lengths[place] for place in batch) for batch in batches(made(lengths, epochs=1))]
    half = len(longest) // 2
    first, second = sum(longest[:half]) / half, sum(longest[half:]) / (len(longest) - half)
    assert abs(first - second) < 200  # in order it would be 450


def test_steps_count_accumulated_rounds_and_name_their_batches():
    plan = made([100] * 50, epochs=1, rows=5)
    assert (len(plan.rounds), plan.steps) == (10, 4)
    assert [len(plan.batches(step)) for step in (1, 2, 3, 4)] == [3, 3, 3, 1]
    told = [batch for step in (1, 2, 3, 4) for batch in plan.batches(step)]
    assert told == batches(plan)


def test_ranks_have_different_rows_of_near_lengths_in_every_round():
    lengths = [100 * (1 + at // 8) for at in range(64)]
    plan = made(lengths, ranks=2, epochs=1, rows=4)
    mine, others = plan.of_rank(0), plan.of_rank(1)
    assert len(mine) == len(others) == len(plan.rounds)
    assert not {place for batch in mine for place in batch} & {
        place for batch in others for place in batch
    }
    for one, other in zip(mine, others, strict=True):
        assert abs(lengths[one[0]] - lengths[other[0]]) <= 100


def test_fewer_rows_than_ranks_are_refused():
    with pytest.raises(ConfigError, match="fewer rows"):
        made([10, 20], ranks=3)
