"""Cumulative distribution and quantile of the Beta distribution for whole-number parameters.

For whole a, b >= 1, P(Beta(a, b) <= x) = P(Binomial(a + b - 1, x) >= a). Only the tail that falls
away from the mode is summed, so that its terms shrink from the first one on; the first term is
taken in logarithms. Counts up to 1e5 need some thousand terms at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

# A term this small beside the sum no longer changes it in double precision.
_NEGLIGIBLE = 1e-18
_BISECTIONS = 60


def cdf(x: float, *, a: int, b: int) -> float:
    """Return P(Beta(a, b) <= x) in [0, 1].

    Args:
        x: any number; below 0 the result is 0, above 1 it is 1.
        a: first parameter, a whole number >= 1.
        b: second parameter, a whole number >= 1.
    """
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    trials = a + b - 1
    if a > (trials + 1) * x:
        return min(1.0, _sum_shrinking(_log_term(trials, a, x), _up(trials, a, x)))
    below = _sum_shrinking(_log_term(trials, a - 1, x), _down(trials, a - 1, x))
    return max(0.0, 1.0 - below)


def quantile(probability: float, *, a: int, b: int) -> float:
    """Return x with P(Beta(a, b) <= x) = `probability`, by bisection, for 0 < probability < 1."""
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if cdf(middle, a=a, b=b) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _log_term(trials: int, successes: int, x: float) -> float:
    choose = (
        math.lgamma(trials + 1) - math.lgamma(successes + 1) - math.lgamma(trials - successes + 1)
    )
    return choose + successes * math.log(x) + (trials - successes) * math.log1p(-x)


def _up(trials: int, successes: int, x: float) -> Iterator[float]:
    odds = x / (1.0 - x)
    for count in range(successes, trials):
        yield (trials - count) / (count + 1) * odds


def _down(trials: int, successes: int, x: float) -> Iterator[float]:
    odds = (1.0 - x) / x
    for count in range(successes, 0, -1):
        yield count / (trials - count + 1) * odds


def _sum_shrinking(log_first: float, ratios: Iterator[float]) -> float:
    """Sum first * (1 + r1 + r1 r2 + ...), ratios below 1 and falling."""
    total = term = 1.0
    for ratio in ratios:
        term *= ratio
        total += term
        if term < _NEGLIGIBLE * total:
            break
    return math.exp(log_first + math.log(total))
