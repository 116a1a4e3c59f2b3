"""What becomes of a disk that fails: our errors for its errors, and a handle that writes no more."""

from __future__ import annotations

import errno

from epimem.errors import StorageError

# EFBIG is what a limit on the size of files gives.
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def full_error() -> StorageError:
    """Return our error for a full disk."""
    return StorageError("the disk is full", code="storage_full", hint="free space, then retry")


def storage_error(error: OSError) -> StorageError:
    """Return our error for an error of the disk."""
    if error.errno in FULL:
        return full_error()
    return StorageError(
        f"the disk refused: {errno.errorcode.get(error.errno or 0, 'unknown')}",
        hint="check the disk and its permissions, then reopen the bank",
    )


class WriteStop:
    """Whether a handle may still write: after a failed flush it may not, until the bank is opened anew.

    A repeated fsync may succeed without the data having reached the disk, because the kernel drops
    pages that it could not write; so database and blobs of a handle stop together. Reads go on.
    """

    def __init__(self) -> None:
        self._reason = ""

    def stop(self, reason: str) -> None:
        """Refuse every later write; the first reason stays."""
        self._reason = self._reason or reason

    def check(self) -> None:
        """Refuse to write after `stop`.

        Raises:
            StorageError: `storage_failed`.
        """
        if self._reason:
            raise StorageError(
                f"writes are refused since {self._reason}",
                hint="check the disk, then open the bank again",
            )
