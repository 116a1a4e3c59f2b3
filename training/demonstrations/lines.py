"""JSON Lines files that one process appends to: a line is in the file whole, or is dropped."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from epimem.bank.storage import storage_error
from epimem.errors import RecordError
from epimem.schema import strict_json

MAX_DEPTH = strict_json.RUN_DEPTH + 8
"""A demonstration holds a run, which may nest as deep as its own reader allows."""


class Appender:
    """Appends to one file; what a crash left of a last line is cut off when it opens.

    Args:
        path: of the file; made where it is missing.
        alone: hold the kernel's lock on it, for a file that no other lock guards.

    Raises:
        BlockingIOError: another process holds the lock.
        StorageError: `storage_full` or `storage_failed`, also from `append`.
    """

    def __init__(self, path: Path, *, alone: bool = False) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        try:
            self._descriptor = os.open(path, flags, 0o600)
            if alone:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._size = path.read_bytes().rfind(b"\n") + 1
            os.ftruncate(self._descriptor, self._size)
        except BlockingIOError:
            os.close(self._descriptor)
            raise
        except OSError as error:
            raise storage_error(error) from error

    def append(self, line: bytes) -> None:
        """Write one line; it is on disk when this returns, and not in the file when this raises."""
        try:
            rest = memoryview(line + b"\n")
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            os.fsync(self._descriptor)
        except OSError as error:
            os.ftruncate(self._descriptor, self._size)
            raise storage_error(error) from error
        self._size += len(line) + 1

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def read_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (number from 1, JSON data) of each line, or (number, RecordError) for a bad one.

    A last line without its end is a bad one: its writer was stopped, or is at work. A file that is not
    there has no lines.
    """
    if not path.exists():
        return
    with path.open("rb") as handle:
        for number, line in enumerate(handle, 1):
            try:
                yield number, _read(line)
            except RecordError as error:
                yield number, error


def _read(line: bytes) -> Any:
    if not line.endswith(b"\n"):
        raise RecordError("the last line is cut short", code="bad_json", got=len(line))
    return strict_json.loads(line, max_depth=MAX_DEPTH)
