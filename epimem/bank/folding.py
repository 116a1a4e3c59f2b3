"""Folding: building a graph of rows that were scanned so far, in the background if wanted.

A fold works on data of its own and touches neither the bank nor its files. Whoever holds the index
takes the finished graph over at a moment of their own choosing.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from epimem.bank.graph import CHUNK, HELD, Graph, Rows, build


class Fold:
    """A graph in the making, over a state of the index that does not change any more.

    Args:
        base: the graph that is added to, None to begin anew.
        head: rows of the head.
        tail: rows of the tail.
        keep: positions of the rows to add. They are added in this order, but for some that are drawn
            to come last: with these as questions the breadth of the search is chosen.
        layout: which arrangement of positions they count in.
    """

    def __init__(
        self, base: Graph | None, head: Rows, tail: Rows, keep: NDArray[np.int64], layout: object
    ) -> None:
        self.base, self.layout = base, layout
        self.end = len(head) + len(tail)
        self.graph: Graph | None = None
        self._head, self._tail = head, tail
        held = np.random.default_rng(len(keep)).permutation(len(keep))
        held = np.sort(held[: max(1, min(HELD, len(keep) // 4))])
        self._held = len(held)
        self.keep = np.concatenate([np.delete(keep, held), keep[held]])

    def run(self, cancelled: Callable[[], bool]) -> None:
        """Build the graph; `graph` stays None when it was cancelled."""
        held = self._rows(self.keep[-self._held :])
        self.graph = build(self._chunks(), held, self.base, cancelled)

    def _chunks(self) -> Iterator[Rows]:
        places = self.keep[: -self._held]
        for start in range(0, len(places), CHUNK):
            yield self._rows(places[start : start + CHUNK])

    def _rows(self, positions: NDArray[np.int64]) -> Rows:
        return gathered(self._head, self._tail, positions)


def gathered(head: Rows, tail: Rows, positions: NDArray[np.int64]) -> Rows:
    """Return copies of rows by position."""
    early = positions < len(head)
    if early.all():
        return head[positions]
    rows = np.empty((len(positions), head.shape[1]), dtype=np.float32)
    rows[early] = head[positions[early]]
    rows[~early] = tail[positions[~early] - len(head)]
    return rows


class BackgroundFold:
    """Runs at most one fold at a time.

    A fold that is under way when the process ends is given up: the thread is told so and waited for
    (it looks every few hundred rows), because a thread inside FAISS must not outlive the interpreter.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._fold: Fold | None = None
        self._stop = threading.Event()

    @property
    def running(self) -> bool:
        """Whether a fold was started and not yet taken or given up."""
        return self._thread is not None

    def start(self, fold: Fold) -> None:
        """Begin a fold."""
        assert self._thread is None, "one fold at a time"
        self._fold = fold
        self._stop.clear()
        stop = self._stop.is_set
        # Not waited for by the interpreter before `close`, which is what ends it early.
        self._thread = threading.Thread(
            target=fold.run, args=(stop,), name="epimem-fold", daemon=True
        )
        atexit.register(self.close)
        self._thread.start()

    def finished(self) -> Fold | None:
        """Return the fold once its thread has ended; None while it works or where there is none."""
        if self._thread is None or self._thread.is_alive():
            return None
        fold = self._fold
        self._forget()
        return fold

    def wait(self) -> None:
        """Wait until the fold under way is finished."""
        if self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        """Give up the fold under way; returns when its thread has ended, within a second or so."""
        self._stop.set()
        self.wait()
        self._forget()

    def _forget(self) -> None:
        atexit.unregister(self.close)
        self._thread = self._fold = None
