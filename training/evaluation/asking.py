"""Putting demonstrations to one subject, in batches, until each has an answer or a failure."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

from controllers.model.asking import FAILED
from epimem.errors import ConfigError, ControllerError, EpimemError
from epimem.protocols import Reply
from training.demonstrations.codec import to_plain
from training.demonstrations.record import VALUE_OF, Demonstration, OperationName
from training.evaluation.answers import Answer, Answers
from training.evaluation.subjects import Subject

# Of one call, and what an interruption may cost (ours).
BATCH = 32
# Batches in a row of which nothing came: then the controller is taken to be gone (ours).
LOST = 2
_log = logging.getLogger(__name__)
Progress = Callable[[str, int, int], None]


def ask(
    subject: Subject,
    demonstrations: Sequence[Demonstration],
    answers: Answers,
    *,
    progress: Progress = lambda *_: None,
) -> None:
    """Ask what is not answered yet. No fault of a demonstration or a controller's call ends this.

    Args:
        subject: who is asked; closed at the end.
        demonstrations: in any order; put by operation.
        answers: where answers are kept, failures for this process only.
        progress: told the subject, and how many of how many are answered.

    Raises:
        ConfigError: the controller cannot be loaded as it is named.
    """
    todo = [it for it in demonstrations if (subject.fingerprint, it.id) not in answers]
    done, lost = len(demonstrations) - len(todo), 0
    try:
        for operation, batch in _batches(todo):
            gone = lost >= LOST
            found = _not_asked(subject, batch) if gone else _asked(subject, operation, batch)
            lost = lost + 1 if all(answer.failure for answer in found) else 0
            for answer in found:
                answers.add(answer)
            done += len(batch)
            progress(subject.name, done, len(demonstrations))
    finally:
        subject.close()


def _batches(
    todo: Sequence[Demonstration],
) -> Iterator[tuple[OperationName, list[Demonstration]]]:
    ordered = sorted(todo, key=lambda it: list(VALUE_OF).index(it.operation))
    for operation, alike in groupby(ordered, key=lambda it: it.operation):
        same = list(alike)
        for start in range(0, len(same), BATCH):
            yield operation, same[start : start + BATCH]


def _asked(
    subject: Subject, operation: OperationName, batch: Sequence[Demonstration]
) -> list[Answer]:
    """Ask a batch; where it fails as a whole, one by one."""
    start = time.monotonic()
    try:
        replies = _replies(subject, operation, batch)
    except ConfigError:
        raise
    except Exception as error:  # noqa: BLE001 - a controller may be anybody's code
        _log.warning("%s: %d %s failed together", subject.name, len(batch), operation)
        if len(batch) == 1:
            return [_failed(subject, batch[0], error)]
        return [answer for it in batch for answer in _asked(subject, operation, [it])]
    seconds = (time.monotonic() - start) / len(batch)
    return [
        _answer(subject, demonstration, reply, seconds)
        for demonstration, reply in zip(batch, replies, strict=True)
    ]


def _replies(
    subject: Subject, operation: OperationName, batch: Sequence[Demonstration]
) -> Sequence[Reply[Any]]:
    replies = subject.answer(operation, batch)
    if len(replies) != len(batch) or not all(isinstance(reply, Reply) for reply in replies):
        raise ControllerError(f"{operation}: not one reply for each of {len(batch)} requests")
    return replies


def _answer(
    subject: Subject, demonstration: Demonstration, reply: Reply[Any], seconds: float
) -> Answer:
    usage = reply.usage
    if reply.reason is not None and reply.detail.startswith(FAILED):
        return _failed(subject, demonstration, ControllerError(reply.detail))
    return Answer(
        controller=subject.fingerprint,
        id=demonstration.id,
        operation=demonstration.operation,
        value=_plain(demonstration, reply.value) if reply.reason is None else None,
        reason=reply.reason,
        detail=reply.detail,
        calls=usage.calls,
        tokens_in=usage.tokens_in,
        tokens_out=usage.tokens_out,
        seconds=usage.seconds or seconds,
    )


def _plain(demonstration: Demonstration, value: Any) -> Any:
    said = Demonstration(
        demonstration.id,
        demonstration.operation,
        demonstration.group,
        None,
        value,
        demonstration.provenance,
    )
    return to_plain(said)["value"]


def _failed(subject: Subject, demonstration: Demonstration, error: Exception) -> Answer:
    said = error.message if isinstance(error, EpimemError) else type(error).__name__
    return Answer(
        controller=subject.fingerprint,
        id=demonstration.id,
        operation=demonstration.operation,
        failure=said,
    )


def _not_asked(subject: Subject, batch: Sequence[Demonstration]) -> list[Answer]:
    gone = ControllerError("not asked: the controller is gone")
    return [_failed(subject, demonstration, gone) for demonstration in batch]
