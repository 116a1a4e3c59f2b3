"""The population: genesis, fork, merge, prune, every tau tasks, in this order (appendix E.1).

Each change is an event. `specialize` is one that goes with a fork whose clone is told its parent's
dominant niche: the documents count 43 of these and name four operators (ours: no fifth one).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from epimem.protocols import Encoder
from epimem.schema.base import Record
from harness_adapters.evochamber.agent import PERSONA, Agent, mean_rolling
from harness_adapters.evochamber.chance import draw
from harness_adapters.evochamber.settings import Settings
from harness_adapters.evochamber.team import Pairs, competences

FOCUS = " You concentrate on tasks of the kind "


def specialized(persona: str, niche: str) -> str:
    """Return a persona that concentrates on a niche, and no longer on another one."""
    return f"{persona.partition(FOCUS)[0]}{FOCUS}{niche!r}."


class Event(Record):
    """A change of the pool: what happened to whom, and with whom."""

    kind: str
    agent: str
    others: tuple[str, ...] = ()
    niche: str = ""


class Population:
    """The agents of a pool, and those that are to come.

    Args:
        settings: thresholds.
        encoder: tells near-duplicates when archives are merged.
        agents: a pool to go on with; the first ones are made where None.
        made: how many there ever were.
        persona: returns the persona of a new agent by its name; one for all by default.
    """

    def __init__(
        self,
        settings: Settings,
        encoder: Encoder,
        agents: list[Agent] | None = None,
        made: int = 0,
        *,
        persona: Callable[[str], str] = lambda _: PERSONA,
    ) -> None:
        self._settings, self._encoder, self._persona = settings, encoder, persona
        self.made = made
        self.agents = agents if agents is not None else []
        if agents is None:
            self.agents = [self._new(0) for _ in range(settings.agents)]

    def named(self, name: str) -> Agent | None:
        """Return an agent that is in the pool, None where it is gone."""
        return next((agent for agent in self.agents if agent.name == name), None)

    def note(self, members: Sequence[Agent]) -> None:
        """Count, after a task, which of its members stand below the bar of pruning."""
        bar = self._settings.prune_below * mean_rolling(self.agents)
        for agent in members:
            low = agent.rolling is not None and agent.rolling < bar
            agent.below = agent.below + 1 if low else 0

    def tick(self, pairs: Pairs, niches: Sequence[str], *, task: int, seed: int) -> list[Event]:
        """Change the pool; return what happened.

        Args:
            pairs: forgets who is gone.
            niches: of the last tau tasks.
            task: number of the last task.
            seed: for draws.
        """
        if not self._settings.has("lifecycle"):
            return []
        before = {agent.name for agent in self.agents}
        events = [
            *self._genesis(niches, task),
            *self._fork(task, seed),
            *self._merge(),
            *self._prune(),
        ]
        for name in before - {agent.name for agent in self.agents}:
            pairs.forget(name)
        return events

    def _new(self, born_at: int, **given: Any) -> Agent:
        self.made += 1
        name = f"agent-{self.made:03d}"
        agent = Agent(name=name, born_at=born_at, **{"persona": self._persona(name), **given})
        agent.rewards = type(agent.rewards)(agent.rewards, maxlen=self._settings.window)
        return agent

    @property
    def _room(self) -> int:
        """How many more agents there may be."""
        most = self._settings.most_agents
        return 10**9 if most is None else most * self._settings.agents - len(self.agents)

    def _genesis(self, niches: Sequence[str], task: int) -> list[Event]:
        """Seed one agent where the pool is small or a recent niche is not covered."""
        lowest = min(
            sorted(set(niches)),
            key=lambda niche: max(agent.competence(niche) for agent in self.agents),
            default=None,
        )
        best = max(
            (agent.competence(lowest) for agent in self.agents if lowest is not None), default=1.0
        )
        uncovered = best < self._settings.seed_affinity
        if self._room < 1 or not (len(self.agents) < self._settings.seed_below or uncovered):
            return []
        agent = self._new(task)
        self.agents.append(agent)
        return [Event(kind="genesis", agent=agent.name, niche=lowest or "" if uncovered else "")]

    def _fork(self, task: int, seed: int) -> list[Event]:
        """Clone the top share by rolling reward; a clone has another persona and no rewards yet."""
        ranked = sorted(
            (agent for agent in self.agents if agent.rolling is not None),
            key=lambda agent: (-(agent.rolling or 0.0), draw(seed, "fork", task, agent.name)),
        )
        count = max(1, int(self._settings.fork_share * len(self.agents)))
        events = []
        for parent in ranked[:count]:
            if self._room < 1 or parent.since_fork < self._settings.fork_after:
                continue
            parent.since_fork = 0
            niche = parent.dominant()
            clone = self._new(
                task,
                persona=specialized(parent.persona, niche),
                parents=(parent.name,),
                q=dict(parent.q),
                n=dict(parent.n),
                archive=parent.archive.copy(),
            )
            self.agents.append(clone)
            events.append(Event(kind="fork", agent=clone.name, others=(parent.name,)))
            events.append(Event(kind="specialize", agent=clone.name, niche=niche))
        return events

    def _merge(self) -> list[Event]:
        """Join pairs that are alike, the most alike first, each agent once a tick."""
        events: list[Event] = []
        taken: set[str] = set()
        for keeper, other in self._alike():
            enough = len(self.agents) > self._settings.team
            if not enough or taken & {keeper.name, other.name}:
                continue
            taken |= {keeper.name, other.name}
            self._join(keeper, other)
            self.agents.remove(other)
            events.append(Event(kind="merge", agent=keeper.name, others=(other.name,)))
        return events

    def _alike(self) -> list[tuple[Agent, Agent]]:
        """Return the pairs to merge, the most alike first; of each the one with more reward first."""
        ripe = [agent for agent in self.agents if agent.n_total >= self._settings.merge_from]
        vectors = competences(ripe)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
        likeness = np.round(unit @ unit.T, 12)
        places = np.argwhere(np.triu(likeness > self._settings.merge_above, 1))
        found = []
        for first, second in places.tolist():
            one, two = ripe[first], ripe[second]
            common = sum(1 for niche in one.n if one.n[niche] and two.n.get(niche))
            if common >= self._settings.merge_niches:
                pair = sorted((one, two), key=lambda each: (-(each.rolling or 0.0), each.name))
                found.append((-float(likeness[first, second]), pair[0], pair[1]))
        found.sort(key=lambda item: (item[0], item[1].name, item[2].name))
        return [(one, two) for _, one, two in found]

    def _join(self, keeper: Agent, other: Agent) -> None:
        """Give one agent what another knows: competence weighed by tasks, no insight twice."""
        for niche in sorted({*keeper.n, *other.n}):
            counts = keeper.n.get(niche, 0), other.n.get(niche, 0)
            if sum(counts):
                values = keeper.competence(niche), other.competence(niche)
                keeper.q[niche] = float(np.average(values, weights=counts))
                keeper.n[niche] = sum(counts)
        for niche, count in other.anchored.items():
            keeper.anchored[niche] = keeper.anchored.get(niche, 0) + count
        keeper.archive.joined(other.archive, self._encoder, self._settings.same)

    def _prune(self) -> list[Event]:
        """Let go who stood below the bar too long, the worst first, never below the size of a team."""
        low = [agent for agent in self.agents if agent.below >= self._settings.prune_after]
        low.sort(key=lambda agent: (agent.rolling or 0.0, agent.name))
        gone = low[: max(0, len(self.agents) - self._settings.team)]
        for agent in gone:
            self.agents.remove(agent)
        return [Event(kind="prune", agent=agent.name) for agent in gone]
