"""Reading the body of a chat reply: bytes of a foreign server, so nothing in it is taken on trust."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controllers.backends.base import Completion, Failure
from epimem.errors import RecordError
from epimem.schema import strict_json

MOST_TOKENS = 10**9  # a count above it is as much nonsense as one below 0 (ours)


@dataclass(frozen=True)
class ChatReply:
    """A completion, and the model that the server says it is of ("" where it does not say)."""

    completion: Completion
    model: str = ""


def read(data: bytes) -> ChatReply:
    """Read a reply; whatever cannot be used is a completion with an error."""
    try:
        body = strict_json.loads(data)
    except RecordError:
        return ChatReply(Completion(error=Failure.NOT_CHAT))
    choice = _first_choice(body)
    if choice is None:
        return ChatReply(Completion(error=Failure.NOT_CHAT))
    text, error = _text(choice)
    tokens_in, tokens_out, cached = _usage(body.get("usage"))
    completion = Completion(
        text=text,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        cached=cached,
        error=error,
        truncated=choice.get("finish_reason") == "length",
    )
    model = body.get("model")
    return ChatReply(completion, model if isinstance(model, str) else "")


def _first_choice(body: Any) -> Mapping[str, Any] | None:
    choices = body.get("choices") if isinstance(body, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    sound = isinstance(first, dict) and isinstance(first.get("message"), dict)
    return first if sound else None


def _text(choice: Mapping[str, Any]) -> tuple[str, str]:
    """Return the text, or why there is none."""
    message = choice["message"]
    if choice.get("finish_reason") == "content_filter":
        return "", Failure.FILTERED
    if text := _content(message.get("content")):
        return text, ""
    if message.get("tool_calls") or message.get("function_call"):
        return "", Failure.TOOL_CALL
    if message.get("refusal"):
        return "", Failure.REFUSED
    return "", Failure.EMPTY


def _content(content: Any) -> str:
    """Return the text of a message, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str))


def _usage(usage: Any) -> tuple[int, int, int]:
    """Return tokens in, out and cached; each 0 where the server tells nothing sensible."""
    if not isinstance(usage, dict):
        return 0, 0, 0
    details = usage.get("prompt_tokens_details")
    tokens_in = _count(usage.get("prompt_tokens"))
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
    return tokens_in, _count(usage.get("completion_tokens")), min(cached, tokens_in)


def _count(value: Any) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value <= MOST_TOKENS else 0


def is_too_long(data: bytes) -> bool:
    """Say whether the body of a refusal complains about the length of the prompt."""
    lower = data[:65536].lower()
    return b"context_length" in lower or b"context length" in lower or b"context size" in lower
