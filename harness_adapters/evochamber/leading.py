"""LeadLearn: the anchor chooses how the team works, from what such teams found on such tasks.

An entry holds the team's profile, the niche, the structure, the reward and a reflection. The query is
the niche and the profile; entries are ranked by cosine. The niche counts by its text's vector, the
profile by the members' competence in the niche, each half (ours: the documents name both, no more).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from epimem.protocols import Encoder
from epimem.schema.base import Record, StrictFloat
from epimem.schema.text import RunText
from harness_adapters.evochamber.settings import STRUCTURES, Structure
from harness_adapters.evochamber.team import Team


class Entry(Record):
    """What one team found on one task; `profile` is the members' competence in the niche, in [0, 1]."""

    task_id: str
    niche: str
    profile: tuple[StrictFloat, ...]
    structure: Structure
    reward: StrictFloat
    reflection: RunText = ""


@dataclass
class Leading:
    """The entries that all leaders share."""

    entries: list[Entry] = field(default_factory=list)

    def nearest(self, niche: str, team: Team, k: int, encoder: Encoder) -> list[Entry]:
        """Return the `k` entries most like a team and a niche, best first, the latest among equals."""
        if not self.entries or not k:
            return []
        niches = sorted({niche, *(entry.niche for entry in self.entries)})
        vectors = np.asarray(encoder.encode(niches), dtype=np.float64)
        near = dict(zip(niches, vectors @ vectors[niches.index(niche)], strict=True))
        profiles = [profile(team, niche), *(entry.profile for entry in self.entries)]
        alike = _cosines_to_first(profiles)
        scores = [
            (float(near[entry.niche]) + float(like)) / 2
            for entry, like in zip(self.entries, alike, strict=True)
        ]
        order = sorted(range(len(scores)), key=lambda at: (-round(scores[at], 9), -at))
        return [self.entries[at] for at in order[:k]]


def profile(team: Team, niche: str) -> tuple[float, ...]:
    """Return the members' competence in a niche, in the order of their roles."""
    return tuple(agent.competence(niche) for agent in team.members)


def chosen(reply: str, retrieved: Sequence[Entry]) -> Structure:
    """Return the structure that a leader named, whichever it named last.

    Where it named none: that of the best mean reward among the retrieved entries, else voting.
    """
    text = reply.casefold().replace("_", "-").replace("generator critic", "generator-critic")
    named = [(text.rfind(name), name) for name in STRUCTURES if name in text]
    if named:
        return max(named)[1]
    rewards: dict[Structure, list[float]] = {}
    for entry in retrieved:
        rewards.setdefault(entry.structure, []).append(entry.reward)
    return max(rewards, key=lambda name: float(np.mean(rewards[name])), default="voting")


def _cosines_to_first(profiles: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Return the cosine of the first profile and each other; shorter ones are filled up with 0.

    A profile of zeros is like nothing: 0.
    """
    rows = np.array(list(zip_longest(*profiles, fillvalue=0.0)), dtype=np.float64).T
    lengths = np.linalg.norm(rows, axis=1)
    product = lengths[1:] * lengths[0]
    dots = rows[1:] @ rows[0]
    found: NDArray[np.float64] = np.divide(
        dots, product, out=np.zeros_like(dots), where=product > 0
    )
    return found
