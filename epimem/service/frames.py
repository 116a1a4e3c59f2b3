"""What is a frame of MCP: read by our own strict reader before the library reads it.

The library takes the last of two equal keys, puts a mark where bytes are not UTF-8, and says
nothing to a request whose id is none. Over either transport such a frame is answered with an error
instead.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import BinaryIO

import anyio
import mcp_types as types

from epimem.errors import EpimemError
from epimem.schema import strict_json

MOST_BYTES = 4 * 1024 * 1024
DEPTH = 4 * strict_json.RUN_DEPTH
"""Of a frame; the requests inside are held to depths of their own, which are told by name."""
REFUSED = types.JSONRPCError(
    jsonrpc="2.0",
    id=None,  # what cannot be read has none
    error=types.ErrorData(code=types.PARSE_ERROR, message="not a message of JSON-RPC 2.0"),
)


def is_frame(data: bytes) -> bool:
    """Say whether bytes are one JSON object, with an id that can be answered if it is a request."""
    if len(data) > MOST_BYTES:
        return False
    try:
        value = strict_json.loads(data, max_depth=DEPTH)
    except EpimemError:
        return False
    if not isinstance(value, dict):
        return False
    return "method" not in value or "id" not in value or type(value["id"]) in {str, int}


class Lines:
    """Lines of standard input as texts, empty where one is no frame, which nothing can be read from."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield them until the input ends."""
        async for line in anyio.wrap_file(self._source):
            yield line.decode("utf-8") if is_frame(line) else ""


@contextmanager
def standard_input() -> Iterator[BinaryIO]:
    """Give standard input for oneself; whoever else reads it meanwhile, a child say, finds it empty."""
    own = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    try:
        # Not closed with the file: a thread may still wait in a read of it.
        yield os.fdopen(own, "rb", closefd=False)
    finally:
        os.dup2(own, 0)
