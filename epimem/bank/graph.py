"""The graph part of the dense index: FAISS HNSW over a block of rows that does not change.

How far a search looks (its breadth, FAISS calls it efSearch) is not a constant: on clustered vectors
64 finds everything, on loose ones 512 does not reach a recall of 0.99. It is chosen when the graph is
built, by comparing with exact search over the graph's own rows (`choose_breadth`), for questions that
the graph does not hold (`probes`).

The vectors are held once: FAISS gets a view of an array, or of the mapped pages of a derived file.
Links are written and read as plain arrays and checked before use, because a file of FAISS's own is
trusted by FAISS as it is.

Source: Malkov and Yashunin, "Efficient and robust approximate nearest neighbor search using
hierarchical navigable small world graphs" (2018). M = 16 and efConstruction = 128 are those of the
measurements in benchmarks/recall.py; the choice of the breadth is ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epimem.bank.catalog import within

Rows = NDArray[np.float32]
M = 16
BUILD_BREADTH = 128
LADDER = (64, 96, 128, 192, 256, 384, 512, 768, 1024)
TARGET = 0.99
AT = 50  # recall is measured among this many nearest rows
HELD = 128  # queries of each kind; ours
FAR = 0.05  # share of the rows held back that count as far from the others; ours
CHUNK = 512  # rows added between two looks at whether to give up: some 0.3 s
_ROWS = 8192  # rows multiplied at a time
_SAME = 1e-6  # scores this near count as equal when recall is measured


def faiss_library() -> Any:
    """Import FAISS when it is used: `import epimem` stays quick."""
    import faiss

    return faiss


@contextmanager
def one_thread() -> Iterator[None]:
    """Let FAISS use the calling thread only; other threads keep their setting.

    One question is searched by one thread anyway, and waiting for the others made it up to thirty
    times slower on a busy machine.
    """
    faiss = faiss_library()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


class Graph:
    """HNSW over rows that do not change; positions count in them.

    FAISS only looks at the arrays given here, so they are neither copied nor freed by it.

    Args:
        rows: unit vectors, shape (n, dimension).
        levels: number of levels of each row, shape (n,).
        links: positions, all levels of one row after another, -1 where there is no link.
        entry: the position at which a search begins.
        breadth: how far a search for 50 rows looks.
        near: the best score from which on a question is one that the breadth was chosen for.

    Raises:
        ValueError: levels, links and entry are no graph over these rows.
    """

    def __init__(
        self,
        rows: Rows,
        levels: NDArray[np.int32],
        links: NDArray[np.int32],
        entry: int,
        *,
        breadth: int,
        near: float,
    ) -> None:
        faiss = faiss_library()
        index = _empty(rows.shape[1])
        room = faiss.vector_to_array(index.hnsw.cum_nneighbor_per_level).astype(np.int64)
        if rows.shape != (len(levels), index.d) or rows.dtype != np.float32:
            raise ValueError("the graph has other rows")
        self._offsets = _checked_offsets(levels, links, entry, room)
        self.rows = rows
        self.breadth, self.near = breadth, near
        self._levels, self._links, self._entry = levels, links, entry
        bytes_type, links_type = faiss.MaybeOwnedVectorUInt8, faiss.MaybeOwnedVectorInt32
        nobody = bytes_type().owner
        storage = faiss.downcast_index(index.storage)
        storage.codes = bytes_type.create_view(faiss.swig_ptr(rows), rows.nbytes, nobody)
        index.hnsw.neighbors = links_type.create_view(faiss.swig_ptr(links), links.size, nobody)
        storage.ntotal = index.ntotal = len(rows)
        faiss.copy_array_to_vector(np.array(levels, np.int32), index.hnsw.levels)
        faiss.copy_array_to_vector(self._offsets.astype(np.uint64), index.hnsw.offsets)
        index.hnsw.entry_point, index.hnsw.max_level = entry, int(levels.max()) - 1
        self._index = index

    def __len__(self) -> int:
        return len(self.rows)

    def nearest(
        self, queries: Rows, k: int, breadth: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return scores and positions of about the `k` nearest rows of each query, best first.

        Shape (queries, k) each; where fewer are found, the last positions are -1.
        """
        return _search(self._index, queries, k, breadth)

    def neighbours(self, position: int) -> NDArray[np.int32]:
        """Return the positions that a row is linked to on the lowest level."""
        start = int(self._offsets[position])
        found = self._links[start : start + 2 * M]
        return found[found >= 0]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all but the rows for a derived file."""
        return {
            "levels": self._levels,
            "links": self._links,
            "graph": np.array([self._entry, self.breadth], dtype=np.int64),
            "near": np.array([self.near], dtype=np.float32),
        }

    @classmethod
    def from_arrays(cls, rows: Rows, arrays: Mapping[str, NDArray[Any]]) -> Graph:
        """Put a graph together from `arrays` over its rows.

        Raises:
            ValueError: the arrays are no graph over these rows.
        """
        entry, breadth = (int(value) for value in arrays["graph"])
        if breadth not in LADDER:
            raise ValueError("no graph is searched this far")
        (near,) = (float(value) for value in arrays["near"])
        if not -1.0 <= near <= 1.001:
            raise ValueError("the score from which on the graph is trusted is out of range")
        return cls(rows, arrays["levels"], arrays["links"], entry, breadth=breadth, near=near)

    def copy_into(self, index: Any) -> None:
        """Copy this graph into an empty index of FAISS."""
        faiss, hnsw = faiss_library(), index.hnsw
        storage = faiss.downcast_index(index.storage)
        storage.codes.resize(self.rows.nbytes)
        faiss.rev_swig_ptr(storage.get_xb(), self.rows.size)[:] = self.rows.reshape(-1)
        faiss.copy_array_to_vector(np.array(self._levels, np.int32), hnsw.levels)
        faiss.copy_array_to_vector(self._offsets.astype(np.uint64), hnsw.offsets)
        hnsw.neighbors.resize(self._links.size)
        faiss.rev_swig_ptr(hnsw.neighbors.data(), self._links.size)[:] = self._links
        hnsw.entry_point, hnsw.max_level = self._entry, int(self._levels.max()) - 1
        storage.ntotal = index.ntotal = len(self)


def _search(
    index: Any, queries: Rows, k: int, breadth: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    parameters = faiss_library().SearchParametersHNSW(efSearch=breadth)
    scores, positions = index.search(queries, k, params=parameters)
    return scores, positions


def _empty(dimension: int) -> Any:
    faiss = faiss_library()
    index = faiss.IndexHNSWFlat(dimension, M, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = BUILD_BREADTH
    return index


def _checked_offsets(
    levels: NDArray[np.int32], links: NDArray[np.int32], entry: int, room: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return where the links of each row begin, after checking that none leads out of the graph."""
    count = len(levels)
    if not count or not within(levels, 1, len(room)) or not within(links, -1, count):
        raise ValueError("levels or links are out of range")
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(room[levels])])
    if not 0 <= entry < count or levels[entry] != levels.max() or offsets[-1] != len(links):
        raise ValueError("the entry or the number of links does not fit")
    for level in range(1, int(levels.max())):
        high = np.flatnonzero(levels > level)
        places = offsets[high][:, None] + np.arange(room[level], room[level + 1])
        there = links[places]
        if (levels[there[there >= 0]] <= level).any():
            raise ValueError("a link leads to a level that its end does not have")
    return offsets


