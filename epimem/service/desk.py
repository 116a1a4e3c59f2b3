"""One bank at work for many callers: a thread that answers, one that works, one that revises.

An opened bank is for one thread. Short operations queue for the first; ingest, maintain and revoke go to
the second and revisions to the third, each of which has the bank opened again, so that nobody waits for
minutes, or for a model that somebody else asked.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from epimem.errors import BankBusyError
from epimem.service.ahead import Ahead, texts_of
from epimem.service.operations import OPERATIONS, ROOMS, Opened, perform
from epimem.service.uploads import Uploads

if TYPE_CHECKING:
    from epimem.memory import ExperienceMemory
    from epimem.protocols import Encoder
    from epimem.service.access import Principal

T = TypeVar("T")
MOST_WAITING = 256
"""Requests that may wait for a thread; beyond that a caller is told to come back."""


class Room:
    """One thread with the bank opened in it; opened when it is first needed."""

    def __init__(self, name: str, opens: Callable[[], ExperienceMemory]) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._opens = opens
        self._opened: Opened | None = None
        self._encoder: Encoder | None = None
        self.waiting = 0

    async def run(self, work: Callable[[Opened], T]) -> T:
        """Do work in the thread; what has begun ends, even where the caller goes away.

        Raises:
            BankBusyError: `bank_busy`, too many wait already.
        """
        if self.waiting >= MOST_WAITING:
            raise BankBusyError("too many requests wait", got=self.waiting, limit=MOST_WAITING)
        self.waiting += 1
        future = asyncio.wrap_future(self._thread.submit(self._do, work))
        future.add_done_callback(self._left)
        return await asyncio.shield(future)

    def _left(self, future: asyncio.Future[T]) -> None:
        self.waiting -= 1
        if not future.cancelled():
            future.exception()  # whoever asked may be gone; asyncio would call that a fault

    def _do(self, work: Callable[[Opened], T]) -> T:
        if self._opened is None:
            memory = self._opens()
            self._opened = Opened(memory, Uploads(memory.bank.side.root / "uploads"))
        done = work(self._opened)
        # Taken anew each time: another process may give the bank another one.
        self._encoder = self._opened.memory.loaded_encoder
        return done

    @property
    def encoder(self) -> Encoder | None:
        """The encoder of the bank, None before it was opened and where it has none."""
        return self._encoder

    def close(self) -> None:
        """End what has begun and what waits, and close the bank."""
        self._thread.submit(self._shut).result()
        self._thread.shutdown()

    def _shut(self) -> None:
        if self._opened is not None:
            self._opened.memory.close()
            self._opened = None


class Desk:
    """Takes requests for one bank.

    Args:
        opens: opens the bank; called once in each thread that is needed.
    """

    def __init__(self, opens: Callable[[], ExperienceMemory]) -> None:
        self._rooms = {name: Room(f"epimem-{name}", opens) for name in ROOMS}
        self._ahead = Ahead()

    async def perform(self, principal: Principal, name: str, body: bytes) -> bytes:
        """Do one operation; see `epimem.service.operations.perform`."""
        room = self._rooms[OPERATIONS[name].room]
        encoder = room.encoder
        if encoder is not None and room.waiting:
            await self._ahead.encode(encoder, texts_of(name, body))
        return await room.run(functools.partial(_perform, principal, name, body))

    async def run(self, work: Callable[[Opened], T]) -> T:
        """Do something short with the bank."""
        return await self._rooms["answers"].run(work)

    async def run_long(self, work: Callable[[Opened], T]) -> T:
        """Do something with the bank that may take minutes."""
        return await self._rooms["works"].run(work)

    @property
    def waiting(self) -> int:
        """How many requests wait or are at work."""
        return sum(room.waiting for room in self._rooms.values())

    def close(self) -> None:
        """End what has begun, then close the bank."""
        self._ahead.close()
        for room in self._rooms.values():
            room.close()


def _perform(principal: Principal, name: str, body: bytes, opened: Opened) -> bytes:
    return perform(opened, principal, name, body)
