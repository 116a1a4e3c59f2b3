"""A model server that follows a script: for tests of harnesses, ours and those of adapters' authors.

It speaks OpenAI Responses (Codex), OpenAI Chat Completions (CAMEL, DeepSeek Harness) and Anthropic
Messages (DeepSeek Harness, Claude Code), on loopback, and keeps every request, so that a test can
look at what a model would have seen. It calls the tools of its script one after the other, those
that the harness offers, then answers.

    with FakeModel([ToolCall("retrieve", {"question": "..."})], answer="six") as model:
        run_the_harness(base_url=model.url)
        assert model.seen[-1].images
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

USAGE = {"input": 7, "output": 5}


@dataclass(frozen=True)
class ToolCall:
    """A tool to call: the first whose name contains `word`; `arguments` as the model gives them."""

    word: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Offered:
    """A tool as it was offered: its name, and the namespace that Codex puts it into."""

    name: str
    namespace: str = ""


@dataclass
class Seen:
    """One request as a model would see it.

    Attributes:
        protocol: "responses", "chat" or "messages".
        body: the request as it came.
        texts: of all messages and tool results, in order.
        images: data URLs, in order.
        tools: offered.
        results: how many tool results it holds.
    """

    protocol: str
    body: dict[str, Any]
    texts: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    tools: list[Offered] = field(default_factory=list)
    results: int = 0

    @property
    def text(self) -> str:
        """All texts as one."""
        return "\n".join(self.texts)


class FakeModel:
    """The server; use `with`.

    Args:
        script: tools to call in turn, one a request.
        answer: what it says when the script is done.
    """

    def __init__(self, script: Sequence[ToolCall] = (), *, answer: str = "done") -> None:
        self.script = tuple(script)
        self.answer = answer
        self.seen: list[Seen] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """The base URL, to which `/responses`, `/chat/completions` and `/messages` are added."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def next_call(self, seen: Seen) -> tuple[Offered, ToolCall] | None:
        """Return the call that is due: the first of the script that has no result yet and is offered."""
        for call in self.script[seen.results :]:
            tool = next((tool for tool in seen.tools if call.word in tool.name), None)
            if tool is not None:
                return tool, call
        return None

    def take(self, seen: Seen) -> None:
        """Keep a request."""
        with self._lock:
            self.seen.append(seen)


