"""The catalog of live rows: which node holds which slot, and who may see it.

A follower reads `IndexRow`s from the bank, in order, and applies them. Each version of a row gets a
slot, an integer that is never used again by the same catalog; slots, not positions, name vectors in
FAISS and postings in the lexical index. Who may see what is decided before any similarity: a scope
becomes a mask over slots, and only slots inside the mask are scored.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from epimem.errors import RecordError
from epimem.protocols import Vector
from epimem.schema.lesson import AUTHORITIES, Authority
from epimem.schema.tree import Kind

KINDS: tuple[Kind, ...] = get_args(Kind)
Mask = NDArray[np.bool_]


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
    kinds: Sequence[Kind] = KINDS

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
