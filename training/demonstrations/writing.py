"""The writing side of a set: one process at a time, whole lines, whole files."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from epimem.bank.storage import storage_error
from epimem.errors import BankBusyError
from training.demonstrations.lines import Appender

ACCEPTED, ASIDE = "demonstrations.jsonl", "aside.jsonl"
SPLITS, CARD, CARD_TEXT = "splits.json", "card.json", "card.md"
LOCK = ".lock"
# Ours: a writer that was killed while it started the process that decodes images leaves a copy of
# itself, lock included, that lives until that process has started.
PATIENCE_S = 0.5


class Writer:
    """Makes the folder of a set where it is missing; holds its lock and its two files of lines.

    The lock is the kernel's: it is free again when the process ends, however it ends.

    Raises:
        BankBusyError: another process holds the lock.
        StorageError: the disk is full or refuses; also from the methods.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, Appender] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise storage_error(error) from error
        try:
            self._take_lock()
            for name in (ACCEPTED, ASIDE):
                self._files[name] = Appender(folder / name)
        except BaseException:
            self.close()
            raise

    def _take_lock(self) -> None:
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() > until:
                    raise BankBusyError(
                        "another process writes this set of demonstrations",
                        field=str(self._folder),
                        hint="wait until it ends, or write to another folder",
                    ) from error
                time.sleep(PATIENCE_S / 10)
            else:
                return

    def append(self, name: str, line: bytes) -> None:
        """Append a line; splits and card, which it makes out of date, go first."""
        try:
            for stale in (SPLITS, CARD, CARD_TEXT):
                (self._folder / stale).unlink(missing_ok=True)
        except OSError as error:
            raise storage_error(error) from error
        self._files[name].append(line)

    def replace(self, name: str, data: bytes) -> None:
        """Write a file whole or not at all."""
        replace(self._folder / name, data)

    def close(self) -> None:
        """Close the files and give the lock back."""
        for each in self._files.values():
            each.close()
        os.close(self._lock)


def replace(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, durably, in place of the one that may be there.

    Raises:
        StorageError: the disk is full or refuses.
    """
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise storage_error(error) from error
