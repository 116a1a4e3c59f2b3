"""When a call is tried again: a budget over all calls, Retry-After, and backoff with jitter.

All numbers are ours but one: that retries stay within a tenth of the requests is the rule T20 of the
project's security notes.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

RETRIES_PER_CALL = 2
SHARE = 10  # one retry for so many requests
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 8.0


class RetryBudget:
    """How many retries all calls together may use: a tenth of the requests so far, and at least one.

    So the number of times that a server is asked stays within 1.1 x the calls, rounded up. A batch is
    counted before its first call, which lets an early fault in it be tried again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.requests = 0
        self.retries = 0

    def expect(self, requests: int) -> None:
        """Count calls that are about to be made."""
        with self._lock:
            self.requests += requests

    def take(self) -> bool:
        """Use one retry; False where none is left."""
        with self._lock:
            if self.retries >= max(1, self.requests // SHARE):
                return False
            self.retries += 1
            return True


def backoff(attempt: int, jitter: Callable[[], float], first_s: float = FIRST_WAIT_S) -> float:
    """Return the seconds to wait after the attempt of this number, which counts from 0.

    The wait doubles up to `LONGEST_WAIT_S`; `jitter` returns numbers in [0, 1), and half of the wait
    depends on them, so that calls which failed together do not come back together.
    """
    whole: float = min(first_s * 2**attempt, LONGEST_WAIT_S)
    return whole * (0.5 + 0.5 * jitter())


def retry_after(value: str | None, now: Callable[[], float] = time.time) -> float | None:
    """Return the seconds that a Retry-After header asks for; None where it asks for nothing usable.

    Seconds and dates are read (RFC 9110, 10.2.3). A date in the past, a negative number, a number
    without end and any other text say nothing.
    """
    text = (value or "").strip()
    try:
        seconds = float(text)
    except ValueError:
        seconds = _until(text) - now()
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _until(text: str) -> float:
    try:
        date = parsedate_to_datetime(text)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return -math.inf


def http_date(moment: float) -> str:
    """Return a moment (seconds since 1970) as a date of HTTP."""
    return datetime.fromtimestamp(moment, UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
