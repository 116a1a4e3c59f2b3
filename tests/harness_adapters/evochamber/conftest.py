"""A model that follows a rule, and tasks whose checker is plain."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from epimem.bank.encoder import TableEncoder
from epimem.errors import ControllerError
from harness_adapters.evochamber.chamber import Chamber
from harness_adapters.evochamber.problem import Mark, Problem
from harness_adapters.evochamber.settings import settings_of
from harness_adapters.llm import Completion

INSIGHT = "Leave out the white triangles."
JSON = {
    "imagine": json.dumps({"strategies": [{"text": INSIGHT}, {"text": "Guess."}]}),
    "doubt": '{"drop": [2]}',
    "crystallize": json.dumps({"insights": [{"text": INSIGHT, "reach": "subdomain"}]}),
    "choose": "voting",
    "plan": '{"parts": ["count", "check"]}',
}


@dataclass
class Seen:
    """One call."""

    tag: str
    system: str
    user: str
    images: int = 0


@dataclass
class Rule:
    """Answers by a rule: solving by `solve(system, user)`, the rest as `JSON` says."""

    solve: Callable[[str, str], str]
    said: dict[str, str] = field(default_factory=lambda: dict(JSON))
    seen: list[Seen] = field(default_factory=list)
    name: str = "rule"
    fail_at: int = 0

    def complete(self, messages, *, max_tokens, tag):
        system, user = messages
        self.seen.append(Seen(tag, system.text, user.text, len(user.images)))
        if self.fail_at and len(self.seen) == self.fail_at:
            raise ControllerError("no reply")
        text = self.said.get(tag) or self.solve(system.text, user.text)
        return Completion(text, tokens_in=len(user.text), tokens_out=min(len(text), max_tokens))

    @property
    def tags(self):
        return [each.tag for each in self.seen]


def mark(reply, wanted):
    """The answer is what follows the last `=`."""
    answer = reply.rpartition("=")[2].strip() if "=" in reply else ""
    return Mark(float(answer == wanted), answer)


def problem(number=1, niche="z", wanted="6", **more):
    return Problem(
        task_id=f"t-{number}",
        niche=niche,
        question=f"How many stations of line {number} does the train call at?",
        mark=lambda reply: mark(reply, wanted),
        **more,
    )


@pytest.fixture
def pool():
    """Make a pool: of three agents named agent-001.., that solve by a rule, unless told otherwise."""

    def make(solve, *, profile="default", said=None, sharing=None, seed=0, **changes):
        given = settings_of(profile, **{"agents": 3, "without": ("structures",), **changes})
        rule = Rule(solve)
        rule.said.update(said or {})
        chamber = Chamber(given, rule, TableEncoder(64), sharing=sharing, seed=seed)
        for agent in chamber.population.agents:
            agent.persona = f"You are {agent.name}."
        return chamber, rule

    return make


def who(system):
    """Return the agent whose system prompt this is."""
    return system.rpartition("You are ")[2].rstrip(".")
