"""The account of model calls: what each cost, by role and operation, and refused replies.

It lies in `log.db` beside the bank, so that a frozen bank and a read-only one have an account too.
It is no truth of the bank: where it cannot be written, the work goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from epimem.bank.journal import Clock, timestamp, wall_clock
from epimem.bank.side import Side
from epimem.errors import BankCorruptError, StorageError
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


class Costs:
    """The account of one bank."""

    def __init__(self, side: Side, clock: Clock = wall_clock) -> None:
        self._side = side
        self._clock = clock

    def add(self, records: Sequence[CallRecord]) -> None:
        """Keep records, in one transaction; what cannot be written is given up."""
        if not records:
            return
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
        with suppress(StorageError, BankCorruptError), self._side.log() as log:
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
