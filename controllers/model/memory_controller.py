"""The memory controller on a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from controllers.backends.base import Backend
from controllers.model.asking import ask
from controllers.model.protocols import Protocols
from controllers.prompts import VERSION
from epimem.protocols import Derived, DeriveRequest, GateRequest, Reply, UpdateRequest
from epimem.schema.working_memory import Update


class ModelMemoryController:
    """Derives lessons, gates crops and revises question-level memory by a vision-language model.

    Args:
        backend: the model; may be shared with a tree organizer.
        sections: never ask for JSON; without it a model is asked in sections once it has shown that it
            cannot do JSON (`controllers.model.protocols`).
    """

    prompt_version = VERSION

    def __init__(self, backend: Backend, *, sections: bool = False) -> None:
        self.name = backend.name
        self.concurrency = backend.concurrency
        self._backend = backend
        self._protocols = Protocols(sections=sections)

    def derive(self, requests: Sequence[DeriveRequest]) -> Sequence[Reply[Derived]]:
        """Return 0..n lessons per run."""
        return ask(self._backend, self._protocols, "derive", requests)

    def gate(self, requests: Sequence[GateRequest]) -> Sequence[Reply[Literal[0, 1]]]:
        """Return 1 where crops go along."""
        return ask(self._backend, self._protocols, "gate", requests)

    def update(self, requests: Sequence[UpdateRequest]) -> Sequence[Reply[Update]]:
        """Return the revised memory per attempt."""
        return ask(self._backend, self._protocols, "update", requests)

    def close(self) -> None:
        """Free what the backend holds."""
        self._backend.close()
