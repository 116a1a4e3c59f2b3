"""The dense index over the vectors of live rows, following the catalog.

New rows go to a tail that is scanned; a fold puts the tail into a graph, in a thread if wanted, while
the old parts go on answering. Rows that are gone stay as tombstones until more than a fifth is dead.
What is small is always scanned: a whole index or a scope of up to some 16,000 rows costs no more than
a search of the graph, and is exact. Scores come back as cosines worked out again from the vectors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from epimem.bank.catalog import Catalog, Delta, IndexRow, Mask, PerMask, within
from epimem.bank.folding import Fold, gathered
from epimem.bank.graph import AT, Graph, Rows, faiss_library, one_thread
from epimem.bank.growing import Growing
from epimem.errors import BankConflictError, RecordError
from epimem.protocols import Vector

__all__ = ["DenseIndex", "IndexRow"]

EXACT_ROWS = 16_384  # up to here a scan is as fast as the graph; benchmarks/recall.py prints both
ROWS_PER_STEP = 32  # rows scanned in the time of one more step of breadth; measured there too
FOLD_ROWS = 4_096  # rows in the tail that are worth a fold: 0.4 ms a question; ours
DEAD = 0.2
_RETRY = 1.5  # growth after which a graph is tried again where no breadth was enough; ours
_WIDER = 1.5  # how much further a filtered search looks than its share asks for; ours
_SPARE = 8  # rows more than asked for, so that a tie at the cut shows
_TIE = 2e-6  # above the rounding of float32 inner products of unit vectors
_MULTIPLIED = 8192  # rows at a time


@dataclass(frozen=True)
class _Plan:
    """Where the rows of a mask are: positions in head and tail, and the head's as booleans."""

    head: NDArray[np.int64]
    tail: NDArray[np.int64]
    inside: Mask

    @property
    def count(self) -> int:
        return len(self.head) + len(self.tail)


