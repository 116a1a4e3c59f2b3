"""The tree organizer on a model."""

from __future__ import annotations

from collections.abc import Sequence

from controllers.model.role import ModelRole
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


class ModelTreeOrganizer(ModelRole):
    """Places, merges, splits, consolidates and selects by a vision-language model."""

    def place(self, requests: Sequence[PlaceRequest]) -> Sequence[Reply[Place]]:
        """Return a category, or a new one, per lesson."""
        return self._ask("place", requests)

    def merge(self, requests: Sequence[MergeRequest]) -> Sequence[Reply[Merge]]:
        """Return a Merge per pair, or no value and no reason to leave the two apart."""
        return self._ask("merge", requests)

    def split_lift(self, requests: Sequence[SplitRequest]) -> Sequence[Reply[SplitLift]]:
        """Return a partition per over-full node."""
        return self._ask("split_lift", requests)

    def consolidate(self, requests: Sequence[ConsolidateRequest]) -> Sequence[Reply[Consolidate]]:
        """Return the common guidance per category; empty where its lessons share nothing."""
        return self._ask("consolidate", requests)

    def select(self, requests: Sequence[SelectRequest]) -> Sequence[Reply[Selection]]:
        """Return what applies to each question, with a verdict on every candidate."""
        return self._ask("select", requests)
