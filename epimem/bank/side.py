"""What lies beside a bank, never inside it: the retrieval log and the cache of derived data.

The place is `<bank>.side` next to the bank's folder; where that cannot be written (a bank on a
read-only mount, another user's bank), a folder of this user's state directory named by the bank's id.
Everything here may be deleted; `log.db` then forgets which retrievals were made.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import platformdirs

from epimem.bank.database import KernelLock, translated
from epimem.errors import BankBusyError, StorageError

LOCK_NAME = "log.lock"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS retrievals (
    retrieval_id TEXT PRIMARY KEY, at TEXT NOT NULL, bank_seq INTEGER NOT NULL, run_id TEXT,
    reader TEXT NOT NULL, namespace TEXT NOT NULL, family TEXT NOT NULL,
    question_key TEXT NOT NULL, items TEXT NOT NULL, answer TEXT NOT NULL, candidates TEXT NOT NULL,
    excluded TEXT NOT NULL DEFAULT '[]'
);
CREATE UNIQUE INDEX IF NOT EXISTS once_per_run_in_a_namespace
    ON retrievals (run_id, namespace, reader, excluded) WHERE run_id IS NOT NULL;
DROP INDEX IF EXISTS once_per_run_and_rest;
CREATE TABLE IF NOT EXISTS crops (
    blob TEXT NOT NULL, retrieval_id TEXT NOT NULL, PRIMARY KEY (blob, retrieval_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS feedback (
    id INTEGER PRIMARY KEY, at TEXT NOT NULL, retrieval_id TEXT NOT NULL, body TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS calls (
    id INTEGER PRIMARY KEY, at TEXT NOT NULL, role TEXT NOT NULL, operation TEXT NOT NULL,
    model TEXT NOT NULL, prompt_version TEXT NOT NULL, calls INTEGER NOT NULL,
    tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, cached INTEGER NOT NULL,
    seconds REAL NOT NULL, reason TEXT NOT NULL, detail TEXT NOT NULL, raw TEXT NOT NULL
);
"""


_BLANK = "UPDATE calls SET detail = '', raw = '' WHERE raw != '' OR detail != ''"
# A log made before follow-up questions were known; without the column the statement above fails.
_UPGRADE = """
ALTER TABLE retrievals ADD COLUMN excluded TEXT NOT NULL DEFAULT '[]';
DROP INDEX IF EXISTS once_per_run;
"""


