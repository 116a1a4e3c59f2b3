"""How a client reaches a bank: in this process, by HTTP, by MCP. Bytes in, bytes out, faults raised."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from epimem.errors import EpimemError, NotFoundError, StorageError, fault_of
from epimem.schema import strict_json
from epimem.schema.ids import sha256
from epimem.schema.names import checked_name
from epimem.service.messages import PROTOCOL
from epimem.service.operations import Opened, crop, perform, put_image
from epimem.service.uploads import Uploads

if TYPE_CHECKING:
    import httpx2

    from epimem.memory import ExperienceMemory

TRIES = 4
FIRST_WAIT_S = 0.2
SERVED = frozenset({"retrieve", "contribute", "feedback"})
"""The operations that MCP has tools for."""


class Transport(Protocol):
    """Carries the requests of a client."""

    def call(self, operation: str, body: bytes) -> bytes:
        """Return the answer to a request, both canonical JSON.

        Raises:
            EpimemError: the fault that the bank told of.
        """
        ...

    def put_blob(self, data: bytes, kind: str) -> bytes:
        """Store an image, or leave a document to contribute; return the receipt."""
        ...

    def get_blob(self, blob: str) -> bytes:
        """Return the bytes of a crop."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class LocalTransport:
    """A bank in this process.

    Args:
        bank: a folder, which is opened and closed here, or an opened bank.
        contributor: to whom writes are attributed; as in its settings where None.
    """

    def __init__(self, bank: Path | str | ExperienceMemory, contributor: str | None = None) -> None:
        from epimem.memory import ExperienceMemory
        from epimem.service.access import operator

        self._own = not isinstance(bank, ExperienceMemory)
        memory = bank if isinstance(bank, ExperienceMemory) else ExperienceMemory.open(bank)
        self._opened = Opened(memory, Uploads(memory.bank.side.root / "uploads"))
        caller = memory.caller
        if contributor is not None:
            caller = replace(caller, contributor=checked_name(contributor, "contributor"))
        self._principal = operator(caller)
        self._lock = threading.Lock()

    def call(self, operation: str, body: bytes) -> bytes:
        """Do it here."""
        with self._lock:
            return perform(self._opened, self._principal, operation, body)

    def put_blob(self, data: bytes, kind: str) -> bytes:
        """Store it here."""
        with self._lock:
            if kind != "application/json":
                return put_image(self._opened, self._principal, data, kind).canonical()
            written = self._opened.uploads.new()
            written.write_bytes(data)
            self._opened.uploads.keep(self._principal.name, written, sha256(data))
            return b""

    def get_blob(self, blob: str) -> bytes:
        """Read it here."""
        with self._lock:
            return crop(self._opened, self._principal, blob)

    def close(self) -> None:
        """Close the bank, if it was opened here."""
        if self._own:
            self._opened.memory.close()


class HttpTransport:
    """A server of `epimem serve`.

    Every request may be sent again: those that write carry an idempotency key or count once. So a
    connection that breaks, and a server that is busy, are tried again for some seconds.
    """

    def __init__(self, url: str, token: str, *, timeout_s: float) -> None:
        import httpx2

        self._client = httpx2.Client(
            base_url=url,
            headers={"authorization": f"Bearer {token}"},
            timeout=timeout_s,
            trust_env=False,
        )

    def call(self, operation: str, body: bytes) -> bytes:
        """Post it."""
        return self._sent(
            "POST", f"/v1/{operation}", content=body, headers={"content-type": "application/json"}
        )

    def put_blob(self, data: bytes, kind: str) -> bytes:
        """Put it."""
        path = f"/v1/blobs/{sha256(data)}"
        return self._sent("PUT", path, content=data, headers={"content-type": kind})

    def get_blob(self, blob: str) -> bytes:
        """Get it."""
        return self._sent("GET", f"/v1/blobs/{blob}")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _sent(self, method: str, path: str, **given: Any) -> bytes:
        wait = FIRST_WAIT_S
        for left in reversed(range(TRIES)):
            try:
                answer = self._once(method, path, **given)
            except EpimemError as error:
                if not left or not (error.retry or error.code == "unreachable"):
                    raise
            else:
                return answer
            time.sleep(wait)
            wait *= 3
        raise AssertionError

    def _once(self, method: str, path: str, **given: Any) -> bytes:
        import httpx2

        try:
            answer = self._client.request(method, path, **given)
        except httpx2.TransportError as error:
            raise StorageError(
                f"the server cannot be reached ({type(error).__name__})", code="unreachable"
            ) from error
        if answer.is_success:
            return answer.content
        raise _fault(answer)


