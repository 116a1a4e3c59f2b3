"""Consolidate: what the lessons of a category have in common, and where they conflict."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from controllers.prompts.aliases import Aliases
from controllers.prompts.conform import built, conform
from controllers.prompts.items import disputes, entry, room
from controllers.prompts.material import DATA_RULE, Material, system
from controllers.prompts.message import Prompt, Refused
from controllers.prompts.schema import STRING, Schema, closed, fields, listed, nullable, some_of
from epimem.protocols import ConsolidateRequest
from epimem.schema.lesson import IndexText
from epimem.schema.proposal import Consolidate
from epimem.schema.tree import Conflict, ConflictSide, Node

MAX_LESSONS = 64
TOTAL_CHARS = 20_000
NODE_CHARS = 2400
LESSON_CHARS = 1500
MAX_CAUTIONS = 6
MAX_CONFLICTS = 4
MAX_TOKENS = 1000

EXAMPLE = {
    "guidance": "<what the lessons agree on>",
    "applies_when": "<when it holds>",
    "cautions": ["<what to watch out for>"],
    "supported_by": ["L0", "L0"],
    "conflicts": [
        {
            "first": {
                "statement": "<what the guidance says>",
                "applies_when": "<when>",
                "lessons": ["L0"],
            },
            "second": {
                "statement": "<what another lesson says instead>",
                "applies_when": "<when>",
                "lessons": ["L0"],
            },
        }
    ],
    "title": "<short name>",
    "index": {
        "topic": "<what it is about>",
        "scope": "<where it holds>",
        "question_anchor": "<the question in general words>",
    },
}
SYSTEM = f"""You write down what the lessons of one category have in common.
guidance: the advice that at least two lessons give, in general words; every number, name and condition \
in it must stand in those lessons. applies_when: its conditions. cautions: what to watch out for.
supported_by: the lessons that give this advice, all "judged wrong" or none of them.
If the lessons share no advice: guidance "", supported_by [].
conflicts: pairs of statements that cannot both hold. first is the guidance with its lessons, second \
the other statement with its lessons; no lesson stands on both sides. Usually [].
title and index name the category; title "" and index null keep what it has.
{DATA_RULE}
Reply with one JSON object of this shape, nothing else:
{json.dumps(EXAMPLE)}"""


def render(request: ConsolidateRequest) -> Prompt:
    """Return the prompt for one category."""
    shown = request.lessons[:MAX_LESSONS]
    aliases = _shown(request)
    material = Material()
    material.fence("category as it stands", [entry("category", request.node, NODE_CHARS)])
    material.fence("its open conflicts", disputes(request.node, NODE_CHARS))
    chars = room(TOTAL_CHARS, len(shown), LESSON_CHARS)
    lines = [{**entry(aliases.of(node.node_id), node, chars), **_support(node)} for node in shown]
    material.fence("lessons", lines)
    material.say("Return only the JSON object: what these lessons have in common.")
    return Prompt("consolidate", (system(SYSTEM), material.message()), schema(request), MAX_TOKENS)


def schema(request: ConsolidateRequest) -> Schema:
    """Return the schema of a reply to this request."""
    names = _shown(request).names
    lessons = some_of(names, most=len(names))
    side = fields(ConflictSide, filled=("later",), changed={"items": {"lessons": lessons}})
    conflict = fields(
        Conflict,
        filled=("settled", "leader", "known"),
        changed={name: {name: closed(side)} for name in ("first", "second")},
    )
    asked = fields(
        Consolidate,
        filled=("op", "node_id"),
        changed={
            "cautions": {"cautions": listed(STRING, most=MAX_CAUTIONS)},
            "supported_by": {"supported_by": lessons},
            "conflicts": {"conflicts": listed(closed(conflict), most=MAX_CONFLICTS)},
            "index": {"index": nullable(closed(fields(IndexText)))},
        },
    )
    return closed(asked)


def parse(request: ConsolidateRequest, reply: Mapping[str, Any]) -> Consolidate:
    """Return the consolidation.

    Raises:
        Refused: also where guidance and support do not go together, or support is of both polarities;
            what else a conflict may get wrong, the operation checks.
    """
    aliases = _shown(request)
    needed = ("guidance", "supported_by", "first", "second", "statement")
    found = conform(reply, schema(request), example=EXAMPLE, needed=needed)
    supporters = tuple(aliases.id(name) for name in found["supported_by"])
    _check(request, found["guidance"], supporters)
    return built(
        lambda: Consolidate(
            node_id=request.node.node_id,
            guidance=found["guidance"],
            applies_when=found["applies_when"],
            cautions=tuple(found["cautions"]),
            supported_by=supporters,
            conflicts=tuple(
                Conflict(
                    first=_side(conflict["first"], aliases),
                    second=_side(conflict["second"], aliases),
                )
                for conflict in found["conflicts"]
            ),
            title=found["title"],
            index=IndexText(**found["index"]) if found["index"] is not None else None,
        )
    )


def target(request: ConsolidateRequest, value: Consolidate) -> dict[str, Any]:
    """Return the reply that says this."""
    aliases = _shown(request)
    return {
        "guidance": value.guidance,
        "applies_when": value.applies_when,
        "cautions": list(value.cautions),
        "supported_by": [aliases.of(key) for key in value.supported_by],
        "conflicts": [
            {
                "first": _side_target(conflict.first, aliases),
                "second": _side_target(conflict.second, aliases),
            }
            for conflict in value.conflicts
        ],
        "title": value.title,
        "index": value.index.model_dump() if value.index is not None else None,
    }


def _shown(request: ConsolidateRequest) -> Aliases:
    return Aliases("L", (node.node_id for node in request.lessons[:MAX_LESSONS]))


def _support(node: Node) -> dict[str, Any]:
    """Return from how many questions a lesson is: what its word weighs."""
    if node.lesson is None:
        return {}
    return {"questions": len({support.question_key for support in node.lesson.supports}) or 1}


def _check(request: ConsolidateRequest, guidance: str, supporters: tuple[str, ...]) -> None:
    if bool(guidance) != bool(supporters):
        raise Refused("schema", "guidance and supported_by go together: both given, or both empty")
    if len(set(supporters)) != len(supporters):
        raise Refused("duplicate", "supported_by names a lesson twice")
    polarities = {node.polarity for node in request.lessons if node.node_id in supporters}
    if len(polarities) > 1:
        raise Refused(
            "contradiction", "supported_by mixes lessons that were judged wrong with others"
        )


def _side(side: Mapping[str, Any], aliases: Aliases) -> ConflictSide:
    return ConflictSide(
        statement=side["statement"],
        applies_when=side["applies_when"],
        items=tuple(aliases.id(name) for name in side["lessons"]),
    )


def _side_target(side: ConflictSide, aliases: Aliases) -> dict[str, Any]:
    return {
        "statement": side.statement,
        "applies_when": side.applies_when,
        "lessons": [aliases.of(key) for key in side.items],
    }
