"""A rehearsal of maintenance: the organizer is asked and code checks, but nothing is written.

It stands where the bank stands in `epimem.maintain`: reads go to the bank, writes are remembered
here, so that a later step of the same rehearsal sees what an earlier one would have done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from epimem.bank.bank import Bank
from epimem.bank.encoder import NodeVectors
from epimem.bank.side import Side
from epimem.bank.steps import Lease, OpenStep
from epimem.operations.rules import Standing
from epimem.schema.ids import IdGenerator
from epimem.schema.proposal import Accepted, Rejection
from epimem.schema.tree import Node, Tree


class Rehearsal:
    """A bank that maintenance may be tried on.

    Args:
        bank: opened for reading or writing; no lease is taken on it.
        ids: for the roots of namespaces that have no tree yet.

    Attributes:
        planned: what would be done, in order, as plain data: operations with the nodes they add or
            change, and refusals.
    """

    def __init__(self, bank: Bank, ids: IdGenerator) -> None:
        self._bank = bank
        self._ids = ids
        self._placed: set[str] = set()
        self._placed_in: Counter[str] = Counter()
        self._ended: set[int] = set()
        self._base = bank.tree_seq
        self.planned: list[dict[str, Any]] = []

    # -- reads -------------------------------------------------------------------------------------

    @property
    def side(self) -> Side:
        """The log: calls of models are counted, rehearsed or not."""
        return self._bank.side

    def last_revocation(self) -> int:
        """Return the sequence number of the last revocation."""
        return self._bank.last_revocation()

    @property
    def tree_seq(self) -> int:
        """The number of the last change, rehearsed ones counted."""
        return self._base

    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces of the bank."""
        return self._bank.namespaces()

    def inbox(self, namespace: str, *, limit: int) -> tuple[Node, ...]:
        """Return lessons that wait and were not placed in this rehearsal."""
        found = self._bank.inbox(namespace, limit=limit + len(self._placed))
        return tuple(node for node in found if node.node_id not in self._placed)[:limit]

    def waiting(self, namespace: str) -> int:
        """Return how many lessons would still wait."""
        return self._bank.waiting(namespace) - self._placed_in[namespace]

    def tree(self, namespace: str, at: int | str | None = None) -> Tree | None:
        """Return the stored tree."""
        return self._bank.tree(namespace, at)

    def nodes(self, ids: Sequence[str]) -> dict[str, Node]:
        """Return stored nodes by id."""
        return self._bank.nodes(ids)

    def standing(self, wanted: Sequence[tuple[str, str, str]]) -> dict[str, Standing]:
        """Return counters of items."""
        return self._bank.standing(wanted)

    def open_steps(self, namespace: str) -> list[OpenStep]:
        """Return interrupted steps that were not ended in this rehearsal."""
        return [s for s in self._bank.open_steps(namespace) if s.step not in self._ended]

    def changed_since(self, namespace: str, seq: int) -> list[str]:
        """Return the ids of nodes that changed after a commit."""
        return self._bank.changed_since(namespace, seq)

    def tree_changed_by(self) -> str:
        """Return the kind of the commit that last changed a tree."""
        return self._bank.tree_changed_by()

    # -- what would be written ---------------------------------------------------------------------

    @contextmanager
    def lease(self, *, ttl_s: float) -> Iterator[Lease]:
        """Give a lease that binds nobody."""
        del ttl_s
        yield Lease("rehearsal", 0, lambda: None)

    def plant(self, lease: Lease, namespace: str) -> Tree:
        """Return the stored tree, or an empty one."""
        del lease
        root = Node(node_id=self._ids(), namespace=namespace, kind="category", height=2)
        return self._bank.tree(namespace) or Tree.empty(root)

    def begin_step(
        self,
        lease: Lease,
        *,
        namespace: str,
        lesson_ids: Sequence[str],
        settings: Mapping[str, Any],
    ) -> int:
        """Open nothing."""
        del lease, settings
        self.planned.append({"step": namespace, "lessons": len(lesson_ids)})
        return 0

    def end_step(self, lease: Lease, step: int) -> None:
        """Remember that a step is over."""
        del lease
        self._ended.add(step)

    def commit_operation(
        self,
        lease: Lease,
        accepted: Accepted,
        *,
        base: int,
        vectors: Mapping[str, NodeVectors] | None = None,
    ) -> int:
        """Note an operation that would be applied; return a number for it."""
        del lease, vectors
        if accepted.op == "place":
            for node in accepted.put:
                if node.height == 0:
                    self._placed.add(node.node_id)
                    self._placed_in[node.namespace] += 1
        self.planned.append(
            {
                "op": accepted.op,
                "nodes": [_described(node) for node in accepted.put],
                "dropped": list(accepted.dropped),
            }
        )
        self._base = base + 1
        return self._base

    def record_rejection(self, lease: Lease, rejection: Rejection, *, step: int) -> None:
        """Note a refusal."""
        del lease, step
        self.planned.append(
            {"op": rejection.op, "refused": rejection.reason, "detail": rejection.detail}
        )


def _described(node: Node) -> dict[str, Any]:
    return {
        "node_id": node.node_id,
        "kind": node.kind,
        "title": node.title or node.index.topic,
        "parent_id": node.parent_id,
    }
