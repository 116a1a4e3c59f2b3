"""A model behind an OpenAI-compatible server: the first vendor's, vLLM, llama.cpp, Ollama and others."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, Future, wait
from dataclasses import replace
from functools import partial
from typing import Any

from controllers.backends import json_probe
from controllers.backends.base import Completion, Failure
from controllers.backends.chat_reply import ChatReply
from controllers.backends.chat_request import Dialect, request
from controllers.backends.chat_server import ChatServer
from controllers.prompts.message import Prompt
from epimem.errors import ControllerError

# Faults of the server, not of a prompt.
_SERVER = frozenset(
    {
        Failure.UNREACHABLE,
        Failure.CONNECTION,
        Failure.DEADLINE,
        Failure.RATE_LIMITED,
        Failure.SERVER,
        Failure.REDIRECTED,
    }
)


class OpenAIBackend:
    """One model of a server; the first call of a model finds out whether JSON schemas are honoured.

    Args:
        server: may be shared with other backends.
        model: as the server names it.
        name: identity for provenance, "openai/MODEL" unless given.
    """

    def __init__(self, server: ChatServer, model: str, *, name: str = "") -> None:
        self.name = name or f"openai/{model}"
        self.concurrency = server.limits.concurrency
        self._server = server
        self._model = model
        self._settled: set[str] = set()
        self._unheld: set[str] = set()

    @property
    def constrained(self) -> bool | None:
        """Whether replies are held to their JSON schemas; None before the first call has told."""
        dialect = self._server.dialects.get(self._model)
        return None if dialect is None else dialect.schema

    @property
    def retries(self) -> int:
        """Attempts beyond the first that all calls to the server have used."""
        return self._server.budget.retries

    def complete(self, prompts: Sequence[Prompt]) -> Sequence[Completion]:
        """Return one completion per prompt, in order.

        Raises:
            ControllerError: `model_failed`: key or model refused, no answer to the first request, every
                prompt found the server out of reach, or every one of several met a fault of the server.
        """
        if not prompts:
            return []
        dialect = self._dialect()
        self._server.budget.expect(len(prompts))
        completions = self._ahead(prompts, dialect) if dialect.schema else {}
        rest = [place for place in range(len(prompts)) if place not in completions]
        completions |= self._batch(prompts, rest, dialect)
        ordered = [completions[place] for place in range(len(prompts))]
        _raise_if_gone(ordered)
        return ordered

    def close(self) -> None:
        """Close the connections to the server; a later call opens them again."""
        self._server.close()

    def _dialect(self) -> Dialect:
        with self._server.probing:
            found = self._server.dialects.get(self._model)
            if found is None:
                found = json_probe.find(self._model, self._probe)
                self._server.dialects[self._model] = found
            return found

    def _probe(self, body: dict[str, Any]) -> Completion:
        self._server.budget.expect(1)
        return _results([self._server.submit(lambda: body)])[0]

    def _ahead(self, prompts: Sequence[Prompt], dialect: Dialect) -> dict[int, Completion]:
        """Complete the first prompt of each operation that is new here, before all others.

        A server may honour the small schema of the probe and refuse a large one, or one with a keyword
        that it does not know. Where the same prompt passes without its schema, the operation is asked
        without from then on.
        """
        first: dict[str, int] = {}
        for place, prompt in enumerate(prompts):
            if prompt.schema and prompt.operation not in self._settled:
                first.setdefault(prompt.operation, place)
        completions = self._batch(prompts, list(first.values()), dialect)
        for operation, place in first.items():
            if completions[place].error == Failure.REQUEST and self._server.budget.take():
                free = self._batch(prompts, [place], replace(dialect, schema=False))
                if free[place].error == Failure.REQUEST:
                    continue
                completions |= free
                self._unheld.add(operation)
            self._settled.add(operation)
        return completions

    def _batch(
        self, prompts: Sequence[Prompt], places: Sequence[int], dialect: Dialect
    ) -> dict[int, Completion]:
        """Complete the prompts at these places, in flight together."""
        fatal = threading.Event()
        futures: list[Future[ChatReply]] = []
        try:
            for place in places:
                if fatal.is_set():
                    break
                future = self._server.submit(partial(self._body, prompts[place], dialect))
                future.add_done_callback(partial(_note_fatal, fatal))
                futures.append(future)
            completions = _results(futures)
        finally:
            for future in futures:
                future.cancel()
        return dict(zip(places, completions, strict=True))

    def _body(self, prompt: Prompt, dialect: Dialect) -> dict[str, Any]:
        held = dialect.schema and prompt.operation not in self._unheld
        return request(self._model, prompt, replace(dialect, schema=held))


def _note_fatal(fatal: threading.Event, future: Future[ChatReply]) -> None:
    """Note that a call has ended in what no other call can mend."""
    if future.cancelled() or future.exception() is not None:
        fatal.set()


def _results(futures: Sequence[Future[ChatReply]]) -> list[Completion]:
    """Return the completions in order, or raise what ended the first call for good, at once."""
    wait(futures, return_when=FIRST_EXCEPTION)
    try:
        for future in futures:
            if future.done() and future.exception() is not None:
                future.result()
        return [future.result().completion for future in futures]
    except CancelledError:
        raise ControllerError("the backend was closed during a call") from None


def _raise_if_gone(completions: Sequence[Completion]) -> None:
    errors = {completion.error for completion in completions}
    unreachable = errors == {Failure.UNREACHABLE}
    if unreachable or (len(completions) > 1 and errors <= _SERVER):
        raise ControllerError(
            f"no call of the batch was answered: {completions[0].error}",
            hint="is the server up, and does it keep up with the calls?",
        )
