"""Split + Lift: the children of an over-full node dealt into parts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from controllers.prompts.aliases import Aliases
from controllers.prompts.conform import built, conform
from controllers.prompts.items import entry, room
from controllers.prompts.material import DATA_RULE, Material, system
from controllers.prompts.message import Prompt, Refused
from controllers.prompts.schema import Schema, closed, fields, listed, nullable, some_of
from epimem.protocols import SplitRequest
from epimem.schema.lesson import IndexText
from epimem.schema.proposal import Part, SplitLift

TOTAL_CHARS = 20_000
NODE_CHARS = 900
CHILD_CHARS = 900
MAX_TOKENS = 1100

EXAMPLE = {
    "parts": [
        {
            "children": ["N0", "N0"],
            "title": "<short name>",
            "index": {
                "topic": "<what it is about>",
                "scope": "<where it holds>",
                "question_anchor": "<the question in general words>",
            },
        }
    ]
}
SYSTEM = f"""You divide a group of a library that has grown too large.
Put its children into parts so that the members of a part belong together: the same scope first, then \
the same kind of question.
Every child stands in exactly one part. Keep to the sizes that are asked for.
title names a part. index says what the whole part is about; null takes it from its most typical child.
{DATA_RULE}
Reply with one JSON object of this shape, nothing else:
{json.dumps(EXAMPLE)}"""


def render(request: SplitRequest) -> Prompt:
    """Return the prompt for one over-full node; its children in the order of their ids."""
    children = _shown(request)
    nodes = {child.node_id: child for child in request.children}
    material = Material()
    material.fence("group", [entry("group", request.node, NODE_CHARS)])
    chars = room(TOTAL_CHARS, len(children), CHILD_CHARS)
    material.fence("children", [entry(name, nodes[key], chars) for name, key in children])
    material.say(
        f"Deal all {len(children)} children, N1 to N{len(children)}, into 2 or more parts of "
        f"{request.min_group} to {request.capacity} children each."
    )
    material.say("Return only the JSON object with the parts.")
    return Prompt("split_lift", (system(SYSTEM), material.message()), schema(request), MAX_TOKENS)


def schema(request: SplitRequest) -> Schema:
    """Return the schema of a reply to this request."""
    children = _shown(request)
    part = fields(
        Part,
        changed={
            "child_ids": {"children": some_of(children.names, most=len(children))},
            "index": {"index": nullable(closed(fields(IndexText)))},
        },
    )
    most = max(2, len(children) // max(request.min_group, 1))
    parts = listed(closed(part), most=most)
    return closed(fields(SplitLift, filled=("op", "node_id"), changed={"parts": {"parts": parts}}))


def parse(request: SplitRequest, reply: Mapping[str, Any]) -> SplitLift:
    """Return the partition.

    Raises:
        Refused: `duplicate`, `schema` or `limit` where a child is in two parts or in none, or a part is
            too large or too small, in words that let a model do better.
    """
    children = _shown(request)
    found = conform(reply, schema(request), example=EXAMPLE, needed=("parts", "children"))
    _check(request, children, [part["children"] for part in found["parts"]])
    return built(
        lambda: SplitLift(
            node_id=request.node.node_id,
            parts=tuple(
                Part(
                    child_ids=tuple(children.id(name) for name in part["children"]),
                    title=part["title"],
                    index=IndexText(**part["index"]) if part["index"] is not None else None,
                )
                for part in found["parts"]
            ),
        )
    )


def target(request: SplitRequest, value: SplitLift) -> dict[str, Any]:
    """Return the reply that says this."""
    children = _shown(request)
    return {
        "parts": [
            {
                "children": [children.of(key) for key in part.child_ids],
                "title": part.title,
                "index": part.index.model_dump() if part.index is not None else None,
            }
            for part in value.parts
        ]
    }


def _shown(request: SplitRequest) -> Aliases:
    return Aliases("N", sorted(child.node_id for child in request.children))


def _check(request: SplitRequest, children: Aliases, parts: list[list[str]]) -> None:
    times = Counter(name for part in parts for name in part)
    repeated = [name for name in children.names if times[name] > 1]
    if repeated:
        raise Refused("duplicate", f"more than once: {', '.join(repeated)}")
    missing = [name for name in children.names if not times[name]]
    if missing:
        raise Refused("schema", f"in no part: {', '.join(missing)}")
    sizes = [len(part) for part in parts]
    if len(sizes) < 2 or min(sizes) < request.min_group or max(sizes) > request.capacity:
        bounds = f"{request.min_group} to {request.capacity}"
        raise Refused("limit", f"parts of {sizes} children; two or more of {bounds} are wanted")
