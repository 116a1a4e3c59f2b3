"""What a backend is: prompts in, one completion per prompt out, in order.

A single prompt that gets no usable text is a `Completion` with an `error`; only where nothing can
work at all (a refused key, a server that is gone) does a backend raise. Errors are worded from the
closed list `Failure`, so that no key, prompt or text of a server can leak through them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from controllers.prompts.message import Image, Message, Prompt

MISSING_IMAGE = "[image not available]"


class Failure(StrEnum):
    """Why a prompt has no usable text; the wordings are all that is ever said."""

    DEADLINE = "no reply before the deadline"
    CONNECTION = "the connection failed"
    RATE_LIMITED = "the server limits the rate of calls"
    SERVER = "the server reported a fault of its own"
    REQUEST = "the server refused the request"
    TOO_LARGE = "the reply is larger than allowed"
    NOT_CHAT = "the reply is not a chat completion"
    EMPTY = "the reply holds no text"
    TOOL_CALL = "a tool call came in place of text"
    FILTERED = "a content filter withheld the reply"
    REDIRECTED = "the server redirects elsewhere"
    PROMPT_TOO_LONG = "the prompt is longer than the model takes"
    MEMORY = "the model ran out of memory"
    REFUSED = "the model refused to answer"
    OTHER_MODEL = "another model than before answered"
    UNREACHABLE = "the server cannot be reached"
    NO_REPLY = "no reply is recorded for this prompt"
    MODEL = "the model failed on this prompt"


@dataclass(frozen=True)
class Completion:
    """What came back for one prompt.

    Token counts are never negative and are 0 where the model does not tell; `cached` counts those of
    `tokens_in` that were read from a prefix cache. `seconds` is wall time, retries included. `error` is
    a `Failure` where there is no usable text, else empty. `truncated` says that the limit on new tokens
    ended the text.
    """

    text: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    cached: int = 0
    seconds: float = 0.0
    error: str = ""
    truncated: bool = False


class Backend(Protocol):
    """A model that completes prompts.

    `name` identifies the model in provenance and in the ledger of usage: no host, no key. At most
    `concurrency` calls are in flight together; 1 for a model in this process.
    """

    name: str
    concurrency: int

    def complete(self, prompts: Sequence[Prompt]) -> Sequence[Completion]:
        """Return one completion per prompt, in order.

        Raises:
            ControllerError: `model_failed`; nothing at all can work (refused key, model or server gone).
        """
        ...

    def close(self) -> None:
        """Free what the backend holds; safe to call twice."""
        ...


def pieces(message: Message, max_pixels: int) -> list[str | bytes]:
    """Return a message as texts and PNG files in turn, for a model that takes both.

    Parts are set apart by line breaks, which stand in the texts, so that a message reads the same
    whichever way a backend hands it over. An image whose source is gone is told in words.
    """
    found: list[str | bytes] = []
    for place, part in enumerate(message.parts):
        png = part.picture.png(max_pixels) if isinstance(part, Image) else None
        text = MISSING_IMAGE if isinstance(part, Image) else part.text
        if place:
            _add(found, "\n")
        _add(found, text if png is None else png)
    return found


def _add(found: list[str | bytes], piece: str | bytes) -> None:
    last = found[-1] if found else None
    if isinstance(piece, str) and isinstance(last, str):
        found[-1] = last + piece
    else:
        found.append(piece)
