"""The index of a bank in one process: it follows the bank, is folded, and is kept in a derived file.

`Recall` (epimem.bank.recall) adds the searching.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from epimem.bank.catalog import Catalog, IndexRow
from epimem.bank.derived import DerivedFile, read_derived, write_derived
from epimem.bank.floor import Searched
from epimem.bank.floors import Floors
from epimem.bank.folding import BackgroundFold, Fold
from epimem.bank.index import DenseIndex
from epimem.bank.lexical import LexicalIndex
from epimem.bank.storage import storage_error
from epimem.errors import EpimemError
from epimem.protocols import Encoder

_FORMAT = 3  # 2: other terms, 3: with a graph
_LONG_LIVED = 16  # questions after which a process may fold in the background; ours
_WRITTEN = 5  # times that a file is written anew before a bank is too busy to keep one; ours
_FOLDED_PER_CHANGE = 4  # rows folded at the end of a command for each row it changed; ours


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


class FollowedIndex:
    """One process's index of a bank, behind a lock.

    A process that has asked 16 questions folds new rows into the graph in a thread of its own; no
    question waits for that. Shorter ones only scan what is new.

    Args:
        source: the bank.
        encoder: the encoder that made the bank's vectors, or None.
        cache: a folder for derived files, or None to keep everything in memory.
        extra_caches: folders that are read only, such as the one inside a frozen bank.
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
        journal_hash: Callable[[int], str] | None = None,
    ) -> None:
        self._source = source
        self._encoder = encoder
        self._cache = cache
        self._folders = [*([cache] if cache else []), *extra_caches]
        self._journal_hash = journal_hash
        self._lock = threading.RLock()
        self._bank_id = source.bank_id
        self._fingerprint = encoder.fingerprint if encoder else "lexical"
        self._floors = Floors(self._bank_id, encoder, self._lock)
        self._changes = 0
        self._gone = 0
        self._asked = 0
        self._folding = BackgroundFold()
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
        if delta.removed:
            self._floors.forget()
        self._gone += len(delta.removed)
        self._changes += len(delta.added) + len(delta.removed)

    # Folding

    def fold(self, *, at_any_cost: bool = False) -> bool:
        """Fold what is new into the graph now, where that is due; return whether it was.

        A graph takes 0.2 to 0.7 ms a row. Without `at_any_cost` nothing is folded that takes more
        than four rows for each row that this process saw change: a command that adds a few lessons
        to a large bank leaves the graph to those who ask long enough to gain by it.
        """
        with self._lock:
            self._folding.close()
            work = self._dense.fold_work if self._dense is not None else 0
            if not at_any_cost and work > _FOLDED_PER_CHANGE * self._changes:
                return False
            fold = self._dense.fold() if self._dense is not None else None
            if fold is None:
                return False
            fold.run(lambda: False)
            return self._adopt(fold)

    def _fold_meanwhile(self) -> None:
        """Take over what the background has finished, or let it begin."""
        self._asked += 1
        if self._dense is None:
            return
        if self._folding.running:
            done = self._folding.finished()
            if done is not None and not self._adopt(done):
                self._asked = 0  # stale, or it failed: the next one waits for as many questions
        elif self._asked >= _LONG_LIVED and self._dense.fold_work:
            fold = self._dense.fold()
            assert fold is not None
            self._folding.start(fold)

    def _adopt(self, fold: Fold) -> bool:
        # A fold of an index that was started anew meanwhile is refused.
        if self._dense is None or not self._dense.adopt(fold):
            return False
        self._changes += len(fold.keep)
        return True

    def stop(self) -> None:
        """Give up folds and fits under way in the background; asking stays possible."""
        with self._lock:
            self._folding.close()
            self._floors.stop()

    def close(self) -> None:
        """Stop, and save where that is due."""
        with self._lock:
            self.stop()
            if self.due:
                with suppress(EpimemError):  # a bank that cannot be read now is read anew next time
                    self.save()

    # The floors

    @property
    def _searched(self) -> Searched:
        return Searched(self._catalog, self._lexical, self._dense)

    def fit_floors(self) -> None:
        """Fit the floors of all namespaces that lack one or have outgrown theirs."""
        with self._lock:
            self.refresh()
            self._floors.fit_all(self._searched)

    # Derived files

    def save(self, folder: Path | None = None) -> None:
        """Write index and floors, following the bank first so that nothing revoked is written.

        A cache folder that cannot be written to is no fault: the next start then takes longer.

        Args:
            folder: where to instead of the cache folder; the floors of all namespaces go along, so
                that readers of a frozen bank need no cache of their own.

        Raises:
            StorageError: `storage_failed` or `storage_full`, `folder` cannot be written to.
        """
        with self._lock:
            self.fit_floors()
            if folder is not None:
                try:
                    self._write(folder)
                except OSError as error:
                    raise storage_error(error) from error
            elif self._cache is not None:
                with suppress(OSError):
                    self._write(self._cache)
                    self._changes = 0

    def _write(self, folder: Path) -> None:
        """Write both, and the index again where something went meanwhile.

        A purge deletes what is in the cache; what is written after it must not hold what it was for.
        """
        path = folder / self._file_name
        write_derived(path, self._header(), self._arrays())
        self._floors.write(folder)
        try:
            for _ in range(_WRITTEN):
                gone = self._gone
                self.refresh()
                if self._gone == gone:
                    return
                write_derived(path, self._header(), self._arrays())
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        path.unlink(missing_ok=True)

    def _load(self) -> None:
        """Start from the newest sound derived file, or from nothing."""
        self._start_empty()
        head = self._source.head_seq
        expected = {name: self._header()[name] for name in ("format", "bank_id", "fingerprint")}
        found = [read_derived(folder / self._file_name, expected) for folder in self._folders]
        sound = [file for file in found if file is not None and self._belongs(file, head)]
        newest = max(sound, key=lambda file: int(file.header["seq"]), default=None)
        if newest is not None:
            try:
                self._restore(newest)
            except (ValueError, KeyError, TypeError, IndexError):
                self._start_empty()  # sound, and yet not what we write
        for folder in reversed(self._folders):
            self._floors.read(folder)

    def _start_empty(self) -> None:
        self._seq = 0
        self._gone += 1
        self._floors.clear()
        self._catalog = Catalog()
        self._lexical = LexicalIndex(self._catalog)
        self._dense: DenseIndex | None = None
        if self._encoder is not None:
            self._dense = DenseIndex(self._catalog, self._encoder.dimension)

    def _belongs(self, file: DerivedFile, head: int) -> bool:
        seq = file.header["seq"]
        return (
            isinstance(seq, int)
            and 0 <= seq <= head
            and file.header["journal"] == self._history(seq)
        )

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
