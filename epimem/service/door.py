"""The door of the HTTP server: what is refused before any handler sees it.

In this order: method and path, size of headers, Host, Origin, coding and length of the body, token. The
body is counted while it is read, so a length that was not told helps nobody.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from epimem.errors import AccessError, EpimemError, RecordError
from epimem.schema.ids import uuid7
from epimem.service import faults, frames
from epimem.service.access import Principal, TokenFile
from epimem.service.uploads import MAX_BYTES

LOG = logging.getLogger("epimem.service")
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
PATH_BYTES = 8 * 1024
HEADER_BYTES = 32 * 1024
MOST_HEADERS = 100
JSON_BYTES = 1024 * 1024
BLOBS = "/v1/blobs/"
MCP = "/mcp"
REVISE = "/v1/revise"
REVISE_BYTES = 16 * 1024 * 1024
"""Its question's images come along; nothing of them is kept."""
OPEN_PATHS = frozenset({"/healthz"})
"""What needs no token: a probe that says `ok` or not, and nothing else."""

Seen = Callable[[str, str, int, float], None]


@dataclass(frozen=True)
class DoorSettings:
    """Whom the door lets in.

    Attributes:
        hosts: names of this server without ports, as a Host header may give them.
        origins: origins of pages that may call, `scheme://host[:port]`; that of the server itself may.
    """

    hosts: tuple[str, ...] = LOOPBACK
    origins: tuple[str, ...] = ()


class Door:
    """ASGI middleware around the whole application.

    Args:
        app: what is behind it; finds the principal in `scope["state"]["principal"]`.
        tokens: who may come in.
        settings: from where.
        seen: told of every request: method, path as routed, status, seconds.
    """

    def __init__(
        self, app: ASGIApp, *, tokens: TokenFile, settings: DoorSettings, seen: Seen
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._settings = settings
        self._seen = seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        visit = _Visit(scope, send)
        try:
            principal = self._admitted(scope)
            scope.setdefault("state", {})["principal"] = principal
            scope["state"]["request_id"] = visit.request_id
            visit.principal = principal.name if principal is not None else ""
            await self._app(scope, _counted(scope, receive), visit.send)
        except Exception as error:  # noqa: BLE001 - the outermost boundary of a request
            await visit.refuse(error)
        finally:
            visit.log()
            self._seen(scope["method"], route_of(scope), visit.status, visit.seconds)

    def _admitted(self, scope: Scope) -> Principal | None:
        headers = Headers(scope=scope)
        if (
            len(scope.get("raw_path") or b"") > PATH_BYTES
            or len(scope["query_string"]) > PATH_BYTES
        ):
            raise RecordError("the path is too long", code="too_large", limit=PATH_BYTES)
        size = sum(len(name) + len(value) for name, value in scope["headers"])
        if size > HEADER_BYTES or len(scope["headers"]) > MOST_HEADERS:
            raise RecordError("headers are too large", code="headers_too_large", limit=HEADER_BYTES)
        host = _one(headers, "host")
        self._check_host(host)
        self._check_origin(headers.getlist("origin"), host, scope["scheme"])
        if headers.get("content-encoding", "identity") != "identity":
            raise RecordError("a body is sent as it is", code="unsupported_type")
        _check_length(headers, limit_of(scope["path"]))
        if scope["path"] in OPEN_PATHS:
            return None
        return self._tokens.principal(_bearer(headers))

    def _check_host(self, host: str) -> None:
        if _without_port(host) not in self._settings.hosts:
            raise AccessError(
                "this server is not called so",
                code="host_not_allowed",
                hint="start it with --allow-host NAME",
            )

    def _check_origin(self, origins: list[str], host: str, scheme: str) -> None:
        allowed = (*self._settings.origins, f"{scheme}://{host}")
        if any(origin not in allowed for origin in origins) or len(origins) > 1:
            raise AccessError(
                "pages of that origin may not call this server", code="origin_not_allowed"
            )


class _Visit:
    """One request on its way through the door."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._began = time.monotonic()
        self._started = False
        self.request_id = uuid7()
        self.principal = ""
        self.status = 0
        self.code = ""

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self._began

    async def send(self, message: Message) -> None:
        """Send a part of the answer, with the headers that every answer has."""
        if message["type"] == "http.response.start":
            self._started = True
            self.status = message["status"]
            message = {**message, "headers": [*message["headers"], *self._headers()]}
        await self._send(message)

    def _headers(self) -> Iterable[tuple[bytes, bytes]]:
        return (
            (b"x-request-id", self.request_id.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"cache-control", b"no-store"),
        )

    async def refuse(self, error: Exception) -> None:
        """Answer with a fault, where the answer has not begun."""
        found = faults.named(error)
        self.code = found.code
        if found.code == "internal":
            LOG.error("internal", extra={"request_id": self.request_id, "place": _place(error)})
        if self._started:
            return
        data = faults.body(found, self.request_id)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(data))]
        headers += [(k.encode(), v.encode()) for k, v in faults.headers(found).items()]
        await self.send(
            {"type": "http.response.start", "status": faults.status(found), "headers": headers}
        )
        # HEAD asks for no body, and a server may not send one.
        data = b"" if self._scope["method"] == "HEAD" else data
        await self.send({"type": "http.response.body", "body": data})

    def log(self) -> None:
        """Write one line: ids, sizes, codes; no text of anybody's."""
        LOG.info(
            "request",
            extra={
                "request_id": self.request_id,
                "method": self._scope["method"],
                "route": route_of(self._scope),
                "status": self.status,
                "code": self._scope.get("state", {}).get("code", self.code),
                "principal": self.principal,
                "ms": round(self.seconds * 1000, 1),
            },
        )


def route_of(scope: Scope) -> str:
    """Return the route of a request as it is declared, without what a caller put into the path."""
    route = scope.get("route")
    if route is not None:
        return str(route.path)
    return MCP if scope["path"] == MCP else ""


def limit_of(path: str) -> int:
    """Return how many bytes a body for this path may have."""
    if path.startswith(BLOBS):
        return MAX_BYTES
    if path == REVISE:
        return REVISE_BYTES
    return frames.MOST_BYTES if path == MCP else JSON_BYTES


def _counted(scope: Scope, receive: Receive) -> Receive:
    limit, read = limit_of(scope["path"]), 0

    async def count() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > limit:
            raise _too_large(limit)
        return message

    return count


def _check_length(headers: Headers, limit: int) -> None:
    told = headers.get("content-length")
    if told is not None and int(told) > limit:  # the server has checked that it is a number
        raise _too_large(limit)


def _too_large(limit: int) -> EpimemError:
    return RecordError("the body is too large", code="too_large", limit=limit)


def _one(headers: Headers, name: str) -> str:
    found = headers.getlist(name)
    if len(found) != 1:
        raise RecordError(f"exactly one {name} header is needed", code="bad_request")
    return found[0]


def _without_port(host: str) -> str:
    try:
        parts = urlsplit(f"//{host}")
        port = parts.port
    except ValueError:
        return ""
    bare = host.removesuffix(f":{port}") if port is not None else host
    return bare.lower()


def _bearer(headers: Headers) -> str | None:
    found = headers.getlist("authorization")
    if len(found) != 1:
        return None
    scheme, _, token = found[0].partition(" ")
    return token if scheme.lower() == "bearer" else None


def _place(error: BaseException) -> str:
    """Return where an exception was raised, and of what type: never what it says."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else "?"
    return f"{type(error).__name__} at {where}"
