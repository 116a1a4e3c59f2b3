"""The catalog of live rows: which node holds which slot, and who may see it.

A follower reads `IndexRow`s from the bank, in order, and applies them. Each version of a row gets a
slot, an integer that is never used again by the same catalog; slots, not positions, name vectors in
FAISS and postings in the lexical index. Who may see what is decided before any similarity: a scope
becomes a mask over slots, and only slots inside the mask are scored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Generic, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from epimem.bank.growing import Growing
from epimem.errors import RecordError
from epimem.protocols import Vector
from epimem.schema.lesson import AUTHORITIES, Authority
from epimem.schema.names import addressed
from epimem.schema.tree import Kind

KINDS: tuple[Kind, ...] = get_args(Kind)
Mask = NDArray[np.bool_]
Value = TypeVar("Value")
_KEPT = 32  # masks at a time; ours: 0.1 MB each at 1e5 rows
_COLUMNS = {
    "namespace": np.int32,
    "audience": np.int32,
    "authority": np.int8,
    "kind": np.int8,
    "alive": np.uint8,
    "digest": np.uint64,
}


@dataclass(frozen=True)
class IndexRow:
    """The present state of one node for followers of the bank; `alive` False: gone from recall.

    `audience`: see `epimem.schema.names.addressed`. `vector` is of unit length; None: not encoded yet.
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
        reader: sees what is addressed to it (`epimem.schema.names.addressed`); None: to nobody named.
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


class PerMask(Generic[Value]):
    """What was worked out for a mask, until `clear`; masks that can be written to are not kept.

    Args:
        make: works it out.
    """

    def __init__(self, make: Callable[[Mask], Value]) -> None:
        self._make = make
        self._made: dict[int, tuple[Mask, Value]] = {}

    def __call__(self, mask: Mask) -> Value:
        """Return what belongs to this very mask."""
        known = self._made.get(id(mask))
        if known is not None:
            return known[1]
        value = self._make(mask)
        if not mask.flags.writeable:
            # The mask is kept too, so that no other one can get its id.
            _keep(self._made, id(mask), (mask, value))
        return value

    def clear(self) -> None:
        """Forget everything: what it was worked out from has changed."""
        self._made.clear()


def _keep(made: dict[Any, Any], key: object, value: object) -> None:
    """Remember a value in place of the oldest one."""
    while len(made) >= _KEPT:
        del made[next(iter(made))]
    made[key] = value


class Names:
    """Node ids by slot; those that came from a derived file stay one block until they are needed.

    Args:
        block: the first ids as UTF-8, one after the other.
        ends: where each of them ends in `block`.

    Raises:
        ValueError: the ends do not fit the block.
    """

    def __init__(self, block: bytes, ends: NDArray[np.int64]) -> None:
        bounds = np.concatenate([np.zeros(1, np.int64), ends])
        if (np.diff(bounds) <= 0).any() or bounds[-1] != len(block):
            raise ValueError("the ends of the names do not fit their block")
        self._block = block
        self._bounds = bounds
        self._stored = len(ends)
        self._later: list[str] = []
        self._gone: set[int] = set()

    def __len__(self) -> int:
        return self._stored + len(self._later)

    def __getitem__(self, slot: int) -> str:
        """Return the id at a slot, empty where it is gone."""
        if slot >= self._stored:
            return self._later[slot - self._stored]
        if slot in self._gone:
            return ""
        start, end = self._bounds[slot : slot + 2].tolist()
        return self._block[start:end].decode("utf-8", "surrogatepass")

    def append(self, name: str) -> None:
        """Give the next slot to a node."""
        self._later.append(name)

    def retire(self, slot: int) -> None:
        """Empty a slot."""
        if slot >= self._stored:
            self._later[slot - self._stored] = ""
        else:
            self._gone.add(slot)

    def stored(self) -> list[str]:
        """Return the ids that came from a derived file."""
        bounds = self._bounds.tolist()
        if self._block.isascii():
            text = self._block.decode("ascii")
            return [text[start:end] for start, end in pairwise(bounds)]
        return [self[slot] for slot in range(self._stored)]


