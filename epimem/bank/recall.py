"""Recall: from a question to candidates, over an index that follows the bank.

Scope first, then a dense and a lexical ranking, each against its own floor, then reciprocal rank
fusion (Cormack, Clarke and Büttcher 2009, k = 60; its use here is ours).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from epimem.bank.catalog import KINDS, Catalog, IndexRow, Mask, Scope
from epimem.bank.derived import DerivedFile, read_derived, write_derived
from epimem.bank.floor import Floor, fit_floor, read_floors, write_floors
from epimem.bank.general_questions import general_vectors
from epimem.bank.index import DenseIndex
from epimem.bank.lexical import LexicalIndex
from epimem.errors import RecordError, StorageError
from epimem.protocols import Encoder, Vector
from epimem.schema.lesson import Authority
from epimem.schema.memory_input import Candidate
from epimem.schema.text import QUERY_BYTES
from epimem.schema.tree import Kind

Mode = Literal["fused", "dense", "lexical"]
Searchable = Literal["dense+lexical", "dense", "lexical"]
MAX_K = 50
_DEPTH = 100  # how far down a ranking counts for fusion; ours
_FORMAT = 1
_GAP = "\n[...]\n"
_NO_FLOOR = Floor(dense=None, lexical=None, rows=0, vectors=0)


class Source(Protocol):
    """What recall follows: a bank, live or frozen."""

    @property
    def bank_id(self) -> str:
        """The bank's id."""
        ...

    @property
    def head_seq(self) -> int:
        """The last sequence number, as the database has it now."""
        ...

    def index_rows(self, after: int) -> Iterable[IndexRow]:
        """Return the present state of every node that changed after a sequence number."""
        ...


@dataclass(frozen=True)
class RecallResult:
    """Candidates, best first, with those below the floors marked; nothing is a normal answer.

    `searchable` says which signals ran; `bank_seq` is the sequence number that was searched.
    """

    candidates: tuple[Candidate, ...]
    searchable: Searchable
    floors: Floor
    question_shortened: bool
    bank_seq: int


