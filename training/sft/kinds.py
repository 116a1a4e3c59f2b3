"""Kinds of demonstrations: the operation, and which way it decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from training.demonstrations.card import is_empty

if TYPE_CHECKING:
    from training.demonstrations.record import Demonstration


def kind(demonstration: Demonstration) -> str:
    """Return the operation, and whether something or nothing is chosen, opened, pointed to or left."""
    return f"{demonstration.operation}: {'something' if _decides(demonstration) else 'nothing'}"


def _decides(demonstration: Demonstration) -> bool:
    value = demonstration.value
    match demonstration.operation:
        case "place":
            return value.category_id is not None
        case "gate":
            return bool(value)
        case "update":
            return value.evidence is not None
        case "split_lift":
            return value is not None
        case _:
            return not is_empty(demonstration)
