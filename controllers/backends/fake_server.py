"""A chat server that misbehaves on request, over real sockets: for tests of backends, and to try out.

It listens on this machine only. In a test, `FakeServer` is a context whose replies come from a rule
and whose faults come from a plan:

    def plan(number, body):            # requests count from 0
        return "status:500" if number == 3 else "good"

    with FakeServer(rule, plan=plan) as server:
        backend = OpenAIBackend(ChatServer(server.url), "any-model")

As a program (`--help`) it takes a list of faults, one per request, and answers with the smallest
value that the schema of a request allows.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from controllers.backends.fake_faults import FAULTS, Exchange, fault
from controllers.backends.fake_replies import PLAIN_TEXT, is_probe, schema_of, smallest_reply

Rule = Callable[[Mapping[str, Any]], str]
Plan = Callable[[int, Mapping[str, Any]], str]
LOOPBACK = "127.0.0.1"


def always_good(_number: int, _body: Mapping[str, Any]) -> str:
    """Plan no fault."""
    return "good"


def after_probe(name: str) -> Plan:
    """Plan a fault for every request but the probe of a backend."""
    return lambda _, body: "good" if is_probe(body) else name


def listed(faults: Sequence[str], *, repeat: bool = False) -> Plan:
    """Plan these faults, one per request that is no probe; afterwards begin again, or do all well."""
    counted: Counter[str] = Counter()
    lock = threading.Lock()

    def plan(_number: int, body: Mapping[str, Any]) -> str:
        if is_probe(body):
            return "good"
        with lock:
            place = counted["requests"]
            counted["requests"] += 1
        if repeat and faults:
            place %= len(faults)
        return faults[place] if place < len(faults) else "good"

    return plan


class FakeServer:
    """A server in this process, stopped with its context.

    Args:
        rule: the good text for the body of a request.
        plan: the fault for a request by its number and body; see `fake_faults`.
        latency_s: seconds before any answer.
        schemas: "honoured", "ignored" (the option is swallowed), or "refused" (status 400).
        models: names of the models that it says it has.
        port: 0 takes a free one.
    """

    def __init__(
        self,
        rule: Rule = smallest_reply,
        *,
        plan: Plan = always_good,
        latency_s: float = 0.0,
        schemas: str = "honoured",
        models: Sequence[str] = ("fake",),
        port: int = 0,
    ) -> None:
        self.rule = rule
        self.plan = plan
        self.latency_s = latency_s
        self.schemas = schemas
        self.models = models
        self.bodies: list[Mapping[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.lock = threading.Lock()
        self.over = threading.Event()
        self._http = _Listener((LOOPBACK, port), _Handler)
        self._http.fake = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address for a spec or a client."""
        return f"http://{LOOPBACK}:{self._http.server_address[1]}/v1"

    @property
    def requests(self) -> int:
        """How many requests have come, those of the probe among them."""
        return len(self.bodies)

    def close(self) -> None:
        """Stop; requests that are being answered are cut."""
        self.over.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        self._http.cut()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def answer(self, exchange: Exchange, path: str) -> None:
        """Answer one request as planned."""
        with self.lock:
            number = len(self.bodies)
            self.bodies.append(exchange.body)
            self.headers.append(exchange.headers)
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self.latency_s:
                self.over.wait(self.latency_s)
            if not path.endswith("/chat/completions"):
                exchange.send_error(404, "no such path")
            elif self.schemas == "refused" and schema_of(exchange.body) is not None:
                exchange.send_error(400, "unknown field: response_format")
            else:
                fault(self.plan(number, exchange.body))(exchange)
        finally:
            with self.lock:
                self.in_flight -= 1

    def text(self, body: Mapping[str, Any]) -> str:
        """Return the good text: of the probe what its schema forces, of all else what the rule says."""
        if self.schemas == "ignored":
            body = {name: value for name, value in body.items() if name != "response_format"}
        return smallest_reply(body) if is_probe(body) else self.rule(body)


class _Listener(ThreadingHTTPServer):
    fake: FakeServer
    daemon_threads = True
    block_on_close = False  # a thread that sends without end sees `over` by itself
    request_queue_size = 128

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, and remember the connection."""
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget the connection and close it."""
        self._open.discard(request)
        super().shutdown_request(request)

    def cut(self) -> None:
        """Close all connections, also those that only wait for a next request."""
        for request in list(self._open):
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away; it is what half of the tests are about."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener
    connection: socket.socket

    def do_POST(self) -> None:
        """Answer a request."""
        fake = self.server.fake
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = json.loads(data or b"{}")
        headers = {name.lower(): value for name, value in self.headers.items()}
        headers["x-fake-path"] = self.path
        exchange = Exchange(self.connection, body, headers, fake.text, fake.over)
        fake.answer(exchange, self.path)
        if self.connection.fileno() < 0:
            self.close_connection = True

    def do_GET(self) -> None:
        """Answer questions about health and models."""
        models = [{"id": name, "object": "model"} for name in self.server.fake.models]
        body = json.dumps({"object": "list", "data": models}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - name of the base class
        """Log nothing: requests hold prompts."""

    def finish(self) -> None:
        """Close what is left of the connection."""
        with suppress(OSError, ValueError):
            super().finish()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the server until it is interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m controllers.backends.fake_server",
        description="An OpenAI-compatible chat server without a model, on this machine only.",
        epilog=f"Faults: {', '.join(FAULTS)}. Some take an argument, as in slow:1 or status:500.",
    )
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--schemas", choices=("honoured", "ignored", "refused"), default="honoured")
    parser.add_argument(
        "--faults", default="", help="one per request, parted by commas; then all is good"
    )
    parser.add_argument("--reply", default="", help=f"a fixed text; {PLAIN_TEXT!r} or the schema's")
    parser.add_argument("--repeat", action="store_true", help="begin again after the last fault")
    given = parser.parse_args(arguments)
    faults = [name for name in given.faults.split(",") if name]
    for name in faults:
        try:
            fault(name)
        except ValueError as error:
            parser.error(str(error))
    rule: Rule = (lambda _: given.reply) if given.reply else smallest_reply
    server = FakeServer(
        rule,
        plan=listed(faults, repeat=given.repeat),
        latency_s=given.latency,
        schemas=given.schemas,
        port=given.port,
    )
    sys.stdout.write(f"listening at {server.url}; spec: openai:{server.url}#fake\n")
    sys.stdout.flush()
    with server, suppress(KeyboardInterrupt):
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main()
