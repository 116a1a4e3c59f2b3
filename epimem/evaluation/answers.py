"""What a solver and a scorer are, the plain scorer, and the tokens of those who count none."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Protocol

from epimem.errors import ControllerError
from epimem.evaluation.handout import Handout
from epimem.evaluation.tasks import PublicTask

BYTES_A_TOKEN = 4


class SolverLostError(ControllerError):
    """A solver or scorer that no longer works at all: the run stops and can go on later."""


@dataclass(frozen=True)
class SolverAnswer:
    """An answer; tokens in and out as the solver's own model counts them, None where it has none.

    `seconds` is what answering took, for solvers whose calls do more than that; None: all of the call.
    """

    text: str
    tokens_in: int | None = None
    tokens_out: int | None = None
    seconds: float | None = None

    @property
    def tokens(self) -> int | None:
        """Tokens in and out together, None where neither is known."""
        if self.tokens_in is None and self.tokens_out is None:
            return None
        return (self.tokens_in or 0) + (self.tokens_out or 0)


class Solver(Protocol):
    """Answers a task, with a memory input or, for None, without.

    What it raises is an error of that question: counted, and the answer counts as wrong. The seed is
    for everything it draws at random, so that all arms of a seed draw alike.
    """

    def __call__(
        self, task: PublicTask, memory: Handout | None, seed: int, /
    ) -> SolverAnswer | str:
        """Return the answer."""
        ...


class Scorer(Protocol):
    """Judges an answer; the only one that is shown a reference."""

    def __call__(self, task: PublicTask, answer: str, reference: str, /) -> bool:
        """Return whether the answer is right."""
        ...


def exact_match(task: PublicTask, answer: str, reference: str) -> bool:
    """Tell whether answer and reference are equal after NFKC, case folding and squeezed white space."""
    del task
    return normalised(answer) == normalised(reference)


def normalised(text: str) -> str:
    """Return text in NFKC, case folded, runs of white space as one space, ends trimmed."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def counted_tokens(text: str) -> int:
    """Return the tokens of a text under the fixed tokenizer: a token is 4 bytes of UTF-8, rounded up.

    Ours. It needs no model, treats all scripts alike and is near what byte-pair encoders give for
    English. Used where a solver counts none itself.
    """
    return -(-len(text.encode("utf-8", "backslashreplace")) // BYTES_A_TOKEN)
