"""The account of model calls: what each cost, by role and operation, and refused replies.

It lies in `log.db` beside the bank, so that a frozen bank and a read-only one have an account too.
It is no truth of the bank: where it cannot be written, the work goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from epimem.bank.journal import Clock, timestamp, wall_clock
from epimem.bank.side import Side
from epimem.errors import EpimemError
from epimem.schema.receipt import Usage

MAX_RAW = 4000


@dataclass(frozen=True)
class CallRecord:
    """One request to a controller: `reason` is empty where its reply was usable, else `raw` is kept."""

    role: str
    operation: str
    model: str
    prompt_version: str
    usage: Usage = field(default_factory=Usage)
    reason: str = ""
    detail: str = ""
    raw: str = ""


class Accounted(Protocol):
    """The bank that an account belongs to."""

    @property
    def side(self) -> Side:
        """Where the log is."""
        ...

    def last_revocation(self) -> int:
        """Return the sequence number of the last revocation, 0 where there was none."""
        ...


class Costs:
    """The account of one bank.

    Args:
        bank: opened for reading or writing.
        clock: seconds since 1970.
        abandoned: once set, nothing is kept any more: nobody waits for these calls.
    """

    def __init__(
        self,
        bank: Accounted,
        clock: Clock = wall_clock,
        *,
        abandoned: threading.Event | None = None,
    ) -> None:
        self._bank = bank
        self._side = bank.side
        self._clock = clock
        self._abandoned = abandoned

    def watch(self) -> None:
        """Be told of revocations from now on; to be called before a model is."""
        if self._side.revocation_seen is None:
            self._side.revocation_seen = self._bank.last_revocation()

    def add(self, records: Sequence[CallRecord]) -> None:
        """Keep records, in one transaction; what cannot be written is given up.

        A reply that came back after its material was revoked may quote it: then no words are kept.
        """
        if not records or (self._abandoned is not None and self._abandoned.is_set()):
            return
        # Whatever a log on a full or busy disk does, or a count that no database holds: work goes on.
        with suppress(EpimemError, OverflowError):
            self._write(records)
            if any(record.raw or record.detail for record in records):
                self._forget_revoked()

    def _forget_revoked(self) -> None:
        latest = self._bank.last_revocation()
        if latest != self._side.revocation_seen:
            self._side.forget_words()
            self._side.revocation_seen = latest

    def _write(self, records: Sequence[CallRecord]) -> None:
        at = timestamp(self._clock())
        rows = [
            (
                at,
                record.role,
                record.operation,
                record.model,
                record.prompt_version,
                record.usage.calls,
                record.usage.tokens_in,
                record.usage.tokens_out,
                record.usage.cached,
                float(record.usage.seconds),
                record.reason,
                record.detail[:MAX_RAW],
                record.raw[:MAX_RAW],
            )
            for record in records
        ]
        with self._side.log() as log:
            log.executemany(
                "INSERT INTO calls (at, role, operation, model, prompt_version, calls, tokens_in,"
                " tokens_out, cached, seconds, reason, detail, raw)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )

    def summary(self) -> list[dict[str, Any]]:
        """Return requests, calls, tokens and seconds by role, operation, model and prompt version.

        `refused` counts the requests whose reply was of no use, `calls` those of the model: a request
        whose first reply could not be read took two.
        """
        with self._side.log() as log:
            found = log.execute(
                "SELECT role, operation, model, prompt_version, COUNT(*) AS requests,"
                " SUM(calls) AS calls, SUM(reason != '') AS refused, SUM(tokens_in) AS tokens_in,"
                " SUM(tokens_out) AS tokens_out, SUM(cached) AS cached, SUM(seconds) AS seconds"
                " FROM calls GROUP BY role, operation, model, prompt_version"
                " ORDER BY role, operation, model, prompt_version"
            ).fetchall()
        return [dict(row) for row in found]

    def refused(self, limit: int) -> list[dict[str, Any]]:
        """Return the last refused replies as they came, newest first, each cut at `MAX_RAW`."""
        with self._side.log() as log:
            found = log.execute(
                "SELECT at, role, operation, model, prompt_version, reason, detail, raw FROM calls"
                " WHERE reason != '' ORDER BY id DESC LIMIT ?",
                (limit,),
            ).fetchall()
        return [dict(row) for row in found]
