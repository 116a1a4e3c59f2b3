"""Place: one lesson into a category that was shown, or into a new one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from controllers.prompts.aliases import Aliases
from controllers.prompts.conform import built, conform
from controllers.prompts.items import entry, room
from controllers.prompts.material import DATA_RULE, Material, system
from controllers.prompts.message import Prompt, Refused
from controllers.prompts.schema import Schema, closed, fields, nullable, one_or_none
from epimem.protocols import CategoryView, PlaceRequest
from epimem.schema.lesson import IndexText
from epimem.schema.proposal import NewCategory, Place

MAX_CATEGORIES = 8
EXAMPLES = 2  # of each category
TOTAL_CHARS = 10_000
LESSON_CHARS = 3000
ITEM_CHARS = 900
MAX_TOKENS = 240

_NEW = {
    "title": "<short name>",
    "topic": "<what it is about>",
    "scope": "<where it holds>",
    "question_anchor": "<the question in general words>",
}
EXAMPLE = [
    {"category": "C0", "new": None, "under": None},
    {"category": None, "new": _NEW, "under": "G0"},
]
SYSTEM = f"""You sort one lesson into a library. You see the lesson and the categories nearest to it.
Choose a category when its lessons answer the same kind of question in the same scope, even if they \
disagree with this one.
Otherwise open a new category, named so that more lessons like this one would fit. under names the \
group it goes to, the g of a shown category; null leaves that open.
Either category or new is set; the other is null.
{DATA_RULE}
Reply with one JSON object of one of these shapes, nothing else:
{json.dumps(EXAMPLE[0])}
{json.dumps(EXAMPLE[1])}"""


def render(request: PlaceRequest) -> Prompt:
    """Return the prompt for one lesson."""
    categories, groups = _shown(request)
    views = request.candidates[:MAX_CATEGORIES]
    material = Material()
    material.fence("lesson to sort", [entry("lesson", request.lesson, LESSON_CHARS)])
    chars = room(TOTAL_CHARS, len(views) * (EXAMPLES + 1), ITEM_CHARS)
    for view in views:
        name = categories.of(view.node.node_id)
        material.fence(f"category {name}", _lines(view, name, groups, chars))
    if not views:
        material.say("No category is near: open a new one.")
    material.say("Return only the JSON object: category or new, the other null.")
    return Prompt("place", (system(SYSTEM), material.message()), schema(request), MAX_TOKENS)


def schema(request: PlaceRequest) -> Schema:
    """Return the schema of a reply to this request."""
    categories, groups = _shown(request)
    new = fields(NewCategory, changed={"index": fields(IndexText)})
    asked = fields(
        Place,
        filled=("op", "lesson_id"),
        changed={
            "category_id": {"category": one_or_none(categories.names)},
            "new": {"new": nullable(closed(new))},
            "parent_id": {"under": one_or_none(groups.names)},
        },
    )
    return closed(asked)


def parse(request: PlaceRequest, reply: Mapping[str, Any]) -> Place:
    """Return where the lesson goes.

    Raises:
        Refused: `schema` unless exactly one of category and new is set, and `under` only with new.
    """
    categories, groups = _shown(request)
    found = conform(reply, schema(request), example=EXAMPLE, needed=("title",))
    name, new, under = found["category"], found["new"], found["under"]
    if (name is None) == (new is None):
        raise Refused("schema", "exactly one of category and new must be set, the other null")
    if new is None:
        if under is not None:
            raise Refused("schema", "under must be null with an existing category")
        return Place(lesson_id=request.lesson.node_id, category_id=categories.id(name))
    return built(
        lambda: Place(
            lesson_id=request.lesson.node_id,
            new=NewCategory(
                title=new["title"],
                index=IndexText(**{key: new[key] for key in IndexText.model_fields}),
            ),
            parent_id=groups.id(under) if under is not None else None,
        )
    )


def target(request: PlaceRequest, value: Place) -> dict[str, Any]:
    """Return the reply that says this; an existing category stands without `parent_id`."""
    categories, groups = _shown(request)
    if value.new is None:
        assert value.category_id is not None
        return {"category": categories.of(value.category_id), "new": None, "under": None}
    index = value.new.index
    return {
        "category": None,
        "new": {
            "title": value.new.title,
            "topic": index.topic,
            "scope": index.scope,
            "question_anchor": index.question_anchor,
        },
        "under": groups.of(value.parent_id) if value.parent_id is not None else None,
    }


def _shown(request: PlaceRequest) -> tuple[Aliases, Aliases]:
    views = request.candidates[:MAX_CATEGORIES]
    categories = Aliases("C", (view.node.node_id for view in views))
    return categories, Aliases("G", (view.parent_id for view in views))


def _lines(view: CategoryView, name: str, groups: Aliases, chars: int) -> list[dict[str, Any]]:
    facts = {
        "g": groups.of(view.parent_id),
        "lessons": view.size,
        "likeness": round(view.likeness, 2),
    }
    examples = [entry(f"lesson of {name}", node, chars) for node in view.examples[:EXAMPLES]]
    return [{**entry(name, view.node, chars), **facts}, *examples]
