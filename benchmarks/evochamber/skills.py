"""Small real solvers for tasks of BIG-Bench Hard, and a model made of them.

A skill is a program with a sentence that names it. An agent has some skills of its own, by the name in
its persona, and those whose sentences stand in its prompt: so an insight acts as text or not at all.
Without a skill that fits it guesses, the same every time.
"""

from __future__ import annotations

import ast
import json
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from zlib import crc32

from benchmarks.evochamber.pools import Player

Skill = Callable[[str], str | None]
OWN = 2
"""Skills that an agent begins with."""

_BINARY: Mapping[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_CLOSING = {"[": "]", "(": ")", "{": "}", "<": ">"}
_STEP = re.compile(r"Take (\d+) steps? ?(left|right|forward|backward)?")
_NUMBERS = ("a an one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def boolean(question: str) -> str | None:
    """Evaluate words of logic."""
    found = re.fullmatch(r"\s*((?:[()]|not|and|or|True|False|\s)+) is\s*", question)
    if found is None:
        return None
    return str(_logic(ast.parse(found[1].strip(), mode="eval").body))


def _logic(node: ast.expr) -> bool:
    if isinstance(node, ast.BoolOp):
        values = [_logic(each) for each in node.values]
        return all(values) if isinstance(node.op, ast.And) else any(values)
    if isinstance(node, ast.UnaryOp):
        return not _logic(node.operand)
    assert isinstance(node, ast.Constant)
    return bool(node.value)


def arithmetic(question: str) -> str | None:
    """Evaluate sums, differences and products."""
    found = re.fullmatch(r"\s*([()\d+\-* ]+)=\s*", question)
    return str(_sum(ast.parse(found[1].strip(), mode="eval").body)) if found else None


def _sum(node: ast.expr) -> int:
    if isinstance(node, ast.BinOp):
        return _BINARY[type(node.op)](_sum(node.left), _sum(node.right))
    if isinstance(node, ast.UnaryOp):
        return -_sum(node.operand)
    assert isinstance(node, ast.Constant)
    assert isinstance(node.value, int)
    return node.value


def sorting(question: str) -> str | None:
    """Sort the words of a list."""
    _, sign, words = question.partition("alphabetically: List:")
    return " ".join(sorted(words.split())) if sign else None


def brackets(question: str) -> str | None:
    """Close what is open, the last first."""
    _, sign, sequence = question.partition("closed properly. Input:")
    if not sign:
        return None
    waiting: list[str] = []
    for mark in sequence.split():
        if mark in _CLOSING:
            waiting.append(_CLOSING[mark])
        elif waiting:
            waiting.pop()
    return " ".join(reversed(waiting))


def walking(question: str) -> str | None:
    """Follow steps and turns on a grid."""
    if "return to the starting point" not in question:
        return None
    place, ahead = 0j, 1j
    for sentence in question.partition("?")[2].partition("Options")[0].split("."):
        step = _STEP.search(sentence)
        if step:
            turned = {"left": 1j, "right": -1j, "backward": -1}.get(step[2] or "", 1)
            place += int(step[1]) * ahead * turned
        else:
            turns = {"Turn left": 1j, "Turn right": -1j, "Turn around": -1}
            ahead *= turns.get(sentence.strip(), 1)
    return "No" if place else "Yes"


def liars(question: str) -> str | None:
    """Carry truth and lies from one speaker to the next."""
    if "tell the truth?" not in question:
        return None
    honest: dict[str, bool] = {}
    for sentence in question.removeprefix("Question: ").split(". "):
        said = re.fullmatch(r"(\w+) says (\w+) (tells the truth|lies)", sentence)
        plain = re.fullmatch(r"(\w+) (tells the truth|lies)", sentence)
        asked = re.search(r"Does (\w+) tell the truth", sentence)
        if said:
            honest[said[1]] = honest.get(said[2], False) is (said[3] == "tells the truth")
        elif plain:
            honest[plain[1]] = plain[2] == "tells the truth"
        elif asked:
            return "Yes" if honest.get(asked[1], False) else "No"
    return None


def swapping(question: str) -> str | None:
    """Follow what people hold while they swap."""
    swaps = re.findall(r"(\w+) and (\w+) (?:swap|trade|switch)", question)
    asked = re.search(r"At the end of [^,]*, (\w+) (?:has|is|ends up with)", question)
    if not swaps or asked is None:
        return None
    holders = {name for pair in swaps for name in pair} | {asked[1]}
    start = question.partition(":")[2].partition(". ")[0]
    names = "|".join(sorted(holders | set(re.findall(r"\b([A-Z][a-z]+) (?:gets|has|is)", start))))
    parts = re.split(rf"(?:, (?:and )?| and )(?=(?:{names})\b)", start.partition("\n")[0])
    holds = {part.split()[0]: part.split()[-1] for part in parts if part.split()}
    for first, second in swaps:
        if first not in holds or second not in holds:
            return None
        holds[first], holds[second] = holds[second], holds[first]
    options = re.findall(r"\((\w)\) (.+)", question)
    return next((f"({key})" for key, text in options if text.split()[-1] == holds[asked[1]]), None)


def counting(question: str) -> str | None:
    """Add up what is listed, whatever it is: wrong where something else is among it."""
    found = re.fullmatch(r"I have (.*?)\. How many .* do I have\?\s*", question)
    if found is None:
        return None
    values = {word: at for at, words in enumerate(_NUMBERS, 1) for word in words.split()}
    return str(sum(values.get(part.split()[0], 0) for part in re.split(r",(?: and)? ", found[1])))


def waiting(question: str) -> str | None:
    """Find the hours in which nobody saw somebody."""
    if "Between what times could they have gone?" not in question:
        return None
    woke = re.search(r"woke up at (\w+)\.", question)
    closed = re.search(r"was closed after (\w+)\.", question)
    if woke is None or closed is None:
        return None
    seen = re.findall(r"from (\w+) to (\w+)\.", question.partition("Options")[0])
    now = woke[1]
    for start, end in sorted(seen, key=lambda pair: _hour(pair[0])):
        if start != now:
            break
        now = end
    until = min(
        (start for start, _ in seen if _hour(start) > _hour(now)), key=_hour, default=closed[1]
    )
    options = re.findall(r"\((\w)\) (\w+) to (\w+)", question)
    return next((f"({key})" for key, start, end in options if (start, end) == (now, until)), None)


def _hour(text: str) -> int:
    number = int(re.sub(r"\D", "", text) or 0) % 12
    return number + 12 * text.endswith("pm")


SKILLS: Mapping[str, Skill] = {
    "Evaluate the words of logic from the inside out: not before and, and before or.": boolean,
    "Compute the brackets first, then products, then sums, and mind the signs.": arithmetic,
    "Compare the words letter by letter and put them in order.": sorting,
    "Keep the open brackets on a stack and close the last one first.": brackets,
    "Keep the position as two numbers and the direction as a third.": walking,
    "Go from speaker to speaker and carry along who tells the truth.": liars,
    "Write down who holds what after every swap.": swapping,
    "Write the amounts as numbers and add them up.": counting,
    "Strike out the hours in which somebody was seen; the gap is the answer.": waiting,
}


def own_skills(persona: str) -> list[str]:
    """Return the sentences of the skills that an agent begins with, none where it names no agent."""
    named = re.search(r"You are (agent-\d+)\.", persona)
    if named is None:
        return []
    return sorted(SKILLS, key=lambda text: crc32(f"{named[1]}/{text}".encode()))[:OWN]


class SkilledModel(Player):
    """A model made of skills; it speaks the formats of the pool's phases.

    Args:
        skills: sentences and programs.
    """

    name = "skills"

    def __init__(self, skills: Mapping[str, Skill] = SKILLS) -> None:
        self._skills = skills

    def said(self, tag: str, system: str, user: str) -> str:
        """Return what it says."""
        known = [text for text in self._skills if text in system or text in own_skills(system)]
        if tag in {"reflect", "contrast"}:
            return self._named(known, user) or "I do not know what went wrong."
        if tag in {"imagine", "crystallize"}:
            told = [text for text in self._skills if text in user]
            listed = [{"text": text, "reach": "subdomain"} for text in told]
            return json.dumps({"strategies" if tag == "imagine" else "insights": listed})
        if tag == "doubt":
            return json.dumps({"drop": []})
        if tag in {"choose", "review"}:
            return "voting" if tag == "choose" else ""
        answer = self._solved(known, user)
        return f"The answer is {answer}." if answer is not None else _guess(system, user)

    def _solved(self, known: Sequence[str], question: str) -> str | None:
        for text in known:
            answer = self._skills[text](question)
            if answer is not None:
                return answer
        return None

    def _named(self, known: Sequence[str], user: str) -> str | None:
        """Return the sentence of the skill that fits the task in a prompt."""
        question = user.partition("\n\nYour answer was:")[0].partition("\n\nA wrong answer:")[0]
        return next((text for text in known if self._skills[text](question) is not None), None)


def _guess(system: str, question: str) -> str:
    options = re.findall(r"\(\w\)", question) or re.findall(r"- (Yes|No)", question)
    options = options or ["Yes", "No", "True", "False"]
    return f"The answer is {options[crc32(f'{system}{question}'.encode()) % len(options)]}."
