"""The operations by name: decode a plain proposal, apply it, and settle what is over capacity.

A further operation is one file here, one prompt file, and a row in `OPERATIONS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from epimem.errors import RecordError
from epimem.operations import consolidate, merge, place, split_lift
from epimem.operations.base import Context, Edit, name, refusal
from epimem.operations.capacity import over_full, partition
from epimem.operations.nearness import known_vectors
from epimem.schema import strict_json
from epimem.schema.proposal import (
    Accepted,
    Consolidate,
    Merge,
    OpName,
    Outcome,
    Part,
    Place,
    Reason,
    Rejection,
    SplitLift,
)
from epimem.schema.tree import Tree

AnyProposal = Place | Merge | SplitLift | Consolidate

_REASONS: dict[str, Reason] = {"bad_json": "not_json", "invalid_text": "text", "too_large": "limit"}


@dataclass(frozen=True)
class Operation:
    """An operation: its name, the record of its proposals, and what applies one."""

    name: OpName
    record: type[AnyProposal]
    apply: Callable[[Tree, Any, Context], Outcome]


OPERATIONS: dict[str, Operation] = {
    "place": Operation("place", Place, place.apply),
    "merge": Operation("merge", Merge, merge.apply),
    "split_lift": Operation("split_lift", SplitLift, split_lift.apply),
    "consolidate": Operation("consolidate", Consolidate, consolidate.apply),
}


def decode(value: object, *, expected: OpName) -> AnyProposal | Rejection:
    """Read a proposal from JSON text, bytes or plain data, whatever they hold.

    Args:
        value: the reply; `op` may be left out.
        expected: the operation that was asked for; another one is refused as `unknown_op`.

    Returns:
        The proposal, or a Rejection: `not_json`, `schema`, `text`, `limit` or `unknown_op`.
    """
    raw = value if isinstance(value, str) else ascii(value)
    try:
        plain = strict_json.loads(value) if isinstance(value, str | bytes) else value
        if not isinstance(plain, dict):
            return refusal(expected, "schema", "not an object", raw=raw)
        op = plain.get("op", expected)
        if op != expected or expected not in OPERATIONS:
            return refusal(expected, "unknown_op", f"operation {name(str(op))}", raw=raw)
        return OPERATIONS[expected].record.read(plain)
    except RecordError as error:
        return refusal(expected, _REASONS.get(error.code, "schema"), str(error), raw=raw)


def apply_proposal(tree: Tree, proposal: AnyProposal, context: Context) -> Outcome:
    """Check a proposal against the current tree and apply it, or return why not."""
    return OPERATIONS[proposal.op].apply(tree, proposal, context)


def settle(tree: Tree, context: Context) -> Accepted:
    """Divide every over-full node by index vectors, upwards until none is left.

    Parts of an over-full node become its siblings, so its parent may overflow in turn; the root
    gives its parts to itself and grows by one level. Where nothing is over capacity the outcome
    holds the same tree and no changes.
    """
    edit = Edit(tree)
    pending = list(over_full(tree, context.limits))
    while pending:
        node = edit.tree.node(pending.pop(0))
        divide(edit, node.node_id, context)
        parent_id = node.parent_id or node.node_id
        pending = list(over_full(edit.tree, context.limits, among={*pending, parent_id}))
    return edit.accepted("split_lift")


def divide(edit: Edit, node_id: str, context: Context) -> None:
    """Split one over-full node by index vectors and lift the parts."""
    children = edit.tree.children_of(node_id)
    vectors = known_vectors(edit.tree, children, context.vectors)
    parts = partition(children, vectors, limits=context.limits)
    chosen = tuple(Part(child_ids=part) for part in parts)
    split_lift.lift(edit, edit.tree.node(node_id), chosen, context)
