"""Reading the bank: nodes, trees at any sequence number, vectors, and what followers need."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from sqlalchemy import Connection, and_, func, or_, select, union

from epimem.bank import rows, tables
from epimem.bank.encoder import NodeVectors
from epimem.bank.index import IndexRow
from epimem.bank.intake import vector_checksum
from epimem.errors import BankCorruptError, NotFoundError
from epimem.schema.ids import sha256
from epimem.schema.tree import Node, Tree

nodes = tables.nodes
RECALLED = ("lesson", "summary", "rule")
CHUNK = 500
_HEAD_SEQ = select(tables.bank.c.head_seq)
# The kinds of the commits that fill in vectors and that change the encoder.
EMBED, REEMBED = "embed", "reembed"


def valid_at(seq: int | None) -> Any:
    """Return the condition that selects versions valid at a sequence number (None: now)."""
    if seq is None:
        return nodes.c.to_seq.is_(None)
    return and_(nodes.c.from_seq <= seq, or_(nodes.c.to_seq.is_(None), nodes.c.to_seq > seq))


def head(connection: Connection) -> Any:
    """Return the bank's own row: head_seq, tree_seq, epoch and so on."""
    return connection.execute(select(tables.bank)).one()


def head_seq(connection: Connection) -> int:
    """Return the number of the last commit; recall asks for it before every question."""
    return int(connection.execute(_HEAD_SEQ).scalar_one())


def namespaces(connection: Connection, at: int | None = None) -> tuple[str, ...]:
    """Return the namespaces that hold something, now or at a sequence number, sorted."""
    query = select(nodes.c.namespace).where(valid_at(at)).distinct()
    found = list(connection.execute(query).scalars())
    if not all(isinstance(name, str) for name in found):
        raise BankCorruptError("a stored node has no namespace", hint="epimem check")
    return tuple(sorted(found))


def live_nodes(
    connection: Connection, ids: Sequence[str], damaged: set[str] | None = None
) -> dict[str, Node]:
    """Return the live nodes among `ids`; unknown and revoked ids are simply absent.

    Args:
        connection: to the bank.
        ids: wanted.
        damaged: takes the ids of damaged nodes, which are then absent too; without it they raise.

    Raises:
        BankCorruptError: a node is damaged and `damaged` is not given.
    """
    found: dict[str, Node] = {}
    for part in chunks(ids):
        query = select(nodes).where(nodes.c.node_id.in_(part), tables.is_live)
        for row in connection.execute(query):
            try:
                found[row.node_id] = rows.to_node(row)
            except BankCorruptError:
                if damaged is None:
                    raise
                damaged.add(row.node_id)
    return found


def live_node(connection: Connection, node_id: str) -> Node:
    """Return a live node.

    Raises:
        NotFoundError: none of that id is visible.
    """
    row = rows.live_row(connection, node_id)
    if row is None:
        raise NotFoundError("no such item", field="id", got=node_id)
    return rows.to_node(row)


def tree(connection: Connection, namespace: str, at: int | None = None) -> Tree | None:
    """Return the tree of a namespace at a sequence number, None where it has no root yet.

    Versions purged since leave no trace in it.
    """
    query = (
        select(nodes)
        .where(nodes.c.namespace == namespace, valid_at(at), nodes.c.body != rows.TOMBSTONE)
        .order_by(nodes.c.node_id)
    )
    found = [rows.to_node(row) for row in connection.execute(query)]
    placed = [node for node in found if node.parent_id is not None or node.kind != "lesson"]
    roots = [node.node_id for node in placed if node.parent_id is None]
    if not roots:
        return None
    if len(roots) > 1:
        raise BankCorruptError("a namespace has two roots", field=namespace)
    return Tree.build(placed, roots[0])


