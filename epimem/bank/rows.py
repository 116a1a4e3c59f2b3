"""Node versions as rows, verified by checksum when read."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, bindparam, insert, select, update

from epimem.bank import tables
from epimem.bank.journal import Commit
from epimem.bank.prepared import Prepared
from epimem.errors import BankCorruptError, EpimemError
from epimem.schema.ids import sha256
from epimem.schema.lesson import fold_key
from epimem.schema.tree import Node

nodes = tables.nodes
# A purged version keeps its place in the history, and nothing of its text.
TOMBSTONE = "{}"

_insert = Prepared(
    insert(nodes), tuple(column.name for column in nodes.c if column.name != "version")
)
_live = select(nodes).where(nodes.c.node_id == bindparam("id"), nodes.c.to_seq.is_(None))
_close = (
    update(nodes)
    .where(nodes.c.version == bindparam("row"))
    .values(to_seq=bindparam("end"), checksum=bindparam("sum"))
)


def checksum(row: Any) -> str:
    """Return the checksum over all columns of a node version that carry meaning."""
    parts = (
        row.node_id,
        row.from_seq,
        row.to_seq,
        row.namespace,
        row.parent_id,
        row.kind,
        row.contributor,
        row.fold_key,
        row.body,
    )
    return sha256("\x1f".join("" if part is None else str(part) for part in parts).encode())


def verify(row: Any) -> None:
    """Refuse a damaged row.

    Raises:
        BankCorruptError: the row does not match its checksum.
    """
    if checksum(row) != row.checksum:
        raise BankCorruptError(
            "a stored node does not match its checksum", field=row.node_id, hint="epimem check"
        )


def to_node(row: Any) -> Node:
    """Read the node of a verified row.

    Raises:
        BankCorruptError: damaged, or not readable as a node.
    """
    verify(row)
    try:
        return _parsed(row.body)
    except (ValidationError, EpimemError) as error:
        raise BankCorruptError("a stored node cannot be read", field=row.node_id) from error


@lru_cache(maxsize=4096)
def _parsed(body: str) -> Node:
    """Read a node; the same questions meet the same few nodes, and nodes are immutable."""
    return Node.model_validate_json(body)


def stored_list(text: Any) -> list[Any]:
    """Read a stored JSON list.

    Raises:
        BankCorruptError: it is none.
    """
    try:
        found = json.loads(text)
    except (TypeError, ValueError) as error:
        raise BankCorruptError("a stored list cannot be read", hint="epimem check") from error
    if not isinstance(found, list):
        raise BankCorruptError("a stored list cannot be read", hint="epimem check")
    return found


class _Row:
    """The columns of a version about to be written, shaped like a result row."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


def live_row(connection: Connection, node_id: str) -> Any:
    """Return the live version's row, None where there is none."""
    return connection.execute(_live, {"id": node_id}).one_or_none()


def put(commit: Commit, node: Node, *, contributor: str, previous: Any = None) -> None:
    """Write a node as a new version that replaces `previous`, its live row (None: a new node)."""
    if previous is not None:
        close(commit, previous)
    fold = fold_key(node.lesson, node.namespace) if node.lesson else None
    body = node.canonical().decode("utf-8")
    values: dict[str, Any] = {
        "node_id": node.node_id,
        "from_seq": commit.seq,
        "to_seq": None,
        "namespace": node.namespace,
        "parent_id": node.parent_id,
        "kind": node.kind,
        "contributor": contributor,
        "fold_key": fold,
        "body": body,
    }
    values["checksum"] = checksum(_Row(**values))
    _insert.run(commit.connection, values)
    commit.note("put", [node.node_id, values["checksum"][:16]])


def close(commit: Commit, row: Any) -> None:
    """End the validity of a live version at this commit."""
    verify(row)
    ended = _Row(**{**row._mapping, "to_seq": commit.seq})
    commit.connection.execute(
        _close, {"row": row.version, "end": commit.seq, "sum": checksum(ended)}
    )


def rewrite(commit: Commit, row: Any, node: Node | None) -> None:
    """Replace the content of a version in place (a purge), None: by a tombstone.

    Validity stays as it is; the journal notes what the version is now.
    """
    values: dict[str, Any] = {**row._mapping, "body": TOMBSTONE, "fold_key": None}
    if node is not None:
        values["body"] = node.canonical().decode("utf-8")
        values["kind"] = node.kind
        values["fold_key"] = row.fold_key
    values["checksum"] = checksum(_Row(**values))
    commit.connection.execute(update(nodes).where(nodes.c.version == row.version).values(**values))
    commit.note("rewrite", [row.node_id, row.from_seq, first_checksum(_Row(**values))])


def first_checksum(row: Any) -> str:
    """Return the short checksum that the journal keeps: that of the version while it was live."""
    columns = {
        column.name: getattr(row, column.name) for column in nodes.c if column.name != "version"
    }
    return checksum(_Row(**{**columns, "to_seq": None}))[:16]


def drop(commit: Commit, node_id: str) -> bool:
    """End a node; return whether it was live."""
    row = live_row(commit.connection, node_id)
    if row is None:
        return False
    close(commit, row)
    commit.note("drop", node_id)
    return True
