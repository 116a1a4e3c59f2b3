"""The recipe on a processor: demonstrations from memory, and no work on what is not learnt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from training.demonstrations.record import Demonstration

# Whether only learnt tokens are scored; TRL 1.16 asks nothing else in that module.
_DECIDES = "_use_triton"


class Learnt:
    """A set of demonstrations that are all for training: none is kept to choose a checkpoint by."""

    def __init__(self, demonstrations: Sequence[Demonstration]) -> None:
        self._demonstrations = demonstrations

    def read(self, split: Any = None, operations: Any = None) -> Iterator[Demonstration]:
        """Yield those of a split and of these operations."""
        if split in (None, "train"):
            for each in self._demonstrations:
                if operations is None or each.operation in operations:
                    yield each


@contextmanager
def scoring_replies_only() -> Iterator[None]:
    """Let TRL compute the output layer for learnt tokens alone, as it does on a GPU.

    On a processor it does so for every token of the prompt, of whose scores nothing comes; with 50,000
    words that is a large part of a step. The loss is the same.
    """
    from trl.trainer import utils

    former = getattr(utils, _DECIDES)
    setattr(utils, _DECIDES, lambda _: True)
    try:
        yield
    finally:
        setattr(utils, _DECIDES, former)
