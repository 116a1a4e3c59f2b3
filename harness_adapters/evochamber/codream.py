"""CODREAM: after a failure or disagreement, what the best know goes to those who lack it.

Reflect -> Contrast -> Imagine -> Debate -> Crystallize, then a second attempt with the insight, then the
route to agents whose competence in the niche lies below the pool's median (the paper, section 3, and
appendices D, E.1, I).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import get_args

from harness_adapters.evochamber import prompts
from harness_adapters.evochamber.agent import Agent
from harness_adapters.evochamber.archive import Insight, Reach
from harness_adapters.evochamber.chance import draw
from harness_adapters.evochamber.problem import Mark, Problem, Turn
from harness_adapters.evochamber.replies import items_in, numbers_in
from harness_adapters.evochamber.settings import Settings
from harness_adapters.evochamber.structures import Ask, unanimous
from harness_adapters.evochamber.team import Team

PHASES = ("reflect", "contrast", "imagine", "doubt", "crystallize")
"""The tags of the calls; "doubt" is the paper's Debate, whose name the structure has."""
Retry = Callable[[Agent, Insight], Mark]
"""Lets an agent try the task again with an insight; returns what its reply is worth."""


@dataclass(frozen=True)
class Result:
    """A task as it ended: the team's reward, and the marks of members that answered for themselves."""

    reward: float
    marks: dict[str, Mark]

    def passed(self, theta: float) -> list[str]:
        """Return the members whose own answer reached the bar."""
        return [name for name, mark in self.marks.items() if mark.reward >= theta]


@dataclass
class Dream:
    """What came of it.

    Attributes:
        fired: "low", "disagreement", or "" where it did not fire.
        abstained: it fired, but nobody had solved the task.
        givers: those whose success it drew on; the anchor where there was none.
        insights: what held in a second attempt (or, with nobody to try, was left), as stored.
        rejected: how many did not hold.
        routes: (giver, recipient) for every insight that an archive took in.
        recipients: those with a deficit, whether their archives took anything in or not.
        turns: all replies, in order.
    """

    fired: str = ""
    abstained: bool = False
    givers: tuple[str, ...] = ()
    insights: list[Insight] = field(default_factory=list)
    rejected: int = 0
    routes: list[tuple[str, str]] = field(default_factory=list)
    recipients: tuple[str, ...] = ()
    turns: list[Turn] = field(default_factory=list)


def fires(result: Result, settings: Settings) -> str:
    """Return why CODREAM fires: "low" below theta, "disagreement", or "" for not at all."""
    marks = [mark.reward for mark in result.marks.values()]
    members = settings.fire_on == "members" and marks
    measured = sum(marks) / len(marks) if members else result.reward
    if measured < settings.theta:
        return "low"
    return "" if unanimous([mark.answer for mark in result.marks.values()]) else "disagreement"


def deficient(agents: Sequence[Agent], niche: str, settings: Settings) -> list[Agent]:
    """Return the agents with a deficit in a niche, in the order of the pool.

    Those strictly below the median of competence: over the pool ("literal"), or over the agents that
    met the niche, and then those too that did not ("seen").
    """
    seen = settings.median == "seen"
    known = [agent.competence(niche) for agent in agents if not seen or agent.n.get(niche)]
    if not known:
        return list(agents)
    middle = median(known)
    return [
        agent
        for agent in agents
        if agent.competence(niche) < middle or (seen and not agent.n.get(niche))
    ]


def recipients(
    agents: Sequence[Agent],
    niche: str,
    settings: Settings,
    *,
    givers: Sequence[str],
    seed: int,
    task: int,
) -> list[Agent]:
    """Return who an insight goes to, the lowest competence first.

    Equal ones: fewest tasks in all, then by a draw. No giver is among them. With `symmetric` transfer,
    a control, all others get it.
    """
    symmetric = settings.transfer == "symmetric"
    found = list(agents) if symmetric else deficient(agents, niche, settings)
    found = [agent for agent in found if agent.name not in givers]
    found.sort(
        key=lambda agent: (
            agent.competence(niche),
            agent.n_total,
            draw(seed, "recipient", task, agent.name),
        )
    )
    return found if symmetric else found[: settings.most_recipients]


