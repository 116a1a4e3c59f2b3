"""The pool at work: one task after the other, from the team's choice to what the pool learns from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import Field

from epimem.errors import RecordError
from epimem.protocols import Encoder
from epimem.schema.base import Record, StrictBool, StrictFloat, StrictInt
from harness_adapters.evochamber import codream, prompts, structures
from harness_adapters.evochamber.agent import PERSONA, Agent
from harness_adapters.evochamber.archive import Insight
from harness_adapters.evochamber.codream import Dream, Dreaming, Result
from harness_adapters.evochamber.leading import Entry, Leading, chosen, profile
from harness_adapters.evochamber.lifecycle import Event, Population
from harness_adapters.evochamber.problem import Attempt, Mark, Problem
from harness_adapters.evochamber.record import outcome_of, run_of
from harness_adapters.evochamber.replies import cleaned
from harness_adapters.evochamber.settings import Settings, Structure
from harness_adapters.evochamber.sharing import HELD, Parcel, Sharing, Shown
from harness_adapters.evochamber.team import Pairs, Team, select
from harness_adapters.llm import LLM, Message, Metered, Spent

FORMAT = 1


class Episode(Record):
    """What became of one task; a line of the run's log, and all that the report is drawn from.

    `reward` is what the pool learnt from; `score` is the checker's, which differs where the pool is
    not told it. `spent` holds calls, tokens and seconds by tag; `own_s` the seconds beside model calls.
    """

    number: StrictInt
    task_id: str
    niche: str
    team: tuple[str, ...]
    structure: Structure
    reward: StrictFloat
    score: StrictFloat
    answer: str = ""
    marks: dict[str, StrictFloat] = Field(default_factory=dict)
    retrieved: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    fired: str = ""
    abstained: StrictBool = False
    givers: tuple[str, ...] = ()
    insights: tuple[Insight, ...] = ()
    rejected: StrictInt = 0
    recipients: tuple[str, ...] = ()
    routes: tuple[tuple[str, str], ...] = ()
    events: tuple[Event, ...] = ()
    pool: StrictInt = 0
    spent: dict[str, dict[str, StrictFloat | StrictInt]] = Field(default_factory=dict)
    own_s: StrictFloat = 0.0


class Chamber:
    """A pool of agents that evolves over a stream of tasks.

    Args:
        settings: of the method.
        llm: the model behind every agent.
        encoder: tells near-duplicates, and finds what an agent knows.
        seed: for draws.
        sharing: the pool's side of a bank; None for a pool of its own.
        persona: returns the persona of a new agent by its name; one for all by default.
    """

    def __init__(
        self,
        settings: Settings,
        llm: LLM,
        encoder: Encoder,
        *,
        seed: int = 0,
        sharing: Sharing | None = None,
        persona: Callable[[str], str] = lambda _: PERSONA,
    ) -> None:
        self.settings, self.encoder, self.seed, self.sharing = settings, encoder, seed, sharing
        self.tasks = 0
        self._persona = persona
        self.population = Population(settings, encoder, persona=persona)
        self.pairs = Pairs()
        self.leading = Leading()
        self.outbox: list[Parcel] = []
        self._recent: list[str] = []
        self.llm = Metered(llm)

    def solve(self, problem: Problem) -> Episode:
        """Solve a task and learn from it; what is to be written to the bank waits in `outbox`.

        Raises:
            ControllerError: the model gave no reply. The pool is then as it was, but for what agents
                took in from the bank.
        """
        began = time.perf_counter()
        number = self.tasks + 1
        team = select(
            self.population.agents,
            problem.niche,
            self.pairs,
            self.settings,
            seed=self.seed,
            task=number,
        )
        session = _Session(self, problem, team, number)
        attempt, structure = session.work()
        result = self._judged(problem, attempt)
        review = session.review(structure, result)
        self._count(problem, team, structure, result, review)
        dream = session.dream(attempt, result)
        self.outbox += session.parcels(attempt, structure, result, dream, review)
        self.tasks = number
        events = self._tick(problem)
        spent = self.llm.taken()
        took = time.perf_counter() - began - sum(each.time_s for each in spent.values())
        return Episode(
            number=number,
            task_id=problem.task_id,
            niche=problem.niche,
            team=team.names,
            structure=structure,
            reward=result.reward,
            score=problem.mark(attempt.answer).reward,
            answer=cleaned(problem.mark(attempt.answer).answer),
            marks={name: mark.reward for name, mark in result.marks.items()},
            retrieved=session.retrieved(),
            fired=dream.fired,
            abstained=dream.abstained,
            givers=dream.givers,
            insights=tuple(dream.insights),
            rejected=dream.rejected,
            recipients=dream.recipients,
            routes=tuple(dream.routes),
            events=tuple(events),
            pool=len(self.population.agents),
            spent={tag: each.plain() for tag, each in sorted(spent.items())},
            own_s=round(took, 6),
        )

    def send(self) -> None:
        """Send what waits for the bank; what was sent before has no effect."""
        if self.sharing is not None:
            self.sharing.send(self.outbox)
        self.outbox = []

    # -- state -------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return all that the pool is, as plain JSON data."""
        return {
            "format": FORMAT,
            "settings": self.settings.plain(),
            "seed": self.seed,
            "tasks": self.tasks,
            "made": self.population.made,
            "agents": [agent.plain() for agent in self.population.agents],
            "pairs": self.pairs.plain(),
            "leading": [entry.plain() for entry in self.leading.entries],
            "recent": self._recent,
            "outbox": [parcel.plain() for parcel in self.outbox],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Become what `state` was called on.

        Raises:
            RecordError: `invalid_field`, it is of another format, seed or settings.
        """
        expected = {"format": FORMAT, "settings": self.settings.plain(), "seed": self.seed}
        for name, value in expected.items():
            if state.get(name) != value:
                raise RecordError(
                    f"the run in this folder has another {name}",
                    field=name,
                    hint="go on with the same options, or begin in another folder",
                )
        agents = [Agent.read(each) for each in state["agents"]]
        self.tasks = state["tasks"]
        self.population = Population(
            self.settings, self.encoder, agents, state["made"], persona=self._persona
        )
        self.pairs = Pairs.read(state["pairs"])
        self.leading = Leading([Entry.read(each) for each in state["leading"]])
        self._recent = list(state["recent"])
        self.outbox = [Parcel.read(each) for each in state["outbox"]]

    # -- what a task changes -----------------------------------------------------------------------

    def _judged(self, problem: Problem, attempt: Attempt) -> Result:
        """Return the rewards: the checker's, or, where the pool is not told them, agreement.

        A member's own reward is then the share of members that gave its answer (ours). A member
        without an answer has failed.
        """
        marks = {name: problem.mark(reply) for name, reply in attempt.finals.items()}
        team = problem.mark(attempt.answer)
        if problem.source != "self":
            return Result(team.reward, marks)
        answers = [mark.answer for mark in marks.values()]
        agreed = {name: _agreement(mark.answer, answers) for name, mark in marks.items()}
        return Result(
            _agreement(team.answer, answers),
            {name: Mark(agreed[name], mark.answer) for name, mark in marks.items()},
        )

    def _count(
        self, problem: Problem, team: Team, structure: Structure, result: Result, review: str
    ) -> None:
        """Bookkeeping: competence, synergy, exposure, and the leader's entry."""
        before = profile(team, problem.niche)
        for agent in team.members:
            agent.learn(problem.niche, result.reward, self.settings.alpha)
        team.anchor.lead(problem.niche)
        self.pairs.record(team, problem.niche, result.reward, self.settings)
        self.population.note(team.members)
        self.leading.entries.append(
            Entry(
                task_id=problem.task_id,
                niche=problem.niche,
                profile=before,
                structure=structure,
                reward=result.reward,
                reflection=review,
            )
        )

    def _tick(self, problem: Problem) -> list[Event]:
        self._recent = [*self._recent, problem.niche][-self.settings.period :]
        if self.tasks % self.settings.period:
            return []
        return self.population.tick(self.pairs, self._recent, task=self.tasks, seed=self.seed)


class _Session:
    """One task: who knows what, who is asked what, and what is to be sent."""

    def __init__(self, chamber: Chamber, problem: Problem, team: Team, number: int) -> None:
        self._chamber, self._problem, self._team, self._number = chamber, problem, team, number
        self._settings, self._sharing = chamber.settings, chamber.sharing
        sharing = self._sharing
        prefix = f"{sharing.group}-{sharing.run_name or chamber.seed}" if sharing else "pool"
        self._run_id = f"{prefix}-{number}"
        low = codream.deficient(chamber.population.agents, problem.niche, self._settings)
        self._deficit = {agent.name for agent in low}
        self._shown: dict[str, Shown] = {}

    def work(self) -> tuple[Attempt, Structure]:
        """Let the leader choose how the team works, and let it work."""
        structure = self._structure()
        work = structures.Work(self._problem, self._team, self._ask, self._settings)
        return structures.run(structure, work), structure

    def review(self, structure: Structure, result: Result) -> str:
        """Let the leader say what it found; nothing where structures are switched off."""
        if not self._settings.has("structures"):
            return ""
        right = result.reward >= self._settings.theta
        text = prompts.review(self._problem.niche, structure, right=right)
        return cleaned(self._say(self._team.anchor, "review", text, known=()))

    def dream(self, attempt: Attempt, result: Result) -> Dream:
        """Run CODREAM where it fires."""
        settings, problem = self._settings, self._problem
        fired = codream.fires(result, settings) if settings.has("codream") else ""
        if not fired:
            return Dream()
        dreaming = Dreaming(problem, self._team, attempt.finals, result, self._ask, settings)
        if not dreaming.givers and settings.when_all_fail == "abstain":
            return Dream(fired=fired, abstained=True)
        givers = tuple(agent.name for agent in dreaming.givers) or (self._team.anchor.name,)
        insights = dreaming.insights()
        if not dreaming.givers and settings.when_all_fail == "quarantine":
            held = [each.model_copy(update={"reach": "task_local"}) for each in insights]
            return Dream(fired, givers=givers, insights=held, turns=dreaming.turns)
        agents = codream.recipients(
            self._chamber.population.agents,
            problem.niche,
            settings,
            givers=givers,
            seed=self._chamber.seed,
            task=self._number,
        )
        dream = Dream(fired, givers=givers, turns=dreaming.turns)
        dream.recipients = tuple(agent.name for agent in agents)
        tester = next(iter([*agents, *dreaming.failed]), self._team.anchor)
        answer = problem.mark(attempt.answer).answer
        dream.insights, dream.rejected = codream.verified(
            insights, tester, self._retry(answer), settings.theta
        )
        self._route(dream, agents)
        return dream

    def parcels(
        self,
        attempt: Attempt,
        structure: Structure,
        result: Result,
        dream: Dream,
        review: str,
    ) -> list[Parcel]:
        """Return what is to be written to the bank: the run, what was learnt, and verdicts."""
        sharing, problem = self._sharing, self._problem
        if sharing is None:
            return []
        right = result.reward >= self._settings.theta
        total = Spent()
        for each in self._chamber.llm.spent.values():
            total.add(each)
        run = run_of(
            problem,
            self._team,
            attempt,
            run_id=self._run_id,
            created_at=datetime.now(UTC).isoformat(),
            pages=sharing.pages(problem),
            given=[each.given for each in self._shown.values() if each.given is not None],
            backbone=self._chamber.llm.name,
            spent=total,
        )
        parcels = [sharing.run(run, outcome_of(problem, result, self._run_id, right=right))]
        if self._settings.has("structures"):
            leader = self._team.anchor.name
            parcels.append(
                sharing.structure(problem, self._run_id, leader, structure, review, right=right)
            )
        for insight in dream.insights:
            parcels += sharing.insight(insight, problem, self._run_id, self._audience(dream))
        return parcels + sharing.feedback(self._shown.values(), problem, right=right)

    def retrieved(self) -> dict[str, tuple[str, ...]]:
        """Return the items that each member was shown from the bank."""
        return {
            name: tuple(item.node_id for item in shown.given.items)
            for name, shown in self._shown.items()
            if shown.given is not None
        }

    def _audience(self, dream: Dream) -> tuple[str, ...] | None:
        if not any(each.verified for each in dream.insights):
            return (HELD,)
        return None if self._settings.transfer == "symmetric" else dream.recipients

    def _structure(self) -> Structure:
        settings, niche = self._settings, self._problem.niche
        if not settings.has("structures") or len(self._team.members) == 1:
            return "voting"
        encoder = self._chamber.encoder
        entries = self._chamber.leading.nearest(niche, self._team, settings.led, encoder)
        advice = self._sharing.advice(niche, self._run_id) if self._sharing else ()
        text = prompts.choose(niche, profile(self._team, niche), entries, advice)
        return chosen(self._say(self._team.anchor, "choose", text, known=()), entries)

    def _route(self, dream: Dream, agents: list[Agent]) -> None:
        """Give what held to its recipients; near-duplicates of what one knows are left out."""
        for insight in dream.insights:
            for agent in agents:
                if agent.archive.add(insight, self._chamber.encoder, self._settings.same):
                    dream.routes.append((insight.giver, agent.name))

    def _retry(self, answer: str) -> Callable[[Agent, Insight], Mark]:
        """Return how an agent tries again: with what it knows, and the insight."""

        def retry(agent: Agent, insight: Insight) -> Mark:
            known = (insight.text, *self._known(agent))
            text = prompts.solve(self._problem)
            mark = self._problem.mark(self._say(agent, "retry", text, known=known))
            if self._problem.source != "self":
                return mark
            return Mark(float(bool(answer) and mark.answer == answer), mark.answer)

        return retry

    def _ask(self, agent: Agent, tag: str, text: str) -> str:
        return self._say(agent, tag, text, known=self._known(agent))

    def _say(self, agent: Agent, tag: str, text: str, *, known: tuple[str, ...]) -> str:
        settings = self._settings
        dreaming = tag in codream.PHASES or tag in {"choose", "review"}
        pictures = (*self._problem.images, *self._shown.get(agent.name, Shown()).crops)
        messages = [
            Message("system", prompts.system(agent.persona, known)),
            Message("user", text, pictures),
        ]
        most = settings.dream_tokens if dreaming else settings.solve_tokens
        return self._chamber.llm.complete(messages, max_tokens=most, tag=tag).text

    def _known(self, agent: Agent) -> tuple[str, ...]:
        """Return what an agent knows for this task: its own archive's, then the bank's, none twice."""
        settings, problem, encoder = self._settings, self._problem, self._chamber.encoder
        own = agent.archive.find(problem.niche, problem.question, settings.recalled, encoder)
        shown = self._shown_to(agent)
        return tuple(dict.fromkeys([*(each.text for each in own), *shown.texts]))

    def _shown_to(self, agent: Agent) -> Shown:
        """Ask the bank once for each agent; what is foreign enters the archive of one with a deficit."""
        if self._sharing is None:
            return Shown()
        if agent.name not in self._shown:
            deficit = agent.name in self._deficit
            shown = self._sharing.before(self._problem, agent.name, self._run_id, deficit=deficit)
            self._shown[agent.name] = shown
            for insight in shown.foreign:
                agent.archive.add(insight, self._chamber.encoder, self._settings.same)
        return self._shown[agent.name]


def _agreement(answer: str, answers: list[str]) -> float:
    return answers.count(answer) / len(answers) if answer and answers else 0.0
