from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.text.clusters import (
    Hierarchy,
    adjusted_rand,
    cut_nearest,
    dendrogram_purity,
    level_nearest,
)

# Root over two groups of leaves and a group of groups.
TREE = Hierarchy(
    "root",
    {"root": ("a", "b"), "a": ("a1", "a2", "a3"), "b": ("b1", "b2"), "b1": ("x", "y", "z")},
)

partitions = st.integers(2, 12).flatmap(
    lambda size: st.tuples(
        *[st.lists(st.integers(0, 3), min_size=size, max_size=size) for _ in range(2)]
    )
)


def test_equal_partitions_agree_whatever_the_names() -> None:
    assert adjusted_rand([0, 0, 1, 1, 2], ["b", "b", "c", "c", "a"]) == 1.0
    assert adjusted_rand(["one"] * 4, [7] * 4) == 1.0


def test_the_index_of_hubert_and_arabie() -> None:
    # Pairs together in both 1, in rows 2 and in columns 3 of 6: (1 - 1) / (2.5 - 1) = 0.
    assert adjusted_rand([0, 0, 1, 1], [0, 0, 0, 1]) == 0.0
    # Pairs together in both 2, in rows 4, in columns 3, of 15.
    assert adjusted_rand([0, 0, 1, 1, 1, 2], [0, 0, 1, 1, 2, 2]) == pytest.approx(
        (2 - 4 * 3 / 15) / (3.5 - 4 * 3 / 15)
    )


@settings(deadline=None)
@given(partitions)
def test_the_index_counts_pairs(both: tuple[list[int], list[int]]) -> None:
    first, second = both
    pairs = list(itertools.combinations(range(len(first)), 2))
    a = [first[i] == first[j] for i, j in pairs]
    b = [second[i] == second[j] for i, j in pairs]
    together = sum(x and y for x, y in zip(a, b, strict=True))
    expected = sum(a) * sum(b) / len(pairs)
    most = (sum(a) + sum(b)) / 2
    wanted = 1.0 if most == expected else (together - expected) / (most - expected)
    assert adjusted_rand(first, second) == pytest.approx(wanted)


def test_chance_agrees_with_nothing() -> None:
    rng = random.Random(3)
    found = adjusted_rand(*[[rng.randrange(27) for _ in range(3000)] for _ in range(2)])
    assert abs(found) < 0.01


def test_the_cut_takes_the_largest_apart_and_stops_nearest() -> None:
    assert cut_nearest(TREE, 1) == ["root"]
    assert cut_nearest(TREE, 2) == ["a", "b"]
    # b holds most leaves: 2 -> a, b1, b2; then a and b1 have three, and a comes first.
    assert cut_nearest(TREE, 3) == ["a", "b1", "b2"]
    assert cut_nearest(TREE, 4) == ["a", "b1", "b2"]
    assert cut_nearest(TREE, 5) == ["a1", "a2", "a3", "b1", "b2"]
    assert cut_nearest(TREE, 99) == ["a1", "a2", "a3", "x", "y", "z", "b2"]


def test_the_level_nearest_in_number() -> None:
    assert level_nearest(TREE, 1) == ["root"]
    assert level_nearest(TREE, 3) == ["a", "b"]
    assert level_nearest(TREE, 4) == ["a1", "a2", "a3", "b1", "b2"]
    assert level_nearest(TREE, 50) == ["a1", "a2", "a3", "x", "y", "z", "b2"]


def test_every_leaf_is_in_the_group_it_lies_under() -> None:
    groups = TREE.groups(["a", "b1", "b2"])
    assert groups == {"a1": 0, "a2": 0, "a3": 0, "x": 1, "y": 1, "z": 1, "b2": 2}


def test_purity_of_a_sorted_and_of_a_mixed_tree() -> None:
    sorted_labels = {"a1": "A", "a2": "A", "a3": "A", "x": "B", "y": "B", "z": "B", "b2": "B"}
    assert dendrogram_purity(TREE, sorted_labels) == 1.0
    # The only pair of one label meets at the root, where two of seven leaves carry it.
    alone = dict(zip(sorted_labels, "ABCADEF", strict=True))
    assert dendrogram_purity(TREE, alone) == pytest.approx(2 / 7)


@settings(deadline=None)
@given(st.lists(st.sampled_from("ABC"), min_size=7, max_size=7))
def test_purity_is_a_mean_over_pairs(letters: list[str]) -> None:
    leaves = ["a1", "a2", "a3", "x", "y", "z", "b2"]
    labels = dict(zip(leaves, letters, strict=True))
    found = []
    for one, other in itertools.combinations(leaves, 2):
        if labels[one] == labels[other]:
            meeting = min(
                (node for node in TREE.children if {one, other} <= set(_below(node))),
                key=lambda node: len(_below(node)),
            )
            below = _below(meeting)
            found.append(sum(labels[leaf] == labels[one] for leaf in below) / len(below))
    wanted = sum(found) / len(found) if found else 1.0
    assert dendrogram_purity(TREE, labels) == pytest.approx(wanted)


def _below(node: str) -> list[str]:
    children = TREE.children.get(node)
    return [leaf for child in children for leaf in _below(child)] if children else [node]
