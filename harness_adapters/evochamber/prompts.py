"""All that the agents are told. The words are ours: the documents print no prompt.

Rewards are told as "right" or "wrong" only, and never a reference.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from harness_adapters.evochamber.leading import Entry
from harness_adapters.evochamber.problem import Problem
from harness_adapters.evochamber.replies import cleaned, json_in
from harness_adapters.evochamber.settings import STRUCTURES

SHORT = 2000
"""Characters of another member's reply that are shown; the end, where the answer stands."""


def system(persona: str, known: Sequence[str]) -> str:
    """Return a system prompt: what is known goes first (appendix E.2)."""
    if not known:
        return persona
    lines = "\n".join(f"- {text}" for text in known)
    return f"Insights from earlier tasks. Weigh them; use one only where it fits.\n{lines}\n\n{persona}"


def solve(problem: Problem) -> str:
    """Return what a member is asked who solves a task alone."""
    return problem.question


def debate(problem: Problem, own: str, others: Sequence[str]) -> str:
    """Return what a member is asked who has seen the others' replies."""
    return (
        f"{problem.question}\n\nYour answer was:\n{_end(own)}\n\n{_listed('Another answer', others)}\n\n"
        "Weigh the other answers against yours. Then state your final answer to the task."
    )


def criticize(problem: Problem, draft: str) -> str:
    """Return what a critic is asked."""
    return (
        f"{problem.question}\n\nA colleague answered:\n{_end(draft)}\n\n"
        "Look for errors in it. Say what is wrong and why, or that nothing is."
    )


def revise(problem: Problem, draft: str, criticism: str) -> str:
    """Return what a generator is asked who was criticised."""
    return (
        f"{problem.question}\n\nYour answer was:\n{_end(draft)}\n\n"
        f"A colleague says:\n{_end(criticism)}\n\n"
        "Correct your answer where the colleague is right. State your final answer to the task."
    )


def plan(problem: Problem, count: int) -> str:
    """Return what a leader is asked who divides a task."""
    return (
        f"{problem.question}\n\nDivide this task into {count} parts for colleagues to do apart. Do not "
        f'solve it. Reply with JSON: {{"parts": [{count} texts]}}'
    )


def parts_of(reply: str, count: int) -> list[str]:
    """Return as many parts as there are colleagues; a missing one is to do the whole task."""
    value = json_in(reply)
    listed = value.get("parts", []) if isinstance(value, dict) else []
    texts = [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []
    whole = "Solve the whole task."
    return [cleaned(text) or whole for text in [*texts, *[whole] * count][:count]]


def part(problem: Problem, text: str) -> str:
    """Return what a member is asked who does a part."""
    return f"{problem.question}\n\nDo only this part of the task:\n{text}"


def combine(problem: Problem, done: Sequence[tuple[str, str]]) -> str:
    """Return what a leader is asked who puts the parts together."""
    shown = "\n\n".join(f"Part: {text}\nResult: {_end(reply)}" for text, reply in done)
    return (
        f"{problem.question}\n\nColleagues did parts of this task.\n\n{shown}\n\nAnswer the task."
    )


def choose(
    niche: str, team: Sequence[float], entries: Sequence[Entry], advice: Sequence[str]
) -> str:
    """Return what a leader is asked who chooses how the team works."""
    shown = "\n".join(
        f"- {entry.structure}: reward {entry.reward:.2f}, niche {entry.niche}, team "
        f"{_numbers(entry.profile)}. {entry.reflection}"
        for entry in entries
    )
    more = "\n".join(f"- {text}" for text in advice)
    return (
        f"You lead a team on a task of the niche {niche!r}. The members' competence in it, yours first: "
        f"{_numbers(team)}.\nEarlier teams found:\n{shown or '- nothing yet'}\n"
        + (f"Other pools say:\n{more}\n" if more else "")
        + f"How shall the team work? Reply with one of: {', '.join(STRUCTURES)}."
    )


def review(niche: str, structure: str, *, right: bool) -> str:
    """Return what a leader is asked after a task, for those who lead such a team next."""
    return (
        f"Your team worked by {structure} on a task of the niche {niche!r}; the result was "
        f"{_judged(right)}. Say in one sentence when this way of working fits such tasks."
    )


def reflect(problem: Problem, own: str, *, right: bool) -> str:
    """Return what a member is asked to say for itself (phase 1)."""
    return (
        f"{problem.question}\n\nYour answer was:\n{_end(own)}\n\nIt was {_judged(right)}. "
        "What did you do well, and where did you go wrong? Be concrete and short."
    )


def contrast(problem: Problem, failed: tuple[str, str], succeeded: tuple[str, str]) -> str:
    """Return what a successful member is asked about one that failed (phase 2): answer and diagnosis."""
    return (
        f"{problem.question}\n\nA wrong answer:\n{_end(failed[0])}\n"
        f"Its author says:\n{_end(failed[1])}\n\n"
        f"Your right answer:\n{_end(succeeded[0])}\nYou said:\n{_end(succeeded[1])}\n\n"
        "What is the decisive difference? State it so that it helps with other tasks of this kind."
    )


def imagine(problem: Problem, deltas: Sequence[str]) -> str:
    """Return what a giver is asked to make of the differences (phase 3)."""
    return (
        f"Task of the niche {problem.niche!r}:\n{problem.question}\n\n"
        f"{_listed('Difference', deltas)}\n\n"
        "Turn these into strategies for such tasks, each in one or two sentences that stand alone. "
        'Reply with JSON: {"strategies": [{"text": "...", "niche": "..."}]}'
    )


def doubt(problem: Problem, strategies: Sequence[str]) -> str:
    """Return what a member is asked who criticises strategies (phase 4)."""
    shown = "\n".join(f"{number}. {text}" for number, text in enumerate(strategies, 1))
    return (
        f"Task of the niche {problem.niche!r}:\n{problem.question}\n\nProposed strategies:\n{shown}\n\n"
        'Which are wrong, vague, or of no use? Reply with JSON: {"drop": [their numbers]}'
    )


def crystallize(problem: Problem, strategies: Sequence[str]) -> str:
    """Return what a giver is asked who gives strategies their final form (phase 5)."""
    listed = json.dumps(list(strategies), ensure_ascii=False)
    return (
        f"Strategies that survived, from a task of the niche {problem.niche!r}: {listed}\n"
        "Give each its final wording and say how far it reaches: task_local (this very kind of "
        "question), subdomain (this niche) or cross_domain. Reply with JSON: "
        '{"insights": [{"text": "...", "reach": "...", "niche": "..."}]}'
    )


def _judged(right: bool) -> str:  # noqa: FBT001 - read as a word
    return "right" if right else "wrong"


def _listed(name: str, texts: Sequence[str]) -> str:
    return "\n\n".join(f"{name} {number}:\n{_end(text)}" for number, text in enumerate(texts, 1))


def _numbers(values: Sequence[float]) -> str:
    return "[" + ", ".join(f"{value:.2f}" for value in values) + "]"


def _end(text: str) -> str:
    return text[-SHORT:]