class DenseIndex:
    """Inner-product search over the unit vectors of live rows.

    `len(index)` equals the number of live rows with a usable vector. A vector that is all zeros is
    one of an empty text and is left out; one that is not finite or not of unit length is left out
    and named in `withheld`.

    Each row that came has a position; the first `len(head)` are in the head, which never changes
    and over which the graph is, the others in the tail.

    Args:
        catalog: names the slots.
        dimension: length of the vectors.
    """

    def __init__(self, catalog: Catalog, dimension: int) -> None:
        self._catalog = catalog
        self._dimension = dimension
        self._head: Rows = np.zeros((0, dimension), dtype=np.float32)
        self._graph: Graph | None = None
        self._tail = Growing(self._head)
        self._slots = Growing(np.zeros(0, dtype=np.int64))  # by position, -1: gone
        self._places = Growing(np.zeros(0, dtype=np.int64))  # by slot, -1: no vector
        self._live = 0
        self._layout = object()  # another one whenever positions change
        self._tried = 0  # rows of the last graph that no breadth was enough for
        self._plan = PerMask(self._made_plan)
        self.withheld: set[str] = set()

    def __len__(self) -> int:
        return self._live

    # Following

    def apply(self, delta: Delta) -> None:
        """Follow a change of the catalog.

        Raises:
            BankConflictError: `embedding_mismatch`, a vector has another dimension.
        """
        if not delta.added and not delta.removed:
            return
        self._plan.clear()
        self._places.pad(self._catalog.size, -1)
        changed = {row.node_id for row in delta.added.values()}
        kept = {name for name in self.withheld if self._catalog.slot(name) is not None}
        self.withheld = kept - changed
        self._remove(delta.removed)
        given = {slot: row.vector for slot, row in delta.added.items() if row.vector is not None}
        for slot, vector in given.items():
            self._check_dimension(vector, self._catalog.names[slot])
        if given:
            vectors = np.stack([np.asarray(vector, dtype=np.float32) for vector in given.values()])
            self._add(np.array(list(given), dtype=np.int64), vectors)
        dead = len(self._slots) - self._live
        if dead > DEAD * len(self._slots) and (self._graph is None or self._live < self._least):
            self._compact()

    def _remove(self, slots: Sequence[int]) -> None:
        places = self._places.view
        for slot in slots:
            if places[slot] >= 0:
                self._slots.view[places[slot]] = -1
                places[slot] = -1
                self._live -= 1

    def _add(self, slots: NDArray[np.int64], vectors: Rows) -> None:
        squares = np.square(vectors, dtype=np.float64).sum(axis=1)
        sound = np.abs(squares - 1.0) < 1e-3
        odd = slots[~sound & (squares != 0.0)]
        self.withheld |= {self._catalog.names[slot] for slot in odd.tolist()}
        slots = slots[sound]
        self._places.view[slots] = np.arange(len(slots)) + len(self._slots)
        self._slots.extend(slots)
        self._tail.extend(vectors[sound])
        self._live += len(slots)

    def _compact(self) -> None:
        """Take the dead out; what is left has no graph."""
        keep = np.flatnonzero(self._slots.view >= 0)
        rows = self._rows(keep)
        self._arrange(rows, None, self._slots.view[keep], rows[:0])

    def _arrange(
        self, head: Rows, graph: Graph | None, slots: NDArray[np.int64], tail: Rows
    ) -> None:
        """Give every row a new position: `slots` are those of the head, then of the tail."""
        self._head, self._graph, self._tail = head, graph, Growing(tail)
        self._slots = Growing(slots)
        places = np.full(self._catalog.size, -1, dtype=np.int64)
        held = np.flatnonzero(slots >= 0)
        places[slots[held]] = held
        self._places = Growing(places)
        self._live = len(held)
        self._layout = object()
        self._plan.clear()

    def _rows(self, positions: NDArray[np.int64]) -> Rows:
        return gathered(self._head, self._tail.view, positions)

    # Folding

    @property
    def _least(self) -> int:
        """Live rows from which on there is a graph."""
        return EXACT_ROWS + EXACT_ROWS // 4

    @property
    def fold_work(self) -> int:
        """How many rows a fold would add to a graph now; 0 while none is due."""
        if self._live < self._least:
            return 0
        if self._graph is None:
            return self._live if self._live >= _RETRY * self._tried else 0
        if len(self._slots) - self._live > DEAD * len(self._slots):
            return self._live
        return len(self._tail) if len(self._tail) >= FOLD_ROWS else 0

    def fold(self) -> Fold | None:
        """Return the fold that is due, to be run anywhere and then adopted; None where none is."""
        work = self.fold_work
        if not work:
            return None
        slots, tail = self._slots.view, self._tail.view
        keep = np.flatnonzero(slots >= 0)
        if self._graph is None or work == self._live:
            return Fold(None, self._head, tail, keep, self._layout)
        keep = keep[keep >= len(self._head)]
        return Fold(self._graph, self._head, tail, keep, self._layout)

    def adopt(self, fold: Fold) -> bool:
        """Put a finished fold in place of the parts it was made from; False where it is stale.

        Rows that came since then stay in the tail, and those that went stay gone.
        """
        graph = fold.graph
        if graph is None or fold.layout is not self._layout:
            return False
        if not graph.breadth:
            self._tried, self._graph = len(graph), None
            self._plan.clear()
            return True
        slots = self._slots.view
        before = slots[: len(fold.base)] if fold.base is not None else slots[:0]
        owners = np.concatenate([before, slots[fold.keep], slots[fold.end :]])
        later = self._tail.view[fold.end - len(self._head) :]
        self._arrange(graph.rows, graph, owners, later)
        return True

    # Searching

    def count(self, allowed: Mask) -> int:
        """Return how many allowed rows have a usable vector."""
        return self._checked_plan(allowed).count

    def search(self, vector: Vector, *, k: int, allowed: Mask) -> list[tuple[str, float]]:
        """Return the `k` nearest allowed nodes as (node id, cosine in [-1, 1]), best first.

        Equal cosines are ordered by node id, also at the cut: where the answer is exact, it does not
        depend on the order in which rows arrived. Fewer come back where fewer are allowed.
        """
        self._check_dimension(vector, "the question")
        plan = self._checked_plan(allowed)
        k = min(k, plan.count)
        if k < 1:
            return []
        query = np.ascontiguousarray(vector, dtype=np.float32)
        with one_thread():
            positions = self._through_graph(query, k, plan)
            if positions is None:
                positions = self._scanned(query, k, plan)
        names = self._catalog.names
        owners = self._slots.view[positions].tolist()
        found = zip((names[slot] for slot in owners), self._cosines(vector, positions), strict=True)
        return sorted(found, key=lambda item: (-item[1], item[0]))[:k]

    def _scanned(self, query: Vector, k: int, plan: _Plan) -> NDArray[np.int64]:
        """Return the positions of the `k` best and of all that tie with the last of them."""
        head, tail = self._scan(self._head, query, plan.head), self._tail_scores(query, plan)
        return _best(k, (plan.head, head), (plan.tail + len(self._head), tail))

    def _through_graph(self, query: Vector, k: int, plan: _Plan) -> NDArray[np.int64] | None:
        """Return what `_scanned` does, by way of the graph; None where a scan is quicker or surer.

        A filtered search takes the allowed ones among the nearest rows of all. It is trusted when
        the last row it needs stands as near to the top of what was looked through as the fiftieth
        does where recall was measured. A question that is further from all rows than those that
        the breadth was chosen for is not left to the graph.
        """
        graph = self._graph
        if graph is None or len(plan.head) <= EXACT_ROWS:
            return None
        filtered = len(plan.head) < len(graph)
        share = len(plan.head) / len(graph) / (_WIDER if filtered else 1.0)
        breadth = math.ceil(graph.breadth * max(1.0, k / AT) / share)
        if breadth * ROWS_PER_STEP >= len(plan.head):
            return None
        wanted = k + _SPARE
        scores, found = graph.nearest(query[None], breadth if filtered else wanted, breadth)
        if scores[0, 0] < graph.near:
            return None
        ranks = np.flatnonzero(plan.inside[found[0]] & (found[0] >= 0))[:wanted]
        if len(ranks) < wanted or (ranks[k - 1] + 1) * graph.breadth > AT * breadth:
            return None
        scores, positions = scores[0, ranks], found[0, ranks]
        tail = self._tail_scores(query, plan)
        kept = _best(k, (positions, scores), (plan.tail + len(self._head), tail))
        tied = positions[-1] in kept  # so may be others that were not looked at
        return None if tied else kept

    def _tail_scores(self, query: Vector, plan: _Plan) -> NDArray[np.float32]:
        return self._scan(self._tail.view, query, plan.tail)

    def _scan(self, rows: Rows, query: Vector, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the inner product of each of these rows with the question."""
        scores = np.empty(len(places), dtype=np.float32)
        if len(places):
            faiss = faiss_library()
            point = faiss.swig_ptr
            faiss.fvec_inner_products_by_idx(
                *(point(scores), point(query), point(rows), point(places)),
                *(self._dimension, 1, len(places)),
            )
        return scores

    def best(self, vectors: Rows, allowed: Mask) -> NDArray[np.float32]:
        """Return the best cosine of each query over the allowed slots; -1 where there are none."""
        plan = self._checked_plan(allowed)
        best = np.full(len(vectors), -1.0, dtype=np.float32)
        for rows, places in ((self._head, plan.head), (self._tail.view, plan.tail)):
            for start in range(0, len(places), _MULTIPLIED):
                scores = vectors @ rows[places[start : start + _MULTIPLIED]].T
                np.maximum(best, scores.max(axis=1), out=best)
        return best

    def vectors(self, node_ids: Sequence[str]) -> tuple[list[str], Rows]:
        """Return those of these nodes that have a vector, and copies of theirs, shape (n, dimension)."""
        names, positions = self._held(node_ids)
        return names, self._rows(positions)

    def cosines(self, vector: Vector, node_ids: Sequence[str]) -> dict[str, float]:
        """Return the cosine of each of these nodes that has a vector."""
        names, positions = self._held(node_ids)
        return dict(zip(names, self._cosines(vector, positions), strict=True))

    def _held(self, node_ids: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
        """Return those of these nodes that have a vector, and the positions of theirs."""
        slots = {node_id: self._catalog.slot(node_id) for node_id in node_ids}
        places = self._places.view
        held = {name: int(places[slot]) for name, slot in slots.items() if slot is not None}
        known = {name: place for name, place in held.items() if place >= 0}
        return list(known), np.array(list(known.values()), dtype=np.int64)

    def _cosines(self, vector: Vector, positions: NDArray[np.int64]) -> list[float]:
        """Return cosines that depend on the two vectors only, not on where the rows are kept."""
        rows = self._rows(positions).astype(np.float64)
        scores = np.einsum("ij,j->i", rows, vector.astype(np.float64))
        # A vector that is no number, in a crafted file, is like nothing.
        return cast("list[float]", np.nan_to_num(np.clip(scores, -1.0, 1.0), nan=-1.0).tolist())

    def _checked_plan(self, allowed: Mask) -> _Plan:
        if len(allowed) != self._catalog.size:
            raise RecordError("the mask is not one of this catalog", field="allowed")
        return self._plan(allowed)

    def _made_plan(self, allowed: Mask) -> _Plan:
        # The slot of a row that is gone is -1, which stands for the last place.
        inside = np.append(allowed, np.False_)[self._slots.view]
        split = len(self._head)
        return _Plan(np.flatnonzero(inside[:split]), np.flatnonzero(inside[split:]), inside[:split])

    def _check_dimension(self, vector: Vector, owner: str) -> None:
        if vector.shape != (self._dimension,):
            raise BankConflictError(
                f"the vector of {owner} has {vector.size} dimensions, the index {self._dimension}",
                code="embedding_mismatch",
                hint="configure the encoder of the bank, or change that: epimem reembed",
            )

    # Derived files

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the index as arrays for a derived file; `owners` count in `live_slots`.

        A dead row of the graph is written as the mean of its live neighbours, so that searches
        still find their way past it, and nothing of it is left.
        """
        live = self._catalog.live_slots()
        numbers = np.full(self._catalog.size + 1, -1, dtype=np.int64)
        numbers[live] = np.arange(len(live))
        slots = self._slots.view
        covered = len(self._graph) if self._graph is not None else 0
        kept = slots >= 0
        kept[:covered] = True
        positions = np.flatnonzero(kept)
        owners = numbers[slots[positions]]
        whole = len(positions) == len(self._head) == len(slots) and (owners >= 0).all()
        vectors = self._head if whole else self._rows(positions)
        if self._graph is not None:
            for place in np.flatnonzero(owners < 0).tolist():
                near = self._graph.neighbours(place)
                near = near[slots[near] >= 0]
                vectors[place] = self._head[near].sum(axis=0) / max(len(near), 1)
        withheld = [self._catalog.slot(name) for name in sorted(self.withheld)]
        odd = [numbers[slot] for slot in withheld if slot is not None]
        return {
            "owners": owners,
            "vectors": vectors,
            "withheld": np.array(odd, dtype=np.int64),
            "state": np.array([covered, self._tried], dtype=np.int64),
            **(self._graph.arrays() if self._graph is not None else {}),
        }

    @classmethod
    def from_arrays(
        cls, catalog: Catalog, dimension: int, arrays: Mapping[str, NDArray[Any]]
    ) -> DenseIndex:
        """Rebuild an index from `arrays` over a catalog that was rebuilt beside it.

        The vectors are viewed, not copied.

        Raises:
            ValueError: the arrays do not belong together.
        """
        index = cls(catalog, dimension)
        owners, vectors, odd = arrays["owners"], arrays["vectors"], arrays["withheld"]
        covered, index._tried = (int(value) for value in arrays["state"])
        known = within(owners, -1, catalog.size)
        if (
            vectors.shape != (len(owners), dimension)
            or vectors.dtype != np.float32
            or not 0 <= covered <= len(owners)
            or not within(odd, 0, catalog.size)
            or not known
            or np.bincount(owners[owners >= 0]).max(initial=0) > 1
        ):
            raise ValueError("the vectors do not fit the catalog")
        graph = Graph.from_arrays(vectors[:covered], arrays) if covered else None
        split = covered or len(vectors)
        index._arrange(vectors[:split], graph, owners.astype(np.int64), vectors[split:])
        index.withheld = {catalog.names[number] for number in odd.tolist()}
        return index


def _best(k: int, *parts: tuple[NDArray[np.int64], NDArray[np.float32]]) -> NDArray[np.int64]:
    """Return the positions whose scores are among the `k` best, or tie with the last of them."""
    positions = np.concatenate([part[0] for part in parts])
    scores = np.concatenate([part[1] for part in parts])
    if k >= len(scores):
        return positions
    bar = np.partition(scores, len(scores) - k)[len(scores) - k]
    kept: NDArray[np.int64] = positions[scores >= bar - _TIE]
    return kept