class Side:
    """The log and the cache folder of one bank, for this user."""

    def __init__(self, bank: Path, bank_id: str) -> None:
        self._root = _writable_root(bank, bank_id)
        self.cache = self._root / "cache"
        self.cache.mkdir(mode=0o700, exist_ok=True)
        self.log_path = self._root / "log.db"
        self._connection: sqlite3.Connection | None = None
        # Ingest derives in a thread of its own, and a host may retrieve in several.
        self._lock = threading.RLock()
        self._closed = False
        self.revocation_seen: int | None = None

    @property
    def root(self) -> Path:
        """The folder that holds both."""
        return self._root

    @contextmanager
    def log(self) -> Iterator[sqlite3.Connection]:
        """Open one transaction on the retrieval log.

        A damaged log is replaced by an empty one: it is no truth of the bank, and no question may
        fail for it.

        Raises:
            BankCorruptError: the damage came to light in this transaction; the next one works.
            StorageError: the bank was closed.
        """
        with self._lock, translated(self.log_path):
            if self._closed:
                raise StorageError("the bank was closed", field="log")
            if self._connection is None:
                self._connection = self._connect()
            try:
                with self._connection as connection:
                    yield connection
            except sqlite3.DatabaseError as error:
                if _is_damage(error):
                    self._replace()
                raise

    def _connect(self) -> sqlite3.Connection:
        lock = KernelLock(self._root / LOCK_NAME)
        try:
            # SQLite does not wait for another process that turns the file to WAL mode.
            with lock:
                return self._opened()
        finally:
            lock.close()

    def _opened(self) -> sqlite3.Connection:
        try:
            return _open_log(self.log_path)
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise
            self._replace()
            return _open_log(self.log_path)

    def _replace(self) -> None:
        """Take a damaged log away; what it knew of retrievals is lost."""
        self._disconnect()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.log_path}{suffix}").unlink(missing_ok=True)

    def purge(self, ids: Iterable[str], run_ids: Iterable[str] = ()) -> int:
        """Forget every retrieval that showed one of these items with its feedback, and all caches.

        The words of refused replies go as well; what the calls cost stays.

        Returns the number of forgotten retrievals.

        Raises:
            BankBusyError: a reader of the log keeps old pages.
        """
        with self._lock:
            return self._purge(set(ids), set(run_ids))

    def _purge(self, wanted: set[str], runs: set[str]) -> int:
        gone = []
        with self.log() as log:
            for row in log.execute(
                "SELECT retrieval_id, run_id, items, candidates FROM retrievals"
            ):
                named = {*json.loads(row["items"])}
                named |= {candidate["node_id"] for candidate in json.loads(row["candidates"])}
                if named & wanted or row["run_id"] in runs:
                    gone.append((row["retrieval_id"],))
            for table in ("retrievals", "crops", "feedback"):
                log.executemany(f"DELETE FROM {table} WHERE retrieval_id = ?", gone)  # noqa: S608
            # A refused reply may quote whatever its model was shown; which items, nobody knows.
            log.execute(_BLANK)
        with translated(self.log_path):
            self._empty_log_pages()
            self._empty_cache()
        return len(gone)

    def forget_words(self) -> None:
        """Forget the words of refused replies; what the calls cost stays.

        Raises:
            BankBusyError: a reader of the log keeps old pages.
        """
        with self._lock:
            with self.log() as log:
                log.execute(_BLANK)
            with translated(self.log_path):
                self._empty_log_pages()

    def _empty_cache(self) -> None:
        """Delete every file in the cache; others may be writing or emptying it at the same time."""
        for folder, folders, names in os.walk(self.cache, topdown=False, onerror=_unless_gone):
            for name in names:
                Path(folder, name).unlink(missing_ok=True)
            for name in folders:
                with suppress(OSError):  # others have just put something there, or deleted it
                    Path(folder, name).rmdir()

    def _empty_log_pages(self) -> None:
        assert self._connection is not None
        self._connection.execute("VACUUM")
        busy, *_ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise BankBusyError(
                "a reader of the retrieval log keeps old pages",
                hint="the purge ends when the bank is next opened for writing",
            )

    def close(self) -> None:
        """Close the log for good: a thread that was left behind writes nothing any more."""
        with self._lock:
            self._closed = True
            self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _open_log(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=5.0, check_same_thread=False)
    try:
        path.chmod(0o600)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode=WAL")
        # A lost log row costs an explanation, not a lesson: no flush per retrieval.
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute("PRAGMA cell_size_check=ON")
        columns = {row["name"] for row in connection.execute("PRAGMA table_info(retrievals)")}
        if columns and "excluded" not in columns:
            connection.executescript(_UPGRADE)
        connection.executescript(_SCHEMA)
    except BaseException:
        connection.close()
        raise
    return connection


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    name = getattr(error, "sqlite_errorname", None) or ""
    return name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))


def side_folder(bank: Path) -> Path:
    """Return the folder beside a bank."""
    return bank.with_name(bank.name + ".side")


def state_folder(bank_id: str) -> Path:
    """Return this user's own folder for a bank whose neighbourhood is not writable."""
    base = os.environ.get("EPIMEM_STATE_DIR") or platformdirs.user_state_dir("epimem")
    return Path(base) / bank_id


def _writable_root(bank: Path, bank_id: str) -> Path:
    beside = side_folder(bank.resolve())
    for folder in (beside, state_folder(bank_id)):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    import tempfile

    return Path(tempfile.mkdtemp(prefix="epimem-"))
