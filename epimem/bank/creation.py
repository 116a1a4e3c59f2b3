"""Making a bank's folder and database, and what is looked at before one is opened."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import insert, inspect

from epimem.bank import (
    journal,
    migrations,
    tables,
    versions,
)
from epimem.bank.database import FILE_NAME, LOCK_NAME, Database, KernelLock, translated
from epimem.bank.encoder import EncoderIdentity
from epimem.bank.journal import Clock
from epimem.errors import (
    BankConflictError,
    BankCorruptError,
    BankVersionError,
    EpimemError,
    StorageError,
)


@contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """Make the folders of a new bank and hold its lock while the rest is made: one creator wins.

    Raises:
        BankConflictError: `bank_exists`, also for whoever comes second.
        StorageError: the folder cannot be written.
    """
    with translated():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = KernelLock(folder / LOCK_NAME)
    try:
        with lock, translated():
            if (folder / FILE_NAME).exists():
                raise BankConflictError("a bank is here already", code="bank_exists")
            (folder / "blobs").mkdir(mode=0o700, exist_ok=True)
            yield
    finally:
        lock.close()


def create_database(
    folder: Path, encoder: EncoderIdentity | None, bank_id: str, clock: Clock
) -> None:
    """Write the database of a new bank, whole or not at all."""
    import sqlite3

    path = folder / FILE_NAME
    # The caller holds the lock: what stands there was left by a crash.
    temporary = folder / f"{FILE_NAME}.new"
    temporary.unlink(missing_ok=True)
    raw = sqlite3.connect(temporary)
    raw.execute(f"PRAGMA application_id={tables.APPLICATION_ID}")
    raw.close()
    from sqlalchemy import URL, create_engine

    engine = create_engine(URL.create("sqlite", database=str(temporary)))
    with engine.begin() as connection:
        migrations.upgrade(connection)
        connection.execute(
            insert(tables.bank),
            {
                "id": 1,
                "bank_id": bank_id,
                "format": tables.FORMAT,
                "created_at": journal.timestamp(clock()),
                "head_seq": 0,
                "head_hash": journal.GENESIS,
                "tree_seq": 0,
                "epoch": 0,
                "encoder": encoder.canonical().decode("utf-8") if encoder else None,
            },
        )
    engine.dispose()
    temporary.chmod(0o600)
    descriptor = os.open(temporary, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    temporary.rename(path)
    versions.sync_folder(folder)


def upgrade(database: Database) -> None:
    """Add the tables that came after the bank was made; they start empty, and the format stays."""
    with database.read() as connection:
        if inspect(connection).has_table(tables.reembedding.name):
            return
    with database.write() as connection:
        # Another process may have been faster. Without a statement before it, the migration would
        # take the transaction for its own and commit it.
        if not inspect(connection).has_table(tables.reembedding.name):
            migrations.upgrade(connection)


def check_location(folder: Path) -> None:
    """Refuse a folder that everybody may write to."""
    mode = folder.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise StorageError(
            "the bank's folder is writable by everybody",
            code="unsafe_bank_location",
            hint="chmod o-w",
        )


def check_application(database: Database) -> None:
    """Refuse a file that is no database of epimem."""
    with database.read() as connection:
        application = connection.exec_driver_sql("PRAGMA application_id").scalar()
    if application != tables.APPLICATION_ID:
        raise BankCorruptError("bank.db is not a database of epimem")


def version_error(found: int) -> EpimemError:
    """Return the error for a format this release does not read."""
    if found > tables.FORMAT:
        return BankVersionError(
            "the bank was written by a newer release",
            got=found,
            limit=tables.FORMAT,
            hint="update epimem",
        )
    return BankVersionError(
        "the bank is of a format before the first release", code="bank_too_old", got=found
    )
