"""Snapshots, differences, restoring and freezing: the bank as a sequence of states."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert, select

from epimem.bank import intake, reading, revocation, rows, tables
from epimem.bank.database import FILE_NAME, LOCK_NAME, Database, translated
from epimem.bank.failpoints import failpoint
from epimem.bank.journal import Commit
from epimem.errors import BankConflictError, EpimemError, NotFoundError
from epimem.operations.base import Context, Edit
from epimem.operations.repair import repair
from epimem.schema.base import Record, StrictInt
from epimem.schema.lesson import IndexText
from epimem.schema.text import NameText
from epimem.schema.tree import Tree

FROZEN_NAME = "frozen.json"
FOLDED_INDEX = "index"


class _Name(Record):
    name: NameText


class Frozen(Record):
    """What `frozen.json` says: the state, and the digest of the files."""

    bank_id: str
    seq: StrictInt
    state_digest: str
    file_digest: str
    database_sha256: str


class Difference(Record):
    """What changed between two sequence numbers, by node id."""

    first: StrictInt
    second: StrictInt
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()


def name_snapshot(commit: Commit, name: str) -> int:
    """Give the present sequence number a name; return the number.

    Raises:
        BankConflictError: the name is taken, or a number.
        RecordError: not a name.
    """
    name = _Name.read({"name": name}).name
    if name.isdecimal():
        raise BankConflictError("a number names a sequence number", field="name", got=name)
    table = tables.snapshots
    if commit.connection.execute(select(table.c.seq).where(table.c.name == name)).first():
        raise BankConflictError("a snapshot of this name exists", field="name", got=name)
    seq = commit.seq - 1
    commit.connection.execute(insert(table), {"name": name, "seq": seq, "at": commit.at})
    commit.count("snapshot", name, seq, commit.at)
    commit.note("snapshot", seq)
    return seq


def resolve(connection: Connection, point: int | str) -> int:
    """Return the sequence number of a snapshot's name or of a number, checked against the head.

    Raises:
        NotFoundError: no such snapshot, or a number beyond the head.
    """
    head = int(reading.head(connection).head_seq)
    if isinstance(point, str) and not point.isdecimal():
        table = tables.snapshots
        seq = connection.execute(
            select(table.c.seq).where(table.c.name == point)
        ).scalar_one_or_none()
        if seq is None:
            raise NotFoundError("no such snapshot", field="snapshot", got=point)
        return int(seq)
    seq = int(point)
    if not 0 <= seq <= head:
        raise NotFoundError("the bank has no such sequence number", got=seq, limit=head)
    return seq


def listed(connection: Connection) -> list[dict[str, Any]]:
    """Return all snapshots in order of their sequence numbers."""
    table = tables.snapshots
    query = select(table).order_by(table.c.seq, table.c.name)
    return [dict(row._mapping) for row in connection.execute(query)]


def difference(connection: Connection, first: int, second: int) -> Difference:
    """Compare the nodes of two states."""
    before, after = _versions(connection, first), _versions(connection, second)
    both = sorted(before.keys() & after.keys())
    return Difference(
        first=first,
        second=second,
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        changed=tuple(key for key in both if before[key][1] != after[key][1]),
        moved=tuple(key for key in both if before[key][0] != after[key][0]),
    )


def _versions(connection: Connection, seq: int) -> dict[str, tuple[str | None, bytes]]:
    nodes = tables.nodes
    query = select(nodes).where(reading.valid_at(seq), nodes.c.body != rows.TOMBSTONE)
    found = {}
    for row in connection.execute(query):
        node = rows.to_node(row)
        found[node.node_id] = (node.parent_id, node.content())
    return found


def restore(commit: Commit, seq: int, context: Context) -> None:
    """Make the trees as they were at `seq`, as a new commit.

    Lessons that came later lose their place and wait in the inbox: nothing acknowledged is lost.
    What was revoked since stays away; a tree that it left holes in is repaired.
    """
    connection = commit.connection
    commit.touches_tree = True
    commit.note("restore", seq)
    revoked = revocation.renamed_ids(connection)
    # One of which everything was revoked holds nothing now, and may have had an empty tree then.
    spaces = {*reading.namespaces(connection), *reading.namespaces(connection, seq)}
    for namespace in sorted(spaces):
        wanted, sources = reading.tree(connection, namespace, seq), dict[str, tuple[str, ...]]()
        present = reading.tree(connection, namespace)
        if wanted is not None and revoked:
            wanted, sources = _mended(wanted, revoked, context)
        _replace(commit, present, wanted)
        for node_id, parents in sorted(sources.items()):
            intake.add_edges(commit, node_id, parents, "derived")


def _mended(
    tree: Tree, revoked: set[str], context: Context
) -> tuple[Tree, dict[str, tuple[str, ...]]]:
    """Return an old tree made legal without its revoked lessons, and what new texts came from."""
    edit = Edit(tree)
    repair(edit, [node.node_id for node in tree.walk() if node.height > 0], context)
    mended = edit.accepted("repair")
    tree, sources = mended.tree, dict(mended.written_from)
    for node in list(tree.walk()):
        if node.height > 0 and node.node_id in revoked and node.index == IndexText():
            tree, sources[node.node_id] = revocation.without_text(tree, node)
    return tree, sources


def _replace(commit: Commit, present: Tree | None, wanted: Tree | None) -> None:
    target = dict(wanted.nodes.items()) if wanted is not None else {}
    current = dict(present.nodes.items()) if present is not None else {}
    for node_id in sorted(target):
        row = rows.live_row(commit.connection, node_id)
        node = target[node_id]
        if row is None or rows.to_node(row) != node:
            contributor = row.contributor if row is not None else ""
            rows.put(commit, node, contributor=contributor, previous=row)
    for node_id in sorted(current.keys() - target.keys()):
        row = rows.live_row(commit.connection, node_id)
        if current[node_id].kind == "lesson":
            waiting = rows.to_node(row).model_copy(update={"parent_id": None})
            rows.put(commit, waiting, contributor=row.contributor, previous=row)
        else:
            rows.drop(commit, node_id)


def fold_index(folder: Path, save_index: Callable[[Path], None]) -> None:
    """Write the index files of the present state into the bank's folder.

    Args:
        folder: the bank's.
        save_index: writes them into the folder it is given.
    """
    index = folder / FOLDED_INDEX
    with translated():
        index.mkdir(mode=0o700, exist_ok=True)
        save_index(index)
    failpoint("freeze.index")


def unfold_index(folder: Path) -> None:
    """Remove what a freeze that came to nothing wrote: it holds vectors, which no purge reaches."""
    with translated(), suppress(FileNotFoundError):
        shutil.rmtree(folder / FOLDED_INDEX)


def freeze(database: Database, *, since: int) -> Frozen:
    """Make the bank immutable in place: checkpoint, leave WAL mode, sign off.

    Args:
        database: of the bank.
        since: the sequence number from which on its folded index was written.

    A crash or a fault at any point leaves a bank that is either frozen or still open for writing.
    """
    try:
        with translated():
            return _freeze(database, since)
    except BaseException:
        if (database.folder / FROZEN_NAME).exists():
            # It is signed, though perhaps not for good: a write now would break the signature.
            database.stop.stop("the bank was frozen")
        else:
            database.release_readers()
            with suppress(EpimemError), database.exclusive() as connection:
                connection.execute("PRAGMA journal_mode=WAL").fetchone()
        raise


def _freeze(database: Database, since: int) -> Frozen:
    folder = database.folder
    database.release_readers()
    with database.exclusive() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        failpoint("freeze.checkpoint")
        if not _left_log_mode(connection):
            raise BankConflictError(
                "others still have the bank open", hint="close them, then freeze"
            )
        failpoint("freeze.mode")
    with database.read() as reader:
        if revocation.since(reader, since):
            raise BankConflictError(
                "something was revoked while the bank was being frozen", hint="freeze again"
            )
        head = reading.head(reader)
        digest = reading.state_digest(reader)
    database_hash = file_sha256(folder / FILE_NAME)
    frozen = Frozen(
        bank_id=head.bank_id,
        seq=head.head_seq,
        state_digest=digest,
        file_digest=file_digest(folder, database_hash),
        database_sha256=database_hash,
    )
    _write_durably(folder / FROZEN_NAME, frozen.canonical())
    return frozen


def _left_log_mode(connection: sqlite3.Connection) -> bool:
    """Leave WAL mode; return False where others have the database open, however SQLite says so."""
    try:
        mode = connection.execute("PRAGMA journal_mode=DELETE").fetchone()
    except sqlite3.OperationalError as error:
        if not error.sqlite_errorname.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise
        return False
    return mode is not None and mode[0] == "delete"


def read_frozen(folder: Path) -> Frozen | None:
    """Return what `frozen.json` says, None where the bank is not frozen."""
    path = folder / FROZEN_NAME
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    return Frozen.read(data)


def file_digest(folder: Path, database_sha256: str | None = None) -> str:
    """Return the digest over all files of the bank: database, blobs, folded index, settings."""
    digest = hashlib.sha256()
    for path in sorted(_files(folder)):
        name = path.relative_to(folder).as_posix()
        if name == FILE_NAME and database_sha256 is not None:
            content = database_sha256
        else:
            content = file_sha256(path)
        digest.update(f"{name}\x1f{content}\n".encode())
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    skipped = {FROZEN_NAME, LOCK_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"}
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "tmp")
        for name in names:
            if name not in skipped:
                yield Path(root) / name


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _write_durably(path: Path, data: bytes) -> None:
    temporary = path.with_suffix(".tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(data)
            handle.flush()
            failpoint("freeze.write")
            os.fsync(handle.fileno())
        failpoint("freeze.fsync")
        temporary.rename(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    failpoint("freeze.rename")
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
