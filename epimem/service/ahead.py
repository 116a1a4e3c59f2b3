"""Encodes what waits, many texts at a time, in a thread of its own.

The thread that answers takes one request after the other, and a text alone takes the encoder as
long as several together. So texts are encoded while their requests wait, and the encoder remembers
the vectors: the answering thread finds them made. Nothing depends on it; what fails here is met
again there, and told.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from epimem.bank.recall import shorten
from epimem.errors import EpimemError
from epimem.schema import strict_json

if TYPE_CHECKING:
    from epimem.protocols import Encoder

MOST_TEXTS = 48
LONGEST = 64 * 1024
"""Longer bodies are not read twice."""


class Ahead:
    """The texts of waiting requests, and the thread that encodes them."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="epimem-encodes")
        self._waiting: list[tuple[list[str], asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    async def encode(self, encoder: Encoder, texts: list[str]) -> None:
        """Return when texts are encoded, or could not be."""
        if not texts:
            return
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((texts, done))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work(encoder))
        await asyncio.shield(done)

    async def _work(self, encoder: Encoder) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            part = [self._waiting.pop(0)]
            while self._waiting and sum(len(texts) for texts, _ in part) < MOST_TEXTS:
                part.append(self._waiting.pop(0))
            together = [text for texts, _ in part for text in texts]
            try:
                await loop.run_in_executor(self._thread, encoder.encode, together)
            except EpimemError:
                pass  # the answering thread meets the same fault and tells it
            finally:
                for _, done in part:
                    if not done.done():
                        done.set_result(None)

    def close(self) -> None:
        """End what has begun."""
        self._thread.shutdown()


def texts_of(operation: str, body: bytes) -> list[str]:
    """Return the texts that a request will have encoded; none where that cannot be told at once."""
    if operation not in {"retrieve", "contribute"} or len(body) > LONGEST:
        return []
    try:
        value = strict_json.loads(body)
    except EpimemError:
        return []
    if not isinstance(value, dict):
        return []
    return _asked(value) if operation == "retrieve" else _stored(value.get("item"))


def _asked(request: dict[str, Any]) -> list[str]:
    question = request.get("question")
    if not isinstance(question, str) or request.get("mode") == "lexical":
        return []
    return _worth([shorten(question)[0]])


def _stored(item: Any) -> list[str]:
    """Return the texts of a lesson's index: all of it, its scope, its anchor."""
    index = item.get("index") if isinstance(item, dict) else None
    if not isinstance(index, dict):
        return []
    fields = [index.get(name) or "" for name in ("topic", "scope", "question_anchor")]
    if not all(isinstance(field, str) for field in fields):
        return []
    return _worth(["\n".join(field for field in fields if field), *fields[1:]])


def _worth(texts: list[str]) -> list[str]:
    return [text for text in texts if text.strip()]
