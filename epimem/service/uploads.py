"""Documents that were uploaded and wait to be contributed; each belongs to whoever uploaded it.

They lie beside the bank, never in it, under the hash of their bytes, and go after an hour: a
contribution whose answer was lost is sent again and finds its document.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from epimem.errors import AccessError, NotFoundError, RecordError
from epimem.schema.ids import sha256

MAX_BYTES = 64 * 1024 * 1024
KEPT_S = 3600
MOST_WAITING = 512 * 1024 * 1024
"""Bytes that may wait for one owner."""
_NAME = re.compile(r"[0-9a-f]{64}")


class Uploads:
    """The waiting documents of one bank.

    Args:
        folder: of its own; made when it is first needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def new(self) -> Path:
        """Return an empty file to write a document to; `keep` gives it its place."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._sweep()
        handle, name = tempfile.mkstemp(dir=self._folder, prefix="part-")
        os.close(handle)
        return Path(name)

    def keep(self, owner: str, written: Path, blob: str) -> None:
        """Keep a written document under the hash of its bytes, for its owner.

        Raises:
            AccessError: `quota_exceeded`, too much of the owner's waits already.
        """
        others = (path.stat().st_size for path in self._folder.glob(f"{_mark(owner)}-*"))
        if (waiting := sum(others) + written.stat().st_size) > MOST_WAITING:
            raise AccessError(
                "too much that was uploaded waits",
                code="quota_exceeded",
                got=waiting,
                limit=MOST_WAITING,
                hint="contribute it, or wait an hour",
            )
        written.replace(self._path(owner, blob))

    def get(self, owner: str, blob: str) -> bytes:
        """Return a document's bytes.

        Raises:
            NotFoundError: this owner has uploaded none of that hash.
            RecordError: `invalid_field`, that is no hash.
        """
        if not _NAME.fullmatch(blob):
            raise RecordError("a blob is named by 64 hexadecimal digits", field="blob")
        try:
            return self._path(owner, blob).read_bytes()
        except FileNotFoundError:
            raise NotFoundError(
                "no such upload", field="blob", hint="PUT it to /v1/blobs first"
            ) from None

    def _path(self, owner: str, blob: str) -> Path:
        return self._folder / f"{_mark(owner)}-{blob}"

    def _sweep(self) -> None:
        """Remove what nobody came back for."""
        for path in self._folder.iterdir():
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > KEPT_S:
                    path.unlink()


def _mark(owner: str) -> str:
    """Return what the names of an owner's files begin with."""
    return sha256(owner.encode("utf-8"))[:16]
