"""Topics: what a convention is about, how it is asked for, and what it does to an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from epimem.schema.region import Region

Effect = Literal["out", "minus", "count", "pick", "thousand", "no"]


@dataclass(frozen=True)
class Mark:
    """Something on a page that may carry a convention: its option, empty for a plain one; its value."""

    option: str
    value: int
    region: Region


@dataclass(frozen=True, eq=False)
class Topic:
    """One matter that houses settle in different ways.

    Attributes:
        name: short, the same for all houses.
        options: the marks to choose from, each with the words that name what carries it (plural).
        pointed: words for the same things that leave the mark to a picture.
        one: what the picture of a mark shows, without naming the mark.
        means: what it says of those things (a verb in the plural).
        action: what follows for a reader (imperative, complete in itself).
        key: what a printed key writes beside the mark, and beside another one.
        asked: questions, with places for the house and the subject.
        effect: what a marked thing does to the answer: it is left out of a sum, subtracted, counted
            along with the plain ones, the one to pick, its page is in thousands, or the answer is "no".
    """

    name: str
    options: Mapping[str, str]
    pointed: str
    one: str
    means: str
    action: str
    key: tuple[str, str]
    asked: tuple[str, ...]
    effect: Effect

    @property
    def of_page(self) -> bool:
        """Whether a page carries one mark for all of it, not one for each of its things."""
        return self.effect in {"thousand", "no"}

    def answer(self, marks: Sequence[Mark], option: str) -> str:
        """Return the answer of a reader who takes this option for the one with the meaning."""
        if self.effect == "no":
            return "no" if any(mark.option == option for mark in marks) else "yes"
        return f"{self._number(marks, option):,}"

    def _number(self, marks: Sequence[Mark], option: str) -> int:
        taken = [mark for mark in marks if mark.option == option]
        if self.effect == "out":
            return sum(mark.value for mark in marks if mark.option != option)
        if self.effect == "minus":
            return sum(mark.value for mark in marks) - 2 * sum(mark.value for mark in taken)
        if self.effect == "count":
            return sum(mark.option in {"", option} for mark in marks)
        if self.effect == "pick":
            return taken[0].value if taken else 0
        return marks[0].value * (1000 if taken else 1)
