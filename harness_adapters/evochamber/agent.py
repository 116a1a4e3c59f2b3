"""One agent: who it is, how well it does in each niche, and what it has learnt."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness_adapters.evochamber.archive import Archive

PERSONA = (
    "You are a careful problem solver. Think step by step, check your result, and state the final "
    "answer plainly."
)
"""All agents begin with it: no domain knowledge is supplied (appendix E.4). The words are ours."""


@dataclass
class Agent:
    """An agent of a pool.

    Attributes:
        name: unique in the pool, also of those that are gone.
        persona: begins its system prompt.
        born_at: number of the task after which it came, 0 for the first ones.
        parents: those that it was forked or merged from.
        q: competence by niche, in [0, 1]; what is missing counts as 0.
        n: tasks by niche.
        rewards: the last ones of its teams, oldest first.
        below: tasks in a row, of its own, after which it stood below the bar of pruning.
        anchored: how often it was the anchor, by niche.
        since_fork: how often since it was forked last.
        archive: its private memory.
    """

    name: str
    persona: str = PERSONA
    born_at: int = 0
    parents: tuple[str, ...] = ()
    q: dict[str, float] = field(default_factory=dict)
    n: dict[str, int] = field(default_factory=dict)
    rewards: deque[float] = field(default_factory=lambda: deque(maxlen=32))
    below: int = 0
    anchored: dict[str, int] = field(default_factory=dict)
    since_fork: int = 0
    archive: Archive = field(default_factory=Archive)

    @property
    def n_total(self) -> int:
        """Tasks that it took part in."""
        return sum(self.n.values())

    @property
    def rolling(self) -> float | None:
        """The mean of its last rewards, in [0, 1]; None before the first."""
        return sum(self.rewards) / len(self.rewards) if self.rewards else None

    def competence(self, niche: str) -> float:
        """Return q(z)."""
        return self.q.get(niche, 0.0)

    def learn(self, niche: str, reward: float, alpha: float) -> None:
        """Count a task: q <- (1 - alpha) q + alpha r, from 0.

        Args:
            niche: of the task.
            reward: of the team, in [0, 1].
            alpha: weight of the new observation.
        """
        self.q[niche] = (1 - alpha) * self.competence(niche) + alpha * reward
        self.n[niche] = self.n.get(niche, 0) + 1
        self.rewards.append(reward)

    def lead(self, niche: str) -> None:
        """Count a task as one that it was the anchor of."""
        self.anchored[niche] = self.anchored.get(niche, 0) + 1
        self.since_fork += 1

    def dominant(self) -> str:
        """Return the niche of its highest competence, the first by name among equals; "" for none."""
        return max(sorted(self.q), key=self.q.__getitem__, default="")

    def plain(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "name": self.name,
            "persona": self.persona,
            "born_at": self.born_at,
            "parents": list(self.parents),
            "q": self.q,
            "n": self.n,
            "rewards": list(self.rewards),
            "window": self.rewards.maxlen,
            "below": self.below,
            "anchored": self.anchored,
            "since_fork": self.since_fork,
            "archive": self.archive.plain(),
        }

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Agent:
        """Return the agent that `plain` was called on."""
        values = dict(data)
        rewards = deque(values.pop("rewards"), maxlen=values.pop("window"))
        archive = Archive.read(values.pop("archive"))
        parents = tuple(values.pop("parents"))
        return cls(**values, parents=parents, rewards=rewards, archive=archive)


def mean_rolling(agents: Iterable[Agent]) -> float:
    """Return the mean of the agents' rolling rewards, 0 where none has any."""
    known = [agent.rolling for agent in agents if agent.rolling is not None]
    return sum(known) / len(known) if known else 0.0
