"""One OpenAI-compatible server: calls with a deadline, retries within a budget, nothing leaked.

    request body -> slot -> [hold] -> official client -> bounded transport -> reply
                              ^ Retry-After   | fault that may pass: budget, backoff, again

Everything that a server may do wrong ends in a `Failure`; what no retry and no other prompt can mend
(a refused key, a model that is gone) raises. The text of a server's error is never passed on: it may
quote the key or the prompt.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from controllers.backends import chat_reply
from controllers.backends.base import Completion, Failure
from controllers.backends.chat_reply import ChatReply
from controllers.backends.chat_request import Dialect
from controllers.backends.loop_thread import LoopThread
from controllers.backends.pacing import (
    FIRST_WAIT_S,
    RETRIES_PER_CALL,
    RetryBudget,
    backoff,
    retry_after,
)
from epimem.errors import ControllerError

if TYPE_CHECKING:
    from openai import APIConnectionError, APIStatusError, AsyncOpenAI

CONCURRENCY = 16  # calls in flight together (ours)
REPLY_BYTES = 4 * 1024 * 1024  # a reply of 64 KiB is the most that is read later (ours)
CONNECT_S = 10.0

_GONE = {
    401: ("the server refuses the key", "set OPENAI_API_KEY to a key of this server"),
    402: ("the server asks for payment", "look at the account that the key belongs to"),
    403: ("the server forbids the call", "the key may not use this model"),
    404: ("the server has no such model, or no chat at this address", "check URL and model"),
}
_PASSING = frozenset({408, 409, 425, 429})


@dataclass(frozen=True)
class Limits:
    """Bounds of the calls to one server: `deadline_s` is for a whole call, its retries included."""

    deadline_s: float = 60.0
    concurrency: int = CONCURRENCY
    reply_bytes: int = REPLY_BYTES
    first_wait_s: float = FIRST_WAIT_S


@dataclass(frozen=True)
class _Fault:
    """A failed attempt: whether another may do better, and how long the server asks to wait."""

    failure: Failure
    again: bool = False
    wait_s: float | None = None


class ChatServer:
    """A server that several backends may share; connections are opened by the first call.

    Args:
        url: address up to the path that "/chat/completions" follows.
        key: sent as bearer token; none where empty.
        limits: bounds of the calls.
        extra: further fields of every request.
        jitter: numbers in [0, 1), for the waits before retries.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str = "",
        limits: Limits | None = None,
        extra: Mapping[str, Any] | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.limits = limits or Limits()
        self.budget = RetryBudget()
        self.dialects: dict[str, Dialect] = {}
        self.probing = threading.Lock()
        self._url = url
        self._key = key
        self._extra = dict(extra or {})
        self._jitter = jitter
        self._loop = LoopThread("chat server")
        self._slots = threading.BoundedSemaphore(self.limits.concurrency)
        self._opening = threading.Lock()
        self._client: AsyncOpenAI | None = None
        self._served: dict[str, str] = {}
        self._sleep = asyncio.sleep
        # Times of the loop: before the first the server wants no call, until the second that counts.
        self._hold = self._forget = 0.0

    def submit(self, body: Callable[[], dict[str, Any]]) -> Future[ChatReply]:
        """Start a call once fewer than `concurrency` are in flight; the future raises what is fatal.

        `body` makes the request; only then, so that the images of a long batch are never all in memory.
        """
        self._slots.acquire()
        try:
            future = self._loop.submit(self._call(self._open(), body()))
        except BaseException:
            self._slots.release()
            raise
        future.add_done_callback(lambda _: self._slots.release())
        return future

    def close(self) -> None:
        """Close the connections; calls in flight are given up. A later call opens them again."""
        with self._opening:
            client, self._client = self._client, None
        if client is not None:
            self._loop.close(client.close)

    def _open(self) -> AsyncOpenAI:
        with self._opening:
            if self._client is None:
                self._client = _client(self._url, self._key, self.limits)
            return self._client

    async def _call(self, client: AsyncOpenAI, body: dict[str, Any]) -> ChatReply:
        clock = asyncio.get_running_loop().time
        start = clock()
        end = start + self.limits.deadline_s
        try:
            async with asyncio.timeout_at(end):
                reply = await self._attempts(client, body, end)
        except TimeoutError:
            reply = _failed(Failure.DEADLINE)
        done = replace(
            reply.completion,
            seconds=clock() - start,
            text=self._without_key(reply.completion.text),
        )
        return replace(reply, completion=done)

    async def _attempts(self, client: AsyncOpenAI, body: dict[str, Any], end: float) -> ChatReply:
        clock = asyncio.get_running_loop().time
        attempt = 0
        while True:
            hold = self._hold if clock() < self._forget else 0.0
            if hold >= end:
                return _failed(Failure.RATE_LIMITED)
            await self._sleep(max(0.0, hold - clock()))
            outcome = await self._ask(client, body)
            if isinstance(outcome, ChatReply):
                return outcome
            wait = max(
                outcome.wait_s or 0.0, backoff(attempt, self._jitter, self.limits.first_wait_s)
            )
            if outcome.wait_s is not None:
                # Others wait too. But the number may be absurd, so it holds for one deadline only.
                self._hold = clock() + outcome.wait_s
                self._forget = clock() + self.limits.deadline_s
            useless = not outcome.again or attempt == RETRIES_PER_CALL or clock() + wait >= end
            if useless or not self.budget.take():
                return _failed(outcome.failure)
            attempt += 1
            await self._sleep(wait)

    async def _ask(self, client: AsyncOpenAI, body: dict[str, Any]) -> ChatReply | _Fault:
        import openai

        from controllers.backends.bounded_http import TooLargeError

        try:
            raw = await client.chat.completions.with_raw_response.create(
                **body, extra_body=self._extra, extra_headers=self._headers()
            )
        except TooLargeError:
            return _Fault(Failure.TOO_LARGE)
        except openai.APIStatusError as error:
            return _refused(error)
        except openai.APIConnectionError as error:
            return _Fault(_broken(error), again=True)
        except openai.OpenAIError:
            return _Fault(Failure.NOT_CHAT)
        reply = chat_reply.read(raw.http_response.content)
        return self._same_model(str(body["model"]), reply)

    def _headers(self) -> dict[str, Any]:
        import openai

        # The client insists on a key; where there is none the header is left out again.
        return {} if self._key else {"Authorization": openai.Omit()}

    def _same_model(self, asked: str, reply: ChatReply) -> ChatReply:
        """Refuse what another model wrote than the one that wrote before: provenance would lie.

        Servers may name a model otherwise than it was asked for; so the first name counts.
        """
        if not reply.model or self._served.setdefault(asked, reply.model) == reply.model:
            return reply
        other = replace(reply.completion, text="", error=Failure.OTHER_MODEL)
        return replace(reply, completion=other)

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "[key]") if self._key else text


