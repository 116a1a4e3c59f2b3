"""The tree organizer on a model."""

from __future__ import annotations

from collections.abc import Sequence

from controllers.backends.base import Backend
from controllers.model.asking import ask
from controllers.model.protocols import Protocols
from controllers.prompts import VERSION
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


class ModelTreeOrganizer:
    """Places, merges, splits, consolidates and selects by a vision-language model.

    Args:
        backend: the model; may be shared with a memory controller.
        sections: never ask for JSON; without it a model is asked in sections once it has shown that it
            cannot do JSON (`controllers.model.protocols`).
    """

    prompt_version = VERSION

    def __init__(self, backend: Backend, *, sections: bool = False) -> None:
        self.name = backend.name
        self.concurrency = backend.concurrency
        self._backend = backend
        self._protocols = Protocols(sections=sections)

    def place(self, requests: Sequence[PlaceRequest]) -> Sequence[Reply[Place]]:
        """Return a category, or a new one, per lesson."""
        return ask(self._backend, self._protocols, "place", requests)

    def merge(self, requests: Sequence[MergeRequest]) -> Sequence[Reply[Merge]]:
        """Return a Merge per pair, or no value and no reason to leave the two apart."""
        return ask(self._backend, self._protocols, "merge", requests)

    def split_lift(self, requests: Sequence[SplitRequest]) -> Sequence[Reply[SplitLift]]:
        """Return a partition per over-full node."""
        return ask(self._backend, self._protocols, "split_lift", requests)

    def consolidate(self, requests: Sequence[ConsolidateRequest]) -> Sequence[Reply[Consolidate]]:
        """Return the common guidance per category; empty where its lessons share nothing."""
        return ask(self._backend, self._protocols, "consolidate", requests)

    def select(self, requests: Sequence[SelectRequest]) -> Sequence[Reply[Selection]]:
        """Return what applies to each question, with a verdict on every candidate."""
        return ask(self._backend, self._protocols, "select", requests)

    def close(self) -> None:
        """Free what the backend holds."""
        self._backend.close()
