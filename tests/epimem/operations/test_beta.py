from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from epimem.operations import beta

COUNTS = st.one_of(st.integers(1, 30), st.integers(1, 100_000))


@settings(max_examples=150, deadline=None)
@given(a=COUNTS, b=COUNTS, x=st.floats(0, 1))
def test_the_distribution_agrees_with_scipy(a: int, b: int, x: float) -> None:
    assert beta.cdf(x, a=a, b=b) == pytest.approx(stats.beta.cdf(x, a, b), abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(a=COUNTS, b=COUNTS, share=st.floats(-3, 3))
def test_the_distribution_agrees_with_scipy_near_its_mean(a: int, b: int, share: float) -> None:
    own = stats.beta(a, b)
    x = float(own.mean() + share * own.std())
    assert beta.cdf(x, a=a, b=b) == pytest.approx(own.cdf(x), abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(a=COUNTS, b=COUNTS, probability=st.sampled_from([0.05, 0.1, 0.5, 0.9]))
def test_the_quantile_agrees_with_scipy(a: int, b: int, probability: float) -> None:
    expected = stats.beta.ppf(probability, a, b)
    assert beta.quantile(probability, a=a, b=b) == pytest.approx(expected, abs=1e-8)


def test_the_ends_are_exact() -> None:
    assert beta.cdf(0.0, a=1, b=1) == 0.0
    assert beta.cdf(-0.1, a=3, b=4) == 0.0
    assert beta.cdf(1.0, a=100_000, b=1) == 1.0
    assert beta.cdf(0.25, a=1, b=1) == pytest.approx(0.25)
    assert beta.cdf(1e-300, a=50, b=50) == 0.0


def test_large_counts_are_quick() -> None:
    start = time.process_time()
    beta.quantile(0.1, a=60_000, b=40_000)
    assert time.process_time() - start < 0.5
