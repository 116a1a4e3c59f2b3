"""Gate: whether crops go along with the text.

Decided on the question with its pages and on descriptions of what was selected: never on the crops.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from controllers.prompts.conform import conform
from controllers.prompts.fence import cut
from controllers.prompts.items import CAUTIONS, room
from controllers.prompts.material import DATA_RULE, Material, system
from controllers.prompts.message import Prompt
from controllers.prompts.schema import Schema, closed
from epimem.protocols import GateRequest
from epimem.schema.memory_input import Item

QUESTION_CHARS = 2000
TOTAL_CHARS = 6000
ITEM_CHARS = 1500
MAX_ITEMS = 12
MAX_PAGES = 4
NOTES = 3
MAX_TOKENS = 48

EXAMPLE = {"gate": "<0 or 1>"}
SYSTEM = f"""You decide whether picture crops are sent to a solver together with stored advice.
gate 1: the solver needs to see a crop to use the advice on this question, for example a mark, colour, \
shape or layout that words do not settle.
gate 0: the words are enough, or the crops show something else. Crops cost time; in doubt say 0.
{DATA_RULE}
Reply with one JSON object of this shape, nothing else:
{json.dumps(EXAMPLE)}"""


def render(request: GateRequest) -> Prompt:
    """Return the prompt for one question and what was selected for it."""
    material = Material()
    material.fence("question", [{"question": cut(request.question, QUESTION_CHARS)}])
    material.say(f"Images of the question itself: {request.question_images}.")
    for at, picture in enumerate(request.pages[:MAX_PAGES], 1):
        material.picture(f"P{at}", picture, f"page {picture.page or at} of the question")
    items = request.items[:MAX_ITEMS]
    chars = room(TOTAL_CHARS, len(items), ITEM_CHARS)
    material.fence("selected advice", [_line(item, request, chars) for item in items])
    material.say("Return only the JSON object: gate 1 to send the crops, or gate 0.")
    return Prompt("gate", (system(SYSTEM), material.message()), schema(), MAX_TOKENS)


def schema() -> Schema:
    """Return the schema of a reply."""
    return closed({"gate": {"type": "integer", "enum": [0, 1]}})


def parse(request: GateRequest, reply: Mapping[str, Any]) -> Literal[0, 1]:  # noqa: ARG001
    """Return the decision of a reply.

    Raises:
        Refused: it holds none.
    """
    return 1 if conform(reply, schema(), example=EXAMPLE)["gate"] == 1 else 0


def target(request: GateRequest, value: Literal[0, 1]) -> dict[str, Any]:  # noqa: ARG001
    """Return the reply that says this."""
    return {"gate": value}


def _line(item: Item, request: GateRequest, chars: int) -> dict[str, Any]:
    notes = request.notes.get(item.node_id, ())[:NOTES]
    return {
        "title": cut(item.title, chars // 12),
        "guidance": cut(item.guidance, chars // 3),
        "applies_when": cut(item.applies_when, chars // 8),
        "cautions": [cut(text, chars // 15) for text in item.cautions[:CAUTIONS]],
        "crops": request.crops.get(item.node_id, 0),
        "crops show": [cut(note, chars // 15) for note in notes],
    }
