"""Asking a controller: a bound on its time, and an account of what it cost.

Every journey asks through `ask`, so that every request is counted by role and operation. A batch that
fails as a whole counts as one request: what its calls cost, nobody tells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeVar

from epimem import deadline
from epimem.bank.costs import CallRecord, Costs
from epimem.errors import ControllerError
from epimem.protocols import Reply

T = TypeVar("T")
Role = Literal["memory controller", "tree organizer"]
# A model that is asked again because its reply could not be read takes two calls.
ROUNDS = 2


class Controller(Protocol):
    """What both roles have."""

    name: str
    prompt_version: str


def ask(
    costs: Costs,
    role: Role,
    controller: Controller,
    operation: str,
    requests: Sequence[Any],
    *,
    kind: type,
    deadline_s: float,
    beat: Callable[[], None] | None = None,
) -> Sequence[Reply[Any]]:
    """Put requests to a controller, count what that took, and return one reply per request.

    Args:
        costs: where calls are counted.
        role: of the controller, for messages and for the account.
        controller: has a method named `operation`.
        operation: what is asked for.
        requests: of one batch.
        kind: what the value of a reply must be.
        deadline_s: seconds one call of a model may take. A controller that says how many it has in
            flight (`concurrency`) gets that much for each round, another one for the batch.
        beat: called every few seconds meanwhile.

    Raises:
        ControllerError: `model_failed`: raised, out of time, or not one Reply per request.
    """
    method = getattr(controller, operation)
    costs.watch()
    try:
        replies = deadline.call(
            f"{role}: {operation}",
            lambda: method(requests),
            kind=kind,
            expected=len(requests),
            deadline_s=_bound(controller, len(requests), deadline_s),
            beat=beat,
        )
    except ControllerError as error:
        failed: Reply[Any] = Reply(None, reason="schema", detail=str(error))
        costs.add(_records(role, controller, operation, [failed]))
        raise
    costs.add(_records(role, controller, operation, replies))
    return replies


def _records(
    role: Role, controller: Controller, operation: str, replies: Sequence[Reply[Any]]
) -> list[CallRecord]:
    """Return what is to be kept: not what was answered at no cost, for no model was asked."""
    return [
        CallRecord(
            role,
            operation,
            model=str(controller.name),
            prompt_version=str(controller.prompt_version),
            usage=reply.usage,
            reason=reply.reason or "",
            detail=reply.detail,
            raw=reply.raw if reply.reason else "",
        )
        for reply in replies
        if reply.reason or reply.usage.tokens_in or reply.usage.seconds
    ]


def _bound(controller: object, count: int, deadline_s: float) -> float:
    concurrency = getattr(controller, "concurrency", None)
    if not isinstance(concurrency, int) or concurrency < 1:
        return deadline_s
    return ROUNDS * math.ceil(count / concurrency) * deadline_s