def build(
    chunks: Iterable[Rows], held: Rows, base: Graph | None, cancelled: Callable[[], bool]
) -> Graph | None:
    """Build a graph in memory of its own: `base` is searched by others meanwhile.

    While this runs the vectors are held up to three times.

    Args:
        chunks: rows to add, in order, some hundred at a time.
        held: rows to add after them; the breadth is chosen before, with these as questions.
        base: a graph to begin with, whose rows come first.
        cancelled: asked before each chunk.

    Returns:
        The graph, or None when it was cancelled. Its breadth is 0 where none is enough.
    """
    faiss = faiss_library()
    index = _empty(held.shape[1])
    with one_thread():
        if base is not None:
            base.copy_into(index)
        for chunk in chunks:
            if cancelled():
                return None
            index.add(np.ascontiguousarray(chunk))
        breadth = choose_breadth(index, probes(_rows_of(index), held), cancelled)
        near = float(np.quantile(nearest_scores(_rows_of(index), held, 1), FAR))
        if cancelled():
            return None
        index.add(np.ascontiguousarray(held))
    hnsw = index.hnsw
    links = faiss.rev_swig_ptr(hnsw.neighbors.data(), hnsw.neighbors.size()).copy()
    levels = faiss.vector_to_array(hnsw.levels)
    rows = _rows_of(index).copy()
    return Graph(rows, levels, links, hnsw.entry_point, breadth=breadth, near=near)


