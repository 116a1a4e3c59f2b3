"""What a chat server may do wrong, by name: each writes to the open connection as it likes.

A name may carry an argument after a colon: `slow:1` sends one byte a second, `status:500` that status,
`retry-after:120` a 429 with that header (also `past` and `soon`, as dates), `redirect:308 ADDRESS`
elsewhere, `content:null` that JSON as content, `usage:null` that as usage. `FAULTS` lists all names.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from controllers.backends.pacing import http_date

PIECE = b"x" * 65536


@dataclass(frozen=True)
class Exchange:
    """One request, and the ways to answer it: `reply` makes the good text; `over` is set at the end."""

    connection: socket.socket
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    reply: Callable[[Mapping[str, Any]], str]
    over: threading.Event
    _said: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The good text; the rule is asked once."""
        if not self._said:
            self._said.append(self.reply(self.body))
        return self._said[0]

    def send(self, status: int, body: bytes, **headers: str) -> None:
        """Answer with a body of any kind."""
        self.connection.sendall(head(status, len(body), **headers) + body)

    def send_json(self, value: Any, status: int = 200, **headers: str) -> None:
        """Answer with JSON."""
        self.send(status, json.dumps(value).encode(), **headers)

    def send_chat(self, message: Mapping[str, Any] | None = None, **fields: Any) -> None:
        """Answer with a chat completion; `fields` replace those of the whole reply."""
        self.send_json(chat(self, message, **fields))

    def send_error(self, status: int, text: str = "no", **headers: str) -> None:
        """Answer with an error as the first vendor words it."""
        self.send_json(
            {"error": {"message": text, "type": "fake", "code": None}}, status, **headers
        )

    def trickle(self, data: bytes, bytes_a_second: float) -> None:
        """Send byte by byte, until the server ends."""
        for place in range(len(data)):
            self.connection.sendall(data[place : place + 1])
            if self.over.wait(1 / bytes_a_second):
                return


def head(status: int, length: int | None, **headers: str) -> bytes:
    """Return a status line and headers; names are written with hyphens for underscores."""
    given = {"content-type": "application/json", **headers}
    if length is not None:
        given.setdefault("content_length", str(length))
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in given.items() if value]
    return "\r\n".join([f"HTTP/1.1 {status} Fake", *lines, "", ""]).encode("latin-1")


