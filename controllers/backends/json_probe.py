"""Finding out what a server takes: does it hold a reply to a JSON schema, or only swallow the option?

A tiny request asks for one word and sends a schema that allows only another, which stands nowhere in
the text. A server that honours the schema answers with the second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from controllers.backends.base import Completion, Failure
from controllers.backends.chat_request import NEWER, Dialect, request
from controllers.prompts.message import Message, Prompt, Text
from epimem.errors import ControllerError, RecordError
from epimem.schema import strict_json

FORCED = {"colour": "violet"}
PROBE = Prompt(
    operation="probe",
    messages=(Message("user", (Text("Reply with one word: hello"),)),),
    schema={
        "type": "object",
        "properties": {"colour": {"type": "string", "enum": ["violet"]}},
        "required": ["colour"],
        "additionalProperties": False,
    },
    max_tokens=64,
)
PLAIN = Dialect(schema=False)
_CANDIDATES = (Dialect(schema=True), NEWER, PLAIN, replace(NEWER, schema=False))
# The model said something, or would not: the request itself was taken.
_TAKEN = frozenset({"", Failure.EMPTY, Failure.TOOL_CALL, Failure.FILTERED, Failure.REFUSED})
_NOT_TAKEN = frozenset({Failure.REQUEST, Failure.PROMPT_TOO_LONG})


def find(model: str, ask: Callable[[dict[str, Any]], Completion]) -> Dialect:
    """Return the fields that a server takes; at most four requests, usually one.

    Raises:
        ControllerError: `model_failed`; the server did not answer, so nothing is known.
    """
    for candidate in _CANDIDATES:
        completion = ask(request(model, PROBE, candidate))
        if completion.error in _NOT_TAKEN:
            continue
        if completion.error not in _TAKEN:
            raise ControllerError(
                f"no answer to a first small request: {completion.error}",
                hint="is the address of the spec right, and is the server up?",
            )
        return replace(candidate, schema=candidate.schema and _forced(completion.text))
    return PLAIN


def _forced(text: str) -> bool:
    try:
        found: bool = strict_json.loads(text.strip()) == FORCED
    except RecordError:
        return False
    return found
