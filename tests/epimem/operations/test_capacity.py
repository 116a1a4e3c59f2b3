from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epimem.operations.base import Limits
from epimem.operations.capacity import halve, over_full, partition


def vectors_of(size: int, dimension: int, seed: int) -> dict[str, Any]:
    made = np.random.default_rng(seed).normal(size=(size, dimension)).astype(np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return {f"n{index:05}": made[index] for index in range(size)}


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(0, 120),
    seed=st.integers(0, 99),
    minimum=st.integers(2, 5),
    more=st.integers(0, 10),
    dimension=st.sampled_from([1, 3, 40]),
)
def test_every_part_is_legal_and_the_order_given_is_irrelevant(
    size: int, seed: int, minimum: int, more: int, dimension: int
) -> None:
    limits = Limits(2 * minimum - 1 + more, minimum)
    vectors = vectors_of(size, dimension, seed)
    ids = sorted(vectors)
    parts = partition(ids, vectors, limits=limits)
    assert sorted(key for part in parts for key in part) == ids
    if size >= 2 * minimum:
        assert len(parts) >= 2
        assert all(minimum <= len(part) <= limits.capacity for part in parts)
    else:
        assert parts == (tuple(ids),)
    random.Random(seed).shuffle(ids)
    assert partition(ids, vectors, limits=limits) == parts


@pytest.mark.parametrize("sizes", [(5, 12), (4, 13), (8, 9), (6, 5, 9), (10, 10, 10, 10)])
def test_clear_groups_are_found(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(7)
    vectors, groups = {}, []
    for number, size in enumerate(sizes):
        center = np.zeros(16)
        center[number] = 1.0
        group = []
        for at in range(size):
            raw = center + rng.normal(scale=0.02, size=16)
            key = f"{at:03}-{number}"
            vectors[key] = (raw / np.linalg.norm(raw)).astype(np.float32)
            group.append(key)
        groups.append(tuple(sorted(group)))
    parts = partition(vectors, vectors, limits=Limits())
    for group in groups:
        assert sum(bool(set(part) & set(group)) for part in parts) == 1


@pytest.mark.parametrize("kind", ["equal", "zero", "none"])
def test_items_that_vectors_cannot_tell_apart_are_dealt_out_by_id(kind: str) -> None:
    ids = [f"n{index:03}" for index in range(40)]
    one = np.full(384, 384**-0.5, dtype=np.float32)
    vectors = {
        "equal": dict.fromkeys(ids, one),
        "zero": dict.fromkeys(ids, np.zeros(384, dtype=np.float32)),
        "none": {},
    }[kind]
    parts = partition(ids, vectors, limits=Limits())
    assert [key for part in parts for key in part] == ids
    assert [len(part) for part in parts] == [10, 10, 10, 10]


def test_some_missing_vectors_are_no_obstacle() -> None:
    vectors = vectors_of(30, 8, 1)
    known = {key: value for key, value in vectors.items() if int(key[1:]) % 3}
    parts = partition(vectors, known, limits=Limits())
    assert sorted(key for part in parts for key in part) == sorted(vectors)
    assert all(4 <= len(part) <= 16 for part in parts)


def test_the_sign_of_the_axis_does_not_decide_ties() -> None:
    ids = [f"n{index:02}" for index in range(20)]
    rows = [np.array([0.6, 0.8], dtype=np.float32), np.array([1.0, 0.0], dtype=np.float32)]
    vectors = {key: rows[key in ids[5:8]] for key in ids}
    turned = {key: -vector for key, vector in vectors.items()}
    parts = partition(ids, vectors, limits=Limits())
    assert parts == partition(ids, turned, limits=Limits())
    assert sorted(len(part) for part in parts) == [4, 16]


def test_ten_thousand_items_take_two_processor_seconds_at_most() -> None:
    vectors = vectors_of(10_000, 64, 3)
    start = time.process_time()
    parts = partition(vectors, vectors, limits=Limits())
    assert time.process_time() - start < 2.0
    assert all(4 <= len(part) <= 16 for part in parts)


def test_halves_have_a_smallest_size() -> None:
    vectors = vectors_of(9, 4, 2)
    outlier = max(vectors)
    for key in vectors:
        if key != outlier:
            vectors[key] = vectors[min(vectors)]
    first, second = halve(vectors, vectors, smallest=4)
    assert {len(first), len(second)} == {4, 5}
    assert sorted((*first, *second)) == sorted(vectors)


def test_over_full_nodes_come_lowest_first(grove: Any) -> None:
    big = grove.category(17)
    full = grove.category(16)
    for _ in range(15):
        grove.category(1)
    root = grove.tree.root_id
    assert over_full(grove.tree, grove.limits) == (big, root)
    assert over_full(grove.tree, grove.limits, among=[root, full, "gone"]) == (root,)
