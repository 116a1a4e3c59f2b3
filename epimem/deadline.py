"""Calls to controllers with a bound on their time, and one way to fail.

A controller is foreign code. Whatever it raises becomes a `ControllerError`; a call that does not
come back in time is given up, its thread left to end by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from epimem.errors import ControllerError
from epimem.protocols import Reply

T = TypeVar("T")


def call(
    name: str, method: Callable[[], Sequence[Reply[T]]], *, expected: int, deadline_s: float
) -> Sequence[Reply[T]]:
    """Call a controller and return its replies.

    Args:
        name: of the role and method, for messages.
        method: the call.
        expected: the number of replies that must come back.
        deadline_s: seconds.

    Raises:
        ControllerError: `model_failed`: raised, out of time, or not one Reply per request.
    """
    replies = _bounded(name, method, deadline_s)
    sound = isinstance(replies, Sequence) and all(isinstance(item, Reply) for item in replies)
    if not sound or len(replies) != expected:
        raise ControllerError(f"{name} did not return one reply per request")
    return replies


def _bounded(
    name: str, method: Callable[[], Sequence[Reply[T]]], deadline_s: float
) -> Sequence[Reply[T]]:
    result: list[Sequence[Reply[T]]] = []
    fault: list[BaseException] = []

    def run() -> None:
        try:
            result.append(method())
        except Exception as error:  # noqa: BLE001 - the boundary to foreign code
            fault.append(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    thread.join(deadline_s)
    if thread.is_alive():
        raise ControllerError(f"{name} did not answer in time", limit=deadline_s)
    if fault:
        error = fault[0]
        if isinstance(error, ControllerError):
            raise error
        raise ControllerError(f"{name} raised {type(error).__name__}") from error
    return result[0]
