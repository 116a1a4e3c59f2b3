"""Why a GPU stands idle: the gaps between its kernels, by what the processor was at meanwhile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Span:
    """Something that ran, from `start` to `end` in microseconds."""

    name: str
    start: float
    end: float


@dataclass(frozen=True)
class Idle:
    """What a profile shows: the share of time without a kernel, and its largest causes as shares."""

    share: float
    causes: tuple[tuple[str, float], ...]


def idle(kernels: Sequence[Span], calls: Sequence[Span], *, most: int = 3) -> Idle:
    """Return how long the GPU stood idle between its first and last kernel, and why.

    A gap counts for the innermost call of the processor that was under way in its middle; kernels may
    overlap, as those of several streams do.

    Args:
        kernels: what ran on the GPU, at least one.
        calls: what ran on the processor: operations, and named regions such as the data loader.
        most: causes to return.
    """
    ordered = sorted(kernels, key=lambda span: span.start)
    begin, busy_until = ordered[0].start, ordered[0].end
    found: dict[str, float] = defaultdict(float)
    for kernel in ordered[1:]:
        if kernel.start > busy_until:
            found[_under_way(calls, (busy_until + kernel.start) / 2)] += kernel.start - busy_until
        busy_until = max(busy_until, kernel.end)
    total = max(busy_until - begin, 1e-9)
    largest = sorted(found.items(), key=lambda item: -item[1])[:most]
    causes = tuple((name, length / total) for name, length in largest)
    return Idle(sum(found.values()) / total, causes)


def spans(events: Iterable[Any]) -> tuple[list[Span], list[Span]]:
    """Return kernels and calls of the events of torch's profiler."""
    kernels: list[Span] = []
    calls: list[Span] = []
    for event in events:
        span = Span(event.name, event.time_range.start, event.time_range.end)
        on_gpu = "CUDA" in str(event.device_type)
        (kernels if on_gpu else calls).append(span)
    return kernels, calls


def _under_way(calls: Sequence[Span], moment: float) -> str:
    over = [call for call in calls if call.start <= moment <= call.end]
    return min(over, key=lambda call: call.end - call.start).name if over else "nothing of torch"
