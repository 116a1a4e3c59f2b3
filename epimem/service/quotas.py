"""How much one contributor may write: so many calls a minute, so many lessons that stand.

Counted by contributor, not by token, so that a second token buys nothing. Restarting a server
forgets the last minute, never the lessons.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass

from epimem.errors import AccessError

MINUTE_S = 60.0
WRITES_PER_MINUTE = 60
MOST_LESSONS = 10_000


@dataclass(frozen=True)
class Quota:
    """What one contributor may write; 0 for no bound."""

    writes_per_minute: int = WRITES_PER_MINUTE
    lessons: int = MOST_LESSONS


class Quotas:
    """The writes of the last minute, by contributor.

    Args:
        clock: seconds that never run backwards.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._writes: dict[str, deque[float]] = defaultdict(deque)

    def spend(self, contributor: str, quota: Quota, lessons: Callable[[], int]) -> None:
        """Count one write.

        Args:
            contributor: who writes.
            quota: of his.
            lessons: returns how many of his stand.

        Raises:
            AccessError: `quota_exceeded`; nothing was counted.
        """
        now = self._clock()
        writes = self._writes[contributor]
        while writes and writes[0] <= now - MINUTE_S:
            writes.popleft()
        if 0 < quota.writes_per_minute <= len(writes):
            raise _exceeded("writes of this minute", quota.writes_per_minute)
        if quota.lessons and (count := lessons()) >= quota.lessons:
            raise _exceeded("lessons that stand", quota.lessons, count)
        writes.append(now)


def _exceeded(what: str, limit: int, got: int | None = None) -> AccessError:
    return AccessError(
        f"the quota of this contributor is used up: {what}",
        code="quota_exceeded",
        limit=limit,
        got=got,
    )
