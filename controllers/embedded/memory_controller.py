"""The embedded memory controller: no model, deterministic, extractive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import ValidationError

from controllers.embedded.anchors import shared_names
from controllers.embedded.derive import derive_lesson
from controllers.embedded.gate import visual_gate
from controllers.embedded.update import revise
from epimem.protocols import Derived, DeriveRequest, GateRequest, Reply, UpdateRequest
from epimem.schema.base import record_error
from epimem.schema.receipt import Usage
from epimem.schema.working_memory import Update

_ONE_CALL = Usage(calls=1)


class EmbeddedMemoryController:
    """Derives one lesson per run from its own sentences; gates on words for things seen.

    Question-level memory says what the last attempt stood on, with the region it was read from.
    """

    name = "embedded"
    prompt_version = "2"

    def derive(self, requests: Sequence[DeriveRequest]) -> Sequence[Reply[Derived]]:
        """Return one lesson per run, or why there is nothing to learn.

        The batch of a request (these requests where it names none) matters in one place: a name that
        several of its questions have stays in the anchor.
        """
        own = tuple(request.run.task.question for request in requests)
        batches = [request.batch or own for request in requests]
        shared = {batch: shared_names(batch) for batch in dict.fromkeys(batches)}
        pairs = zip(requests, batches, strict=True)
        return [_derived(request, shared[batch]) for request, batch in pairs]

    def gate(self, requests: Sequence[GateRequest]) -> Sequence[Reply[Literal[0, 1]]]:
        """Return 1 where crops go along."""
        return [Reply(visual_gate(request), usage=_ONE_CALL) for request in requests]

    def update(self, requests: Sequence[UpdateRequest]) -> Sequence[Reply[Update]]:
        """Return the memory after each attempt: text, evidence, gate and stop together."""
        return [Reply(revise(request), usage=_ONE_CALL) for request in requests]


def _derived(request: DeriveRequest, shared: frozenset[tuple[str, ...]]) -> Reply[Derived]:
    try:
        return Reply(derive_lesson(request, shared), usage=_ONE_CALL)
    except ValidationError as error:
        # The envelope inside a trajectory is free-form: a bad one must not fail the whole batch.
        return Reply(None, reason="schema", detail=record_error(error).message, usage=_ONE_CALL)
