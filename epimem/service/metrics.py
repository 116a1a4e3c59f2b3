"""A few counters for Prometheus: requests by route and status, how long they took, what waits."""

from __future__ import annotations

from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client import generate_latest as latest

from epimem.service import health
from epimem.service.desk import Desk

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120)


class Metrics:
    """The counters of one server."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "epimem_requests",
            "Requests by route, method and status.",
            ("route", "method", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "epimem_request_seconds",
            "Seconds from the first byte of a request to the end of its answer.",
            ("route",),
            buckets=SECONDS,
            registry=self._registry,
        )
        self._gauges = {
            name: Gauge(f"epimem_{name}", text, registry=self._registry)
            for name, text in (
                ("bank_seq", "Sequence number of the bank."),
                ("queued_runs", "Runs that wait for ingest."),
                ("oldest_queued_run_s", "Seconds since the oldest of them came."),
                ("unplaced_lessons", "Lessons that have no place in the tree."),
                ("oldest_unplaced_lesson_s", "Seconds since the oldest of them came."),
                ("index_lag", "Commits that the search index does not know yet."),
            )
        }
        self._waiting = Gauge(
            "epimem_requests_waiting", "Requests waiting or at work.", registry=self._registry
        )
        self._waiting.set_function(lambda: float(desk.waiting))

    def seen(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        known = method if method in {"GET", "POST", "PUT", "DELETE", "HEAD"} else "other"
        self._requests.labels(route, known, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    async def page(self) -> tuple[bytes, int, dict[str, str]]:
        """Return what Prometheus reads: body, status, headers."""
        found: Any = await self._desk.run(lambda opened: health.answer(opened.memory))
        for name, gauge in self._gauges.items():
            gauge.set(getattr(found, name))
        return latest(self._registry), 200, {"content-type": CONTENT_TYPE_LATEST}
