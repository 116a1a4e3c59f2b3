"""Calls to controllers with a bound on their time, and one way to fail.

A controller is foreign code. Whatever it raises becomes a `ControllerError`; a call that does not
come back in time is given up, its thread left to end by itself. A single reply that is not what was
asked for is a reply without a value: the others of the batch count.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar, get_args

from epimem.errors import ControllerError, RecordError
from epimem.protocols import Reply
from epimem.schema.base import Record
from epimem.schema.proposal import Reason
from epimem.schema.receipt import Usage
from epimem.schema.text import escape_unstorable

REASONS = frozenset(get_args(Reason))
BEAT_S = 5.0
T = TypeVar("T")


def call(
    name: str,
    method: Callable[[], Sequence[Reply[T]]],
    *,
    kind: type,
    expected: int,
    deadline_s: float,
    beat: Callable[[], None] | None = None,
) -> Sequence[Reply[T]]:
    """Call a controller and return its replies.

    Args:
        name: of the role and method, for messages.
        method: the call.
        kind: what the value of a reply must be.
        expected: the number of replies that must come back.
        deadline_s: seconds.
        beat: called every `BEAT_S` seconds while the controller works, by the calling thread; what it
            raises gives the call up.

    Raises:
        ControllerError: `model_failed`: raised, out of time, or not one Reply per request.
    """
    replies = _bounded(name, method, deadline_s, beat)
    sound = isinstance(replies, Sequence) and all(isinstance(item, Reply) for item in replies)
    if not sound or len(replies) != expected:
        raise ControllerError(f"{name} did not return one reply per request")
    return [_storable(_typed(reply, kind)) for reply in replies]


def _storable(reply: Reply[T]) -> Reply[T]:
    """Return a reply whose reason is of the closed list and whose texts the database can hold."""
    reason, detail = reply.reason, str(reply.detail)
    if reason is not None and str(reason) not in REASONS:
        reason, detail = "schema", f"{reason}: {detail}"
    return replace(
        reply,
        reason=reason,
        detail=escape_unstorable(detail)[0],
        raw=escape_unstorable(str(reply.raw))[0],
        usage=reply.usage if isinstance(reply.usage, Usage) else Usage(),
    )


def _typed(reply: Reply[T], kind: type) -> Reply[T]:
    """Return a reply whose value is of the kind and holds what its fields say, or none.

    A record is read again: what was built with `model_copy` or `model_construct` was never checked.
    """
    if reply.value is None:
        return reply
    if not isinstance(reply.value, kind):
        return replace(reply, value=None, reason="schema", detail=f"not a {kind.__name__}")
    if isinstance(reply.value, Record):
        try:
            reply.value.read(reply.value.model_dump(mode="json", by_alias=True, warnings=False))
        except RecordError as error:
            return replace(reply, value=None, reason="schema", detail=str(error))
    return reply


def _bounded(
    name: str,
    method: Callable[[], Sequence[Reply[T]]],
    deadline_s: float,
    beat: Callable[[], None] | None,
) -> Sequence[Reply[T]]:
    result: list[Sequence[Reply[T]]] = []
    fault: list[BaseException] = []

    def run() -> None:
        try:
            result.append(method())
        except BaseException as error:  # noqa: BLE001 - foreign code; it may even exit
            fault.append(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    end = time.monotonic() + deadline_s
    while thread.is_alive() and (left := end - time.monotonic()) > 0:
        thread.join(left if beat is None else min(left, BEAT_S))
        if beat is not None and thread.is_alive():
            beat()
    if thread.is_alive():
        raise ControllerError(f"{name} did not answer in time", limit=deadline_s)
    if fault:
        error = fault[0]
        if isinstance(error, ControllerError):
            raise error
        raise ControllerError(f"{name} raised {type(error).__name__}") from error
    return result[0]
