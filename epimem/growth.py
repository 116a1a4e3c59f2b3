"""A tree while maintenance changes it: the nodes, their vectors, and what to ask next.

Likeness of index texts is the mean of the per-field cosines of scope and question anchor. Everything
here reads the tree and the vectors and returns requests or checked results; the writing is done by
`epimem.maintain` through the bank.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from epimem.bank.encoder import NodeVectors
from epimem.bank.likeness import Near, Shelf, likeness
from epimem.operations.base import Context, Limits
from epimem.operations.capacity import over_full, partition
from epimem.operations.registry import apply_proposal
from epimem.operations.rules import Standing, has_new_support, support
from epimem.protocols import CategoryView, MergeRequest, PlaceRequest, Vector
from epimem.schema.ids import IdGenerator
from epimem.schema.lesson import IndexText
from epimem.schema.proposal import (
    Accepted,
    Consolidate,
    Merge,
    Outcome,
    Part,
    Place,
    SplitLift,
)
from epimem.schema.tree import Node, Tree

EXAMPLES = 3
# Merged categories keep room for the next arrivals (ours): else they are split again at once.
MERGE_FILL = 0.75
# A step may supersede at most min(max(8, 5 %), 100) items.
DAMAGE_FLOOR, DAMAGE_SHARE, DAMAGE_CEILING = 8, 0.05, 100


class Namer(Protocol):
    """Gives vectors: stored ones of nodes, new ones of index texts."""

    def of_nodes(self, nodes: Sequence[Node]) -> Mapping[str, NodeVectors]:
        """Return the vectors of these nodes by id."""
        ...

    def of_texts(self, texts: Sequence[IndexText]) -> Sequence[NodeVectors]:
        """Return the vectors of these index texts, in order."""
        ...


@dataclass(frozen=True)
class PlannedPlace:
    """A Place proposal that named only what was shown, and where a new category would go."""

    lesson: Node
    proposal: Place
    parent_hint: str | None


class Growth:
    """The tree of one namespace under maintenance.

    Args:
        tree: as the bank has it at `base`.
        base: the number of the last commit that changed a tree.
        namer: for vectors.
        limits: capacity and smallest part.
        ids: for new nodes.
    """

    def __init__(
        self, tree: Tree, base: int, namer: Namer, limits: Limits, ids: IdGenerator
    ) -> None:
        self.tree = tree
        self.base = base
        self._namer = namer
        self._limits = limits
        self._ids = ids
        self._vectors: dict[str, NodeVectors] = {}
        self._inbox: dict[str, Node] = {}
        self._categories = [node.node_id for node in tree.walk() if node.height == 1]
        self._items = sum(1 for node in tree.walk() if node.kind != "category")
        self._load(tree.node(key) for key in self._categories)

    # -- vectors -----------------------------------------------------------------------------------

    def learn(self, lessons: Sequence[Node]) -> None:
        """Take lessons of the inbox into view."""
        self._inbox = {node.node_id: node for node in lessons}
        self._load(lessons)

    def _load(self, nodes: Iterable[Node]) -> None:
        missing = [node for node in nodes if node.node_id not in self._vectors]
        if missing:
            self._vectors.update(self._namer.of_nodes(missing))

    def index_vectors(self, node_ids: Iterable[str]) -> dict[str, Vector]:
        """Return the index vectors of nodes by id."""
        wanted = list(node_ids)
        self._load(self.tree.node(key) for key in wanted)
        return {key: self._vectors[key].index for key in wanted if key in self._vectors}

    # -- requests ----------------------------------------------------------------------------------

    def place_requests(self, lessons: Sequence[Node], *, limit: int) -> list[PlaceRequest]:
        """Return one request per lesson with the nearest categories of its form and audience."""
        keys_by_shelf: dict[object, list[str]] = {}
        for key in self._categories:
            keys_by_shelf.setdefault(self.tree.node(key).shelf, []).append(key)
        shelves = {shelf: self._stack(keys) for shelf, keys in keys_by_shelf.items()}
        requests = []
        for lesson in lessons:
            shelf = shelves.get(lesson.shelf)
            near = shelf.nearest(self._vectors[lesson.node_id], limit) if shelf else []
            views = tuple(self._view(item) for item in near)
            requests.append(PlaceRequest(lesson=lesson, candidates=views))
        return requests

    def _stack(self, keys: list[str]) -> Shelf:
        scopes = np.stack([self._vectors[key].scope for key in keys])
        anchors = np.stack([self._vectors[key].anchor for key in keys])
        return Shelf(keys, scopes, anchors)

    def _view(self, near: Near) -> CategoryView:
        node = self.tree.node(near.node_id)
        children = self.tree.children_of(near.node_id)
        assert node.parent_id is not None
        return CategoryView(
            node=node,
            likeness=near.likeness.mean,
            scope_likeness=near.likeness.scope,
            parent_id=node.parent_id,
            size=len(children),
            examples=tuple(self.tree.node(child) for child in children[:EXAMPLES]),
        )

    def merge_requests(self, dirty: Sequence[str], *, minimum: float) -> list[MergeRequest]:
        """Return pairs of near siblings among what a step touched, each category in one pair at most."""
        requests: list[MergeRequest] = []
        taken: set[str] = set()
        for key in dirty:
            if key in taken or self.tree.node(key).height != 1:
                continue
            other, found = self._nearest_sibling(key, taken)
            if other is None or found < minimum:
                continue
            taken |= {key, other}
            requests.append(self._merge_request(key, other))
        return [request for request in requests if request.likeness >= minimum]

    def _nearest_sibling(self, key: str, taken: set[str]) -> tuple[str | None, float]:
        node, size = self.tree.node(key), len(self.tree.children_of(key))
        own = self._vectors[key]
        best: tuple[str | None, float] = (None, -1.0)
        for other in self.tree.siblings(key):
            together = size + len(self.tree.children_of(other))
            fits = together <= MERGE_FILL * self._limits.capacity and other not in taken
            if not fits or self.tree.node(other).shelf != node.shelf:
                continue
            found = likeness(own, self._vectors[other]).mean
            if found > best[1]:
                best = (other, found)
        return best

    def _merge_request(self, first: str, second: str) -> MergeRequest:
        sizes = {key: len(self.tree.children_of(key)) for key in (first, second)}
        kept, absorbed = sorted((first, second), key=lambda key: (-sizes[key], key))
        ours, theirs = self.tree.child_nodes(kept), self.tree.child_nodes(absorbed)
        self._load((*ours, *theirs))
        # Complete link: as alike as the two least alike lessons.
        least = min(
            likeness(self._vectors[a.node_id], self._vectors[b.node_id]).mean
            for a in ours
            for b in theirs
        )
        return MergeRequest(
            kept=self.tree.node(kept),
            absorbed=self.tree.node(absorbed),
            kept_lessons=ours,
            absorbed_lessons=theirs,
            likeness=least,
        )

    def capacity_split(self, node_id: str) -> SplitLift:
        """Return the partition by index vectors that code makes when no controller can."""
        children = self.tree.children_of(node_id)
        parts = partition(children, self.index_vectors(children), limits=self._limits)
        return SplitLift(node_id=node_id, parts=tuple(Part(child_ids=part) for part in parts))

    def parents_of(self, node_ids: Iterable[str]) -> set[str]:
        """Return the parents of the nodes that are in the tree."""
        found = {self.tree.node(key).parent_id for key in node_ids if key in self.tree}
        return {parent for parent in found if parent is not None}

    def is_due(self, node_id: str) -> bool:
        """Return whether a category of lessons has enough new support to be consolidated."""
        node = self.tree.node(node_id)
        if node.height != 1:
            return False
        return has_new_support(node, support(self.tree.child_nodes(node_id)))

    def overdue(self) -> set[str]:
        """Return all categories that are due: what a revocation or a restore left behind."""
        return {key for key in self._categories if self.is_due(key)}

    def over_full_among(self, node_ids: Iterable[str]) -> tuple[str, ...]:
        """Return those of these nodes that are over capacity, of the lowest height only."""
        found = over_full(self.tree, self._limits, among=node_ids)
        heights = [self.tree.node(key).height for key in found]
        return tuple(
            key for key, height in zip(found, heights, strict=True) if height == heights[0]
        )

    # -- results -----------------------------------------------------------------------------------

    def check(
        self,
        proposal: Place | Merge | SplitLift | Consolidate,
        *,
        parent_hint: str | None = None,
        standing: Mapping[str, Standing] | None = None,
    ) -> Outcome:
        """Check a proposal against the current tree and apply it there; the bank is not touched."""
        context = Context(
            ids=self._ids,
            limits=self._limits,
            vectors=_IndexVectors(self._vectors),
            inbox=self._inbox,
            parent_hint=parent_hint if parent_hint in self.tree else None,
            standing=standing or {},
        )
        return apply_proposal(self.tree, proposal, context)

    def vectors_of_new(self, result: Accepted) -> dict[str, NodeVectors]:
        """Return vectors for the inner nodes of a result whose index text is new."""
        changed = [
            node
            for node in result.put
            if node.height > 0
            and (node.node_id not in self.tree or self.tree.node(node.node_id).index != node.index)
        ]
        if not changed:
            return {}
        made = self._namer.of_texts([node.index for node in changed])
        return {node.node_id: vectors for node, vectors in zip(changed, made, strict=True)}

    def advance(self, result: Accepted, base: int, vectors: Mapping[str, NodeVectors]) -> None:
        """Take an applied result as the current tree."""
        before = self.tree
        self.tree, self.base = result.tree, base
        self._vectors.update(vectors)
        for node in result.put:
            if node.height == 1 and node.node_id not in before:
                self._categories.append(node.node_id)
            self._items += (node.kind != "category") - _was_item(before, node.node_id)
        for node_id in result.dropped:
            self._items -= _was_item(before, node_id)
            self._vectors.pop(node_id, None)
        if result.dropped:
            self._categories = [key for key in self._categories if key in self.tree]

    def superseded(self, result: Accepted) -> int:
        """Return how many guidance texts a result replaces or takes back."""
        count = 0
        for node in result.put:
            old = self.tree.nodes.get(node.node_id)
            count += bool(old is not None and old.guidance and old.guidance != node.guidance)
        for node_id in result.dropped:
            count += bool(self.tree.node(node_id).guidance)
        return count

    def damage_cap(self) -> int:
        """Return how many items one step may supersede."""
        return min(max(DAMAGE_FLOOR, int(DAMAGE_SHARE * self._items)), DAMAGE_CEILING)


class _IndexVectors(Mapping[str, Vector]):
    """The index vectors among the known ones, without copying: a step must not cost by bank size."""

    def __init__(self, known: Mapping[str, NodeVectors]) -> None:
        self._known = known

    def __getitem__(self, key: str) -> Vector:
        return self._known[key].index

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _was_item(tree: Tree, node_id: str) -> bool:
    old = tree.nodes.get(node_id)
    return old is not None and old.kind != "category"


def same_category_groups(
    planned: Sequence[PlannedPlace], namer: Namer, *, minimum: float
) -> list[int | None]:
    """Return, per planned place, which new category of the step it opens or joins; None: an old one.

    New categories are alike when form and audience are equal and their likeness is at least
    `minimum`; each joins the first earlier one that it is most alike to.
    """
    new = [index for index, plan in enumerate(planned) if plan.proposal.new is not None]
    texts = [_index_of(planned[index]) for index in new]
    vectors = namer.of_texts(texts) if texts else []
    groups: list[int | None] = [None] * len(planned)
    leaders: list[tuple[int, NodeVectors, object]] = []
    for index, own in zip(new, vectors, strict=True):
        shelf = planned[index].lesson.shelf
        best, highest = None, minimum
        for leader, other, other_shelf in leaders:
            found = likeness(own, other).mean if other_shelf == shelf else -1.0
            if found >= highest and (best is None or found > highest):
                best, highest = leader, found
        if best is None:
            best = index
            leaders.append((index, own, shelf))
        groups[index] = best
    return groups


def _index_of(plan: PlannedPlace) -> IndexText:
    new = plan.proposal.new
    assert new is not None
    return plan.lesson.index if new.index == IndexText() else new.index