class Catalog:
    """Live rows by slot: who may see each, and which node it belongs to."""

    def __init__(self) -> None:
        self.names = Names(b"", np.zeros(0, np.int64))
        self._known: dict[str, int] | None = {}
        self._live = 0
        self._namespaces: dict[str, int] = {}
        self._audiences: dict[tuple[str, ...], int] = {}
        self._columns = {name: Growing(np.zeros(0, kind)) for name, kind in _COLUMNS.items()}
        self._masks: dict[object, Mask] = {}

    def __len__(self) -> int:
        return self._live

    @property
    def size(self) -> int:
        """The number of slots ever given out: the length of every mask."""
        return len(self.names)

    @property
    def _slots(self) -> dict[str, int]:
        if self._known is None:
            self._known = {name: slot for slot, name in enumerate(self.names.stored())}
        return self._known

    def apply(self, rows: Iterable[IndexRow]) -> Delta:
        """Take in rows in order; a row whose text and vector are as before keeps its slot."""
        delta = Delta()
        for row in rows:
            self._masks.clear()
            old = self._slots.get(row.node_id)
            digest = _digest(row) if row.alive else 0
            if old is not None and row.alive and self._column("digest")[old] == digest:
                self._describe(old, row)
                continue
            if old is not None:
                self._retire(row.node_id, old, delta)
            if row.alive:
                delta.added[self._add(row, digest)] = row
        return delta

    def _add(self, row: IndexRow, digest: int) -> int:
        slot = len(self.names)
        for column in self._columns.values():
            column.pad(slot + 1, 0)
        self.names.append(row.node_id)
        self._slots[row.node_id] = slot
        self._live += 1
        self._column("digest")[slot] = digest
        self._column("alive")[slot] = 1
        self._describe(slot, row)
        return slot

    def _describe(self, slot: int, row: IndexRow) -> None:
        audience = tuple(sorted(set(row.audience)))
        namespaces, audiences = self._namespaces, self._audiences
        self._column("namespace")[slot] = namespaces.setdefault(row.namespace, len(namespaces))
        self._column("audience")[slot] = audiences.setdefault(audience, len(audiences))
        self._column("authority")[slot] = AUTHORITIES.index(row.authority)
        self._column("kind")[slot] = KINDS.index(row.kind)

    def _retire(self, node_id: str, slot: int, delta: Delta) -> None:
        del self._slots[node_id]
        self.names.retire(slot)
        self._live -= 1
        self._column("alive")[slot] = 0
        if delta.added.pop(slot, None) is None:
            delta.removed.append(slot)

    def mask(self, scope: Scope) -> Mask:
        """Return the live slots that `scope` may see, as booleans over all slots, not to be written.

        The same object comes back until the next row is applied.
        """
        kinds = frozenset(scope.kinds)
        key = (scope.namespace, scope.reader, scope.minimum_authority, kinds)
        return self._cached(key, lambda: self._mask(scope))

    def _mask(self, scope: Scope) -> Mask:
        audiences = [addressed(names, scope.reader) for names in self._audiences]
        kinds = [kind in scope.kinds for kind in KINDS]
        mask = self._namespace_mask(scope.namespace)
        mask &= self._column("authority") >= AUTHORITIES.index(scope.minimum_authority)
        mask &= np.array(kinds)[self._column("kind")]
        if self._audiences:
            mask &= np.array(audiences)[self._column("audience")]
        return mask

    def namespace_mask(self, namespace: str) -> Mask:
        """Return all live slots of a namespace, whoever may read them; not to be written."""
        return self._cached(namespace, lambda: self._namespace_mask(namespace))

    def _namespace_mask(self, namespace: str) -> Mask:
        code = self._namespaces.get(namespace, -1)
        mask: Mask = (self._column("namespace") == code) & (self._column("alive") != 0)
        return mask

    def _cached(self, key: object, make: Callable[[], Mask]) -> Mask:
        mask = self._masks.get(key)
        if mask is None:
            mask = make()
            mask.flags.writeable = False
            _keep(self._masks, key, mask)
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
        return self.kinds([self._slots[node_id]])[0]

    def slots(self, node_ids: Sequence[str]) -> list[int]:
        """Return the slots of live nodes."""
        return [self._slots[node_id] for node_id in node_ids]

    def kinds(self, slots: Sequence[int]) -> list[Kind]:
        """Return the kinds of live nodes by slot."""
        column = self._column("kind")
        return [KINDS[column[slot]] for slot in slots]

    def live_slots(self) -> NDArray[np.int64]:
        """Return the live slots in rising order."""
        return np.flatnonzero(self._column("alive")).astype(np.int64)

    def _column(self, name: str) -> NDArray[Any]:
        return self._columns[name].view

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the live rows as arrays for a derived file, in the order of `live_slots`."""
        live = self.live_slots()
        names = [self.names[slot].encode("utf-8", "surrogatepass") for slot in live.tolist()]
        words = {"namespaces": list(self._namespaces), "audiences": list(self._audiences)}
        text = np.frombuffer(json.dumps(words).encode("ascii"), dtype=np.uint8)
        return {
            "words": text,
            "names": np.frombuffer(b"".join(names), dtype=np.uint8),
            "ends": np.cumsum([len(name) for name in names], dtype=np.int64),
            **{name: self._column(name)[live] for name in self._columns},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Catalog:
        """Rebuild a catalog from `arrays`; its slots are 0..n-1.

        Raises:
            ValueError: the arrays do not belong together.
        """
        catalog = cls()
        words = json.loads(arrays["words"].tobytes())
        catalog.names = Names(arrays["names"].tobytes(), arrays["ends"].astype(np.int64))
        if not arrays["names"].tobytes().isascii():
            catalog.names.stored()  # is a `ValueError` here, and not in a question, where they are none
        catalog._known = None
        catalog._live = len(catalog.names)
        catalog._namespaces = {str(name): code for code, name in enumerate(words["namespaces"])}
        catalog._audiences = {
            tuple(str(name) for name in names): code
            for code, names in enumerate(words["audiences"])
        }
        columns = {name: arrays[name].astype(kind) for name, kind in _COLUMNS.items()}
        sizes = {
            "namespace": len(catalog._namespaces),
            "audience": len(catalog._audiences),
            "authority": len(AUTHORITIES),
            "kind": len(KINDS),
            "alive": 2,
        }
        if any(column.shape != (catalog.size,) for column in columns.values()) or not all(
            within(columns[name], 0, size) for name, size in sizes.items()
        ):
            raise ValueError("the columns of the catalog do not fit its names")
        catalog._columns = {name: Growing(column) for name, column in columns.items()}
        return catalog


def within(values: NDArray[Any], least: int, bound: int) -> bool:
    """Whether all values are at least `least` and below `bound`."""
    return not len(values) or bool(values.min() >= least and values.max() < bound)


def _digest(row: IndexRow) -> int:
    digest = blake2b(row.text.encode("utf-8", "surrogatepass"), digest_size=8)
    if row.vector is not None:
        digest.update(b"\x00vector\x00")
        digest.update(np.ascontiguousarray(row.vector, dtype=np.float32).tobytes())
    return int.from_bytes(digest.digest(), "little")