def _client(url: str, key: str, limits: Limits) -> AsyncOpenAI:
    import openai

    from controllers.backends.bounded_http import client

    http = client(
        url,
        limit=limits.reply_bytes,
        connections=limits.concurrency,
        timeout_s=limits.deadline_s,
    )
    return openai.AsyncOpenAI(base_url=url, api_key=key or "none", max_retries=0, http_client=http)


def _refused(error: APIStatusError) -> _Fault:
    status = error.status_code
    if status in _GONE:
        message, hint = _GONE[status]
        raise ControllerError(message, got=status, hint=hint) from None
    if status in _PASSING or status >= 500:
        limited = status in {429, 529}
        wait = retry_after(error.response.headers.get("Retry-After"))
        return _Fault(Failure.RATE_LIMITED if limited else Failure.SERVER, again=True, wait_s=wait)
    if 300 <= status < 400:
        return _Fault(Failure.REDIRECTED)
    too_long = status == 413 or chat_reply.is_too_long(error.response.content)
    return _Fault(Failure.PROMPT_TOO_LONG if too_long else Failure.REQUEST)


def _broken(error: APIConnectionError) -> Failure:
    import httpx2

    unreachable = (httpx2.ConnectError, httpx2.ConnectTimeout, ssl.SSLError)
    return Failure.UNREACHABLE if isinstance(error.__cause__, unreachable) else Failure.CONNECTION


def _failed(failure: Failure) -> ChatReply:
    return ChatReply(Completion(error=failure))
