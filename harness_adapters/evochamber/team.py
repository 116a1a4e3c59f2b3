"""The team of a task: anchor, complement and scout (section 3; formulas of the Chinese reading).

    anchor      argmax q_i(z)
    complement  argmax lambda_q q_i(z) + lambda_sigma sigma_{i,a}(z) + lambda_omega (1 - omega_{i,a})
    scout       argmax lambda_u u_k(z) + lambda_d (1 - mean(omega_{k,a}, omega_{k,c}))

u_k is 1 / (1 + n_k(z)); omega is the cosine of two agents' competence vectors, what is missing counting
as 0; sigma the reward that two had on tasks of a niche together, 0 until they shared five (appendix
E.1). Equal scores: fewest tasks in all first, then by a draw (ours).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness_adapters.evochamber.agent import Agent
from harness_adapters.evochamber.chance import draw, shuffled
from harness_adapters.evochamber.settings import Settings

_DIGITS = 12  # scores that agree to so many digits are equal
Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Team:
    """The members of a team, the anchor first; it is also the leader."""

    anchor: Agent
    others: tuple[Agent, ...]

    @property
    def members(self) -> tuple[Agent, ...]:
        """All of them, in order of choice."""
        return (self.anchor, *self.others)

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(agent.name for agent in self.members)


@dataclass
class Pairs:
    """How two agents fared together, by names in order and niche: how often, and sigma."""

    shared: dict[tuple[str, str, str], tuple[int, float]] = field(default_factory=dict)

    def record(self, team: Team, niche: str, reward: float, settings: Settings) -> None:
        """Count a task for every pair of a team."""
        names = sorted(team.names)
        for at, first in enumerate(names):
            for second in names[at + 1 :]:
                count, value = self.shared.get((first, second, niche), (0, 0.0))
                share = settings.alpha if settings.synergy == "ewma" else 1 / (count + 1)
                changed = value + share * (reward - value)
                self.shared[first, second, niche] = (count + 1, changed)

    def synergy(self, first: str, second: str, niche: str, least: int) -> float:
        """Return sigma in [0, 1]; 0 until the pair has shared `least` tasks of the niche."""
        low, high = sorted((first, second))
        count, value = self.shared.get((low, high, niche), (0, 0.0))
        return value if count >= least else 0.0

    def forget(self, name: str) -> None:
        """Drop an agent that is gone."""
        self.shared = {key: value for key, value in self.shared.items() if name not in key[:2]}

    def plain(self) -> list[list[Any]]:
        """Return plain JSON data."""
        return [[*key, *value] for key, value in sorted(self.shared.items())]

    @classmethod
    def read(cls, data: Sequence[Sequence[Any]]) -> Pairs:
        """Return the pairs that `plain` was called on."""
        return cls({(a, b, niche): (count, value) for a, b, niche, count, value in data})


def overlap(first: Mapping[str, float], second: Mapping[str, float]) -> float:
    """Return omega: the cosine of two competence vectors in [0, 1], 0 where one of them is zero."""
    niches = sorted({*first, *second})
    vectors = np.array([[each.get(niche, 0.0) for niche in niches] for each in (first, second)])
    return float(_overlaps(vectors.reshape(2, -1), 0)[1])


def competences(agents: Sequence[Agent]) -> Scores:
    """Return the competence vectors, shape (agents, niches that any of them met)."""
    niches = sorted({niche for agent in agents for niche in agent.q})
    return np.array([[agent.q.get(niche, 0.0) for niche in niches] for agent in agents]).reshape(
        len(agents), len(niches)
    )


def _overlaps(vectors: Scores, which: int) -> Scores:
    """Return the cosine of each row and one of them."""
    lengths = np.linalg.norm(vectors, axis=1)
    product = lengths * lengths[which]
    dots = vectors @ vectors[which]
    found = np.divide(dots, product, out=np.zeros_like(dots), where=product > 0)
    return np.asarray(np.clip(found, 0.0, 1.0))


def select(
    agents: Sequence[Agent], niche: str, pairs: Pairs, settings: Settings, *, seed: int, task: int
) -> Team:
    """Return the team of a task, smaller where the pool is.

    With more than three members the scouts after the first are chosen like it, their distance being
    the mean over all who are in the team already (ours).

    Args:
        agents: the pool, at least one.
        niche: of the task.
        pairs: how pairs fared.
        settings: weights, and whether teams are chosen at all.
        seed: for draws.
        task: number of the task, for draws.
    """
    if not settings.has("selector"):
        drawn = shuffled(agents, seed, "team", task)[: settings.team]
        return Team(drawn[0], tuple(drawn[1:]))
    best = _Choice(agents, seed, task)
    vectors = competences(agents)
    skill = np.array([agent.competence(niche) for agent in agents])
    chosen = [best(skill, ())]
    near = [_overlaps(vectors, chosen[0])]
    if len(agents) > 1 and settings.team > 1:
        anchor = agents[chosen[0]].name
        synergy = np.array(
            [pairs.synergy(agent.name, anchor, niche, settings.synergy_from) for agent in agents]
        )
        score = (
            settings.by_competence * skill
            + settings.by_synergy * synergy
            + settings.by_distance * (1 - near[0])
        )
        chosen.append(best(score, chosen))
    exposure = np.array([1 / (1 + agent.n.get(niche, 0)) for agent in agents])
    while len(chosen) < min(settings.team, len(agents)):
        near.append(_overlaps(vectors, chosen[-1]))
        novelty = 1 - np.mean(near, axis=0)
        score = settings.by_exposure * exposure + settings.by_novelty * novelty
        chosen.append(best(score, chosen))
    members = [agents[place] for place in chosen]
    return Team(members[0], tuple(members[1:]))


class _Choice:
    """Chooses the best that is not taken: equal scores by tasks in all, then by a draw."""

    def __init__(self, agents: Sequence[Agent], seed: int, task: int) -> None:
        self._agents, self._seed, self._task = agents, seed, task

    def __call__(self, scores: Scores, taken: Sequence[int]) -> int:
        rounded = np.round(scores, _DIGITS)
        rounded[list(taken)] = -np.inf
        tied = np.flatnonzero(rounded == rounded.max()).tolist()
        if len(tied) == 1:
            return int(tied[0])
        fewest = min(self._agents[place].n_total for place in tied)
        least = [place for place in tied if self._agents[place].n_total == fewest]
        return int(min(least, key=lambda at: draw(self._seed, self._task, self._agents[at].name)))
