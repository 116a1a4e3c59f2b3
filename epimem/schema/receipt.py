"""What a call returns about its own effect and cost."""

from __future__ import annotations

from typing import Literal

from epimem.schema.base import Record, StrictFloat, StrictInt

ReceiptStatus = Literal[
    "stored", "folded", "duplicate", "queued", "quarantined", "rejected", "nothing"
]
RunState = Literal["queued", "derived", "nothing", "rejected"]


class Usage(Record):
    """Cost of memory operations: controller calls, tokens and wall seconds."""

    calls: StrictInt = 0
    tokens_in: StrictInt = 0
    tokens_out: StrictInt = 0
    cached: StrictInt = 0
    seconds: StrictFloat | StrictInt = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            calls=self.calls + other.calls,
            tokens_in=self.tokens_in + other.tokens_in,
            tokens_out=self.tokens_out + other.tokens_out,
            cached=self.cached + other.cached,
            seconds=self.seconds + other.seconds,
        )


class Receipt(Record):
    """An acknowledgement: durable when it is returned.

    `stored` a lesson is in the inbox; `folded` it was added to `id` as evidence; `queued` a run waits
    for ingest; `duplicate` the same run is here already as `id`; `nothing` a run with nothing to
    learn; `quarantined` it is stored and waits for review; `rejected` nothing was stored, `reason` says
    why. `searchable` tells how it is found, and
    `truncated_tokens` how many tokens of the index text its vector does not contain (0 normally).
    `redacted` is how many secrets were replaced in what was handed in, before anything was stored.
    """

    status: ReceiptStatus
    id: str | None = None
    seq: StrictInt = 0
    reason: str = ""
    searchable: Literal["dense", "lexical", "no"] = "no"
    truncated_tokens: StrictInt = 0
    redacted: StrictInt = 0
