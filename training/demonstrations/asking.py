"""Asking the roles of one spec with a bound on their time; one failure costs one request."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from epimem import deadline
from epimem.calls import ROUNDS
from epimem.errors import ControllerError
from epimem.protocols import Derived, Reply
from epimem.schema.memory_input import Selection
from epimem.schema.proposal import Consolidate, Merge, Place, SplitLift
from epimem.schema.receipt import Usage
from epimem.schema.working_memory import Update
from training.demonstrations.offline import revise
from training.demonstrations.record import ROLE_OF, OperationName

KINDS: Mapping[OperationName, type] = {
    "derive": Derived,
    "update": Update,
    "gate": int,
    "place": Place,
    "merge": Merge,
    "split_lift": SplitLift,
    "consolidate": Consolidate,
    "select": Selection,
}


@dataclass
class Controllers:
    """Both roles of one spec.

    Attributes:
        memory_controller: derives, updates, gates.
        tree_organizer: has the other five operations.
        deadline_s: seconds that one call of a model may take.
        usage: what asking has cost so far.
    """

    memory_controller: Any
    tree_organizer: Any
    deadline_s: float
    usage: Usage = field(default_factory=Usage)

    def name_of(self, operation: OperationName) -> str:
        """Return the name of the role that an operation belongs to: no host, no key."""
        return str(self._role(operation).name)

    def ask(self, operation: OperationName, requests: Sequence[Any]) -> list[Reply[Any]]:
        """Ask in one batch; when that fails as a whole, one by one. One that fails has no value."""
        if not requests:
            return []
        role = self._role(operation)
        try:
            return self._bounded(
                operation, len(requests), lambda: getattr(role, operation)(requests)
            )
        except ControllerError as error:
            if len(requests) == 1:
                return [no_value(f"the call failed: {error.message}")]
        return [reply for each in requests for reply in self.ask(operation, [each])]

    def revise(
        self,
        operation: OperationName,
        request: Any,
        *,
        reference: str,
        verdict: Literal["right", "wrong", "unknown"],
    ) -> Reply[Any]:
        """Ask once about one request, with the reference in view; see `offline.revise`."""
        role = self._role(operation)

        def method() -> list[Reply[Any]]:
            return [revise(role, operation, request, reference=reference, verdict=verdict)]

        try:
            return self._bounded(operation, 1, method)[0]
        except ControllerError as error:
            return no_value(f"the call failed: {error.message}")

    def _role(self, operation: OperationName) -> Any:
        return getattr(self, ROLE_OF[operation])

    def _bounded(
        self, operation: OperationName, count: int, method: Callable[[], Sequence[Reply[Any]]]
    ) -> list[Reply[Any]]:
        concurrency = getattr(self._role(operation), "concurrency", None) or count
        bound = ROUNDS * math.ceil(count / concurrency) * self.deadline_s
        replies = deadline.call(
            operation, method, kind=KINDS[operation], expected=count, deadline_s=bound
        )
        for reply in replies:
            self.usage += reply.usage
        return [*replies]


def no_value(detail: str) -> Reply[Any]:
    """Return a reply without a value."""
    return Reply(None, reason="schema", detail=detail)
