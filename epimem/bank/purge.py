"""What follows a revocation: taking old bytes out of the bank's files, and of those beside it.

The commit of a revocation hides; this purges blobs, free pages, the log and the side folder. A crash in
between is made good when the bank is next opened for writing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from epimem.bank import revocation
from epimem.bank.blobs import BlobStore
from epimem.bank.database import Database
from epimem.bank.failpoints import failpoint
from epimem.bank.side import Side
from epimem.errors import EpimemError, StorageError

WAIT_S = 5.0


def purge(database: Database, blobs: BlobStore, side: Callable[[], Side]) -> int:
    """Purge the files after every revocation that is not wholly purged; return how many.

    Args:
        database: of the bank, opened for writing.
        blobs: of the bank.
        side: gives what lies beside the bank, opened only where there is something to purge.

    Raises:
        StorageError: `bank_busy`, readers keep old pages.
    """
    with database.read() as connection:
        waiting = revocation.pending(connection)
    if waiting:
        drop_orphans(database, blobs)
        failpoint("purge.committed")
        rewrite_file(database)
        failpoint("purge.rewritten")
    for item in waiting:
        side().purge(item.node_ids, item.run_ids)
        failpoint("purge.side")
        with database.write() as connection:
            revocation.finish(connection, item)
            failpoint("purge.rows")
    return len(waiting)


def drop_orphans(database: Database, blobs: BlobStore) -> None:
    """Delete blobs that no row names, under the lock: a writer looks again before its row."""
    with database.write() as connection:
        for name in revocation.unreferenced(connection, blobs.names()):
            blobs.delete(name)
            failpoint("purge.blob")


def forget_blob(database: Database, blobs: BlobStore, blob: str) -> None:
    """Delete the blob of a refused run, unless another row names it."""
    with suppress(EpimemError), database.write() as connection:
        for name in revocation.unreferenced(connection, [blob]):
            blobs.delete(name)


def rewrite_file(database: Database) -> None:
    """Rewrite the database without its free pages and empty the log (waits for readers)."""
    with database.exclusive() as connection:
        connection.execute("VACUUM")
        deadline = time.monotonic() + WAIT_S
        while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] != 0:
            if time.monotonic() > deadline:
                raise StorageError(
                    "readers keep old pages; the purge is not finished",
                    code="bank_busy",
                    hint="close long readers; it ends when the bank is next opened for writing",
                )
            time.sleep(0.05)
