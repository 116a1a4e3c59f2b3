from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from controllers.embedded.partition import balanced_parts, part_count


def unit(rows: NDArray[np.float64]) -> NDArray[np.float32]:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(norms > 0, norms, 1)).astype(np.float32)


@settings(max_examples=150, deadline=None)
@given(
    size=st.integers(8, 80),
    capacity=st.integers(7, 20),
    min_group=st.integers(2, 4),
    clusters=st.integers(1, 6),
    seed=st.integers(0, 2**16),
)
def test_parts_cover_all_rows_within_their_bounds(
    size: int, capacity: int, min_group: int, clusters: int, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    centers = generator.normal(size=(clusters, 6))
    rows = unit(
        centers[generator.integers(0, clusters, size)] + 0.01 * generator.normal(size=(size, 6))
    )
    parts = part_count(size, capacity=capacity, min_group=min_group)
    assert parts >= 2
    groups, found = balanced_parts(rows, parts, smallest=min_group, largest=capacity)
    assert sorted(row for group in groups for row in group) == list(range(size))
    assert all(min_group <= len(group) <= capacity for group in groups)
    assert [group[0] for group in groups] == sorted(group[0] for group in groups)
    assert found.shape == (parts, 6)
    assert balanced_parts(rows, parts, smallest=min_group, largest=capacity)[0] == groups


def test_clear_clusters_are_found() -> None:
    rows = unit(np.repeat(np.eye(3), 6, axis=0) + 0.01)
    order = [at for start in range(6) for at in range(start, 18, 6)]
    groups, _ = balanced_parts(rows[order], 3, smallest=4, largest=16)
    assert [{order[row] // 6 for row in group} for group in groups] == [{0}, {1}, {2}]


def test_equal_rows_are_divided_all_the_same() -> None:
    rows = unit(np.ones((17, 4)))
    groups, _ = balanced_parts(rows, 2, smallest=4, largest=16)
    assert sorted(len(group) for group in groups) == [4, 13]


def test_rows_without_direction_are_divided_all_the_same() -> None:
    groups, _ = balanced_parts(np.zeros((9, 4), np.float32), 2, smallest=4, largest=5)
    assert sorted(len(group) for group in groups) == [4, 5]


@pytest.mark.parametrize(
    ("size", "expected"), [(7, 0), (8, 2), (17, 2), (24, 2), (25, 3), (37, 4), (64, 6)]
)
def test_the_number_of_parts_follows_the_size(size: int, expected: int) -> None:
    assert part_count(size, capacity=16, min_group=4) == expected
