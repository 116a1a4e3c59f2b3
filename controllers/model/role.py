"""What both roles on a model have: the backend, and how it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controllers.backends.base import Backend
from controllers.model.asking import ask
from controllers.model.protocols import Protocols
from controllers.prompts import VERSION
from epimem.protocols import Reply


class ModelRole:
    """A role filled by a vision-language model.

    Args:
        backend: the model; may be shared with the other role.
        sections: never ask for JSON; without it a model is asked in sections once it has shown that it
            cannot do JSON (`controllers.model.protocols`).
    """

    prompt_version = VERSION

    def __init__(self, backend: Backend, *, sections: bool = False) -> None:
        self.name = backend.name
        self.concurrency = backend.concurrency
        self._backend = backend
        self._protocols = Protocols(sections=sections)

    def _ask(self, operation: str, requests: Sequence[Any]) -> list[Reply[Any]]:
        return ask(self._backend, self._protocols, operation, requests)

    @property
    def backend(self) -> Backend:
        """The model, for who asks it in another way: offline work that may show it more."""
        return self._backend

    def close(self) -> None:
        """Free what the backend holds."""
        self._backend.close()
