"""Merge: whether two sibling categories hold one kind of lesson."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from controllers.prompts.conform import built, conform
from controllers.prompts.items import entry, room
from controllers.prompts.material import DATA_RULE, Material, system
from controllers.prompts.message import Prompt
from controllers.prompts.schema import Schema, closed, fields
from epimem.protocols import MergeRequest
from epimem.schema.proposal import Merge
from epimem.schema.tree import Node

LESSONS = 6  # of each category
TOTAL_CHARS = 8000
ITEM_CHARS = 1200
MAX_TOKENS = 120

EXAMPLE = {"merge": "<true or false>", "title": "<short name for both together>"}
SYSTEM = f"""You tidy a library of lessons. You see two categories and lessons of each.
merge true: both hold lessons about the same kind of question in the same scope, and one piece of \
advice could serve both.
merge false: their scopes, conditions or advice differ. Lessons that contradict each other stay apart.
With true, title names the joint category; an empty title keeps the name of the first.
{DATA_RULE}
Reply with one JSON object of this shape, nothing else:
{json.dumps(EXAMPLE)}"""


def render(request: MergeRequest) -> Prompt:
    """Return the prompt for one pair."""
    material = Material()
    count = sum(min(len(found), LESSONS) for found in _lessons(request)) + 2
    chars = room(TOTAL_CHARS, count, ITEM_CHARS)
    for which, node, lessons in zip(
        ("first", "second"), (request.kept, request.absorbed), _lessons(request), strict=True
    ):
        shown = [entry(f"lesson of {which}", lesson, chars) for lesson in lessons[:LESSONS]]
        material.fence(f"{which} category", [entry(which, node, chars)])
        material.fence(f"lessons of the {which}, {len(shown)} of {len(lessons)}", shown)
    material.say(f"Likeness of their least alike lessons: {request.likeness:.2f} of 1.")
    material.say("Return only the JSON object: merge true or false, and the title.")
    return Prompt("merge", (system(SYSTEM), material.message()), schema(), MAX_TOKENS)


def schema() -> Schema:
    """Return the schema of a reply."""
    asked = fields(Merge, filled=("op", "kept_id", "absorbed_id"))
    return closed({"merge": {"type": "boolean"}, **asked})


def parse(request: MergeRequest, reply: Mapping[str, Any]) -> Merge | None:
    """Return the merge, None to leave the two apart.

    Raises:
        Refused: the reply says neither.
    """
    found = conform(reply, schema(), example=EXAMPLE)
    merged = built(
        lambda: Merge(
            kept_id=request.kept.node_id,
            absorbed_id=request.absorbed.node_id,
            title=found["title"],
        )
    )
    return merged if found["merge"] else None


def target(request: MergeRequest, value: Merge | None) -> dict[str, Any]:  # noqa: ARG001
    """Return the reply that says this; a lawful Merge keeps the request's `kept`."""
    return {"merge": value is not None, "title": value.title if value is not None else ""}


def _lessons(request: MergeRequest) -> tuple[Sequence[Node], Sequence[Node]]:
    return request.kept_lessons, request.absorbed_lessons
