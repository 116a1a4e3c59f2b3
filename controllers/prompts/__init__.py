"""Prompts of the two controllers: one module per operation, each with `render`, `parse` and `target`.

    request ── render ──> Prompt ──> a model ──> JSON data ── parse ──> value, or Refused
    request, value ── target ──> the reply that a model should have given

Training and serving share them, so that they cannot drift. `parse(request, target(request, value))`
gives the value back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controllers.prompts import (
    consolidate,
    derive,
    gate,
    merge,
    place,
    select,
    split_lift,
    update,
)
from controllers.prompts.message import Image, Message, Prompt, Refused, Text

VERSION = "1"
"""Provenance of what a model wrote: raised by hand whenever a rendered byte changes."""
MAX_CHARS = 50_000
"""No prompt is longer (ours): the worst of texts and 64 children included; images come on top."""
MAX_IMAGES = 12
"""No prompt shows more images (ours)."""


def _never(_: Any) -> None:
    return None


@dataclass(frozen=True)
class Operation:
    """One operation: how it is asked, read, and what a model should have said.

    `settled` returns the value where there is nothing to ask, else None.
    """

    name: str
    render: Callable[[Any], Prompt]
    parse: Callable[[Any, Any], Any]
    target: Callable[[Any, Any], dict[str, Any]]
    settled: Callable[[Any], Any] = _never


OPERATIONS: Mapping[str, Operation] = {
    operation.name: operation
    for operation in (
        Operation("derive", derive.render, derive.parse, derive.target),
        Operation("update", update.render, update.parse, update.target),
        Operation("gate", gate.render, gate.parse, gate.target),
        Operation("place", place.render, place.parse, place.target),
        Operation("merge", merge.render, merge.parse, merge.target),
        Operation("split_lift", split_lift.render, split_lift.parse, split_lift.target),
        Operation("consolidate", consolidate.render, consolidate.parse, consolidate.target),
        Operation("select", select.render, select.parse, select.target, select.settled),
    )
}

__all__ = [
    "MAX_CHARS",
    "MAX_IMAGES",
    "OPERATIONS",
    "VERSION",
    "Image",
    "Message",
    "Operation",
    "Prompt",
    "Refused",
    "Text",
]
