"""Lessons and categories as lines of a prompt, each within its room."""

from __future__ import annotations

from typing import Any

from controllers.prompts.fence import cut
from epimem.operations.rules import conflict_state
from epimem.schema.lesson import IndexText, Lesson
from epimem.schema.tree import Node

CAUTIONS = 3
CONFLICTS = 3
NAME_CHARS = 160
LEAST_ROOM = 240
CAUTION_ROOM = 600  # with less, cautions would be cut to a few words each; they stay out


def room(total: int, count: int, most: int) -> int:
    """Return the characters that each of `count` items may take of a total, `most` at most."""
    return max(LEAST_ROOM, min(most, total // max(count, 1)))


def entry(alias: str, node: Node, chars: int) -> dict[str, Any]:
    """Return a lesson or category as a line: who, what it says, when, cautions, index text.

    Args:
        alias: its name in this prompt.
        node: what is shown.
        chars: room for all its texts together.
    """
    said = node.lesson if node.lesson is not None else node
    return {
        "id": alias,
        "kind": _kind(node),
        **index_entry(node, chars),
        "guidance": cut(said.guidance, chars // 3),
        "applies_when": cut(said.applies_when, chars * 2 // 15),
        "cautions": [cut(text, chars // 15) for text in _cautions(said, chars)],
    }


def index_entry(node: Node, chars: int) -> dict[str, Any]:
    """Return title and index text of a node; a node without any shows those of its lesson."""
    index, title = node.index, node.title
    if node.lesson is not None:
        index = index if index.text else node.lesson.index
        title = title or node.lesson.title
    return {"title": cut(title, _name_room(chars)), **index_fields(index, chars)}


def index_fields(index: IndexText, chars: int) -> dict[str, str]:
    """Return the three index fields."""
    return {
        "topic": cut(index.topic, _name_room(chars)),
        "scope": cut(index.scope, _name_room(chars)),
        "question_anchor": cut(index.question_anchor, chars // 6),
    }


def disputes(node: Node, chars: int) -> list[dict[str, str]]:
    """Return the open conflicts of a node, both sides."""
    found = [conflict for conflict in node.conflicts if conflict_state(conflict) == "open"]
    return [
        {
            "one": cut(conflict.first.statement, chars // 6),
            "other": cut(conflict.second.statement, chars // 6),
        }
        for conflict in found[:CONFLICTS]
    ]


def _kind(node: Node) -> str:
    """Return what a reader must know of the item; nothing for a plain lesson or category."""
    if node.polarity == "negative":
        return "judged wrong"
    return node.kind if node.kind in {"rule", "summary"} else ""


def _name_room(chars: int) -> int:
    return min(NAME_CHARS, chars // 18)


def _cautions(said: Lesson | Node, chars: int) -> tuple[str, ...]:
    return said.cautions[:CAUTIONS] if chars >= CAUTION_ROOM else ()
