"""What all operations share: limits, context, refusals, and an edit that remembers its traces.

An operation takes a tree and a proposal and returns `Accepted` or `Rejection`. It reads no disk,
calls no model, asks no clock; new ids come from the context. Trees are persistent, so the input is
never changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import PydanticCustomError

from epimem.errors import ConfigError
from epimem.operations.rules import Standing
from epimem.schema.ids import IdGenerator
from epimem.schema.lesson import Authority, lowest
from epimem.schema.proposal import (
    Accepted,
    Consolidate,
    Merge,
    OpName,
    Place,
    Reason,
    Rejection,
    SplitLift,
)
from epimem.schema.text import LESSON_BYTES, check_text, clean_text
from epimem.schema.tree import Node, Tree

Vector = NDArray[np.float32]

MAX_NAME = 60


@dataclass(frozen=True)
class Limits:
    """Most children of a node, and fewest of a part or of a non-root node above the categories.

    Raises:
        ConfigError: when an over-full node could not be divided: capacity < 2 * min_group - 1.
    """

    capacity: int = 16
    min_group: int = 4

    def __post_init__(self) -> None:
        if self.min_group < 2:
            raise ConfigError("too small", field="min_group", got=self.min_group, limit=2)
        if self.capacity < 2 * self.min_group - 1:
            raise ConfigError(
                "a node over capacity must be divisible",
                field="capacity",
                got=self.capacity,
                limit=2 * self.min_group - 1,
            )


@dataclass(frozen=True)
class Context:
    """What an operation may use besides tree and proposal.

    `vectors` are index vectors by node id, float32 of unit length; where some are missing, code
    falls back to ids. `inbox` holds the lessons that Place may put into the tree. `parent_hint` is
    where a new category goes when the proposal names no parent: a node of height 2. `standing`
    holds feedback counters by node id.
    """

    ids: IdGenerator
    limits: Limits = field(default_factory=Limits)
    vectors: Mapping[str, Vector] = field(default_factory=dict)
    inbox: Mapping[str, Node] = field(default_factory=dict)
    parent_hint: str | None = None
    standing: Mapping[str, Standing] = field(default_factory=dict)


class Edit:
    """A sequence of changes to a tree, and from it the smallest delta that brings them about."""

    def __init__(self, tree: Tree) -> None:
        self.before = tree
        self.tree = tree
        self._touched: set[str] = set()
        self._sources: dict[str, tuple[str, ...]] = {}

    def put(self, *nodes: Node) -> None:
        """Add or replace nodes."""
        self.tree = self.tree.put(*nodes)
        self._touched.update(node.node_id for node in nodes)

    def drop(self, *node_ids: str) -> None:
        """Take nodes out; their children must have been moved before."""
        self.tree = self.tree.drop(*node_ids)
        self._touched.update(node_ids)

    def move(self, node_ids: Iterable[str], *, to: str) -> None:
        """Give nodes another parent."""
        moved = (self.tree.node(node_id) for node_id in node_ids)
        self.put(*(node.model_copy(update={"parent_id": to}) for node in moved))

    def note_sources(self, node_id: str, sources: Iterable[str]) -> None:
        """Note that the text of a node was made from these nodes, and what those were made from."""
        found: dict[str, None] = {}
        for source in sources:
            found.update(dict.fromkeys((source, *self._sources.get(source, ()))))
        self._sources[node_id] = tuple(found)

    def accepted(self, op: OpName) -> Accepted:
        """Return the outcome: nodes that differ (tallest first), ids that are gone, and sources."""
        before, after = self.before.nodes, self.tree.nodes
        put = [
            after[node_id]
            for node_id in self._touched
            if node_id in after and before.get(node_id) != after[node_id]
        ]
        gone = (node_id for node_id in self._touched if node_id in before and node_id not in after)
        return Accepted(
            op,
            self.tree,
            put=tuple(sorted(put, key=lambda node: (-node.height, node.node_id))),
            dropped=tuple(sorted(gone)),
            written_from={
                node_id: tuple(sorted(s for s in sources if s in before or s in after))
                for node_id, sources in sorted(self._sources.items())
                if node_id in after
            },
        )


def reject(
    proposal: Place | Merge | SplitLift | Consolidate, reason: Reason, detail: str
) -> Rejection:
    """Return the refusal of a well-formed proposal, which is kept with it."""
    return refusal(proposal.op, reason, detail, proposal={"op": proposal.op, **proposal.plain()})


def refusal(
    op: OpName,
    reason: Reason,
    detail: str,
    *,
    proposal: dict[str, Any] | None = None,
    raw: str = "",
) -> Rejection:
    """Return a refusal whose texts are made fit to store, whatever a model wrote."""
    return Rejection(
        op=op, reason=reason, detail=_storable(detail), proposal=proposal, raw=_storable(raw)
    )


def name(value: str) -> str:
    """Return an id or word as it may stand in a message: ASCII, at most 60 characters."""
    return ascii(value)[1:-1][:MAX_NAME]


def authority_of(nodes: Iterable[Node]) -> Authority:
    """Return the lowest authority over these nodes: what text made from them may have at most."""
    return lowest(
        [node.authority if node.lesson is None else node.lesson.authority for node in nodes]
    )


def _storable(text: str) -> str:
    text = clean_text(text[:LESSON_BYTES])
    text = text.encode("utf-8", "replace")[:LESSON_BYTES].decode("utf-8", "ignore")
    try:
        return check_text(text)
    except PydanticCustomError:
        return ""