def chat(
    exchange: Exchange, message: Mapping[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    """Return a chat completion of the good text, or of another message."""
    said = {"role": "assistant", "content": exchange.text} if message is None else message
    reply = {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": 0,
        "model": exchange.body.get("model", ""),
        "choices": [{"index": 0, "message": said, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": len(json.dumps(exchange.body.get("messages", []))) // 4 + 1,
            "completion_tokens": len(json.dumps(said)) // 4 + 1,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
    }
    return reply | fields


def _silence(exchange: Exchange, _: str) -> None:
    exchange.over.wait()


def _reset(exchange: Exchange, _: str) -> None:
    # With a linger time of 0 the kernel sends a reset in place of an end.
    exchange.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    # The handler's files keep a closed socket open; one that has given its number away is not kept.
    os.close(exchange.connection.detach())


def _slow(exchange: Exchange, rate: str) -> None:
    body = json.dumps(chat(exchange)).encode()
    exchange.connection.sendall(head(200, len(body)))
    exchange.trickle(body, float(rate or 1))


def _slow_head(exchange: Exchange, rate: str) -> None:
    body = json.dumps(chat(exchange)).encode()
    exchange.trickle(head(200, len(body)) + body, float(rate or 1))


def _late(exchange: Exchange, seconds: str) -> None:
    exchange.over.wait(float(seconds or 1))
    exchange.send_chat()


def _endless(exchange: Exchange, status: str) -> None:
    exchange.connection.sendall(head(int(status or 200), None, transfer_encoding="chunked"))
    while not exchange.over.is_set():
        exchange.connection.sendall(b"%x\r\n%s\r\n" % (len(PIECE), PIECE))


def _huge(exchange: Exchange, _: str) -> None:
    exchange.connection.sendall(head(200, 10 * 2**30))
    while not exchange.over.is_set():
        exchange.connection.sendall(PIECE)


def _half(exchange: Exchange, _: str) -> None:
    body = json.dumps(chat(exchange)).encode()
    exchange.connection.sendall(head(200, len(body)) + body[: len(body) // 2])
    exchange.connection.shutdown(socket.SHUT_RDWR)


def _gzip_bomb(exchange: Exchange, _: str) -> None:
    bomb = gzip.compress(bytes(16 * 2**20))
    exchange.send(200, bomb, content_encoding="gzip")


def _redirect(exchange: Exchange, to: str) -> None:
    status, _, address = to.partition(" ")
    exchange.send(int(status or 302), b"", location=address or "http://127.0.0.1:9/")


def _redirect_loop(exchange: Exchange, _: str) -> None:
    exchange.send(307, b"", location=exchange.headers.get("x-fake-path", "/"))


def _two_answers(exchange: Exchange, _: str) -> None:
    body = json.dumps(chat(exchange)).encode()
    exchange.send(200, body + body)


def _event_stream(exchange: Exchange, _: str) -> None:
    event = json.dumps({"choices": [{"delta": {"content": exchange.text}}]})
    exchange.send(200, f"data: {event}\n\n".encode(), content_type="text/event-stream")


def _retry_after(exchange: Exchange, value: str) -> None:
    moment = {"past": time.time() - 3600, "soon": time.time() + 1}.get(value)
    exchange.send_error(429, retry_after=value if moment is None else http_date(moment))


def _tool_calls(exchange: Exchange, count: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "drop", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call] * int(count or 1)}
    exchange.send_chat(message)


def _finish(exchange: Exchange, reason: str) -> None:
    reply = chat(exchange)
    reply["choices"][0]["finish_reason"] = reason or "length"
    exchange.send_json(reply)


def _wrong_ids(exchange: Exchange, _: str) -> None:
    text = re.sub(r'"[A-Z]\d+"', '"Z99"', exchange.text)
    exchange.send_chat({"role": "assistant", "content": text})


def _key_echo(exchange: Exchange, status: str) -> None:
    key = exchange.headers.get("authorization", "")
    if status == "200":
        exchange.send_chat({"role": "assistant", "content": f"{exchange.text} {key}"})
    else:
        exchange.send_error(int(status or 401), f"Incorrect key provided: {key}")


def _prompt_echo(exchange: Exchange, status: str) -> None:
    exchange.send_error(int(status or 400), json.dumps(exchange.body.get("messages")))


def _usage(exchange: Exchange, value: str) -> None:
    exchange.send_chat(usage=json.loads(value or "null"))


def _content(exchange: Exchange, value: str) -> None:
    exchange.send_chat({"role": "assistant", "content": json.loads(value or "null")})


def _parts(exchange: Exchange, _: str) -> None:
    half = len(exchange.text) // 2
    parts = [
        {"type": "text", "text": text} for text in (exchange.text[:half], exchange.text[half:])
    ]
    exchange.send_chat({"role": "assistant", "content": parts})


def _refusal(exchange: Exchange, _: str) -> None:
    exchange.send_chat(
        {"role": "assistant", "content": None, "refusal": "I cannot help with that."}
    )


def _wrong_charset(exchange: Exchange, _: str) -> None:
    body = json.dumps(chat(exchange) | {"note": "é"}, ensure_ascii=False)
    exchange.send(200, body.encode("latin-1"), content_type="application/json; charset=utf-8")


FAULTS: Final[Mapping[str, Callable[[Exchange, str], None]]] = {
    "good": lambda exchange, _: exchange.send_chat(),
    "silence": _silence,
    "reset": _reset,
    "slow": _slow,
    "slow-head": _slow_head,
    "late": _late,
    "endless": _endless,
    "huge": _huge,
    "half": _half,
    "empty": lambda exchange, _: exchange.send(200, b""),
    "raw": lambda exchange, text: exchange.send(200, text.encode()),
    "deep": lambda exchange, _: exchange.send(200, b"[" * 100_000),
    "two-answers": _two_answers,
    "event-stream": _event_stream,
    "gzip-bomb": _gzip_bomb,
    "wrong-charset": _wrong_charset,
    "no-choices": lambda exchange, _: exchange.send_json({"id": "x"}),
    "empty-choices": lambda exchange, _: exchange.send_chat(choices=[]),
    "content": _content,
    "parts": _parts,
    "tool-calls": _tool_calls,
    "refusal": _refusal,
    "finish": _finish,
    "wrong-ids": _wrong_ids,
    "other-model": lambda exchange, name: exchange.send_chat(model=name or "other"),
    "usage": _usage,
    "status": lambda exchange, status: exchange.send_error(int(status or 500)),
    "no-content": lambda exchange, _: exchange.send(204, b"", content_length=""),
    "retry-after": _retry_after,
    "redirect": _redirect,
    "redirect-loop": _redirect_loop,
    "key-echo": _key_echo,
    "prompt-echo": _prompt_echo,
}


def fault(name: str) -> Callable[[Exchange], None]:
    """Return the fault of this name, its argument filled in.

    Raises:
        ValueError: there is none of that name; lists those there are.
    """
    kind, _, argument = name.partition(":")
    if kind not in FAULTS:
        raise ValueError(f"no fault named {kind!r}; there are: {', '.join(FAULTS)}")
    run = FAULTS[kind]
    return lambda exchange: run(exchange, argument)
