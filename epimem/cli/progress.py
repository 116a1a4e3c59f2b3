"""Progress of long jobs on standard error: a live display on a terminal, a line now and then else.

The first Ctrl-C stops a job where it has finished something whole (a record, a batch of runs, a
maintenance step), so that going on later gives what an uninterrupted job gives; a second one stops
at once, which loses nothing either, but may divide a batch in two.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

from epimem.cli.output import console, is_terminal, note

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

Report = Callable[[str, int, int], None]
EVERY_S = 5.0
STOPPING = "epimem: stopping after what is under way; Ctrl-C again stops at once"
RESUME = "epimem: interrupted; the same command goes on where it stopped"


class Rate:
    """How fast one phase goes, and how long it will take.

    Args:
        clock: seconds.
        start: when the phase began; its first report comes when something is done already.
    """

    def __init__(self, clock: Callable[[], float], start: float) -> None:
        self._clock = clock
        self._start = start

    def told(self, done: int, total: int) -> str:
        """Return `12 of 40, 3.1/s, 9 s left`; without the last part where the total is unknown."""
        seconds = max(self._clock() - self._start, 1e-9)
        rate = done / seconds
        amount = f"{done} of {total}" if total > done else f"{done}"
        parts = [amount, f"{rate:.1f}/s"]
        if total > done and rate > 0:
            parts.append(f"{duration((total - done) / rate)} left")
        return ", ".join(parts)


def duration(seconds: float) -> str:
    """Return seconds as `41 s`, `3 min 20 s` or `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class Lines:
    """Writes a line every few seconds, and one at the end of each phase."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._phase = ""
        self._written = self._reported = clock()
        self._rate = Rate(clock, self._reported)
        self._pending = ""

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Take a report."""
        if phase != self._phase:
            self.finish()
            self._phase, self._rate = phase, Rate(self._clock, self._reported)
        self._reported = self._clock()
        self._pending = f"{phase}: {self._rate.told(done, total)}"
        if self._reported - self._written >= EVERY_S:
            self.finish()

    def finish(self) -> None:
        """Write what was reported last, if it was not written yet."""
        if self._pending:
            note(self._pending)
            self._pending = ""
            self._written = self._clock()


class Bars:
    """Moves one bar a phase in a live display."""

    def __init__(self, display: RichProgress) -> None:
        self._display = display
        self._phase = ""
        self._reported = time.monotonic()
        self._rate = Rate(time.monotonic, self._reported)
        self._task: TaskID | None = None

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Take a report; a total that is not above what is done is unknown."""
        if phase != self._phase or self._task is None:
            self.finish()
            self._phase, self._rate = phase, Rate(time.monotonic, self._reported)
            self._task = self._display.add_task(phase, total=None, told="")
        self._reported = time.monotonic()
        known = total if total > done else None
        told = self._rate.told(done, total)
        self._display.update(self._task, completed=done, total=known, told=told)

    def finish(self) -> None:
        """Fill the bar of the phase that ended."""
        if self._task is not None:
            self._display.update(self._task, total=1, completed=1)


@contextmanager
def progress() -> Iterator[Report]:
    """Show the progress that is reported inside; pass the result on as a journey's `progress`.

    Raises:
        KeyboardInterrupt: from a report, after Ctrl-C.
    """
    with _stop_at_report() as check, _display() as show:

        def report(phase: str, done: int, total: int) -> None:
            show(phase, done, total)
            check()

        yield report


@contextmanager
def _display() -> Iterator[Report]:
    if not is_terminal(sys.stderr):
        lines = Lines()
        try:
            yield lines
        finally:
            lines.finish()
        return
    with _bars() as display:
        bars = Bars(display)
        yield bars
        bars.finish()


def _bars() -> RichProgress:
    from rich import progress as parts

    return parts.Progress(
        parts.TextColumn("{task.description:>10}", markup=False),
        parts.BarColumn(bar_width=30),
        parts.TextColumn("{task.fields[told]}", markup=False),
        console=console(stderr=True),
    )


@contextmanager
def _stop_at_report() -> Iterator[Callable[[], None]]:
    """Turn the first Ctrl-C into an interrupt at the next check; leave later ones as they are."""
    asked = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        del number, frame
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        with suppress(RuntimeError):  # the handler may have come in the middle of another write
            note(STOPPING)

    def check() -> None:
        if asked.is_set():
            raise KeyboardInterrupt

    before: Any = signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()
    if before == signal.SIG_IGN or not in_main:
        yield check
        return
    signal.signal(signal.SIGINT, ask)
    try:
        yield check
    except KeyboardInterrupt:
        note(RESUME)
        raise
    finally:
        signal.signal(signal.SIGINT, before)