class McpTransport:
    """A server of MCP; the protocol's own client runs in a thread of its own.

    Args:
        connection: makes the client's argument: a transport of the SDK.
    """

    def __init__(self, connection: AbstractAsyncContextManager[Any]) -> None:
        from anyio.from_thread import start_blocking_portal
        from mcp import Client

        self._starting = start_blocking_portal()
        self._portal = self._starting.__enter__()
        try:
            self._entered = self._portal.wrap_async_context_manager(Client(connection))
            self._client = self._entered.__enter__()
        except BaseException:
            self._starting.__exit__(None, None, None)
            raise

    @classmethod
    def http(cls, url: str, token: str) -> Self:
        """Reach one by streamable HTTP."""
        return cls(_streams(url, token))

    @classmethod
    def stdio(cls, program: str, arguments: Sequence[str], env: Mapping[str, str] | None) -> Self:
        """Start one and reach it by its standard input and output."""
        from mcp.client.stdio import StdioServerParameters, stdio_client

        parameters = StdioServerParameters(
            command=program, args=[*arguments], env=dict(env) if env is not None else None
        )
        return cls(stdio_client(parameters))

    def call(self, operation: str, body: bytes) -> bytes:
        """Call the tool of that name."""
        if operation not in SERVED:
            raise NotFoundError("MCP has no tool for this", got=operation)
        arguments = strict_json.loads(body, max_depth=strict_json.RUN_DEPTH, keep_surrogates=True)
        result = self._portal.call(self._client.call_tool, f"epimem_{operation}", arguments)
        if result.is_error:
            raise _told(result.content[0].text)
        told = (result.meta or {}).get(PROTOCOL, result.content[0].text)
        return str(told).encode("utf-8")

    def put_blob(self, data: bytes, kind: str) -> bytes:  # noqa: ARG002 - of the protocol
        """Refuse: MCP has no way to send one."""
        raise NotFoundError("MCP has no tool for this", got=kind, hint="use the HTTP side")

    def get_blob(self, blob: str) -> bytes:
        """Read the resource."""
        from mcp.shared.exceptions import MCPError
        from mcp_types import BlobResourceContents

        try:
            found = self._portal.call(self._client.read_resource, f"epimem://blob/{blob}")
        except MCPError as error:
            raise fault_of(error.data or {}, error.message) from error
        content = found.contents[0]
        assert isinstance(content, BlobResourceContents)
        return base64.b64decode(content.blob)

    def close(self) -> None:
        """End the session, and the server where one was started."""
        try:
            self._entered.__exit__(None, None, None)
        finally:
            self._starting.__exit__(None, None, None)


@asynccontextmanager
async def _streams(url: str, token: str) -> AsyncIterator[Any]:
    """Open what the protocol's client reads and writes, on connections that carry the token."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    headers = {"authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60.0, trust_env=False) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams


def _fault(answer: httpx2.Response) -> EpimemError:
    try:
        return _told(answer.text)
    except EpimemError:
        return StorageError("the server gave no answer of ours", got=answer.status_code)


def _told(text: str) -> EpimemError:
    body = strict_json.loads(text)
    return fault_of(body if isinstance(body, dict) else {}, "refused")