class Dreaming:
    """The five phases over one task.

    Args:
        problem: the task.
        team: who worked on it.
        finals: the last reply of each member that answered for itself.
        result: what they were worth.
        ask: asks a member.
        settings: of the pool.
    """

    def __init__(
        self,
        problem: Problem,
        team: Team,
        finals: dict[str, str],
        result: Result,
        ask: Ask,
        settings: Settings,
    ) -> None:
        self._problem, self._team, self._finals = problem, team, finals
        self._result, self._ask, self._settings = result, ask, settings
        self.turns: list[Turn] = []
        passed = set(result.passed(settings.theta))
        answered = [agent for agent in team.members if agent.name in finals]
        self.givers = [agent for agent in answered if agent.name in passed]
        self.failed = [agent for agent in answered if agent.name not in passed]

    def insights(self) -> list[Insight]:
        """Return the insights that the phases leave, not tried yet."""
        said = self._reflect()
        strategies = self._imagine(self._contrast(said))
        kept = self._debate(strategies)
        return self._crystallize(kept) if kept else []

    @property
    def speaker(self) -> Agent:
        """Who turns differences into strategies: the first giver, else the anchor."""
        return self.givers[0] if self.givers else self._team.anchor

    def _say(self, agent: Agent, tag: str, text: str) -> str:
        reply = self._ask(agent, tag, text)
        self.turns.append(Turn(agent.name, tag, reply))
        return reply

    def _reflect(self) -> dict[str, str]:
        """Phase 1, each for itself: what was right, what was wrong."""
        said = {}
        for agent in [*self.givers, *self.failed]:
            right = agent in self.givers
            text = prompts.reflect(self._problem, self._finals[agent.name], right=right)
            said[agent.name] = self._say(agent, "reflect", text)
        return said

    def _contrast(self, said: dict[str, str]) -> list[str]:
        """Phase 2: for each that failed, the difference from one that succeeded.

        Where there is no such pair, the diagnoses themselves go on (ours).
        """
        if not self.givers or not self.failed:
            return list(said.values())
        deltas = []
        for number, agent in enumerate(self.failed):
            giver = self.givers[number % len(self.givers)]
            pair = [(self._finals[each.name], said[each.name]) for each in (agent, giver)]
            text = prompts.contrast(self._problem, pair[0], pair[1])
            deltas.append(self._say(giver, "contrast", text))
        return deltas

    def _imagine(self, deltas: Sequence[str]) -> list[str]:
        """Phase 3: strategies, in words that stand alone."""
        if not deltas:
            return []
        reply = self._say(self.speaker, "imagine", prompts.imagine(self._problem, deltas))
        return [each["text"] for each in items_in(reply, "strategies")]

    def _debate(self, strategies: Sequence[str]) -> list[str]:
        """Phase 4: what more than half of the others would drop is dropped (ours)."""
        critics = [agent for agent in self._team.members if agent is not self.speaker]
        if not strategies or not critics:
            return list(strategies)
        against = [0] * len(strategies)
        for agent in critics:
            reply = self._say(agent, "doubt", prompts.doubt(self._problem, strategies))
            for number in numbers_in(reply, "drop"):
                if 1 <= number <= len(strategies):
                    against[number - 1] += 1
        return [
            text
            for text, votes in zip(strategies, against, strict=True)
            if votes * 2 <= len(critics)
        ]

    def _crystallize(self, strategies: Sequence[str]) -> list[Insight]:
        """Phase 5: final words, reach and niche. The niche is the task's (ours)."""
        text = prompts.crystallize(self._problem, strategies)
        reply = self._say(self.speaker, "crystallize", text)
        found = items_in(reply, "insights") or [{"text": each} for each in strategies]
        return [
            Insight(
                text=each["text"],
                reach=_reach(each.get("reach")),
                niche=self._problem.niche,
                question=self._problem.question,
                giver=self.speaker.name,
                task_id=self._problem.task_id,
            )
            for each in found
        ]


def verified(
    insights: Sequence[Insight], tester: Agent, retry: Retry, theta: float
) -> tuple[list[Insight], int]:
    """Return the insights with which a second attempt reaches the bar, and how many did not."""
    held = [each for each in insights if retry(tester, each).reward >= theta]
    marked = [each.model_copy(update={"verified": True}) for each in held]
    return marked, len(insights) - len(held)


def _reach(said: object) -> Reach:
    """Return how far an insight reaches: no further than was clearly said."""
    text = str(said).casefold().replace("-", "_").replace(" ", "_")
    return next((reach for reach in get_args(Reach) if text == reach), "task_local")