def _rows_of(index: Any) -> Rows:
    """Return the rows that an index of FAISS holds, a view into its memory."""
    faiss = faiss_library()
    pointer = faiss.downcast_index(index.storage).get_xb()
    rows: Rows = faiss.rev_swig_ptr(pointer, index.ntotal * index.d)
    return rows.reshape(index.ntotal, index.d)


def choose_breadth(index: Any, kinds: Sequence[Rows], cancelled: Callable[[], bool]) -> int:
    """Return the least breadth of the ladder that finds 99 % of the 50 nearest rows, 0 where none.

    For each kind of query the mean recall must lie 1.64 standard errors above the target (so that it
    is at least the target with a probability of 95 %). A row found in place of another of equal
    score counts as found.

    Args:
        index: of FAISS.
        kinds: queries by kind, each shape (n, dimension).
        cancelled: asked before each breadth.
    """
    bars = [nearest_scores(_rows_of(index), queries, AT)[:, -1] for queries in kinds]
    for breadth in LADDER:
        if cancelled():
            return 0
        if all(
            _enough(index, queries, bar, breadth) for queries, bar in zip(kinds, bars, strict=True)
        ):
            return breadth
    return 0


def _enough(index: Any, queries: Rows, bars: NDArray[np.float32], breadth: int) -> bool:
    scores, positions = _search(index, queries, AT, breadth)
    hits = (scores >= bars[:, None] - _SAME) & (positions >= 0)
    recall: NDArray[np.float64] = hits.sum(axis=1) / min(AT, int(index.ntotal))
    margin = 1.64 * float(recall.std()) / math.sqrt(len(recall))
    return float(recall.mean()) - margin >= TARGET


def probes(rows: Rows, held: Rows) -> list[Rows]:
    """Return the queries that recall is measured with, by kind, each shape (n, dimension).

    A row of the graph as a query would be too easy: the search ends at the row itself, whose links
    are the answer. So:

    1. rows that are not in the graph yet, drawn at random: the questions to come, as far as the bank
       can tell;
    2. the middle of such a row and one of its fifty nearest.

    Questions of other matters are harder by far: for the general ones among 7,600 real texts a breadth
    of 64 finds 72 % and 1024 finds 99 %, where 64 is enough for the texts' own kind. They are not
    what the breadth is chosen for; a question is told by its best score (`near`) and then scanned.
    """
    generator = np.random.default_rng(0)
    near = _nearest_positions(rows, held, min(AT, len(rows)))
    picked = near[np.arange(len(held)), generator.integers(0, near.shape[1], len(held))]
    middle = held + rows[picked]
    middle /= np.maximum(np.linalg.norm(middle, axis=1, keepdims=True), 1e-12)
    return [np.ascontiguousarray(held), middle]


def nearest_scores(rows: Rows, queries: Rows, k: int) -> NDArray[np.float32]:
    """Return the exact `k` best scores of each query, best first, shape (queries, k)."""
    best = np.full((len(queries), k), -np.inf, dtype=np.float32)
    for start in range(0, len(rows), _ROWS):
        scores = queries @ rows[start : start + _ROWS].T
        both = np.concatenate([best, scores], axis=1)
        best = np.partition(both, both.shape[1] - k, axis=1)[:, -k:]
    return np.sort(best, axis=1)[:, ::-1]


def _nearest_positions(rows: Rows, queries: Rows, k: int) -> NDArray[np.int64]:
    """Return the exact positions of the `k` nearest rows of each query, in no order."""
    scores = np.concatenate(
        [queries @ rows[start : start + _ROWS].T for start in range(0, len(rows), _ROWS)], axis=1
    )
    return np.argpartition(scores, scores.shape[1] - k, axis=1)[:, -k:]