def inbox(connection: Connection, namespace: str, *, limit: int) -> tuple[Node, ...]:
    """Return lessons that have no place in the tree yet, oldest first by commit, not by clock.

    One that was folded into since, or lost its place, counts from then.
    """
    query = (
        select(nodes)
        .where(
            nodes.c.namespace == namespace,
            nodes.c.to_seq.is_(None),
            nodes.c.kind == "lesson",
            nodes.c.parent_id.is_(None),
        )
        .order_by(nodes.c.version)
        .limit(limit)
    )
    return tuple(rows.to_node(row) for row in connection.execute(query))


@dataclass(frozen=True)
class Backlog:
    """What waits: runs to be derived, lessons to be placed, and seconds since the oldest came."""

    runs: int
    run_s: int
    lessons: int
    lesson_s: int


def backlog(connection: Connection, *, now: float) -> Backlog:
    """Return what waits in all namespaces.

    Args:
        connection: in a transaction.
        now: seconds since 1970.
    """
    runs = tables.runs
    queued = select(func.count(), func.min(runs.c.seq)).where(
        runs.c.state == "queued", ~runs.c.namespace.startswith(tables.QUARANTINE, autoescape=True)
    )
    waiting = select(func.count(), func.min(nodes.c.from_seq)).where(
        ~nodes.c.namespace.startswith(tables.QUARANTINE, autoescape=True),
        nodes.c.to_seq.is_(None),
        nodes.c.kind == "lesson",
        nodes.c.parent_id.is_(None),
    )
    found = [connection.execute(query).one() for query in (queued, waiting)]
    (run_count, run_seq), (lesson_count, lesson_seq) = found
    return Backlog(
        run_count, _age(connection, run_seq, now), lesson_count, _age(connection, lesson_seq, now)
    )


def _age(connection: Connection, seq: int | None, now: float) -> int:
    """Return the whole seconds since a commit; 0 for none, and where a clock was set back."""
    journal = tables.journal
    at = connection.execute(select(journal.c.at).where(journal.c.seq == seq)).scalar_one_or_none()
    return 0 if at is None else max(0, int(now - datetime.fromisoformat(at).timestamp()))


def inbox_size(connection: Connection, namespace: str) -> int:
    """Return how many lessons wait for a place."""
    query = (
        select(func.count())
        .select_from(nodes)
        .where(
            nodes.c.namespace == namespace,
            nodes.c.to_seq.is_(None),
            nodes.c.kind == "lesson",
            nodes.c.parent_id.is_(None),
        )
    )
    return int(connection.execute(query).scalar_one())


def kind_counts(connection: Connection, namespace: str | None = None) -> dict[str, int]:
    """Return the number of live nodes by kind."""
    query = select(nodes.c.kind, func.count()).where(nodes.c.to_seq.is_(None))
    if namespace is not None:
        query = query.where(nodes.c.namespace == namespace)
    return {kind: int(n) for kind, n in connection.execute(query.group_by(nodes.c.kind))}


def stored_vectors(connection: Connection, wanted: Iterable[Node]) -> dict[str, NodeVectors]:
    """Return the vectors of the nodes' present index texts; nodes without them are absent.

    Raises:
        BankCorruptError: a vector row does not match its checksum.
    """
    hashes = {node.node_id: sha256(node.index.text.encode("utf-8")) for node in wanted}
    found: dict[str, NodeVectors] = {}
    for part in chunks(sorted(hashes)):
        query = select(tables.vectors).where(tables.vectors.c.node_id.in_(part))
        for row in connection.execute(query):
            if row.text_hash == hashes.get(row.node_id):
                found[row.node_id] = vectors_of(row)
    return found


def vectors_of(row: Any) -> NodeVectors:
    """Return the vectors of a verified row: float32, unit length.

    Raises:
        BankCorruptError: the row does not match its checksum.
    """
    blobs = (row.index_vector, row.scope_vector, row.anchor_vector)
    if vector_checksum(row.node_id, row.text_hash, *blobs) != row.checksum:
        raise BankCorruptError("a stored vector does not match its checksum", field=row.node_id)
    index, scope, anchor = (np.frombuffer(blob, dtype=np.float32) for blob in blobs)
    return NodeVectors(index=index, scope=scope, anchor=anchor)


