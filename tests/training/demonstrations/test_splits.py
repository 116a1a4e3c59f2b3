from __future__ import annotations

import pytest
from hypothesis import given as given_
from hypothesis import settings
from hypothesis import strategies as st

from epimem.errors import ConfigError
from training.demonstrations.splits import SHARES, split_groups


def given(*drawn):
    """Fewer examples than usual: the groups are drawn by dozens."""
    return lambda test: settings(max_examples=40, deadline=None)(given_(*drawn)(test))


names = st.lists(st.text(max_size=4), max_size=60, unique=True)
shares = (
    st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
    .filter(any)
    .map(
        lambda parts: {
            name: part / sum(parts)
            for name, part in zip(("train", "dev", "test"), parts, strict=True)
        }
    )
)
shown = st.dictionaries(
    st.sampled_from([f"g{at}" for at in range(20)]),
    st.lists(st.sampled_from([f"i{at}" for at in range(15)]), max_size=2).map(set),
    max_size=20,
)


@given(names, st.integers(), shares, st.randoms())
def test_the_order_in_which_groups_come_has_no_part_in_their_split(groups, seed, parts, chance):
    found = split_groups(groups, seed, parts)
    other = [*groups, *groups]
    chance.shuffle(other)
    assert split_groups(other, seed, parts) == found
    assert set(found) == set(groups)


@pytest.mark.parametrize("seed", range(8))
def test_nor_has_it_where_groups_are_joined(seed):
    images = {f"g{at:02}": {f"i{at % 12}"} for at in range(24)}
    backwards = dict(reversed(images.items()))
    found = split_groups(images, seed, images=images)
    assert split_groups(backwards, seed, images=backwards) == found


@given(names.filter(lambda found: len(found) >= 3), st.integers(), shares)
def test_no_split_with_a_share_is_empty_from_three_groups_on(groups, seed, parts):
    found = set(split_groups(groups, seed, parts).values())
    assert found == {name for name, share in parts.items() if share > 0}


@given(names, st.integers(), shares)
def test_shares_are_kept_to_within_what_whole_groups_allow(groups, seed, parts):
    found = list(split_groups(groups, seed, parts).values())
    wanted = {name: share * len(groups) for name, share in parts.items() if share > 0}
    # A split whose share is less than one group gets one, which others must give.
    room = 1 if all(number >= 1 for number in wanted.values()) else 3
    for name, number in wanted.items():
        assert abs(found.count(name) - number) < room


def test_eight_in_ten_go_to_training_where_nothing_else_is_said():
    found = list(split_groups([f"g{at}" for at in range(200)], 0).values())
    assert {name: found.count(name) for name in SHARES} == {"train": 160, "dev": 20, "test": 20}


def test_with_few_groups_the_larger_shares_come_first():
    assert split_groups([], 0) == {}
    assert split_groups(["a"], 0) == {"a": "train"}
    assert set(split_groups(["a", "b"], 0).values()) == {"train", "dev"}
    assert set(split_groups(["a"], 0, {"test": 0.9, "train": 0.1}).values()) == {"test"}


@given(shown, st.integers())
def test_groups_that_share_an_image_stand_in_one_split(images, seed):
    found = split_groups(images, seed, images=images)
    for one, first in images.items():
        for other, second in images.items():
            if first & second:
                assert found[one] == found[other]


@given(shown, st.integers())
def test_groups_that_share_nothing_are_not_joined(images, seed):
    """From three independent groups on, all splits are used: joined too eagerly, they would not be."""
    loners = [name for name, own in images.items() if not own]
    found = split_groups(images, seed, images=images)
    if len(loners) >= 3:
        assert len(set(found.values())) == 3


def test_a_chain_of_shared_images_is_one_group():
    images = {f"g{at}": {f"i{at}", f"i{at + 1}"} for at in range(30)}
    found = split_groups([*images, "x", "y"], 5, images=images)
    assert len({found[name] for name in images}) == 1
    assert set(found.values()) == {"train", "dev", "test"}


def test_another_seed_deals_otherwise():
    groups = [f"g{at}" for at in range(50)]
    assert len({tuple(split_groups(groups, seed).values()) for seed in range(5)}) == 5


def test_a_split_does_not_follow_the_names_of_the_groups():
    groups = [f"g{at:03}" for at in range(100)]
    found = split_groups(groups, 0)
    held_out = [at for at, name in enumerate(groups) if found[name] == "test"]
    assert max(held_out) - min(held_out) > 30


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"train": 0.9},
        {"train": 1.2, "dev": -0.2},
        {"train": 0.8, "dev": 0.1, "exam": 0.1},
        {"train": 80, "dev": 10, "test": 10},
    ],
)
def test_shares_that_are_none_are_refused(parts):
    with pytest.raises(ConfigError, match="shares"):
        split_groups(["a", "b", "c"], 0, parts)
