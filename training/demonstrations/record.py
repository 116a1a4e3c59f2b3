"""One demonstration: the request of an operation, and the value that a controller should have given."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

from controllers.prompts import VERSION
from epimem.plugins import Role
from epimem.protocols import (
    ConsolidateRequest,
    Derived,
    DeriveRequest,
    GateRequest,
    MergeRequest,
    Picture,
    PlaceRequest,
    SelectRequest,
    SplitRequest,
    UpdateRequest,
)
from epimem.schema.base import Record
from epimem.schema.memory_input import Selection
from epimem.schema.proposal import Consolidate, Merge, Place, SplitLift
from epimem.schema.working_memory import Update

FORMAT = "epimem-demonstration/1"
"""The format of a stored demonstration; another one is refused when it is read."""

OperationName = Literal[
    "derive", "update", "gate", "place", "merge", "split_lift", "consolidate", "select"
]
ROLE_OF: Mapping[OperationName, Role] = {
    "derive": "memory_controller",
    "update": "memory_controller",
    "gate": "memory_controller",
    "place": "tree_organizer",
    "merge": "tree_organizer",
    "split_lift": "tree_organizer",
    "consolidate": "tree_organizer",
    "select": "tree_organizer",
}
"""The controller that learns each operation."""
REQUEST_OF: Mapping[OperationName, type] = {
    "derive": DeriveRequest,
    "update": UpdateRequest,
    "gate": GateRequest,
    "place": PlaceRequest,
    "merge": MergeRequest,
    "split_lift": SplitRequest,
    "consolidate": ConsolidateRequest,
    "select": SelectRequest,
}
VALUE_OF: Mapping[OperationName, Any] = {
    "derive": Derived,
    "update": Update,
    "gate": Literal[0, 1],
    "place": Place,
    "merge": Merge | None,
    "split_lift": SplitLift,
    "consolidate": Consolidate,
    "select": Selection,
}
"""The type of the value; None of `merge` leaves the two categories apart."""


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Where a demonstration comes from.

    Attributes:
        teacher: who gave the value: the spec of a controller, or such as `world:metro`.
        source: the data set or world that the questions are from.
        reviser: the spec of the controller that mended the value, empty where none did.
        run_ids: every run that request or value rest on (`runs_named` lists them), so that what
            comes from a revoked run can be found.
        seed: of a procedural world or of the practice bank, None where chance had no part.
        prompt_version: `controllers.prompts.VERSION` when the value was given.
    """

    teacher: str
    source: str
    reviser: str = ""
    run_ids: tuple[str, ...] = ()
    seed: int | None = None
    prompt_version: str = VERSION


@dataclass(frozen=True)
class Demonstration:
    """What one row of training is made of.

    Attributes:
        id: the same for the same input, so that an interrupted job goes on where it stopped.
        operation: one of the eight.
        group: what must not stand in two splits: a house, document, map or task family.
        request: of the type in `REQUEST_OF`.
        value: of the type in `VALUE_OF`.
        provenance: where it comes from.
    """

    id: str
    operation: OperationName
    group: str
    request: Any
    value: Any
    provenance: Provenance


def pictures_of(part: Any) -> Iterator[Picture]:
    """Yield every picture of a request, those of nested parts included."""
    return (found for found in walk(part) if isinstance(found, Picture))


def texts_of(part: Any) -> Iterator[str]:
    """Yield every text of a request, value or plain data, keys of mappings included."""
    return (found for found in walk(part) if isinstance(found, str))


def runs_named(*parts: Any) -> tuple[str, ...]:
    """Return the sorted ids of the runs that requests or values rest on.

    Found are the fields `run_id` and `run_ids` at any depth: of the run itself, of turns and evidence,
    and of the lessons shown.
    """
    found: set[str] = set()
    for part in parts:
        for each in walk(part):
            if isinstance(each, Record):
                found.update(getattr(each, "run_ids", ()))
                found.update(filter(None, [getattr(each, "run_id", None)]))
    return tuple(sorted(found))


def walk(part: Any) -> Iterator[Any]:
    """Yield a part and all that it holds, depth first; arrays of numbers are not entered."""
    stack = [part]
    while stack:
        found = stack.pop()
        yield found
        stack.extend(reversed(list(_inner(found))))


def _inner(part: Any) -> Collection[Any]:
    if isinstance(part, Record):
        return [getattr(part, name) for name in type(part).model_fields]
    if is_dataclass(part) and not isinstance(part, type):
        return [getattr(part, each.name) for each in fields(part)]
    if isinstance(part, Mapping):
        return [*part.keys(), *part.values()]
    return part if isinstance(part, list | tuple) else ()
