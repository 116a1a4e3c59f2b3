"""What an arm hands to the solver for one question: a memory input, its crops as files, its cost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from epimem.schema.ids import sha256
from epimem.schema.memory_input import MemoryInput

if TYPE_CHECKING:
    from epimem.memory import ExperienceMemory


@dataclass(frozen=True)
class Handout:
    """A memory input with the PNG files of its crops, in the order of `input.crops`.

    `seconds` is the wall time it took to make. An empty one (no items) reaches the solver as None.
    """

    input: MemoryInput
    crops: tuple[Path, ...] = ()
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """The rendered text, ready for a prompt."""
        return self.input.text

    @property
    def key(self) -> str:
        """SHA-256 of what a solver can act on: equal for equal content of different banks."""
        items = [item.model_copy(update={"node_id": ""}).canonical() for item in self.input.items]
        blobs = [crop.blob.encode("ascii") for crop in self.input.crops]
        return sha256(b"\x1f".join((*items, b"", *blobs)))

    @property
    def words(self) -> str:
        """Every text that goes along, for the search for leaked references."""
        input_ = self.input
        return "\n".join(
            (
                input_.text,
                *(text for item in input_.items for text in (item.title, item.guidance)),
                *(crop.note for crop in input_.crops),
            )
        )


def handout(memory: ExperienceMemory, answer: MemoryInput, seconds: float) -> Handout:
    """Return a handout of an answer of this bank, its crops made where they are missing."""
    return Handout(answer, tuple(memory.crop_path(crop) for crop in answer.crops), seconds)
