"""The embedded tree organizer: no model, deterministic, extractive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from controllers.embedded.consolidate import consolidate
from controllers.embedded.merge import merge
from controllers.embedded.place import place
from controllers.embedded.select import select
from controllers.embedded.split_lift import split_lift
from epimem.protocols import (
    ConsolidateRequest,
    MergeRequest,
    PlaceRequest,
    Reply,
    SelectRequest,
    SplitRequest,
)
from epimem.schema.memory_input import Selection
from epimem.schema.proposal import Consolidate, Merge, Place, SplitLift
from epimem.schema.receipt import Usage

T = TypeVar("T")
_ONE_CALL = Usage(calls=1)


class EmbeddedTreeOrganizer:
    """Places, merges, splits, consolidates and selects by fixed measures.

    Args:
        place_min: floor of the likeness for placing a lesson in a category.
        scope_min: floor of the likeness of the scopes alone.
        merge_min: floor of the complete-link likeness for joining two categories.
    """

    name = "embedded"
    prompt_version = "2"

    def __init__(
        self, *, place_min: float = 0.6, scope_min: float = 0.85, merge_min: float = 0.9
    ) -> None:
        self.place_min = place_min
        self.scope_min = scope_min
        self.merge_min = merge_min

    def place(self, requests: Sequence[PlaceRequest]) -> Sequence[Reply[Place]]:
        """Return a category, or a new one, per lesson."""
        floors = {"place_min": self.place_min, "scope_min": self.scope_min}
        return [_reply(place(request, **floors)) for request in requests]

    def merge(self, requests: Sequence[MergeRequest]) -> Sequence[Reply[Merge]]:
        """Return a Merge per pair, or no value and no reason to leave the two apart."""
        found = [merge(request, merge_min=self.merge_min) for request in requests]
        return [Reply(value, usage=_ONE_CALL) for value in found]

    def split_lift(self, requests: Sequence[SplitRequest]) -> Sequence[Reply[SplitLift]]:
        """Return a partition per over-full node."""
        replies: list[Reply[SplitLift]] = []
        for request in requests:
            value = split_lift(request)
            if value is None:
                detail = f"{len(request.children)} children make no two parts"
                replies.append(Reply(None, reason="limit", detail=detail, usage=_ONE_CALL))
            else:
                replies.append(_reply(value))
        return replies

    def consolidate(self, requests: Sequence[ConsolidateRequest]) -> Sequence[Reply[Consolidate]]:
        """Return the common guidance per category; empty where its lessons share nothing."""
        return [_reply(consolidate(request)) for request in requests]

    def select(self, requests: Sequence[SelectRequest]) -> Sequence[Reply[Selection]]:
        """Return what applies to each question, with a verdict on every candidate."""
        return [_reply(select(request)) for request in requests]


def _reply(value: T) -> Reply[T]:
    return Reply(value, usage=_ONE_CALL)