def index_rows(connection: Connection, after: int, damaged: set[str]) -> Iterator[IndexRow]:
    """Yield what changed since sequence number `after`: one row per node, alive or gone.

    Vectors that were filled in after the node was written count as a change. A damaged row is
    withheld: it counts as gone, and its id is added to `damaged`.
    """
    after = 0 if _reembedded(connection, after) else after
    # Two looks into two indexes: as one query with "or" SQLite walks all rows.
    changed = union(
        select(nodes.c.node_id).where(nodes.c.from_seq > after),
        select(nodes.c.node_id).where(nodes.c.to_seq > after),
    )
    ids = sorted({*connection.execute(changed).scalars(), *_embedded(connection, after)})
    for part in chunks(ids):
        live = connection.execute(
            select(nodes, tables.vectors)
            .outerjoin(tables.vectors, tables.vectors.c.node_id == nodes.c.node_id)
            .where(nodes.c.node_id.in_(part), tables.is_live)
        )
        seen: dict[str, IndexRow] = {}
        for row in live:
            try:
                item = _index_row(row)
            except BankCorruptError:
                damaged.add(row.node_id)
                continue
            if item.node_id not in seen or item.vector is not None:
                seen[item.node_id] = item
        for node_id in part:
            yield seen.get(node_id) or _gone(node_id)


def _reembedded(connection: Connection, after: int) -> bool:
    """Return whether the bank's encoder was changed after a commit, and with it every vector."""
    table = tables.journal
    query = select(table.c.seq).where(table.c.seq > after, table.c.kind == REEMBED).limit(1)
    return after > 0 and connection.execute(query).first() is not None


def _embedded(connection: Connection, after: int) -> set[str]:
    """Return the ids of nodes that got vectors by themselves after a commit."""
    if after == 0:
        return set()
    table = tables.journal
    query = select(table.c.body).where(table.c.seq > after, table.c.kind == EMBED)
    found: set[str] = set()
    for body in connection.execute(query).scalars():
        try:
            found.update(json.loads(body)["embedded"])
        except (ValueError, KeyError, TypeError) as error:
            raise BankCorruptError("a journal row cannot be read", hint="epimem check") from error
    return found


def _index_row(row: Any) -> IndexRow:
    node = rows.to_node(_NodeRow(row))
    vector = None
    if row.text_hash is not None and row.text_hash == sha256(node.index.text.encode("utf-8")):
        vector = vectors_of(_VectorRow(row)).index
    return IndexRow(
        node_id=node.node_id,
        seq=row.from_seq,
        alive=node.kind in RECALLED,
        namespace=node.namespace,
        audience=node.audience,
        authority=node.authority,
        kind=node.kind,
        text=node.index.text or node.title,
        vector=vector,
    )


class _NodeRow:
    """The node columns of a joined row."""

    def __init__(self, row: Any) -> None:
        for column in nodes.c:
            setattr(self, column.name, row._mapping[column])


class _VectorRow:
    """The vector columns of a joined row."""

    def __init__(self, row: Any) -> None:
        for column in tables.vectors.c:
            setattr(self, column.name, row._mapping[column])


def _gone(node_id: str) -> IndexRow:
    return IndexRow(
        node_id=node_id,
        seq=0,
        alive=False,
        namespace="",
        audience=(),
        authority="none",
        kind="lesson",
        text="",
        vector=None,
    )


def state_digest(connection: Connection, at: int | None = None) -> str:
    """Return the digest of all trees at a sequence number: content only, no ids, times or usage."""
    lines = []
    for namespace in namespaces(connection, at):
        found = tree(connection, namespace, at)
        if found is not None:
            lines.append(f"{namespace}\x1f{found.digest()}")
    return sha256("\n".join(lines).encode("utf-8"))


def chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the ids in parts that fit a statement's parameters."""
    for start in range(0, len(ids), CHUNK):
        yield ids[start : start + CHUNK]
