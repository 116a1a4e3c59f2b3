"""A prompt as the body of an OpenAI-compatible chat request."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controllers.backends.base import pieces
from controllers.backends.held_schema import held
from controllers.prompts.message import Message, Prompt


@dataclass(frozen=True)
class Dialect:
    """Which fields a server takes.

    `schema`: it holds a reply to a JSON schema. `limit` names the field that bounds new tokens: newer
    models of the first vendor take `max_completion_tokens` alone, local servers `max_tokens`; the former
    refuse a temperature as well.
    """

    schema: bool
    limit: str = "max_tokens"
    temperature: bool = True


NEWER = Dialect(schema=True, limit="max_completion_tokens", temperature=False)


def request(model: str, prompt: Prompt, dialect: Dialect) -> dict[str, Any]:
    """Return the body; images go along as data URLs of PNG files, a schema where there is one."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [_message(message, prompt.max_pixels) for message in prompt.messages],
        dialect.limit: prompt.max_tokens,
    }
    if dialect.temperature:
        body["temperature"] = 0.0
    if dialect.schema and prompt.schema:
        body["response_format"] = response_format(prompt.operation, prompt.schema)
    return body


def response_format(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the field that asks for a reply of this schema."""
    safe = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "reply"
    return {
        "type": "json_schema",
        "json_schema": {"name": safe, "schema": held(schema), "strict": True},
    }


def _message(message: Message, max_pixels: int) -> dict[str, Any]:
    parts = pieces(message, max_pixels)
    if all(isinstance(part, str) for part in parts):
        # Plain text is the form that every server takes.
        return {
            "role": message.role,
            "content": "".join(part for part in parts if isinstance(part, str)),
        }
    return {"role": message.role, "content": [_part(part) for part in parts]}


def _part(part: str | bytes) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    url = "data:image/png;base64," + base64.b64encode(part).decode("ascii")
    return {"type": "image_url", "image_url": {"url": url}}
