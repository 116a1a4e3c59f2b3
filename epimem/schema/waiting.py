"""What waits in quarantine, as a reviewer sees it."""

from __future__ import annotations

from typing import Literal

from epimem.schema.base import Record


class Waiting(Record):
    """One thing that waits; `text` is a lesson's guidance, or a run's question key."""

    id: str
    kind: Literal["lesson", "run"]
    namespace: str
    contributor: str
    organisation: str
    text: str
