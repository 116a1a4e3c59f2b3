"""The embedded database: SQLite with durable commits, one writer at a time, readers never blocked.

Commits and checkpoints run under one kernel lock (`flock` on `bank.lock`): it queues writers fairly,
where SQLite's own busy timeout starves them (storage.md 2), and it keeps two connections from writing
and checkpointing at once, which SQLite before 3.51.3 may turn into a corrupt log (security.md 0.6).
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DatabaseError, MultipleResultsFound, NoResultFound
from sqlalchemy.pool import QueuePool, StaticPool

from epimem.bank.failpoints import failpoint
from epimem.bank.storage import FULL, WriteStop, full_error, storage_error
from epimem.errors import (
    BankBusyError,
    BankCorruptError,
    BankError,
    BankFrozenError,
    EpimemError,
    StorageError,
)

FILE_NAME = "bank.db"
LOCK_NAME = "bank.lock"
LOCK_WAIT_S = 5.0
# The log is folded into the database file past this size, under the lock.
CHECKPOINT_BYTES = 16 * 1024 * 1024
_PROBE_BYTES = 32 * 1024  # what SQLite's shared memory file has at least
# What SQLite makes of a quota or such a limit: only ENOSPC is a full disk to it.
_PERHAPS_FULL = frozenset({"SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_CANTOPEN"})


class Database:
    """Connections to one bank's database.

    Attributes:
        stop: refuses writes after a failed flush; the blobs of the same handle share it.

    Args:
        folder: the bank's folder.
        read_only: open for reading; nothing in the folder is written.
        immutable: the bank is frozen; SQLite then needs no lock and no shared memory file.
    """

    def __init__(self, folder: Path, *, read_only: bool = False, immutable: bool = False) -> None:
        self.folder = folder
        self.path = folder / FILE_NAME
        self._log_path = f"{self.path}-wal"
        self.read_only = read_only or immutable
        self.immutable = immutable
        self._lock = KernelLock(folder / LOCK_NAME)
        self.stop = WriteStop()
        self._closed = False
        self._unfolded = 0
        self._reader = self._engine(write=False)
        self._writer = None if self.read_only else self._engine(write=True)
        self._write_connection: Connection | None = None
        if self._writer is not None and Path(f"{self.path}-journal").exists():
            # A crash while the log mode was left (freeze): only a writer can roll that back.
            with self.exclusive() as raw:
                raw.execute("SELECT count(*) FROM sqlite_schema").fetchone()

    def _engine(self, *, write: bool) -> Engine:
        mode = "mode=ro&immutable=1" if self.immutable else "mode=rw" if write else "mode=ro"
        name = f"file:{quote(str(self.path))}?{mode}"

        def connect() -> sqlite3.Connection:
            connection = sqlite3.connect(
                name, uri=True, isolation_level=None, check_same_thread=False, timeout=LOCK_WAIT_S
            )
            _prepare(connection, write=write)
            return connection

        if write:
            # Begin and commit are issued by `write` itself: half the cost of the library's.
            return create_engine(
                "sqlite://", creator=connect, poolclass=StaticPool, isolation_level="AUTOCOMMIT"
            )
        engine = create_engine("sqlite://", creator=connect, poolclass=QueuePool)
        event.listen(
            engine, "begin", lambda connection: connection.connection.cursor().execute("BEGIN")
        )
        return engine

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open one read transaction: everything read in it belongs to one sequence number."""
        self._refuse_closed()
        with translated(self._written), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open one write transaction under the kernel lock; committed and flushed when it ends.

        Raises:
            BankFrozenError: the bank is frozen or opened for reading.
            BankBusyError: `bank_busy`, the lock was not free for 5 s.
            StorageError: the disk is full or a flush failed; after a failed flush every later write
                of this handle is refused, because the kernel may have dropped the pages.
        """
        self._refuse_closed()
        self.refuse_read_only()
        self.stop.check()
        with self._lock:
            with self._watched(), self._transaction() as connection:
                yield connection
            failpoint("db.committed")
            self._checkpoint_when_large()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Translate faults of a write; one that is not for want of room stops all later ones."""
        try:
            with translated(self.path):
                yield
        except StorageError as error:
            if error.code == "storage_failed":
                self.stop.stop("a write or flush of the database failed")
            raise

    @property
    def _written(self) -> Path | None:
        return None if self.read_only else self.path

    def refuse_read_only(self) -> None:
        """Refuse what would write.

        Raises:
            BankFrozenError: the bank is frozen or opened for reading.
        """
        if self._writer is None:
            raise BankFrozenError(
                "the bank is frozen" if self.immutable else "the bank was opened for reading",
                code="bank_frozen" if self.immutable else "forbidden_action",
            )

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        connection, raw = self._write_handle()
        raw.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            failpoint("db.commit")
            raw.execute("COMMIT")
        except BaseException as error:
            # Ctrl-C inside a statement makes the library close the connection: nothing to roll back
            # then, and what was begun is gone with it.
            with suppress(sqlite3.Error):
                if raw.in_transaction:
                    raw.execute("ROLLBACK")
            if not isinstance(error, Exception):
                self._write_connection = None
            raise

    def _write_handle(self) -> tuple[Connection, sqlite3.Connection]:
        assert self._writer is not None
        if self._write_connection is None:
            self._write_connection = self._writer.connect()
        raw = self._write_connection.connection.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        return self._write_connection, raw

    def _checkpoint_when_large(self) -> None:
        """Fold the log into the file and empty it; when readers hold it, after as much again."""
        try:
            size = os.stat(self._log_path).st_size  # noqa: PTH116 - once a commit, and cheaper
        except OSError:
            return
        if size - self._unfolded < CHECKPOINT_BYTES:
            return
        _, raw = self._write_handle()
        self._unfolded = size
        # The commit stands, whatever becomes of this: it is in the log, which is flushed.
        with suppress(EpimemError), self._watched():
            raw.execute("PRAGMA busy_timeout=0")
            try:
                busy = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            finally:
                raw.execute(f"PRAGMA busy_timeout={int(LOCK_WAIT_S * 1000)}")
            self._unfolded = size if busy else 0

    @contextmanager
    def exclusive(self) -> Iterator[sqlite3.Connection]:
        """Give the bare write connection under the lock, outside a transaction (purge, freeze)."""
        if self._writer is None:
            raise BankFrozenError("the bank is frozen")
        self.stop.check()
        with self._lock, self._watched():
            yield self._write_handle()[1]

    def release_readers(self) -> None:
        """Close this handle's idle read connections, which would keep the log mode (freeze)."""
        self._reader.dispose()

    def data_version(self) -> tuple[int, int]:
        """Return (size, mtime) of log and file: a cheap sign that something may have changed."""
        stamps = []
        for name in (self.path, self._log_path):
            try:
                stat = Path(name).stat()
                stamps.append(stat.st_size ^ stat.st_mtime_ns)
            except OSError:
                stamps.append(0)
        return stamps[0], stamps[1]

    def _refuse_closed(self) -> None:
        if self._closed:
            raise BankError("the bank was closed", code="forbidden_action", hint="open it again")

    def close(self) -> None:
        """Close all connections; every later use is refused."""
        self._closed = True
        self._reader.dispose()
        if self._write_connection is not None:
            self._write_connection.close()
        if self._writer is not None:
            self._writer.dispose()
        self._lock.close()


