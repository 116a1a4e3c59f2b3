"""Proposals of the four operations, and what becomes of them.

A proposal is what a controller suggests. Code checks it against the current tree and either applies
it (`Accepted`) or keeps it as a `Rejection`: a value, never an exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from epimem.schema.base import Record
from epimem.schema.lesson import IndexText
from epimem.schema.text import LessonText, TitleText
from epimem.schema.tree import Conflict, Node, Tree

MAX_IDS = 512

Reason = Literal[
    "not_json",
    "schema",
    "unknown_op",
    "unknown_id",
    "not_shown",
    "stale",
    "limit",
    "damage_cap",
    "cycle",
    "scope",
    "authority",
    "frozen",
    "duplicate",
    "contradiction",
    "text",
    "image",
]


class NewCategory(Record):
    """The category a Place proposal opens: title and index text."""

    title: TitleText = ""
    index: IndexText = IndexText()


class Place(Record):
    """Put a lesson from the inbox under a category, or open a new category under `parent_id`.

    Exactly one of `category_id` and `new` is set. `parent_id` names the node that is to hold a new
    category (one that holds categories of lessons); None leaves the choice to the code.
    """

    op: Literal["place"] = "place"
    lesson_id: str
    category_id: str | None = None
    new: NewCategory | None = None
    parent_id: str | None = None


class Merge(Record):
    """Join two sibling categories; the children of `absorbed_id` move to `kept_id`."""

    op: Literal["merge"] = "merge"
    kept_id: str
    absorbed_id: str
    title: TitleText = ""


class Part(Record):
    """One part of a split: its children and its name."""

    child_ids: tuple[str, ...] = Field(min_length=1, max_length=MAX_IDS)
    title: TitleText = ""
    index: IndexText | None = None


class SplitLift(Record):
    """Divide a node's children into parts and lift the parts to be its siblings."""

    op: Literal["split_lift"] = "split_lift"
    node_id: str
    parts: tuple[Part, ...] = Field(min_length=1, max_length=64)


class Consolidate(Record):
    """Write common guidance, conditions and conflicts into a category of lessons.

    `supported_by` names lessons of the category whose own statements yield the guidance. An empty
    `guidance` says that the lessons share nothing. The level (category, summary, rule) is not
    proposed: code computes it.
    """

    op: Literal["consolidate"] = "consolidate"
    node_id: str
    guidance: LessonText = ""
    applies_when: LessonText = ""
    cautions: tuple[LessonText, ...] = ()
    supported_by: tuple[str, ...] = Field(default=(), max_length=MAX_IDS)
    conflicts: tuple[Conflict, ...] = ()
    title: TitleText = ""
    index: IndexText | None = None


Proposal = Annotated[Place | Merge | SplitLift | Consolidate, Field(discriminator="op")]
OpName = Literal["place", "merge", "split_lift", "consolidate", "repair", "update"]


class Rejection(Record):
    """A refused proposal: which operation, why (closed list), detail, and the reply as it came."""

    op: OpName
    reason: Reason
    detail: LessonText = ""
    proposal: dict[str, Any] | None = None
    raw: LessonText = ""


@dataclass(frozen=True)
class Accepted:
    """An applied proposal: the new tree, the nodes added or replaced, and the ids dropped.

    `tree` equals the old tree after `put(*put)` and then `drop(*dropped)`. `written_from` names,
    for each node whose text is new, the nodes that text was made from: derivation edges to store.
    """

    op: OpName
    tree: Tree
    put: tuple[Node, ...]
    dropped: tuple[str, ...] = ()
    written_from: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


Outcome = Accepted | Rejection
