"""What one agent has learnt: lessons of niches apart from insights that hold across them (appendix D).

A near-duplicate of what an agent knows is dropped. Niche lessons are found by the likeness of the
tasks that they came from to the task at hand, cross-domain insights by their own text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from epimem.protocols import Encoder
from epimem.schema.base import Record
from epimem.schema.text import NameText, RunText

Reach = Literal["task_local", "subdomain", "cross_domain"]


class Insight(Record):
    """A piece of guidance, the niche and task that it came from, and who gave it.

    `giver` is an agent of the pool, or `external:...` where the bank brought it from elsewhere.
    `verified` says whether a second attempt with it reached the bar.
    """

    text: RunText
    reach: Reach = "task_local"
    niche: str = ""
    question: RunText = ""
    giver: NameText
    task_id: str = ""
    verified: bool = False


@dataclass
class Archive:
    """The insights of one agent.

    Attributes:
        lessons: task-local and subdomain ones, by niche.
        insights: cross-domain ones.
    """

    lessons: dict[str, list[Insight]] = field(default_factory=dict)
    insights: list[Insight] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.insights) + sum(map(len, self.lessons.values()))

    def add(self, insight: Insight, encoder: Encoder, same: float) -> bool:
        """Take an insight in; False where it is nearly one that is there.

        Args:
            insight: to be added.
            encoder: makes vectors of unit length.
            same: cosine from which on two are one.
        """
        cross = insight.reach == "cross_domain"
        shelf = self.insights if cross else self.lessons.setdefault(insight.niche, [])
        likeness = _cosines(insight.text, [each.text for each in shelf], encoder)
        if likeness.max(initial=-1.0) >= same:
            return False
        shelf.append(insight)
        return True

    def find(self, niche: str, question: str, k: int, encoder: Encoder) -> list[Insight]:
        """Return the `k` insights nearest to a task, best first; earlier ones first among equals."""
        own = self.lessons.get(niche, [])
        scores = np.concatenate(
            [
                _cosines(question, [each.question for each in own], encoder),
                _cosines(question, [each.text for each in self.insights], encoder),
            ]
        )
        every = [*own, *self.insights]
        best = np.argsort(-scores, kind="stable")[:k]
        return [every[place] for place in best.tolist()]

    def joined(self, other: Archive, encoder: Encoder, same: float) -> None:
        """Take in what another archive has and this one lacks."""
        for insight in other.all():
            self.add(insight, encoder, same)

    def all(self) -> list[Insight]:
        """Return all insights: niches in order of name, then those across."""
        of_niches = [each for niche in sorted(self.lessons) for each in self.lessons[niche]]
        return [*of_niches, *self.insights]

    def copy(self) -> Archive:
        """Return an archive with the same insights."""
        return Archive({key: list(value) for key, value in self.lessons.items()}, [*self.insights])

    def plain(self) -> list[dict[str, Any]]:
        """Return plain JSON data."""
        return [insight.plain() for insight in self.all()]

    @classmethod
    def read(cls, data: Sequence[dict[str, Any]]) -> Archive:
        """Return the archive that `plain` was called on."""
        archive = cls()
        for value in data:
            insight = Insight.read(value)
            cross = insight.reach == "cross_domain"
            shelf = archive.insights if cross else archive.lessons.setdefault(insight.niche, [])
            shelf.append(insight)
        return archive


def _cosines(text: str, others: Sequence[str], encoder: Encoder) -> np.ndarray:
    """Return the cosine of a text and each of the others; nothing is encoded where there are none."""
    if not others:
        return np.zeros(0)
    vectors = np.asarray(encoder.encode([text, *others]), dtype=np.float64)
    return np.asarray(vectors[1:] @ vectors[0])
