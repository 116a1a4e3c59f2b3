"""Maintenance (journey B): the inbox becomes the tree, one validated operation at a time.

A step claims a batch of lessons. All Place proposals of a step see the tree as it was at its start,
so the result depends on the batch, not on concurrency; new categories of one step that are alike
become one. Then only what the step touched is looked at: over-full nodes are split, near siblings
merged, categories with new support consolidated. The model proposes; `operations` checks and applies;
each applied operation is one transaction, each refused one is kept as a Rejection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from epimem import calls
from epimem.bank.bank import Bank
from epimem.bank.costs import Costs
from epimem.bank.quarantine import is_aside
from epimem.bank.steps import LEASE_S, Lease, OpenStep
from epimem.config import TreeConfig
from epimem.errors import BankConflictError, ControllerError
from epimem.growth import Growth, Namer, PlannedPlace, same_category_groups
from epimem.operations.base import Limits, refusal
from epimem.operations.registry import OPERATIONS
from epimem.operations.rules import Standing
from epimem.protocols import (
    ConsolidateRequest,
    PlaceRequest,
    Reply,
    SplitRequest,
    TreeOrganizer,
)
from epimem.rehearsal import Rehearsal
from epimem.schema.ids import IdGenerator
from epimem.schema.proposal import Accepted, OpName, Place, Rejection, SplitLift
from epimem.schema.receipt import Usage
from epimem.schema.tree import Node, family_of

SPLIT_TRIES = 2
Progress = Callable[[str, int, int], None]


@dataclass
class MaintainReport:
    """What maintenance did: lessons placed, operations applied by kind, refusals by reason.

    `planned` is filled by a dry run: what would have been done, in order.
    """

    steps: int = 0
    placed: int = 0
    waiting: int = 0
    operations: Counter[str] = field(default_factory=Counter)
    rejections: Counter[str] = field(default_factory=Counter)
    usage: Usage = field(default_factory=Usage)
    planned: list[dict[str, Any]] = field(default_factory=list)


def maintain(
    bank: Bank | Rehearsal,
    organizer: TreeOrganizer,
    namer: Namer,
    *,
    settings: TreeConfig,
    ids: IdGenerator,
    deadline_s: float,
    max_steps: int | None = None,
    progress: Progress | None = None,
) -> MaintainReport:
    """Run maintenance steps until the inbox is empty, or `max_steps` are done.

    Interrupted at any point, the bank is in the state before or after one operation, and the next
    call goes on from there.

    Args:
        bank: opened for writing; or a rehearsal of one, which nothing is written to.
        organizer: proposes; its proposals are validated.
        namer: gives the vectors of index texts (stored ones where the bank has an encoder).
        settings: capacity, thresholds, batch size; stored with each step.
        ids: for new nodes.
        deadline_s: seconds one call of the organizer's model may take.
        max_steps: stop after so many; None: no bound.
        progress: called with (phase, done, total).

    Raises:
        BankBusyError: another maintainer is at work, or this one was overtaken.
        ControllerError: the organizer failed as a whole; what was applied before stands.
    """
    report = MaintainReport()
    # The lease outlasts one call of a model, and is renewed while a batch of them takes longer.
    with bank.lease(ttl_s=LEASE_S + deadline_s) as lease:
        for namespace in bank.namespaces():
            if is_aside(namespace):
                continue
            worker = _Worker(bank, organizer, namer, settings, ids, lease, report, deadline_s)
            worker.run(namespace, max_steps, progress)
    return report


@dataclass
class _Worker:
    """Maintenance of one namespace under one lease."""

    bank: Bank | Rehearsal
    organizer: TreeOrganizer
    namer: Namer
    settings: TreeConfig
    ids: IdGenerator
    lease: Lease
    report: MaintainReport
    deadline_s: float
    damage: int = 0
    growth: Growth | None = None
    overdue: set[str] = field(default_factory=set)

    @property
    def limits(self) -> Limits:
        """Capacity and smallest part."""
        return Limits(capacity=self.settings.capacity, min_group=self.settings.min_group)

    def run(self, namespace: str, max_steps: int | None, progress: Progress | None) -> None:
        refused: set[str] = set()
        while max_steps is None or self.report.steps < max_steps:
            interrupted = self.bank.open_steps(namespace)
            batch = [] if interrupted else self._batch(namespace, refused)
            if not batch and not interrupted and not self._left_behind(namespace):
                break
            if self.growth is None:
                self.growth = self._read(namespace)
            try:
                if interrupted:
                    self._resume(interrupted[0], refused)
                else:
                    self._step(namespace, batch, refused)
            except BankConflictError as error:
                if error.code != "conflict":
                    raise
                # A revocation or a restore came between: what was applied stands, read again.
                self.growth = None
                continue
            if progress is not None:
                waiting = self.bank.waiting(namespace) - len(refused)
                progress("maintain", self.report.placed, self.report.placed + waiting)
        self.report.waiting += len(refused)

    def _left_behind(self, namespace: str) -> bool:
        """Tell whether a revocation or a restore left categories to consolidate, with no lesson due."""
        if self.growth is None and not self.bank.tree_changed_by().startswith("op:"):
            self.growth = self._read(namespace)
        return bool(self.overdue)

    def _batch(self, namespace: str, refused: set[str]) -> list[Node]:
        waiting = self.bank.inbox(namespace, limit=self.settings.batch + len(refused))
        fresh = [node for node in waiting if node.node_id not in refused]
        return fresh[: self.settings.batch]

    def _read(self, namespace: str) -> Growth:
        tree = self.bank.plant(self.lease, namespace)
        base = self.bank.tree_seq
        growth = Growth(tree, base, self.namer, self.limits, self.ids)
        self.overdue = growth.overdue()
        return growth

    @property
    def _growth(self) -> Growth:
        assert self.growth is not None
        return self.growth

    def _step(self, namespace: str, batch: Sequence[Node], refused: set[str]) -> None:
        self.lease.renew()
        step = self.bank.begin_step(
            self.lease,
            namespace=namespace,
            lesson_ids=[node.node_id for node in batch],
            settings={
                **self.settings.model_dump(mode="json"),
                "organizer": self.organizer.name,
                "prompt_version": self.organizer.prompt_version,
            },
        )
        dirty = self._place(step, batch, self._growth, refused)
        self._finish(step, dirty)

    def _resume(self, interrupted: OpenStep, refused: set[str]) -> None:
        """Go on with an interrupted step as if it had not been interrupted.

        Its proposals are asked for again on the tree as it was at its start; what had been applied
        is found applied, the rest follows.
        """
        self.lease.renew()
        namespace = self._growth.tree.root.namespace
        found = self.bank.nodes(interrupted.lesson_ids)
        batch = [found[key] for key in interrupted.lesson_ids if key in found]
        start = self.bank.tree(namespace, interrupted.seq)
        assert start is not None, "a step begins after its root was planted"
        before = Growth(start, interrupted.seq, self.namer, self.limits, self.ids)
        dirty = self._place(interrupted.step, batch, before, refused)
        dirty |= set(self.bank.changed_since(namespace, interrupted.seq))
        self._finish(interrupted.step, dirty)

    def _finish(self, step: int, dirty: set[str]) -> None:
        self.damage = 0
        dirty = self._split(step, dirty | self.overdue)
        self.overdue = set()
        dirty = self._merge(step, dirty)
        self._consolidate(step, dirty)
        self.bank.end_step(self.lease, step)
        self.report.steps += 1

    def _ask(self, name: OpName, requests: Sequence[Any]) -> Sequence[Reply[Any]]:
        self.lease.renew()
        return calls.ask(
            Costs(self.bank),
            "tree organizer",
            self.organizer,
            name,
            requests,
            kind=OPERATIONS[name].record,
            deadline_s=self.deadline_s,
            beat=self.lease.renew,
        )

    # -- place -------------------------------------------------------------------------------------

    def _place(
        self, step: int, batch: Sequence[Node], start: Growth, refused: set[str]
    ) -> set[str]:
        """Place a batch by proposals made on the tree at the step's start; return what changed."""
        growth = self._growth
        start.learn(batch)
        growth.learn(batch)
        requests = start.place_requests(batch, limit=self.settings.place_candidates)
        replies = self._ask("place", requests)
        planned = self._planned(step, requests, replies, refused)
        groups = same_category_groups(planned, self.namer, minimum=self.settings.same_category)
        opened = _opened_before(growth, planned, groups)
        dirty: set[str] = set()
        for plan, group in zip(planned, groups, strict=True):
            lesson_id = plan.lesson.node_id
            if lesson_id not in growth.tree:
                proposal = plan.proposal
                if group is not None and group in opened:
                    proposal = Place(lesson_id=lesson_id, category_id=opened[group])
                result = self._apply(step, growth.check(proposal, parent_hint=plan.parent_hint))
                if result is None:
                    refused.add(lesson_id)
                    continue
                self.report.placed += 1
            category = growth.tree.node(lesson_id).parent_id
            assert category is not None
            if group is not None:
                opened.setdefault(group, category)
            dirty.add(category)
        return dirty

    def _planned(
        self,
        step: int,
        requests: Sequence[PlaceRequest],
        replies: Sequence[Reply[Place]],
        refused: set[str],
    ) -> list[PlannedPlace]:
        planned = []
        for request, reply in zip(requests, replies, strict=True):
            self.report.usage += reply.usage
            shown = {view.node.node_id for view in request.candidates}
            parents = {view.parent_id for view in request.candidates}
            proposal = reply.value
            lesson_id = request.lesson.node_id
            if proposal is None:
                self._refuse(step, "place", reply)
                refused.add(lesson_id)
            elif (
                proposal.lesson_id != lesson_id
                or (proposal.category_id and proposal.category_id not in shown)
                or (proposal.parent_id and proposal.parent_id not in parents)
            ):
                self._keep(step, refusal("place", "not_shown", "names an id that was not shown"))
                refused.add(lesson_id)
            else:
                hint = request.candidates[0].parent_id if request.candidates else None
                planned.append(PlannedPlace(request.lesson, proposal, hint))
        return planned

    # -- split + lift ------------------------------------------------------------------------------

    def _split(self, step: int, dirty: set[str]) -> set[str]:
        """Split what is over-full, upwards until nothing is; two refusals, then code divides."""
        growth = self._growth
        waiting = dirty | growth.parents_of(dirty)
        while over := growth.over_full_among(waiting):
            for result in self._split_level(step, over):
                changed = {node.node_id for node in result.put if node.height > 0}
                dirty |= changed
                waiting |= changed | growth.parents_of(changed)
        return {key for key in dirty if key in growth.tree}

    def _split_level(self, step: int, node_ids: Sequence[str]) -> list[Accepted]:
        """Split nodes of one height, asked for together: none of them changes what another holds."""
        waiting = {key: self._split_request(key) for key in node_ids}
        results: list[Accepted] = []
        for _ in range(SPLIT_TRIES):
            replies = self._ask_split(list(waiting.values())) if waiting else []
            for (key, _), reply in zip(list(waiting.items()), replies, strict=True):
                self.report.usage += reply.usage
                if reply.value is None or reply.value.node_id != key:
                    self._refuse(step, "split_lift", reply)
                    continue
                result = self._apply(step, self._growth.check(reply.value))
                if result is not None:
                    results.append(result)
                    del waiting[key]
        for key in waiting:
            result = self._apply(step, self._growth.check(self._growth.capacity_split(key)))
            assert result is not None, "the capacity partition is always legal"
            results.append(result)
        return results

    def _split_request(self, node_id: str) -> SplitRequest:
        growth = self._growth
        return SplitRequest(
            node=growth.tree.node(node_id),
            children=growth.tree.child_nodes(node_id),
            vectors=growth.index_vectors(growth.tree.children_of(node_id)),
            capacity=self.limits.capacity,
            min_group=self.limits.min_group,
        )

    def _ask_split(self, requests: Sequence[SplitRequest]) -> Sequence[Reply[SplitLift]]:
        """Ask for partitions; when that fails as a whole, for each by itself.

        One that fails alone is a failed try, as capacity must hold.
        """
        try:
            return self._ask("split_lift", requests)
        except ControllerError as error:
            if len(requests) == 1:
                return [Reply(value=None, reason="schema", detail=str(error))]
        return [reply for request in requests for reply in self._ask_split([request])]

    # -- merge -------------------------------------------------------------------------------------

    def _merge(self, step: int, dirty: set[str]) -> set[str]:
        growth = self._growth
        requests = growth.merge_requests(sorted(dirty), minimum=self.settings.merge_min)
        if not requests:
            return dirty
        replies = self._ask("merge", requests)
        for request, reply in zip(requests, replies, strict=True):
            self.report.usage += reply.usage
            proposal = reply.value
            if proposal is None:
                if reply.reason is not None:
                    self._refuse(step, "merge", reply)
                continue
            shown = {request.kept.node_id, request.absorbed.node_id}
            if {proposal.kept_id, proposal.absorbed_id} != shown:
                self._keep(step, refusal("merge", "not_shown", "names an id that was not shown"))
                continue
            if not shown <= set(growth.tree.nodes):
                continue
            result = self._apply(step, growth.check(proposal))
            if result is not None:
                dirty = (dirty | {proposal.kept_id}) & set(result.tree.nodes)
        return dirty

    # -- consolidation -----------------------------------------------------------------------------

    def _consolidate(self, step: int, dirty: set[str]) -> None:
        growth = self._growth
        requests = [
            ConsolidateRequest(growth.tree.node(key), growth.tree.child_nodes(key))
            for key in sorted(dirty)
            if growth.is_due(key)
        ]
        if not requests:
            return
        replies = self._ask("consolidate", requests)
        for request, reply in zip(requests, replies, strict=True):
            self.report.usage += reply.usage
            proposal = reply.value
            if proposal is None or proposal.node_id != request.node.node_id:
                self._refuse(step, "consolidate", reply)
                continue
            standing = self._standing(request.node, request.lessons)
            result = growth.check(proposal, standing=standing)
            if isinstance(result, Accepted) and not result.put:
                continue
            self._apply(step, result)

    def _standing(self, node: Node, lessons: Sequence[Node]) -> dict[str, Standing]:
        return self.bank.standing([(node.node_id, node.namespace, family_of(lessons))])

    # -- applying ----------------------------------------------------------------------------------

    def _apply(self, step: int, result: Accepted | Rejection) -> Accepted | None:
        if isinstance(result, Rejection):
            self._keep(step, result)
            return None
        growth = self._growth
        superseded = growth.superseded(result)
        cap = growth.damage_cap()
        capped = result.op in {"merge", "consolidate"}
        if capped and superseded and self.damage + superseded > cap:
            detail = f"step would supersede more than {cap} items"
            self._keep(step, refusal(result.op, "damage_cap", detail))
            return None
        # A split that capacity forces does not count: the bound on children is an invariant.
        self.damage += superseded if capped else 0
        vectors = growth.vectors_of_new(result)
        base = self.bank.commit_operation(self.lease, result, base=growth.base, vectors=vectors)
        growth.advance(result, base, vectors)
        self.report.operations[result.op] += 1
        return result

    def _refuse(self, step: int, op: OpName, reply: Reply[Any]) -> None:
        reason = reply.reason or "not_shown"
        self._keep(step, refusal(op, reason, reply.detail, raw=reply.raw))

    def _keep(self, step: int, rejection: Rejection) -> None:
        self.bank.record_rejection(self.lease, rejection, step=step)
        self.report.rejections[rejection.reason] += 1


def _opened_before(
    growth: Growth, planned: Sequence[PlannedPlace], groups: Sequence[int | None]
) -> dict[int, str]:
    """Return the categories that an interrupted step opened before, by group of new categories."""
    opened: dict[int, str] = {}
    for plan, group in zip(planned, groups, strict=True):
        lesson_id = plan.lesson.node_id
        if group is not None and lesson_id in growth.tree:
            parent = growth.tree.node(lesson_id).parent_id
            assert parent is not None
            opened.setdefault(group, parent)
    return opened
