"""The two roles as a bank asks them, with the teacher behind every method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from controllers.prompts import VERSION
from epimem.protocols import (
    ConsolidateRequest,
    Derived,
    DeriveRequest,
    GateRequest,
    MergeRequest,
    PlaceRequest,
    Reply,
    SelectRequest,
    SplitRequest,
    UpdateRequest,
)
from epimem.schema.memory_input import Selection
from epimem.schema.proposal import Consolidate, Merge, Place, SplitLift
from epimem.schema.working_memory import Update
from training.demonstrations.teacher import Teacher


class TaughtMemoryController:
    """A memory controller whose answers become demonstrations."""

    name = "teacher"
    prompt_version = VERSION

    def __init__(self, teacher: Teacher) -> None:
        self._teacher = teacher

    def derive(self, requests: Sequence[DeriveRequest]) -> Sequence[Reply[Derived]]:
        """Return 0..n lessons per run."""
        return self._teacher.ask("derive", requests)

    def gate(self, requests: Sequence[GateRequest]) -> Sequence[Reply[Literal[0, 1]]]:
        """Return 1 where crops go along."""
        return self._teacher.ask("gate", requests)

    def update(self, requests: Sequence[UpdateRequest]) -> Sequence[Reply[Update]]:
        """Return the revised memory per attempt."""
        return self._teacher.ask("update", requests)


class TaughtTreeOrganizer:
    """A tree organizer whose answers become demonstrations."""

    name = "teacher"
    prompt_version = VERSION

    def __init__(self, teacher: Teacher) -> None:
        self._teacher = teacher

    def place(self, requests: Sequence[PlaceRequest]) -> Sequence[Reply[Place]]:
        """Return a place per lesson."""
        return self._teacher.ask("place", requests)

    def merge(self, requests: Sequence[MergeRequest]) -> Sequence[Reply[Merge]]:
        """Return a merge per pair, or nothing to leave the two apart."""
        return self._teacher.ask("merge", requests)

    def split_lift(self, requests: Sequence[SplitRequest]) -> Sequence[Reply[SplitLift]]:
        """Return a partition per over-full node."""
        return self._teacher.ask("split_lift", requests)

    def consolidate(self, requests: Sequence[ConsolidateRequest]) -> Sequence[Reply[Consolidate]]:
        """Return the common guidance per category."""
        return self._teacher.ask("consolidate", requests)

    def select(self, requests: Sequence[SelectRequest]) -> Sequence[Reply[Selection]]:
        """Return what applies to each question."""
        return self._teacher.ask("select", requests)


def taught_by(teacher: Teacher) -> tuple[TaughtMemoryController, TaughtTreeOrganizer]:
    """Return both roles for a bank."""
    return TaughtMemoryController(teacher), TaughtTreeOrganizer(teacher)
