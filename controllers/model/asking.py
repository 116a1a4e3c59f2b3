"""One batch of requests put to a model: render, complete, read, and ask once more where that failed.

    requests ─ render ─ complete ─ read ─┬─ value ─────────────────────────────> Reply
                                         └─ refused ─ all again, once ─ read ──> Reply or why not

A batch never fails for one of its requests: a prompt without usable text, or a reply that cannot be
read, is a `Reply` without a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from controllers.backends.base import Backend, Completion
from controllers.model.protocols import Protocols
from controllers.prompts import OPERATIONS, Operation
from controllers.prompts.message import Prompt, Refused
from controllers.replies.asking_again import again, in_sections
from controllers.replies.reading import Read, read
from epimem.errors import ControllerError
from epimem.protocols import Reply
from epimem.schema.receipt import Usage

FAILED = "the model failed: "
"""How the detail of a reply begins that got no text from the model at all."""


@dataclass
class _Call:
    """One request on its way: its prompt, and what came of it so far."""

    request: Any
    prompt: Prompt
    sections: bool = False
    usage: Usage = field(default_factory=Usage)
    raw: str = ""
    failure: str = ""
    read: Read[Any] | None = None


def ask(
    backend: Backend, protocols: Protocols, name: str, requests: Sequence[Any]
) -> list[Reply[Any]]:
    """Put a batch to a model and return one reply per request, in order.

    Args:
        backend: the model.
        protocols: what this model is asked in; learns from the replies.
        name: of the operation.
        requests: of that operation.

    Raises:
        ControllerError: `model_failed`; the backend can do nothing at all, or miscounts.
    """
    operation = OPERATIONS[name]
    settled = [operation.settled(request) for request in requests]
    calls = [
        _Call(request, operation.render(request), protocols.sections)
        for request, value in zip(requests, settled, strict=True)
        if value is None
    ]
    if calls:
        _first_round(backend, protocols, operation, calls)
        _second_round(backend, operation, calls)
    done = iter(calls)
    return [_reply(next(done)) if value is None else Reply(value) for value in settled]


def _first_round(
    backend: Backend, protocols: Protocols, operation: Operation, calls: Sequence[_Call]
) -> None:
    prompts = [in_sections(call.prompt) if call.sections else call.prompt for call in calls]
    _complete(backend, operation, calls, prompts)
    protocols.note(call.read.json for call in calls if call.read is not None and not call.sections)


def _second_round(backend: Backend, operation: Operation, calls: Sequence[_Call]) -> None:
    """Ask again where a reply was refused; what already has a value stays whatever happens here."""
    failed = [call for call in calls if _refused(call) is not None]
    prompts = []
    for call in failed:
        refused = _refused(call)
        assert refused is not None
        assert call.read is not None
        call.sections = call.sections or not call.read.json
        prompts.append(again(call.prompt, call.raw, refused, sections=call.sections))
    if not prompts:
        return
    try:
        _complete(backend, operation, failed, prompts)
    except ControllerError:
        if len(failed) == len(calls):
            raise


def _complete(
    backend: Backend, operation: Operation, calls: Sequence[_Call], prompts: Sequence[Prompt]
) -> None:
    completions = backend.complete(prompts)
    if len(completions) != len(calls):
        raise ControllerError(
            f"{operation.name}: the model gave {len(completions)} replies to {len(calls)} prompts"
        )
    for call, completion in zip(calls, completions, strict=True):
        _take(call, operation, completion)


def _take(call: _Call, operation: Operation, completion: Completion) -> None:
    """Note one completion; one without usable text keeps what an earlier one was refused for."""
    call.usage += Usage(
        calls=1,
        tokens_in=completion.tokens_in,
        tokens_out=completion.tokens_out,
        cached=completion.cached,
        seconds=completion.seconds,
    )
    if completion.error:
        call.failure = completion.error
        return
    call.raw = completion.text
    call.read = read(
        completion.text,
        call.prompt,
        partial(_parse, operation, call.request),
        sections=call.sections,
        truncated=completion.truncated,
    )


def _parse(operation: Operation, request: Any, reply: Mapping[str, Any]) -> Any:
    return operation.parse(request, reply)


def _refused(call: _Call) -> Refused | None:
    return call.read.refused if call.read is not None else None


def _reply(call: _Call) -> Reply[Any]:
    if call.read is None:
        detail = f"{FAILED}{call.failure}"
        return Reply(None, reason="not_json", detail=detail, usage=call.usage)
    refused = call.read.refused
    if refused is None:
        return Reply(call.read.value, detail="; ".join(call.read.notes), usage=call.usage)
    after = f"; asked again, the model failed: {call.failure}" if call.failure else ""
    return Reply(
        None, reason=refused.reason, detail=refused.detail + after, raw=call.raw, usage=call.usage
    )