def _handler(model: FakeModel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            """List one model."""
            listed = {"object": "list", "data": [{"id": "fake", "object": "model"}]}
            self._send(200, "application/json", json.dumps(listed).encode())

        def do_POST(self) -> None:
            """Answer in the protocol of the path."""
            data = self.rfile.read(int(self.headers.get("content-length", 0)))
            protocol = next((p for end, p in _PROTOCOLS.items() if self.path.endswith(end)), None)
            if protocol is None:
                self._send(404, "application/json", b'{"error":{"message":"no such path"}}')
                return
            name, read, reply = protocol
            body = json.loads(data)
            seen = read(Seen(name, body))
            model.take(seen)
            due = model.next_call(seen)
            if body.get("stream"):
                events = "".join(reply(seen, due, model.answer, stream=True))
                self._send(200, "text/event-stream", events.encode())
            else:
                whole = "".join(reply(seen, due, model.answer, stream=False))
                self._send(200, "application/json", whole.encode())

        def _send(self, status: int, kind: str, data: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler


Due = tuple[Offered, ToolCall] | None
Reply = Callable[..., Iterator[str]]


# -- OpenAI Responses ---------------------------------------------------------------------------------


def _read_responses(seen: Seen) -> Seen:
    for tool in seen.body.get("tools", []):
        if tool.get("type") == "namespace":
            seen.tools += [Offered(each["name"], tool["name"]) for each in tool["tools"]]
        elif "name" in tool:
            seen.tools.append(Offered(tool["name"]))
    given = seen.body.get("input", [])
    for item in [{"content": given}] if isinstance(given, str) else given:
        if item.get("type") == "function_call_output":
            seen.results += 1
            _take_parts(seen, item.get("output"))
        else:
            _take_parts(seen, item.get("content"))
    return seen


def _responses(seen: Seen, due: Due, answer: str, *, stream: bool) -> Iterator[str]:
    if due is not None:
        tool, call = due
        item: dict[str, Any] = {
            "type": "function_call",
            "id": f"fc_{seen.results}",
            "call_id": f"call_{seen.results}",
            "name": tool.name,
            "arguments": json.dumps(call.arguments),
            **({"namespace": tool.namespace} if tool.namespace else {}),
        }
    else:
        content = [{"type": "output_text", "text": answer, "annotations": []}]
        item = {"type": "message", "id": "msg_1", "role": "assistant", "content": content}
    usage = {
        "input_tokens": USAGE["input"],
        "output_tokens": USAGE["output"],
        "total_tokens": sum(USAGE.values()),
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    whole = {"id": "resp_1", "object": "response", "output": [item], "usage": usage}
    if not stream:
        yield json.dumps({**whole, "status": "completed"})
        return
    yield _event({"type": "response.created", "response": {"id": "resp_1"}})
    yield _event({"type": "response.output_item.done", "output_index": 0, "item": item})
    yield _event({"type": "response.completed", "response": {**whole, "status": "completed"}})


# -- OpenAI Chat Completions --------------------------------------------------------------------------


def _read_chat(seen: Seen) -> Seen:
    seen.tools = [Offered(tool["function"]["name"]) for tool in seen.body.get("tools", [])]
    for message in seen.body.get("messages", []):
        seen.results += message.get("role") == "tool"
        _take_parts(seen, message.get("content"))
    return seen


def _chat(seen: Seen, due: Due, answer: str, *, stream: bool) -> Iterator[str]:
    message: dict[str, Any] = {"role": "assistant", "content": answer if due is None else None}
    if due is not None:
        tool, call = due
        function = {"name": tool.name, "arguments": json.dumps(call.arguments)}
        index = {"index": 0} if stream else {}
        one = {**index, "id": f"call_{seen.results}", "type": "function", "function": function}
        message["tool_calls"] = [one]
    reason = "stop" if due is None else "tool_calls"
    usage = {
        "prompt_tokens": USAGE["input"],
        "completion_tokens": USAGE["output"],
        "total_tokens": sum(USAGE.values()),
    }
    head = {"id": "chat_1", "created": 0, "model": "fake"}
    if not stream:
        choice = {"index": 0, "message": message, "finish_reason": reason}
        yield json.dumps({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
        return
    head["object"] = "chat.completion.chunk"
    yield _event({**head, "choices": [{"index": 0, "delta": message, "finish_reason": None}]})
    yield _event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    yield _event({**head, "choices": [], "usage": usage})
    yield "data: [DONE]\n\n"


# -- Anthropic Messages -------------------------------------------------------------------------------


def _read_messages(seen: Seen) -> Seen:
    seen.tools = [Offered(tool["name"]) for tool in seen.body.get("tools", [])]
    _take_parts(seen, seen.body.get("system"))
    for message in seen.body.get("messages", []):
        _take_parts(seen, message.get("content"))
    return seen


def _messages(seen: Seen, due: Due, answer: str, *, stream: bool) -> Iterator[str]:
    if due is not None:
        tool, call = due
        block: dict[str, Any] = {"type": "tool_use", "id": f"toolu_{seen.results}"}
        block |= {"name": tool.name, "input": dict(call.arguments)}
    else:
        block = {"type": "text", "text": answer}
    reason = "end_turn" if due is None else "tool_use"
    usage = {"input_tokens": USAGE["input"], "output_tokens": USAGE["output"]}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "fake"}
    if not stream:
        yield json.dumps({**head, "content": [block], "stop_reason": reason, "usage": usage})
        return
    yield _named("message_start", message={**head, "content": [], "usage": usage})
    if due is None:
        empty: dict[str, Any] = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": answer}
    else:
        empty = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    yield _named("content_block_start", index=0, content_block=empty)
    yield _named("content_block_delta", index=0, delta=delta)
    yield _named("content_block_stop", index=0)
    yield _named("message_delta", delta={"stop_reason": reason}, usage=usage)
    yield _named("message_stop")


# -- parts --------------------------------------------------------------------------------------------


def _take_parts(seen: Seen, content: Any) -> None:
    """Take the texts and images of a message's content, whatever protocol it is of."""
    if isinstance(content, str):
        seen.texts.append(content)
        return
    for part in content or ():
        kind = part.get("type")
        if kind in {"text", "input_text", "output_text"}:
            seen.texts.append(part["text"])
        elif kind == "input_image":
            seen.images.append(part["image_url"])
        elif kind == "image_url":
            seen.images.append(part["image_url"]["url"])
        elif kind == "image":
            source = part.get("source", {})
            seen.images.append(f"data:{source.get('media_type')};base64,{source.get('data')}")
        elif kind == "tool_result":
            seen.results += 1
            _take_parts(seen, part.get("content"))


def _event(value: Mapping[str, Any]) -> str:
    name = f"event: {value['type']}\n" if "type" in value else ""
    return f"{name}data: {json.dumps(value)}\n\n"


def _named(kind: str, **fields: Any) -> str:
    return _event({"type": kind, **fields})


_PROTOCOLS: dict[str, tuple[str, Callable[[Seen], Seen], Reply]] = {
    "/responses": ("responses", _read_responses, _responses),
    "/chat/completions": ("chat", _read_chat, _chat),
    "/messages": ("messages", _read_messages, _messages),
}
