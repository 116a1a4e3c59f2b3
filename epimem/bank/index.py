"""The exact dense index over the vectors of live rows (FAISS), following the catalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from epimem.bank.catalog import Catalog, Delta, IndexRow, Mask
from epimem.errors import BankConflictError, RecordError
from epimem.protocols import Vector

__all__ = ["DenseIndex", "IndexRow"]

_TIE = 2e-6  # above the rounding of float32 inner products of unit vectors


def _faiss() -> Any:
    """Import FAISS when it is used: `import epimem` stays quick."""
    import faiss

    return faiss


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let FAISS use the calling thread only; other threads keep their setting.

    One question is scanned by one thread anyway, and waiting for the others made it up to thirty
    times slower on a busy machine.
    """
    faiss = _faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


class DenseIndex:
    """Exact inner-product search over the unit vectors of live rows (FAISS, ids are slots).

    `len(index)` equals the number of live rows with a usable vector. A vector that is all zeros is
    one of an empty text and is left out; one that is not finite or not of unit length is left out
    and named in `withheld`.

    Args:
        catalog: names the slots.
        dimension: length of the vectors.
    """

    def __init__(self, catalog: Catalog, dimension: int) -> None:
        faiss = _faiss()
        self._catalog = catalog
        self._dimension = dimension
        self._index = faiss.IndexIDMap2(faiss.IndexFlatIP(dimension))
        self._present = np.zeros(0, dtype=np.bool_)
        self.withheld: set[str] = set()

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def apply(self, delta: Delta) -> None:
        """Follow a change of the catalog.

        Raises:
            BankConflictError: `embedding_mismatch`, a vector has another dimension.
        """
        self._grow()
        changed = {row.node_id for row in delta.added.values()}
        kept = {name for name in self.withheld if self._catalog.slot(name) is not None}
        self.withheld = kept - changed
        self._remove(delta.removed)
        given = {slot: row.vector for slot, row in delta.added.items() if row.vector is not None}
        for slot, vector in given.items():
            self._check_dimension(vector, self._catalog.names[slot])
        if not given:
            return
        vectors = np.stack([np.asarray(vector, dtype=np.float32) for vector in given.values()])
        self._add(np.array(list(given), dtype=np.int64), vectors)

    def _remove(self, slots: Sequence[int]) -> None:
        gone = [slot for slot in slots if self._present[slot]]
        if not gone:
            return
        selector = _faiss().IDSelectorBatch(np.array(gone, dtype=np.int64))
        removed = self._index.remove_ids(selector)
        assert removed == len(gone), "the index and the catalog disagree"
        self._present[gone] = False

    def _add(self, slots: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        squares = np.square(vectors, dtype=np.float64).sum(axis=1)
        sound = np.abs(squares - 1.0) < 1e-3
        odd = slots[~sound & (squares != 0.0)]
        self.withheld |= {self._catalog.names[slot] for slot in odd.tolist()}
        slots = slots[sound]
        self._index.add_with_ids(np.ascontiguousarray(vectors[sound]), slots)
        self._present[slots] = True

    def _grow(self) -> None:
        missing = self._catalog.size - len(self._present)
        if missing > 0:
            self._present = np.concatenate([self._present, np.zeros(missing, dtype=np.bool_)])

    def count(self, allowed: Mask) -> int:
        """Return how many allowed rows have a usable vector."""
        return int(np.count_nonzero(self._inside(allowed)))

    def search(self, vector: Vector, *, k: int, allowed: Mask) -> list[tuple[str, float]]:
        """Return the `k` nearest allowed nodes as (node id, cosine in [-1, 1]), best first.

        Equal cosines are ordered by node id, also at the cut: the answer does not depend on the
        order in which rows arrived. Fewer come back where fewer are allowed.
        """
        self._check_dimension(vector, "the question")
        inside = self._inside(allowed)
        count = int(np.count_nonzero(inside))
        k = min(k, count)
        if k < 1:
            return []
        query = np.asarray(vector, dtype=np.float32)[None]
        with _one_thread():
            slots = self._nearest(query, k, count, inside)
        scores = self._cosines(vector, slots)
        found = zip((self._catalog.names[slot] for slot in slots), scores, strict=True)
        return sorted(found, key=lambda item: (-item[1], item[0]))[:k]

    def _nearest(self, query: NDArray[np.float32], k: int, count: int, inside: Mask) -> list[int]:
        """Return the slots of the `k` best and of all that tie with the last of them."""
        parameters = self._parameters(inside)
        scores, slots = self._index.search(query, min(k + 1, count), params=parameters)
        if count <= k or scores[0, k - 1] - scores[0, k] > _TIE:
            return cast("list[int]", slots[0, :k].tolist())
        radius = float(scores[0, k - 1]) - _TIE
        _, _, tied = self._index.range_search(query, radius, params=parameters)
        return cast("list[int]", tied.tolist())

    def best(self, vectors: NDArray[np.float32], allowed: Mask) -> NDArray[np.float32]:
        """Return the best cosine of each query over the allowed slots; -1 where there are none."""
        inside = self._inside(allowed)
        if not inside.any():
            return np.full(len(vectors), -1.0, dtype=np.float32)
        parameters = self._parameters(inside)
        with _one_thread():
            scores: NDArray[np.float32] = self._index.search(vectors, 1, params=parameters)[0]
        return scores[:, 0]

    def cosines(self, vector: Vector, node_ids: Sequence[str]) -> dict[str, float]:
        """Return the cosine of each of these nodes that has a vector."""
        slots = [self._catalog.slot(node_id) for node_id in node_ids]
        known = [slot for slot in slots if slot is not None and self._present[slot]]
        scores = self._cosines(vector, known)
        return {self._catalog.names[slot]: score for slot, score in zip(known, scores, strict=True)}

    def _cosines(self, vector: Vector, slots: Sequence[int]) -> list[float]:
        """Return cosines that depend on the two vectors only, not on where FAISS keeps them."""
        if not slots:
            return []
        rows = self._index.reconstruct_batch(np.array(slots, dtype=np.int64))
        scores = (rows.astype(np.float64) * vector.astype(np.float64)).sum(axis=1)
        return cast("list[float]", np.clip(scores, -1.0, 1.0).tolist())

    def _inside(self, allowed: Mask) -> Mask:
        if len(allowed) != len(self._present):
            raise RecordError("the mask is not one of this catalog", field="allowed")
        return allowed & self._present

    def _parameters(self, inside: Mask) -> Any:
        """Return parameters that restrict FAISS to `inside`; None where that is everything."""
        if np.count_nonzero(inside) == len(self):
            return None
        faiss = _faiss()
        bits = np.packbits(inside, bitorder="little")
        return faiss.SearchParameters(sel=faiss.IDSelectorBitmap(bits))

    def _check_dimension(self, vector: Vector, owner: str) -> None:
        if vector.shape != (self._dimension,):
            raise BankConflictError(
                f"the vector of {owner} has {vector.size} dimensions, the index {self._dimension}",
                code="embedding_mismatch",
                hint="the bank was made with another encoder: configure that one",
            )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the vectors as arrays for a derived file; `places` counts in `live_slots`."""
        live = self._catalog.live_slots()
        places = np.flatnonzero(self._present[live]).astype(np.int64)
        vectors = np.zeros((0, self._dimension), dtype=np.float32)
        if len(places):
            vectors = self._index.reconstruct_batch(live[places])
        names = self._catalog.names
        withheld = [place for place, slot in enumerate(live) if names[slot] in self.withheld]
        odd = np.array(withheld, dtype=np.int64)
        return {"places": places, "vectors": vectors, "withheld": odd}

    @classmethod
    def from_arrays(
        cls, catalog: Catalog, dimension: int, arrays: Mapping[str, NDArray[Any]]
    ) -> DenseIndex:
        """Rebuild an index from `arrays` over a catalog that was rebuilt beside it."""
        index = cls(catalog, dimension)
        index._grow()
        if len(arrays["places"]):
            index._add(arrays["places"].astype(np.int64), arrays["vectors"])
        index.withheld = {catalog.names[place] for place in arrays["withheld"].tolist()}
        return index
