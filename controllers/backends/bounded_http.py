"""The HTTP client under the official one: no redirects, no compressed replies, a bound on their size.

The official client reads the body of a reply, also that of an error, as far as it goes. So the bound
stands below it, in the transport, where every byte passes.
"""

from __future__ import annotations

import ssl
import urllib.request
from collections.abc import AsyncIterator, Mapping
from urllib.parse import urlsplit

import httpx2

from epimem.errors import ConfigError


class TooLargeError(Exception):
    """A reply that is larger than allowed, or compressed though that was not asked for."""


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self._stream = stream
        self._left = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._left -= len(chunk)
            if self._left < 0:
                raise TooLargeError
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class BoundedTransport(httpx2.AsyncBaseTransport):
    """A transport whose replies hold at most so many bytes and are never unpacked."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, limit: int) -> None:
        self._inner = inner
        self._limit = limit

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Pass a request on; the reply's body is counted as it is read."""
        # A few kilobytes can unpack to gigabytes; what is not packed cannot.
        request.headers["Accept-Encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        if response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
            await response.aclose()
            raise TooLargeError
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_BoundedStream(response.stream, self._limit),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


def client(url: str, *, limit: int, connections: int, timeout_s: float) -> httpx2.AsyncClient:
    """Return a client for one server; a proxy of the environment is used unless the server is local.

    Raises:
        ConfigError: the proxy that the environment names cannot be used.
    """
    bound = httpx2.Limits(max_connections=connections, max_keepalive_connections=connections)
    proxy = _proxy(url)
    # Reading the known authorities takes a while; a connection without TLS needs none.
    plain = proxy is None and url.startswith("http://")
    verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else True
    try:
        inner = httpx2.AsyncHTTPTransport(verify=verify, limits=bound, proxy=proxy)
    except (ImportError, ValueError, httpx2.InvalidURL):
        # The reason may quote the address of the proxy, which may hold a password.
        raise ConfigError("the proxy that the environment names cannot be used") from None
    return httpx2.AsyncClient(
        transport=BoundedTransport(inner, limit), timeout=timeout_s, follow_redirects=False
    )


def _proxy(url: str, proxies: Mapping[str, str] | None = None) -> str | None:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    named = urllib.request.getproxies() if proxies is None else proxies
    return named.get(parts.scheme) or named.get("all") or None


def is_loopback(host: str) -> bool:
    """Say whether a host name is this machine by its very spelling."""
    return host in {"localhost", "::1"} or (host.startswith("127.") and host.count(".") == 3)
