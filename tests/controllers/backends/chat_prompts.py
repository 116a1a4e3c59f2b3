"""Prompts for backends, and backends on the fake server."""

from __future__ import annotations

import json

from controllers.backends.chat_server import ChatServer, Limits
from controllers.backends.fake_replies import text_of
from controllers.backends.openai import OpenAIBackend
from controllers.prompts.message import Image, Message, Prompt, Text
from epimem.protocols import Picture

KEY = "sk-canary-0123456789abcdef"
CANARY = "canary text of a prompt"
SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "string", "enum": ["L1", "L2"]}},
    "required": ["id"],
    "additionalProperties": False,
}


def prompt(*parts, operation="place", system="You place lessons.", max_pixels=64, schema=SCHEMA):
    given = [Text(part) if isinstance(part, str) else part for part in parts or (CANARY,)]
    messages = (Message("system", (Text(system),)), Message("user", tuple(given)))
    return Prompt(operation, messages, schema, max_tokens=32, max_pixels=max_pixels)


def image(png, label="P1"):
    return Image(Picture("i1", 8, 8, page=1, read=lambda _: png), label)


_opened = []


def chat_server(server, *, key=KEY, deadline_s=20.0, first_wait_s=0.001, **limits):
    bounds = Limits(deadline_s=deadline_s, first_wait_s=first_wait_s, **limits)
    _opened.append(ChatServer(server.url, key=key, limits=bounds))
    return _opened[-1]


def close_all():
    while _opened:
        _opened.pop().close()


def backend(server, **options):
    return OpenAIBackend(chat_server(server, **options), "tiny")


def last_text(body):
    """The rule whose reply is the text of the last message."""
    return json.dumps(text_of({"messages": body["messages"][-1:]}))


def texts(completions):
    """Return what the replies say as JSON data."""
    return [json.loads(completion.text) for completion in completions]
