"""The memory controller on a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from controllers.model.role import ModelRole
from epimem.protocols import Derived, DeriveRequest, GateRequest, Reply, UpdateRequest
from epimem.schema.working_memory import Update


class ModelMemoryController(ModelRole):
    """Derives lessons, gates crops and revises question-level memory by a vision-language model."""

    def derive(self, requests: Sequence[DeriveRequest]) -> Sequence[Reply[Derived]]:
        """Return 0..n lessons per run."""
        return self._ask("derive", requests)

    def gate(self, requests: Sequence[GateRequest]) -> Sequence[Reply[Literal[0, 1]]]:
        """Return 1 where crops go along."""
        return self._ask("gate", requests)

    def update(self, requests: Sequence[UpdateRequest]) -> Sequence[Reply[Update]]:
        """Return the revised memory per attempt."""
        return self._ask("update", requests)
