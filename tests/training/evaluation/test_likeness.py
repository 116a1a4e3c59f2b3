"""Likeness of texts, regions and sets on values worked out by hand."""

from __future__ import annotations

import pytest

from epimem.schema.region import Region
from training.evaluation.likeness import best, matched, overlap, set_f1, token_f1


def region(*box):
    return Region(**dict(zip(("x0", "y0", "x1", "y1"), box, strict=True)), width=100, height=100)


def test_token_f1_counts_words_as_often_as_they_stand():
    assert token_f1("count the filled markers", "The FILLED markers!") == pytest.approx(6 / 7)
    assert token_f1("a a b", "a b b") == pytest.approx(4 / 6)
    assert token_f1("one", "two") == 0.0


def test_texts_without_words_are_alike_and_unlike_any_other():
    assert token_f1("", "...") == 1.0
    assert token_f1("", "word") == token_f1("word", "") == 0.0


def test_overlap_is_the_shared_area_over_that_of_both():
    assert overlap(region(0, 0, 10, 10), region(0, 0, 10, 10)) == 1.0
    assert overlap(region(0, 0, 10, 10), region(5, 0, 15, 10)) == pytest.approx(50 / 150)
    assert overlap(region(0, 0, 10, 10), region(10, 10, 20, 20)) == 0.0
    assert overlap(region(0, 0, 10, 10), region(20, 0, 30, 10)) == 0.0


def test_best_is_the_mean_over_what_was_wanted():
    assert best([1, 5], [1, 2], lambda a, b: float(a == b)) == 0.5
    assert best([1, 5], [], lambda a, b: float(a == b)) == 0.0


def test_saying_more_than_was_wanted_costs():
    def same(a, b):
        return float(a == b)

    assert matched([1], [1], same) == 1.0
    assert matched([1], [1, 2, 3], same) == pytest.approx(2 / 4)
    assert matched([1, 2], [1], same) == pytest.approx(2 / 3)
    assert matched([1], [], same) == 0.0


def test_set_f1_does_not_count_a_name_twice():
    assert set_f1(["a", "b"], ["b", "b", "c"]) == 0.5
    assert set_f1(["a"], []) == 0.0
