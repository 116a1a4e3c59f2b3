"""Asking a reviser offline: the same prompt, with one part more that shows the reference answer.

This is the only place where a reference is put before a model, and only to mend a demonstration that was
found wanting. What is stored is the request without that part, and the checks see to it that no target
holds the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from controllers.backends.base import Backend, Completion
from controllers.model.asking import ask
from controllers.model.protocols import Protocols
from controllers.model.role import ModelRole
from controllers.prompts.fence import cut, fenced, line, mark_of
from controllers.prompts.message import Message, Prompt, Text
from epimem.protocols import Reply
from training.demonstrations.record import OperationName

REFERENCE_CHARS = 2000
TITLE = "reference answer, shown for this review alone"
HOW_TO_USE = (
    "Use the reference to judge what the run did and to find where it went wrong. Never state it, a "
    "part of it, or the verdict: whoever reads your reply must not learn the answer from it."
)


def revise(
    role: Any,
    operation: OperationName,
    request: Any,
    *,
    reference: str = "",
    verdict: Literal["right", "wrong", "unknown"] = "unknown",
) -> Reply[Any]:
    """Ask a role once about a request, with the reference in view where it is on a model.

    A role that is no model of ours is asked as the product asks it. May raise whatever the role raises.
    """
    if not isinstance(role, ModelRole) or not reference:
        found: Reply[Any] = getattr(role, operation)([request])[0]
        return found
    backend = OfflineBackend(role.backend, reference, verdict)
    return ask(backend, Protocols(), operation, [request])[0]


class OfflineBackend:
    """A backend that adds the reference to every prompt; closing it leaves the model as it is."""

    def __init__(self, backend: Backend, reference: str, verdict: str) -> None:
        self.name = backend.name
        self.concurrency = backend.concurrency
        self._backend = backend
        self._reference = reference
        self._verdict = verdict

    def complete(self, prompts: Sequence[Prompt]) -> Sequence[Completion]:
        """Return one completion per prompt, in order."""
        shown = [with_reference(prompt, self._reference, self._verdict) for prompt in prompts]
        return self._backend.complete(shown)

    def close(self) -> None:
        """Do nothing: the model belongs to whoever made it."""


def with_reference(prompt: Prompt, reference: str, verdict: str) -> Prompt:
    """Return a prompt whose first user message ends with the reference, fenced as material is."""
    entry = line({"reference": cut(reference, REFERENCE_CHARS), "verdict": verdict})
    part = Text(f"{fenced(mark_of([entry]), TITLE, entry)}\n{HOW_TO_USE}")
    messages = list(prompt.messages)
    at = next(at for at, message in enumerate(messages) if message.role == "user")
    messages[at] = Message("user", (*messages[at].parts, part))
    return replace(prompt, messages=tuple(messages))
