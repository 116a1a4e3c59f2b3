"""Select: which of the recalled rules and lessons apply to a question, seen with their crops."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from controllers.prompts.aliases import Aliases
from controllers.prompts.conform import conform
from controllers.prompts.fence import cut
from controllers.prompts.items import disputes, entry, room
from controllers.prompts.material import DATA_RULE, Material, system
from controllers.prompts.message import Prompt, Refused
from controllers.prompts.schema import Schema, closed, fields, one_or_none, some_of
from epimem.operations.rules import may_select
from epimem.protocols import Picture, SelectRequest
from epimem.schema.memory_input import Candidate, Selection, Verdict

MAX_CANDIDATES = 16
MAX_CROPS = 8
MAX_PAGES = 4
QUESTION_CHARS = 3000
TOTAL_CHARS = 14_000
ITEM_CHARS = 1800
MAX_TOKENS = 160

APPLIES = "applies"
PASSED_OVER = "not chosen"

EXAMPLE = {"rules": ["R0"], "lesson": "L0"}
SYSTEM = f"""You choose which stored advice applies to a question. You see the question, its pages, \
candidates and crops of what they were learned from.
A candidate applies when its conditions hold for this question and its scope is that of the question. \
Being about a similar topic is not enough. Compare its crop with the pages where there are both.
rules: the R candidates that apply, best first. lesson: the one L candidate that helps most, or null.
If nothing applies, which is common: rules [] and lesson null. Wrong advice is worse than none.
{DATA_RULE}
Reply with one JSON object of this shape, nothing else:
{json.dumps(EXAMPLE)}"""


def settled(request: SelectRequest) -> Selection | None:
    """Return the selection of nothing where no candidate may be chosen: a call would be idle."""
    rules, lessons = _shown(request)
    return None if len(rules) or len(lessons) else selection(request, (), None)


def render(request: SelectRequest) -> Prompt:
    """Return the prompt for one question.

    Shown are candidates that passed a floor of recall and may be handed out, at most
    `MAX_CANDIDATES`, with `MAX_CROPS` crops in all, one of each before a second of any.
    """
    rules, lessons = _shown(request)
    names = {key: name for aliases in (rules, lessons) for name, key in aliases}
    material = Material()
    asked = {"question": cut(request.question, QUESTION_CHARS), "family": cut(request.family, 120)}
    material.fence("question", [asked])
    for at, picture in enumerate(request.pages[:MAX_PAGES], 1):
        material.picture(f"P{at}", picture, f"page {picture.page or at} of the question")
    chars = room(TOTAL_CHARS, len(names), ITEM_CHARS)
    lines = [
        _line(request, candidate, names[candidate.node_id], chars)
        for candidate in request.candidates
        if candidate.node_id in names
    ]
    material.fence("candidates", lines)
    for at, (key, picture) in enumerate(_crops(request, names), 1):
        material.picture(f"E{at}", picture, f"evidence of candidate {names[key]}")
    material.say(_reminder(request))
    return Prompt("select", (system(SYSTEM), material.message()), schema(request), MAX_TOKENS)


def schema(request: SelectRequest) -> Schema:
    """Return the schema of a reply to this request."""
    rules, lessons = _shown(request)
    asked = fields(
        Selection,
        filled=("verdicts",),
        changed={
            "rule_ids": {"rules": some_of(rules.names, most=request.max_rules)},
            "lesson_id": {"lesson": one_or_none(lessons.names)},
        },
    )
    return closed(asked)


def parse(request: SelectRequest, reply: Mapping[str, Any]) -> Selection:
    """Return the selection, with a verdict on every candidate.

    Raises:
        Refused: also `duplicate`, and `limit` for rules beside a lesson where only one may be.
    """
    rules, lessons = _shown(request)
    found = conform(reply, schema(request), example=EXAMPLE, needed=("rules",))
    if len(set(found["rules"])) != len(found["rules"]):
        raise Refused("duplicate", "rules names one twice")
    if request.strict and found["rules"] and found["lesson"] is not None:
        raise Refused("limit", "rules or a lesson, not both: make rules [] or lesson null")
    lesson_id = lessons.id(found["lesson"]) if found["lesson"] is not None else None
    return selection(request, tuple(rules.id(name) for name in found["rules"]), lesson_id)


def target(request: SelectRequest, value: Selection) -> dict[str, Any]:
    """Return the reply that says this; verdicts are made by code and not said."""
    rules, lessons = _shown(request)
    return {
        "rules": [rules.of(key) for key in value.rule_ids],
        "lesson": lessons.of(value.lesson_id) if value.lesson_id is not None else None,
    }


def selection(
    request: SelectRequest, rule_ids: tuple[str, ...], lesson_id: str | None
) -> Selection:
    """Return a selection with its verdicts: why each candidate was, or was not, chosen."""
    rules, lessons = _shown(request)
    chosen = {*rule_ids, lesson_id}
    verdicts = []
    for candidate in request.candidates:
        key = candidate.node_id
        reason = _refusal(request, candidate)
        if not reason and key not in rules and key not in lessons:
            reason = f"beyond the {MAX_CANDIDATES} that are shown"
        said = reason or (APPLIES if key in chosen else PASSED_OVER)
        verdicts.append(Verdict(node_id=key, chosen=key in chosen, reason=said))
    return Selection(rule_ids=rule_ids, lesson_id=lesson_id, verdicts=tuple(verdicts))


def _shown(request: SelectRequest) -> tuple[Aliases, Aliases]:
    """Return the aliases of the rules and summaries, and of the lessons, that may be chosen."""
    fitting = [
        candidate.node_id for candidate in request.candidates if not _refusal(request, candidate)
    ][:MAX_CANDIDATES]
    lessons = [key for key in fitting if request.nodes[key].kind == "lesson"]
    kept = lessons if request.max_lessons else []
    rules = [key for key in fitting if key not in lessons] if request.max_rules else []
    return Aliases("R", rules), Aliases("L", kept)


def _refusal(request: SelectRequest, candidate: Candidate) -> str:
    """Return why a candidate is not shown, empty where it is."""
    node = request.nodes.get(candidate.node_id)
    if node is None:
        return "not shown"
    if not candidate.passes:
        return "no signal of recall reached its floor"
    if not may_select(node):
        return "a bare category" if node.kind == "category" else "lost a conflict"
    return ""


def _line(request: SelectRequest, candidate: Candidate, name: str, chars: int) -> dict[str, Any]:
    node = request.nodes[candidate.node_id]
    return {
        **entry(name, node, chars),
        "family": cut(request.families.get(candidate.node_id, ""), 120),
        "not settled": disputes(node, chars // 2),
    }


def _crops(request: SelectRequest, names: Mapping[str, str]) -> list[tuple[str, Picture]]:
    """Return the crops to show: one of each candidate in order, then the second ones, and so on."""
    turns = max((len(request.crops.get(key, ())) for key in names), default=0)
    queue = [
        (key, picture)
        for turn in range(min(turns, MAX_CROPS))
        for key in names
        for picture in request.crops.get(key, ())[turn : turn + 1]
    ]
    return queue[:MAX_CROPS]


def _reminder(request: SelectRequest) -> str:
    lesson = "at most one lesson" if request.max_lessons else "lesson null"
    either = "; not both rules and a lesson" if request.strict else ""
    return (
        f"Return only the JSON object: at most {request.max_rules} rules, {lesson}{either}; "
        "nothing where nothing applies."
    )
