"""What recall searches: the catalog of live rows, and the exact dense index over their vectors.

A follower reads `IndexRow`s from the bank, in order, and applies them. Each version of a row gets a
slot, an integer that is never used again by the same catalog; slots, not positions, name vectors in
FAISS and postings in the lexical index. Who may see what is decided before any similarity: a scope
becomes a mask over slots, and only slots inside the mask are scored.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from epimem.errors import BankConflictError, RecordError
from epimem.protocols import Vector
from epimem.schema.lesson import AUTHORITIES, Authority
from epimem.schema.tree import Kind

KINDS: tuple[Kind, ...] = get_args(Kind)
Mask = NDArray[np.bool_]
_TIE = 2e-6  # above the rounding of float32 inner products of unit vectors


@dataclass(frozen=True)
class IndexRow:
    """The present state of one node for followers of the bank; `alive` False: gone from recall.

    An empty `audience` is for all readers. `vector` is of unit length; None: not encoded yet.
    """

    node_id: str
    seq: int
    alive: bool
    namespace: str
    audience: tuple[str, ...]
    authority: Authority
    kind: Kind
    text: str
    vector: Vector | None


@dataclass(frozen=True)
class Scope:
    """Which rows a search may see. The namespace cannot be left out.

    Args:
        namespace: exactly this one.
        reader: sees items for all and items whose audience names it; None sees items for all only.
        minimum_authority: items of less authority stay out.
        kinds: items of other kinds stay out.

    Raises:
        RecordError: `invalid_field`, a value of another type or an unknown one.
    """

    namespace: str
    reader: str | None = None
    minimum_authority: Authority = "none"
    kinds: Collection[Kind] = KINDS

    def __post_init__(self) -> None:
        if not isinstance(self.namespace, str) or not self.namespace:
            raise _bad("namespace", self.namespace, "a namespace is a text that is not empty")
        if self.reader is not None and (not isinstance(self.reader, str) or not self.reader):
            raise _bad("reader", self.reader, "a reader is a name or None")
        if self.minimum_authority not in AUTHORITIES:
            raise _bad("minimum_authority", self.minimum_authority, "one of " + str(AUTHORITIES))
        if isinstance(self.kinds, str) or not isinstance(self.kinds, Collection):
            raise _bad("kinds", self.kinds, "kinds is a collection")
        if not self.kinds or not all(kind in KINDS for kind in self.kinds):
            raise _bad("kinds", str(self.kinds), "some of " + str(KINDS))


def _bad(name: str, value: object, expected: str) -> RecordError:
    got = value if isinstance(value, str) else type(value).__name__
    return RecordError("unknown value of a filter", field=name, got=got, hint=expected)


@dataclass
class Delta:
    """What applying rows changed: new slots with their rows, and slots that are gone."""

    added: dict[int, IndexRow] = field(default_factory=dict)
    removed: list[int] = field(default_factory=list)


class Catalog:
    """Live rows by slot: who may see each, and which node it belongs to."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._slots: dict[str, int] = {}
        self._namespaces: dict[str, int] = {}
        self._audiences: dict[tuple[str, ...], int] = {}
        self._columns = {
            name: np.zeros(16, dtype=dtype)
            for name, dtype in (
                ("namespace", np.int32),
                ("audience", np.int32),
                ("authority", np.int8),
                ("kind", np.int8),
                ("alive", np.uint8),
                ("digest", np.uint64),
            )
        }

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def size(self) -> int:
        """The number of slots ever given out: the length of every mask."""
        return len(self.names)

    def apply(self, rows: Iterable[IndexRow]) -> Delta:
        """Take in rows in order; a row whose text and vector are as before keeps its slot."""
        delta = Delta()
        for row in rows:
            old = self._slots.get(row.node_id)
            digest = _digest(row) if row.alive else 0
            if old is not None and row.alive and self._columns["digest"][old] == digest:
                self._describe(old, row)
                continue
            if old is not None:
                self._retire(row.node_id, old, delta)
            if row.alive:
                delta.added[self._add(row, digest)] = row
        return delta

    def _add(self, row: IndexRow, digest: int) -> int:
        slot = len(self.names)
        if slot == len(self._columns["alive"]):
            for name, column in self._columns.items():
                self._columns[name] = np.concatenate([column, np.zeros_like(column)])
        self.names.append(row.node_id)
        self._slots[row.node_id] = slot
        self._columns["digest"][slot] = digest
        self._columns["alive"][slot] = 1
        self._describe(slot, row)
        return slot

    def _describe(self, slot: int, row: IndexRow) -> None:
        audience = tuple(sorted(set(row.audience)))
        namespaces, audiences = self._namespaces, self._audiences
        self._columns["namespace"][slot] = namespaces.setdefault(row.namespace, len(namespaces))
        self._columns["audience"][slot] = audiences.setdefault(audience, len(audiences))
        self._columns["authority"][slot] = AUTHORITIES.index(row.authority)
        self._columns["kind"][slot] = KINDS.index(row.kind)

    def _retire(self, node_id: str, slot: int, delta: Delta) -> None:
        del self._slots[node_id]
        self.names[slot] = ""
        self._columns["alive"][slot] = 0
        if delta.added.pop(slot, None) is None:
            delta.removed.append(slot)

    def mask(self, scope: Scope) -> Mask:
        """Return the live slots that `scope` may see, as booleans over all slots."""
        audiences = [not names or scope.reader in names for names in self._audiences]
        kinds = [kind in scope.kinds for kind in KINDS]
        mask = self.namespace_mask(scope.namespace)
        mask &= self._column("authority") >= AUTHORITIES.index(scope.minimum_authority)
        mask &= np.array(kinds)[self._column("kind")]
        if self._audiences:
            mask &= np.array(audiences)[self._column("audience")]
        return mask

    def namespace_mask(self, namespace: str) -> Mask:
        """Return all live slots of a namespace, whoever may read them."""
        code = self._namespaces.get(namespace, -1)
        mask: Mask = (self._column("namespace") == code) & (self._column("alive") != 0)
        return mask

    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces that have live rows, in order of name."""
        live = self._column("namespace")[self._column("alive") != 0]
        codes = set(np.unique(live).tolist())
        return tuple(sorted(name for name, code in self._namespaces.items() if code in codes))

    def slot(self, node_id: str) -> int | None:
        """Return the slot of a live node."""
        return self._slots.get(node_id)

    def kind(self, node_id: str) -> Kind:
        """Return the kind of a live node."""
        return KINDS[int(self._columns["kind"][self._slots[node_id]])]

    def live_slots(self) -> NDArray[np.int64]:
        """Return the live slots in rising order."""
        return np.flatnonzero(self._column("alive")).astype(np.int64)

    def _column(self, name: str) -> NDArray[Any]:
        return self._columns[name][: len(self.names)]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the live rows as arrays for a derived file, in the order of `live_slots`."""
        live = self.live_slots()
        words = {
            "names": [self.names[slot] for slot in live],
            "namespaces": list(self._namespaces),
            "audiences": list(self._audiences),
        }
        text = np.frombuffer(json.dumps(words).encode("ascii"), dtype=np.uint8)
        return {"words": text, **{name: self._column(name)[live] for name in self._columns}}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Catalog:
        """Rebuild a catalog from `arrays`; its slots are 0..n-1."""
        catalog = cls()
        words = json.loads(arrays["words"].tobytes())
        catalog.names = words["names"]
        catalog._slots = {name: slot for slot, name in enumerate(catalog.names)}
        catalog._namespaces = {name: code for code, name in enumerate(words["namespaces"])}
        catalog._audiences = {tuple(names): code for code, names in enumerate(words["audiences"])}
        if catalog.names:
            catalog._columns = {name: arrays[name].copy() for name in catalog._columns}
        return catalog


def _digest(row: IndexRow) -> int:
    digest = blake2b(row.text.encode("utf-8", "surrogatepass"), digest_size=8)
    if row.vector is not None:
        digest.update(b"\x00vector\x00")
        digest.update(np.ascontiguousarray(row.vector, dtype=np.float32).tobytes())
    return int.from_bytes(digest.digest(), "little")


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
        self._remove(delta.removed)
        given = {slot: row.vector for slot, row in delta.added.items() if row.vector is not None}
        for slot, vector in given.items():
            self._check_dimension(vector, self._catalog.names[slot])
        if not given:
            return
        vectors = np.stack([np.asarray(vector, dtype=np.float32) for vector in given.values()])
        self._add(np.array(list(given), dtype=np.int64), vectors)

    def _remove(self, slots: Sequence[int]) -> None:
        self.withheld -= {name for name in self.withheld if self._catalog.slot(name) is None}
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
                hint="run `epimem reembed`",
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
