"""Runs the HTTP server: starts it, maintains meanwhile where that is wanted, and ends it in order."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

import uvicorn

from epimem.errors import EpimemError
from epimem.service.desk import Desk
from epimem.service.http import application

if TYPE_CHECKING:
    from epimem.memory import ExperienceMemory
    from epimem.service.access import TokenFile
    from epimem.service.door import DoorSettings
    from epimem.service.operations import Opened

LOG = logging.getLogger("epimem.service")
FINISH_S = 30
"""How long requests may take to end after a signal."""
HEADER_BUFFER = 256 * 1024
MOST_CONNECTIONS = 1024
ENDING = (signal.SIGINT, signal.SIGTERM)
_OWN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "taskName"}


@dataclass(frozen=True)
class ServerSettings:
    """Where the server listens, whom it lets in, and how often it maintains (seconds; None: never)."""

    host: str
    port: int
    door: DoorSettings
    maintain_every_s: float | None = None


def run(
    opens: Callable[[], ExperienceMemory],
    tokens: TokenFile,
    settings: ServerSettings,
    *,
    ready: Callable[[str], None],
    tell: Callable[[str], None],
) -> None:
    """Serve until SIGINT or SIGTERM; then finish what has begun and close the bank.

    Args:
        opens: opens the bank, once for each of three threads.
        tokens: who may come in.
        settings: of the server.
        ready: told the URL when requests are answered.
        tell: told in words what a person should know.
    """
    _log_to_stderr()
    desk = Desk(opens)
    try:
        app, _ = application(desk, tokens, settings.door, version=version("epimem"))
        server = _Server(
            uvicorn.Config(
                app,
                host=settings.host,
                port=settings.port,
                http="h11",
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=FINISH_S,
                h11_max_incomplete_event_size=HEADER_BUFFER,
                limit_concurrency=MOST_CONNECTIONS,
            ),
            ready,
        )
        asyncio.run(_serve(server, desk, settings, tell))
    finally:
        desk.close()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[str], None]) -> None:
        super().__init__(config)
        self._ready = ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take signals as the wish to end and raise none again: the bank is still to be closed."""
        former = {number: signal.signal(number, self.handle_exit) for number in ENDING}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        await super().startup(sockets)  # type: ignore[arg-type]
        if self.servers:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")


async def _serve(
    server: _Server, desk: Desk, settings: ServerSettings, tell: Callable[[str], None]
) -> None:
    upkeep = None
    if settings.maintain_every_s is not None:
        upkeep = asyncio.create_task(_maintain(desk, settings.maintain_every_s, tell))
    try:
        await server.serve()
    finally:
        if upkeep is not None:
            upkeep.cancel()
            await asyncio.gather(upkeep, return_exceptions=True)


async def _maintain(desk: Desk, every_s: float, tell: Callable[[str], None]) -> None:
    """Ingest and maintain again and again; a fault is told, and the next turn tries anew."""
    while True:
        await asyncio.sleep(every_s)
        try:
            await desk.run_long(_upkeep)
        except EpimemError as error:
            tell(f"epimem: upkeep failed: {error.code}: {error.message}")


def _upkeep(opened: Opened) -> None:
    if opened.memory.bank.frozen is None:
        opened.memory.ingest()
        opened.memory.maintain()


class _JsonLines(logging.Formatter):
    """One JSON object a line: what was logged, and the fields that came with it."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {k: v for k, v in record.__dict__.items() if k not in _OWN}
        told = {
            "at": self.formatTime(record),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **fields,
        }
        return json.dumps(told, default=str)


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    # The server below us and MCP warn in the same form, without traces: no text of a request.
    for name, level in (
        ("epimem.service", logging.INFO),
        ("uvicorn", logging.WARNING),
        ("mcp", logging.ERROR),
    ):
        log = logging.getLogger(name)
        log.handlers[:] = [handler]
        log.setLevel(level)
        log.propagate = False
