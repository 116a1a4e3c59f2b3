from __future__ import annotations

import random

import pytest

from controllers.backends.pacing import LONGEST_WAIT_S, RetryBudget, backoff, http_date, retry_after

NOW = 1_800_000_000.0


@pytest.mark.parametrize("batch", [1, 3, 10, 37, 250])
def test_calls_and_retries_stay_within_a_tenth_more_than_the_calls(batch):
    budget = RetryBudget()
    for calls in range(batch, 1000, batch):
        budget.expect(batch)
        while budget.take():
            pass
        assert calls + budget.retries <= -(-11 * calls // 10)


def test_a_batch_counts_before_its_first_call():
    budget = RetryBudget()
    budget.expect(50)
    assert [budget.take() for _ in range(6)] == [True] * 5 + [False]


def test_a_single_call_has_one_retry():
    budget = RetryBudget()
    budget.expect(1)
    assert [budget.take() for _ in range(2)] == [True, False]


def test_the_wait_doubles_up_to_a_bound_and_half_of_it_is_jitter():
    assert [backoff(attempt, lambda: 1.0, 0.5) for attempt in range(3)] == [0.5, 1.0, 2.0]
    assert [backoff(attempt, lambda: 0.0, 0.5) for attempt in range(3)] == [0.25, 0.5, 1.0]
    assert backoff(60, lambda: 1.0) == LONGEST_WAIT_S


def test_the_jitter_is_that_of_the_source():
    source = random.Random(7)
    expected = 2.0 * (0.5 + 0.5 * random.Random(7).random())
    assert backoff(2, source.random, 0.5) == expected


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        ("12", 12.0),
        (" 1.5 ", 1.5),
        (http_date(NOW + 30), 30.0),
        ("Fri, 15 Jan 2027 08:00:30 -0000", 30.0),
        ("999999999999", 999999999999.0),
        (http_date(NOW - 3600), None),
        ("-5", None),
        ("nan", None),
        ("inf", None),
        ("1e999", None),
        ("soon", None),
        ("Fri, 99 Foo 2027 08:00:00 GMT", None),
        ("Fri, 15 Jan 99999 08:00:00 GMT", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_read_or_says_nothing(value, seconds):
    assert retry_after(value, lambda: NOW) == seconds


def test_a_date_of_http_is_written_as_the_rules_say():
    assert http_date(784_111_777) == "Sun, 06 Nov 1994 08:49:37 GMT"