class KernelLock:
    """An advisory lock between processes and threads, released by the kernel when a holder dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread_lock = threading.RLock()
        self._depth = 0
        self._descriptor: int | None = None

    def __enter__(self) -> None:
        if not self._thread_lock.acquire(timeout=LOCK_WAIT_S):
            raise _busy()
        if self._depth == 0:
            try:
                self._acquire()
            except BaseException:
                self._thread_lock.release()
                raise
        self._depth += 1

    def __exit__(self, *exc: object) -> None:
        self._depth -= 1
        if self._depth == 0 and self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self._thread_lock.release()

    def _acquire(self) -> None:
        if self._descriptor is None:
            try:
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise storage_error(error) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._wait(self._descriptor)

    def _wait(self, descriptor: int) -> None:
        # Polling would lose the place in the kernel's queue; a thread waits in it instead.
        done = threading.Event()
        given_up = threading.Lock()
        state = {"abandoned": False}

        def wait() -> None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            with given_up:
                if state["abandoned"]:
                    os.close(descriptor)
                done.set()

        threading.Thread(target=wait, daemon=True).start()
        if done.wait(LOCK_WAIT_S):
            return
        with given_up:
            if done.is_set():
                return
            state["abandoned"] = True
            self._descriptor = None
        raise _busy()

    def close(self) -> None:
        """Close the lock file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _busy() -> BankBusyError:
    return BankBusyError(
        "another writer holds the lock", limit=LOCK_WAIT_S, hint="try again in a moment"
    )


def _prepare(connection: sqlite3.Connection, *, write: bool) -> None:
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA cell_size_check=ON")
    if write:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute("PRAGMA secure_delete=ON")


@contextmanager
def translated(written: Path | None = None) -> Iterator[None]:
    """Turn errors of the driver and the disk into ours, cause chained.

    Args:
        written: a database that is written to; a full disk in which SQLite sees a broken one is then
            told by trying to write beside it.
    """
    try:
        yield
    except EpimemError:
        raise
    except (NoResultFound, MultipleResultsFound) as error:
        # A row that must be there once is not there, or twice.
        raise BankCorruptError("the database file is damaged", hint="run `epimem check`") from error
    except DatabaseError as error:
        raise database_error(error.orig or error, written) from error
    except sqlite3.Error as error:
        raise database_error(error, written) from error
    except OSError as error:
        raise storage_error(error) from error


def _has_no_room(database: Path) -> bool:
    """Return whether nothing can be written beside a database, as far out as it or its log reaches."""
    end = 0
    for path in (database, Path(f"{database}-wal")):
        with suppress(OSError):
            end = max(end, path.stat().st_size)
    try:
        with tempfile.TemporaryFile(dir=database.parent) as probe:
            return os.pwrite(probe.fileno(), bytes(_PROBE_BYTES), end) < _PROBE_BYTES
    except OSError as error:
        return error.errno in FULL


def database_error(error: BaseException, written: Path | None = None) -> BankError:
    """Return our error for an error of SQLite; `written` as in `translated`."""
    name: str = getattr(error, "sqlite_errorname", None) or ""
    unseen = written is not None and name in _PERHAPS_FULL and _has_no_room(written)
    if unseen or name.startswith("SQLITE_FULL"):
        return full_error()
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return _busy()
    text = str(error)
    torn = "decode to UTF-8" in text or text.startswith(("no such table", "no such column"))
    if torn or name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return BankCorruptError("the database file is damaged", hint="run `epimem check`")
    if name.startswith(("SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return StorageError(f"the database refused: {name}", hint="check the disk, then reopen")
    return BankError(f"the database refused: {name or type(error).__name__}", code="internal")
