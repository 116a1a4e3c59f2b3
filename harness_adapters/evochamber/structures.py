"""How a team works on a task: voting, debate, generator-critic, decompose (the paper, section 3).

Which of them there are is the paper's; how each runs in detail is ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from harness_adapters.evochamber import prompts
from harness_adapters.evochamber.agent import Agent
from harness_adapters.evochamber.problem import Attempt, Problem, Turn
from harness_adapters.evochamber.settings import Settings, Structure
from harness_adapters.evochamber.team import Team

Ask = Callable[[Agent, str, str], str]
"""Asks an agent (with its own system prompt): what for, the user's text. Returns its reply."""


class Work:
    """One task in the hands of one team: keeps every turn.

    Args:
        problem: the task.
        team: the members.
        ask: asks one of them.
        settings: of the pool.
    """

    def __init__(self, problem: Problem, team: Team, ask: Ask, settings: Settings) -> None:
        self.problem, self.team, self.settings = problem, team, settings
        self._ask = ask
        self.turns: list[Turn] = []

    def ask(self, agent: Agent, tag: str, text: str) -> str:
        """Ask a member, and keep its turn."""
        reply = self._ask(agent, tag, text)
        self.turns.append(Turn(agent.name, tag, reply))
        return reply

    def each_alone(self) -> dict[str, str]:
        """Let every member solve the task for itself."""
        text = prompts.solve(self.problem)
        return {agent.name: self.ask(agent, "solve", text) for agent in self.team.members}

    def answer_of(self, reply: str) -> str:
        """Return the answer in a reply, in normal form; "" for none."""
        return self.problem.mark(reply).answer


def run(structure: Structure, work: Work) -> Attempt:
    """Let a team work in a structure; a team of one solves alone."""
    alone = len(work.team.members) == 1
    return RUNNERS["voting" if alone else structure](work)


def voting(work: Work) -> Attempt:
    """All solve alone; the answer that most gave counts, of equal ones the earliest member's."""
    replies = work.each_alone()
    return Attempt(_majority(work, replies), replies, work.turns)


def debate(work: Work) -> Attempt:
    """All solve alone, then see the others' replies and answer again; then as in voting."""
    replies = work.each_alone()
    for _ in range(work.settings.debate_rounds):
        before = dict(replies)
        for agent in work.team.members:
            others = [before[name] for name in before if name != agent.name]
            text = prompts.debate(work.problem, before[agent.name], others)
            replies[agent.name] = work.ask(agent, "debate", text)
    return Attempt(_majority(work, replies), replies, work.turns)


def generator_critic(work: Work) -> Attempt:
    """The anchor solves, each other member criticises in turn, and the anchor answers again."""
    anchor = work.team.anchor
    draft = work.ask(anchor, "solve", prompts.solve(work.problem))
    for critic in work.team.others:
        said = work.ask(critic, "criticize", prompts.criticize(work.problem, draft))
        draft = work.ask(anchor, "revise", prompts.revise(work.problem, draft, said))
    return Attempt(draft, {anchor.name: draft}, work.turns)


def decompose(work: Work) -> Attempt:
    """The anchor divides the task, each other member does a part, and the anchor puts them together."""
    anchor, others = work.team.anchor, work.team.others
    plan = work.ask(anchor, "plan", prompts.plan(work.problem, len(others)))
    parts = prompts.parts_of(plan, len(others))
    done = [
        (part, work.ask(agent, "part", prompts.part(work.problem, part)))
        for agent, part in zip(others, parts, strict=True)
    ]
    answer = work.ask(anchor, "combine", prompts.combine(work.problem, done))
    return Attempt(answer, {anchor.name: answer}, work.turns)


RUNNERS: Mapping[Structure, Callable[[Work], Attempt]] = {
    "voting": voting,
    "debate": debate,
    "generator-critic": generator_critic,
    "decompose": decompose,
}


def _majority(work: Work, replies: Mapping[str, str]) -> str:
    """Return the reply, the earliest of them, whose answer most members gave; the anchor's is first."""
    answers = {name: work.answer_of(reply) for name, reply in replies.items()}
    counts = Counter(answer for answer in answers.values() if answer)
    if not counts:
        return replies[work.team.anchor.name]
    most = max(counts.values())
    wanted = {answer for answer, count in counts.items() if count == most}
    return next(replies[name] for name in replies if answers[name] in wanted)


def unanimous(answers: Sequence[str]) -> bool:
    """Whether all members that gave an answer gave the same one (ours: no other measure is stated)."""
    return len({answer for answer in answers if answer}) <= 1
