"""The floors of a bank's namespaces: kept, stored, and fitted again off the path of a question.

A fit searches for 512 questions: a second in a bank of 100,000 rows, and several more where the
general questions are not encoded yet. So a floor is fitted when the index is saved (after
maintenance, and before a bank is frozen), or by the question that needs it only where that is quick,
where there is none yet, or where the bank has doubled. In between a thread fits it, some general
questions at a time, and the old floor serves meanwhile. Ours.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epimem.bank.derived import read_derived, write_derived
from epimem.bank.floor import NEARER, QUANTILE, Floor, FloorFit, Searched, fit_floor
from epimem.bank.general_questions import general_vectors, questions_digest
from epimem.errors import EpimemError
from epimem.protocols import Encoder

AT_ONCE = 4096  # rows up to which a question waits for a fit: some 0.1 s; ours
_SLICE = 64  # general questions a time that the lock is held: some 0.15 s at 1e5 rows; ours
_FORMAT = 2  # 2: with relatives


class _OverError(Exception):
    """A fit aside is to end."""


class Floors:
    """Floors by namespace. The lock is held by the caller of every method but `settle`.

    Args:
        bank_id: of the bank; stored floors of other banks are not read.
        encoder: of the bank, None without one.
        lock: guards the indexes; the thread that fits takes it for each slice.
        at_once: rows up to which `of` fits at once.
    """

    def __init__(
        self,
        bank_id: str,
        encoder: Encoder | None,
        lock: threading.RLock,
        *,
        at_once: int = AT_ONCE,
    ) -> None:
        self._bank_id = bank_id
        self._encoder = encoder
        self._fingerprint = encoder.fingerprint if encoder else "lexical"
        self._lock = lock
        self._at_once = at_once
        self._floors: dict[str, Floor] = {}
        self._relatives: dict[str, tuple[Floor, Relatives]] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._stopped = False

    def of(self, namespace: str, searched: Searched, cache: Path | None) -> Floor:
        """Return the floor of a namespace, fitted first where it cannot wait.

        Args:
            namespace: one that has live rows.
            searched: the indexes as they are now.
            cache: where a floor that was fitted is written to, None for nowhere.
        """
        rows, vectors = searched.size(namespace)
        known = self._floors.get(namespace)
        if known is not None and known.fits(rows, vectors):
            return known
        if known is not None and self._can_wait(known, rows, vectors):
            self._fit_aside(namespace, searched, known)
            return known
        floor = self._fit(namespace, searched)
        if cache is not None:
            with suppress(OSError):  # a cache that cannot be written costs the next start time
                self.write(cache)
        return floor

    def _can_wait(self, known: Floor, rows: int, vectors: int) -> bool:
        doubled = rows >= 2 * known.rows or vectors >= 2 * known.vectors
        return rows > self._at_once and not doubled

    def fit_all(self, searched: Searched) -> None:
        """Fit the floors of all namespaces that lack one or have outgrown theirs."""
        for namespace in searched.catalog.namespaces():
            known = self._floors.get(namespace)
            if known is None or not known.fits(*searched.size(namespace)):
                self._fit(namespace, searched)

    def _fit(self, namespace: str, searched: Searched) -> Floor:
        floor = fit_floor(searched, namespace, self._general(searched))
        self._floors[namespace] = floor
        return floor

    def _general(
        self, searched: Searched, go_on: Callable[[], None] = lambda: None
    ) -> NDArray[np.float32] | None:
        if self._encoder is None or searched.dense is None or not len(searched.dense):
            return None
        return general_vectors(self._encoder, go_on)

    # Aside

    def _fit_aside(self, namespace: str, searched: Searched, known: Floor) -> None:
        running = self._threads.get(namespace)
        if not self._stopped and (running is None or not running.is_alive()):
            arguments = (namespace, searched, known)
            # Waited for when the process ends: it must not be inside the encoder's runtime then.
            thread = threading.Thread(target=self._work, args=arguments, name="epimem-floor")
            self._threads[namespace] = thread
            thread.start()

    def _work(self, namespace: str, searched: Searched, known: Floor) -> None:
        """Fit in slices, unless the floor is fitted or the indexes are replaced meanwhile."""
        # Where the encoder fails, the next question begins again.
        with suppress(EpimemError, _OverError):
            vectors = self._general(searched, self._go_on)
            fit: FloorFit | None = None
            done = False
            while not done:
                with self._lock:
                    began = time.monotonic()
                    self._go_on()
                    if self._floors.get(namespace) is not known:
                        return
                    fit = fit or FloorFit(searched, namespace, vectors)
                    done = fit.step(_SLICE)
                    if done:
                        self._floors[namespace] = fit.floor()
                    spent = time.monotonic() - began
                time.sleep(spent)  # so that questions get their turn

    def _go_on(self) -> None:
        """End a fit aside where it was told so, or where the process is ending."""
        if self._stopped or not threading.main_thread().is_alive():
            raise _OverError

    def stop(self) -> None:
        """Begin no more fits aside and let those under way end at their next slice."""
        self._stopped = True

    def settle(self) -> None:
        """Wait for the threads that fit; the caller does not hold the lock."""
        for thread in list(self._threads.values()):
            thread.join()

    # Relatives

    def nearest(
        self, namespace: str, floor: Floor, names: Sequence[str], searched: Searched
    ) -> dict[str, float]:
        """Return the cosine of each of these nodes and its nearest relative, where it has one."""
        if not names or searched.dense is None:
            return {}
        known = self._relatives.get(namespace)
        if known is None or known[0] is not floor:
            relatives = Relatives(*searched.dense.vectors(floor.relatives))
            known = self._relatives[namespace] = (floor, relatives)
        return known[1].nearest(*searched.dense.vectors(names))

    def forget(self) -> None:
        """Drop the vectors of relatives: one of them may have left the bank."""
        self._relatives.clear()

    # Derived files

    def clear(self) -> None:
        """Drop everything: the indexes are started anew."""
        self._floors.clear()
        self._relatives.clear()

    def read(self, folder: Path) -> None:
        """Take over the floors stored in a folder, if they were made for this bank and encoder."""
        stored = read_derived(folder / self._file_name, self._header())
        if stored is None:
            return
        try:
            values = json.loads(stored.arrays["floors"].tobytes())
            found = {namespace: _floor(value) for namespace, value in values.items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            return  # sound, and yet not what we write
        self._floors.update(found)

    def write(self, folder: Path) -> None:
        """Store the floors as JSON under a checksum.

        Raises:
            OSError: the folder cannot be written to.
        """
        values = {namespace: asdict(self._floors[namespace]) for namespace in sorted(self._floors)}
        data = json.dumps(values, allow_nan=False).encode("ascii")
        arrays = {"floors": np.frombuffer(data, dtype=np.uint8)}
        write_derived(folder / self._file_name, self._header(), arrays)

    @property
    def _file_name(self) -> str:
        # One for each encoder: readers with and without one take turns on many banks.
        return f"floors-{self._fingerprint[:16]}.derived"

    def _header(self) -> Mapping[str, str | int]:
        return {
            "format": _FORMAT,
            "bank_id": self._bank_id,
            "fingerprint": self._fingerprint,
            "questions": questions_digest(),
            "quantile": round(QUANTILE * 1000),
            "nearer": round(NEARER * 1000),
        }


def _floor(value: dict[str, Any]) -> Floor:
    """Read what `asdict` made of a floor."""
    dense, lexical = (
        None if value[name] is None else float(value[name]) for name in ("dense", "lexical")
    )
    rows, vectors = int(value["rows"]), int(value["vectors"])
    return Floor(dense, lexical, rows, vectors, tuple(str(name) for name in value["relatives"]))


class Relatives:
    """The lessons that candidates are compared with.

    Args:
        names: their n node ids.
        vectors: shape (n, dimension), unit rows.
    """

    def __init__(self, names: Sequence[str], vectors: NDArray[np.float32]) -> None:
        self._places = {name: place for place, name in enumerate(names)}
        self._vectors = vectors

    def nearest(self, names: Sequence[str], vectors: NDArray[np.float32]) -> dict[str, float]:
        """Return the greatest cosine of each node with another one among the relatives.

        Rounded, so that it does not depend on how many are compared at a time.
        """
        if not len(self._places) or not len(names):
            return {}
        scores = vectors @ self._vectors.T
        for row, name in enumerate(names):
            if name in self._places:
                scores[row, self._places[name]] = -1.0
        best = np.round(scores.max(axis=1).astype(np.float64), 5).tolist()
        return dict(zip(names, best, strict=True))
