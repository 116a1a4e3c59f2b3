"""The adjusted Rand index, against scikit-learn and on what is known of it."""

from __future__ import annotations

import random

import pytest
from sklearn.metrics import adjusted_rand_score

from training.evaluation.partitions import adjusted_rand


def test_it_is_that_of_scikit_learn():
    draw = random.Random(0)
    for _ in range(300):
        size, parts = draw.randint(1, 20), draw.randint(1, 5)
        first = [draw.randrange(parts) for _ in range(size)]
        second = [draw.randrange(draw.randint(1, 5)) for _ in range(size)]
        assert adjusted_rand(first, second) == pytest.approx(adjusted_rand_score(first, second))


def test_names_of_parts_do_not_count():
    assert adjusted_rand([0, 0, 1, 1], ["b", "b", "a", "a"]) == 1.0


@pytest.mark.parametrize("size", [0, 1, 2, 5])
def test_one_part_and_single_things_agree_with_themselves(size):
    assert adjusted_rand([0] * size, [0] * size) == 1.0
    assert adjusted_rand(list(range(size)), list(range(size))) == 1.0


def test_partitions_of_different_things_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        adjusted_rand([0, 1], [0])
