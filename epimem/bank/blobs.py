"""Content-addressed files: root/<first 2 hex>/<sha256>, written whole or not at all.

Write order (reference: the write protocol of the security notes): write root/tmp/<random>, fsync
it, rename it, fsync the folder it went to. Only then may a row name the blob, so that a crash
leaves nothing or a file nobody refers to, never a row without its blob.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from epimem.bank.failpoints import failpoint
from epimem.bank.storage import FULL, WriteStop
from epimem.errors import BankCorruptError, BankFrozenError, NotFoundError, StorageError
from epimem.schema.ids import sha256

_NAME = re.compile(r"[0-9a-f]{64}")
_SHARD = re.compile(r"[0-9a-f]{2}")
_BROKEN = frozenset({errno.EIO, errno.EROFS})
# O_NONBLOCK: a pipe planted under a blob's name must not hang the reader.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class BlobStore:
    """Blobs by the SHA-256 of their own bytes; files 0600, folders 0700, no symbolic links.

    After a failed fsync, an input/output error or a file system gone read-only, writes stay refused
    (`storage_failed`) until the store is opened anew; see `WriteStop`. Reads go on.

    Args:
        root: the folder; made when absent unless `read_only`.
        read_only: refuse `put`, `delete` and `sweep_tmp` with `bank_frozen`, and touch nothing.
        stop: shared with the database of the same handle, so that both stop at once.
    """

    def __init__(
        self, root: Path, *, read_only: bool = False, stop: WriteStop | None = None
    ) -> None:
        self._root = root
        self._read_only = read_only
        self._stop = stop or WriteStop()
        self._durable_folders: set[str] = set()
        if root.is_symlink():
            raise StorageError(
                "the blob folder is a symbolic link", code="unsafe_bank_location", field="blobs"
            )
        if not read_only:
            with self._storage("create"):
                root.mkdir(mode=0o700, exist_ok=True)
                (root / "tmp").mkdir(mode=0o700, exist_ok=True)

    def put(self, data: bytes) -> str:
        """Store `data` durably and return its SHA-256; a sound copy already there is kept.

        Raises:
            BankFrozenError: the store is read-only.
            StorageError: `storage_full` or `storage_failed`.
            BankCorruptError: something that is not a file stands under the blob's name.
        """
        self._check_writable()
        name = sha256(data)
        with self._storage("write"):
            folder = self._shard(name)
            if not self._settle(folder / name, name):
                self._write(folder / name, data)
        return name

    def get(self, name: str) -> bytes:
        """Return the bytes of a blob, checked against its name.

        Raises:
            NotFoundError: no such blob.
            BankCorruptError: the bytes do not fit the name, or it is a link, folder or device.
            StorageError: `storage_failed` when it cannot be read.
        """
        with self._storage("read"):
            data = self._content(self.path(name))
        if sha256(data) != name:
            raise BankCorruptError("blob does not match its checksum", got=name)
        return data

    def has(self, name: str) -> bool:
        """Return whether a file stands under this name; its bytes are not checked."""
        if not _NAME.fullmatch(name):
            return False
        try:
            return stat.S_ISREG(self.path(name).lstat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def path(self, name: str) -> Path:
        """Return where a blob of this name stands or would stand.

        Raises:
            NotFoundError: this is not a blob's name, so that no such blob can exist.
        """
        if not _NAME.fullmatch(name):
            raise NotFoundError("no such blob", field="blob", got=name)
        return self._root / name[:2] / name

    def delete(self, name: str) -> None:
        """Remove a blob durably; absent already is fine."""
        self._check_writable()
        path = self.path(name)
        with self._storage("delete"), suppress(FileNotFoundError):
            path.unlink()
            self._sync_folder(path.parent)

    def names(self) -> Iterator[str]:
        """Yield the names of all blobs in order; strays and temporary files are left out."""
        for shard in self._entries(self._root):
            if _SHARD.fullmatch(shard):
                for name in self._entries(self._root / shard):
                    if _NAME.fullmatch(name) and name[:2] == shard:
                        yield name

    def sweep_tmp(self) -> int:
        """Remove what crashed writers left in tmp and return how many; live writers are spared.

        A writer holds a lock on its file until the rename, so the two cannot be mixed up.
        """
        self._check_writable()
        removed = 0
        with self._storage("sweep"):
            for name in self._entries(self._root / "tmp"):
                removed += self._sweep(self._root / "tmp" / name)
        return removed

    def _entries(self, folder: Path) -> list[str]:
        with self._storage("read"):
            try:
                return [] if folder.is_symlink() else sorted(path.name for path in folder.iterdir())
            except (FileNotFoundError, NotADirectoryError):
                return []

    def _sweep(self, path: Path) -> bool:
        try:
            descriptor = os.open(path, _READ)
        except OSError as error:
            if error.errno != errno.ELOOP:
                return False
            path.unlink()
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        except (BlockingIOError, FileNotFoundError, IsADirectoryError):
            return False
        finally:
            os.close(descriptor)
        return True

    def _shard(self, name: str) -> Path:
        """Return the folder of a blob, made durable once per store whoever made it."""
        folder = self._root / name[:2]
        if name[:2] not in self._durable_folders or not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)
            if not self._durable_folders:
                self._sync_folder(self._root.parent)
            if folder.is_symlink():
                raise BankCorruptError("a folder of blobs is a link")
            self._sync_folder(self._root)
            self._durable_folders.add(name[:2])
        return folder

    def _settle(self, path: Path, name: str) -> bool:
        """Return whether a sound copy stands at `path`, after making sure that it is durable.

        Its writer may have died between the rename and the fsync of the folder, and a copied bank
        may never have been synced at all; both look sound from the page cache.
        """
        try:
            if sha256(self._content(path)) != name:
                return False
        except (NotFoundError, BankCorruptError, OSError):
            return False  # unreadable counts as absent: a new copy takes its place
        descriptor = self._open(path)
        try:
            self._fsync(descriptor)
        finally:
            os.close(descriptor)
        self._sync_folder(path.parent)
        return True

    def _content(self, path: Path) -> bytes:
        with os.fdopen(self._open(path), "rb") as handle:
            return handle.read()

    def _write(self, path: Path, data: bytes) -> None:
        temporary, descriptor = self._temporary()
        try:
            failpoint("blob.write")
            _write_all(descriptor, data)
            failpoint("blob.fsync")
            self._fsync(descriptor)
            failpoint("blob.rename")
            _rename(temporary, path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        finally:
            os.close(descriptor)
        failpoint("blob.dirsync")
        self._sync_folder(path.parent)

    def _temporary(self) -> tuple[Path, int]:
        """Return a new file in tmp that this descriptor has locked against `sweep_tmp`."""
        while True:
            path = self._root / "tmp" / os.urandom(16).hex()
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(path, flags, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_nlink:
                return path, descriptor
            os.close(descriptor)  # a sweep came in between

    def _open(self, path: Path) -> int:
        """Open a regular file for reading; a link, folder, pipe or device is damage."""
        try:
            if path.parent.is_symlink():
                raise BankCorruptError("a folder of blobs is a link")
            descriptor = os.open(path, _READ)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFoundError("no such blob", field="blob", got=path.name) from error
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.ENXIO}:
                raise BankCorruptError("blob is not a file") from error
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise BankCorruptError("blob is not a file", got=path.name)
        return descriptor

    def _sync_folder(self, folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._fsync(descriptor)
        finally:
            os.close(descriptor)

    def _fsync(self, descriptor: int) -> None:
        try:
            os.fsync(descriptor)
        except OSError:
            self._stop.stop("a flush to disk failed")
            raise

    def _check_writable(self) -> None:
        if self._read_only:
            raise BankFrozenError("the bank is open for reading only")
        self._stop.check()

    @contextmanager
    def _storage(self, doing: str) -> Iterator[None]:
        """Turn errors of the operating system into ours; broken storage stops later writes."""
        try:
            yield
        except OSError as error:
            if error.errno in _BROKEN and doing != "read":
                self._stop.stop("the disk reported an error")
            full = error.errno in FULL
            raise StorageError(
                "the disk is full" if full else f"the disk refused to {doing}",
                code="storage_full" if full else "storage_failed",
                field="blobs",
                got=errno.errorcode.get(error.errno or 0, "unknown"),
            ) from error


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _rename(temporary: Path, path: Path) -> None:
    try:
        temporary.rename(path)
    except IsADirectoryError as error:
        raise BankCorruptError("a folder stands in a blob's place", got=path.name) from error