class Recall:
    """One process's index of a bank; safe to use from several threads.

    Args:
        source: the bank.
        encoder: the encoder that made the bank's vectors, or None: recall is then lexical.
        cache: a folder for derived files, or None to keep everything in memory.
        extra_caches: folders that are read only, such as the one inside a frozen bank.
        rrf_k: the constant of reciprocal rank fusion.
        journal_hash: returns the hash of the journal at a sequence number. With it, derived files
            are refused that were made from another history of the same bank (one put back from a
            copy, say), which their sequence number alone cannot show.
    """

    def __init__(
        self,
        source: Source,
        *,
        encoder: Encoder | None,
        cache: Path | None,
        extra_caches: Sequence[Path] = (),
        rrf_k: int = 60,
        journal_hash: Callable[[int], str] | None = None,
    ) -> None:
        self._source = source
        self._encoder = encoder
        self._cache = cache
        self._folders = [*([cache] if cache else []), *extra_caches]
        self._rrf_k = rrf_k
        self._journal_hash = journal_hash
        self._lock = threading.RLock()
        self._bank_id = source.bank_id
        self._fingerprint = encoder.fingerprint if encoder else "lexical"
        self._changes = 0
        self._seq = 0
        self._load()

    @property
    def seq(self) -> int:
        """The sequence number up to which the index has followed the bank."""
        return self._seq

    @property
    def due(self) -> bool:
        """Whether `save` would spare the next process a good part of its start."""
        return self._changes > max(256, len(self._catalog) // 10)

    def __len__(self) -> int:
        return len(self._catalog)

    # Following

    def refresh(self) -> None:
        """Follow the bank to its present head; start anew when its history is shorter than ours.

        Raises:
            BankConflictError: `embedding_mismatch`, a stored vector has another dimension.
        """
        with self._lock:
            head = self._source.head_seq
            if head < self._seq:
                self._start_empty()
            if head > self._seq:
                self._apply(self._source.index_rows(self._seq))
                self._seq = head

    def _apply(self, rows: Iterable[IndexRow]) -> None:
        try:
            delta = self._catalog.apply(rows)
            if self._dense is not None:
                self._dense.apply(delta)
            self._lexical.apply(delta)
        except BaseException:  # an index that has taken in half of a change is never searched
            self._start_empty()
            raise
        self._changes += len(delta.added) + len(delta.removed)

    # Searching

    def find(
        self,
        question: str,
        *,
        namespace: str,
        reader: str | None = None,
        minimum_authority: Authority = "none",
        kinds: Sequence[Kind] = KINDS,
        k: int = 20,
        mode: str = "fused",
    ) -> RecallResult:
        """Return up to `k` candidates for a question from what the reader may see.

        Args:
            question: any text; beyond 8 KiB its head and tail are used.
            namespace: rows of other namespaces do not take part in any way.
            reader: see `Scope`, as for the next two.
            minimum_authority: lowest authority wanted.
            kinds: kinds wanted.
            k: brought into 1..50.
            mode: "fused", "dense" or "lexical"; without an encoder always lexical.

        Raises:
            RecordError: `invalid_field`, an argument of another type or an unknown value.
            ControllerError: `model_failed`, the encoder failed.
        """
        scope = Scope(namespace, reader, minimum_authority, kinds)
        _check_arguments(question, k, mode)
        text, shortened = shorten(question)
        vector = self._question_vector(text, mode)
        with self._lock:
            self.refresh()
            ran = self._signals(mode)
            allowed = self._catalog.mask(scope)
            if not text.strip() or not allowed.any():
                return RecallResult((), ran, _NO_FLOOR, shortened, self._seq)
            floor = self._floor(namespace)
            candidates = self._candidates(text, vector, allowed, floor, mode=ran, k=k)
            return RecallResult(candidates, ran, floor, shortened, self._seq)

    def _question_vector(self, text: str, mode: str) -> Vector | None:
        if self._encoder is None or mode == "lexical" or not text.strip():
            return None
        vector: Vector = self._encoder.encode([text])[0]
        return vector

    def _signals(self, mode: str) -> Searchable:
        if self._encoder is None or mode == "lexical":
            return "lexical"
        return "dense" if mode == "dense" else "dense+lexical"

    def _candidates(
        self,
        text: str,
        vector: Vector | None,
        allowed: Mask,
        floor: Floor,
        *,
        mode: Searchable,
        k: int,
    ) -> tuple[Candidate, ...]:
        k = min(max(k, 1), MAX_K)
        rankings: list[list[tuple[str, float]]] = []
        if vector is not None and self._dense is not None:
            rankings.append(self._dense.search(vector, k=_DEPTH, allowed=allowed))
        words = self._lexical.scores(text, allowed) if mode != "dense" else None
        if words is not None:
            rankings.append(self._lexical.top(words, _DEPTH))
        fused = fuse(rankings, self._rrf_k)[:k]
        names = [name for name, _ in fused]
        cosines = self._cosines(vector, names)
        return tuple(
            self._candidate(name, score, cosines.get(name), words, floor) for name, score in fused
        )

    def _cosines(self, vector: Vector | None, names: Sequence[str]) -> dict[str, float]:
        if vector is None or self._dense is None:
            return {}
        return self._dense.cosines(vector, names)

    def _candidate(
        self,
        name: str,
        score: float,
        cosine: float | None,
        words: NDArray[np.float64] | None,
        floor: Floor,
    ) -> Candidate:
        lexical = float(words[self._catalog.slot(name)]) if words is not None else None
        return Candidate(
            node_id=name,
            kind=self._catalog.kind(name),
            dense=cosine,
            lexical=lexical,
            rank_score=score,
            passes=floor.passes(cosine, lexical),
        )

    # The floor

    def fit_floors(self) -> None:
        """Fit the floors of all namespaces that lack one."""
        with self._lock:
            self.refresh()
            for namespace in self._catalog.namespaces():
                self._floor(namespace)

    def _floor(self, namespace: str) -> Floor:
        allowed = self._catalog.namespace_mask(namespace)
        rows = int(np.count_nonzero(allowed))
        vectors = self._dense.count(allowed) if self._dense is not None else 0
        known = self._floors.get(namespace)
        if known is None or not known.fits(rows, vectors):
            questions = general_vectors(self._encoder) if self._encoder and vectors else None
            known = fit_floor(self._lexical, self._dense, allowed, questions)
            self._floors[namespace] = known
            if self._cache is not None:
                with suppress(OSError):  # a cache that cannot be written costs the next start time
                    write_floors(self._cache, self._bank_id, self._fingerprint, self._floors)
        return known

    # Derived files

    def save(self, folder: Path | None = None) -> None:
        """Write index and floors, following the bank first so that nothing revoked is written.

        A cache folder that cannot be written to is no fault: the next start then takes longer.

        Args:
            folder: where to instead of the cache folder; the floors of all namespaces go along, so
                that readers of a frozen bank need no cache of their own.

        Raises:
            StorageError: `storage_failed`, `folder` cannot be written to.
        """
        with self._lock:
            self.refresh()
            if folder is not None:
                self.fit_floors()
                try:
                    self._write(folder)
                except OSError as error:
                    raise StorageError("the folded index cannot be written") from error
            elif self._cache is not None:
                with suppress(OSError):
                    self._write(self._cache)
                    self._changes = 0

    def _write(self, folder: Path) -> None:
        write_derived(folder / self._file_name, self._header(), self._arrays())
        write_floors(folder, self._bank_id, self._fingerprint, self._floors)

    def _load(self) -> None:
        """Start from the newest sound derived file, or from nothing."""
        self._start_empty()
        head = self._source.head_seq
        expected = {name: self._header()[name] for name in ("format", "bank_id", "fingerprint")}
        found = [read_derived(folder / self._file_name, expected) for folder in self._folders]
        sound = [file for file in found if file is not None and self._belongs(file, head)]
        newest = max(sound, key=lambda file: int(file.header["seq"]), default=None)
        if newest is not None:
            self._restore(newest)
        for folder in reversed(self._folders):
            self._floors.update(read_floors(folder, self._bank_id, self._fingerprint))

    def _start_empty(self) -> None:
        self._seq = 0
        self._floors: dict[str, Floor] = {}
        self._catalog = Catalog()
        self._lexical = LexicalIndex(self._catalog)
        self._dense: DenseIndex | None = None
        if self._encoder is not None:
            self._dense = DenseIndex(self._catalog, self._encoder.dimension)

    def _belongs(self, file: DerivedFile, head: int) -> bool:
        seq = int(file.header["seq"])
        return seq <= head and file.header["journal"] == self._history(seq)

    def _history(self, seq: int) -> str:
        return self._journal_hash(seq) if self._journal_hash is not None else ""

    def _restore(self, file: DerivedFile) -> None:
        self._seq = int(file.header["seq"])
        self._catalog = Catalog.from_arrays(_part(file.arrays, "catalog"))
        self._lexical = LexicalIndex.from_arrays(self._catalog, _part(file.arrays, "lexical"))
        if self._encoder is not None:
            self._dense = DenseIndex.from_arrays(
                self._catalog, self._encoder.dimension, _part(file.arrays, "dense")
            )

    def _header(self) -> dict[str, str | int]:
        return {
            "format": _FORMAT,
            "bank_id": self._bank_id,
            "fingerprint": self._fingerprint,
            "seq": self._seq,
            "journal": self._history(self._seq),
        }

    def _arrays(self) -> dict[str, NDArray[Any]]:
        parts: dict[str, Any] = {"catalog": self._catalog, "lexical": self._lexical}
        if self._dense is not None:
            parts["dense"] = self._dense
        return {
            f"{part}.{name}": array
            for part, owner in parts.items()
            for name, array in owner.arrays().items()
        }

    @property
    def _file_name(self) -> str:
        return f"recall-{self._fingerprint[:16]}.derived"


def _part(arrays: dict[str, NDArray[Any]], part: str) -> dict[str, NDArray[Any]]:
    prefix = f"{part}."
    return {name.removeprefix(prefix): arrays[name] for name in arrays if name.startswith(prefix)}


def fuse(rankings: Sequence[Sequence[tuple[str, float]]], rrf_k: int) -> list[tuple[str, float]]:
    """Fuse rankings by reciprocal rank: a node's score is the sum of 1 / (rrf_k + rank).

    Ranks count from 1; nodes of equal score in a ranking share a rank (ours), and what is equal in
    the end is ordered by node id.
    """
    totals: dict[str, float] = {}
    for ranking in rankings:
        rank = 0
        for place, (name, score) in enumerate(ranking, start=1):
            if place == 1 or score != ranking[place - 2][1]:
                rank = place
            totals[name] = totals.get(name, 0.0) + 1.0 / (rrf_k + rank)
    return sorted(totals.items(), key=lambda item: (-item[1], item[0]))


def shorten(question: str) -> tuple[str, bool]:
    """Return a question of at most 8 KiB, its head and tail kept, and whether it was longer."""
    data = question.encode("utf-8", "backslashreplace")
    if len(data) <= QUERY_BYTES:
        return data.decode("utf-8"), False
    half = (QUERY_BYTES - len(_GAP)) // 2
    head = data[:half].decode("utf-8", "ignore")
    tail = data[-half:].decode("utf-8", "ignore")
    return head + _GAP + tail, True


def _check_arguments(question: str, k: int, mode: str) -> None:
    if not isinstance(question, str):
        raise RecordError("a question is a text", field="question", got=type(question).__name__)
    if not isinstance(k, int) or isinstance(k, bool):
        raise RecordError("k is a whole number", field="k", got=type(k).__name__)
    if mode not in get_args(Mode):
        raise RecordError("unknown recall mode", field="mode", hint=f"one of {get_args(Mode)}")
