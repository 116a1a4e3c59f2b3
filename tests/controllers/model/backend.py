"""A backend for tests: says what a function makes of each prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from controllers.backends.base import Completion
from controllers.prompts.message import Prompt


class Saying:
    """Answers the n-th prompt with what `say` returns: a text or a Completion; or it raises.

    `batches` holds the prompts of each call.
    """

    name = "test/model"
    concurrency = 4

    def __init__(self, say: Callable[[Prompt, int], Any]) -> None:
        self._say = say
        self._count = 0
        self.batches: list[list[Prompt]] = []
        self.closed = 0

    def complete(self, prompts: Sequence[Prompt]) -> Sequence[Completion]:
        self.batches.append(list(prompts))
        found = []
        for prompt in prompts:
            said = self._say(prompt, self._count)
            self._count += 1
            found.append(said if isinstance(said, Completion) else completion(said))
        return found

    def close(self) -> None:
        self.closed += 1


def completion(text: str, **more: Any) -> Completion:
    return Completion(text, tokens_in=100, tokens_out=10, cached=40, seconds=0.5, **more)


def in_turn(*said: Any) -> Callable[[Prompt, int], Any]:
    """Say these, one after the other."""
    return lambda _, at: said[at]
