"""Changing the encoder of a bank while the old one serves: the storage half (`epimem.reembed` runs it).

`vectors` holds what is in use, `next_vectors` what is made beside it. The row of `reembedding` is the
job: the encoder it leads to and who is at work. One commit swaps the names of the two tables, changes
the bank's encoder and takes the job away; what `next_vectors` then holds without a job is rubbish, and
is deleted part by part. Interrupted anywhere, the bank serves the old encoder or the new one, whole.

The same functions fill in vectors that are missing under the present encoder (`embed`).
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Table, delete, func, insert, select, text, tuple_, update

from epimem.bank import intake, reading, rows, steps, tables
from epimem.bank.encoder import EncoderIdentity, FormerEncoder, NodeVectors
from epimem.bank.journal import Commit
from epimem.errors import BankBusyError, BankCorruptError
from epimem.schema.ids import sha256, uuid7
from epimem.schema.lesson import IndexText

# An abandoned job can be taken over after this; a living one renews it with every batch (ours).
HOLD_S = 120.0
# Rows deleted in one commit: some 5 MB of pages that are overwritten (ours).
SWEPT = 1000
_NAMES = ("vectors", "next_vectors", "spare_vectors")

job = tables.reembedding
nodes = tables.nodes


@dataclass(frozen=True)
class Job:
    """The right to change the encoder to `target` (None: to none at all)."""

    target: EncoderIdentity | None
    holder: str


@dataclass(frozen=True)
class Wanted:
    """An index text of a node that has no vectors yet."""

    node_id: str
    index: IndexText

    @property
    def text_hash(self) -> str:
        """What names the text among the node's vectors."""
        return sha256(self.index.text.encode("utf-8"))


@dataclass(frozen=True)
class Made:
    """What was wanted, and its vectors."""

    wanted: Wanted
    vectors: NodeVectors


# -- the job -----------------------------------------------------------------------------------------


def take(connection: Connection, target: EncoderIdentity | None, now: float) -> Job:
    """Begin the job, or go on with one that was left; what another target's job made is rubbish.

    Raises:
        BankBusyError: `bank_locked_elsewhere`, a living process is at it.
    """
    refuse_living(connection, now)
    row = connection.execute(select(job)).one_or_none()
    holder = json.dumps([uuid7(), socket.gethostname(), os.getpid()])
    values = {"target": _text(target), "holder": holder, "until": int(now + HOLD_S) + 1}
    if row is None:
        connection.execute(insert(job), {"id": 1, **values, "ready": 0})
    else:
        same = _same_target(row.target, target)
        connection.execute(update(job).values(**values, ready=row.ready if same else 0))
    return Job(target, holder)


def _same_target(stored: str, target: EncoderIdentity | None) -> bool:
    if not stored or target is None:
        return False
    return EncoderIdentity.read(stored).made_as(target)


def refuse_living(connection: Connection, now: float) -> None:
    """Refuse to touch a job that somebody is at.

    Raises:
        BankBusyError: `bank_locked_elsewhere`.
    """
    row = connection.execute(select(job)).one_or_none()
    if row is not None and steps.is_living(row.holder, row.until, now=now, steady=now):
        raise BankBusyError(
            "another process is changing the encoder of this bank",
            code="bank_locked_elsewhere",
            hint="wait for it; if it was stopped, what it made is kept and used",
        )


def hold(connection: Connection, held: Job, now: float) -> None:
    """Renew the job, as part of whatever is written for it.

    Raises:
        BankBusyError: `stale_epoch`, it was taken over or dropped.
    """
    row = connection.execute(select(job)).one_or_none()
    if row is None or row.holder != held.holder:
        raise BankBusyError(
            "this change of the encoder was taken over", code="stale_epoch", hint="run it again"
        )
    connection.execute(update(job).values(until=int(now + HOLD_S) + 1))


def give_up(connection: Connection, held: Job) -> None:
    """Let others take the job over at once; what was made stays."""
    connection.execute(update(job).where(job.c.holder == held.holder).values(until=0))


def abandon(connection: Connection, now: float) -> None:
    """Take a job away that nobody is at; its rows are rubbish then (freeze).

    Raises:
        BankBusyError: `bank_locked_elsewhere`, somebody is.
    """
    refuse_living(connection, now)
    connection.execute(delete(job))


# -- rubbish -----------------------------------------------------------------------------------------


def clear(connection: Connection, held: Job, now: float) -> bool:
    """Delete a part of what another job left; return whether there is more to delete."""
    hold(connection, held, now)
    if connection.execute(select(job.c.ready)).scalar_one():
        return False
    if _delete_part(connection):
        return True
    connection.execute(update(job).values(ready=1))
    return False


def sweep(connection: Connection) -> bool:
    """Delete a part of the vectors that no job owns; return whether there is more to delete."""
    if connection.execute(select(job.c.id)).first() is not None:
        return False
    return _delete_part(connection)


def swept(connection: Connection) -> bool:
    """Return whether there is nothing to sweep."""
    if connection.execute(select(job.c.id)).first() is not None:
        return True
    return connection.execute(select(tables.next_vectors.c.node_id).limit(1)).first() is None


def _delete_part(connection: Connection) -> bool:
    table = tables.next_vectors
    key = (table.c.node_id, table.c.text_hash)
    part = connection.execute(select(*key).order_by(*key).limit(SWEPT)).all()
    if not part:
        return False
    last = part[-1]
    connection.execute(delete(table).where(tuple_(*key) <= (last.node_id, last.text_hash)))
    return True


# -- what is wanted ----------------------------------------------------------------------------------


def page(connection: Connection, after: str, limit: int) -> list[str]:
    """Return the next node ids in order of id, whatever became of the nodes."""
    query = (
        select(nodes.c.node_id)
        .where(nodes.c.node_id > after)
        .distinct()
        .order_by(nodes.c.node_id)
        .limit(limit)
    )
    return list(connection.execute(query).scalars())


def changed(connection: Connection, since: int) -> list[str]:
    """Return the ids of nodes that have a version younger than a sequence number."""
    query = select(nodes.c.node_id).where(nodes.c.from_seq > since).distinct()
    return sorted(connection.execute(query).scalars())


def count(connection: Connection) -> int:
    """Return how many nodes there ever were."""
    query = select(func.count(nodes.c.node_id.distinct()))
    return int(connection.execute(query).scalar_one())


def wanted(
    connection: Connection, node_ids: Sequence[str], table: Table, damaged: set[str]
) -> list[Wanted]:
    """Return the index texts of these nodes that `table` holds no vectors of.

    Texts of old versions count too, because a restore may bring them back; empty texts have no
    vectors; a damaged version is left out and named in `damaged`.
    """
    found: dict[tuple[str, str], Wanted] = {}
    for part in reading.chunks(node_ids):
        query = select(nodes).where(nodes.c.node_id.in_(part), nodes.c.body != rows.TOMBSTONE)
        for row in connection.execute(query.order_by(nodes.c.version)):
            try:
                item = Wanted(row.node_id, rows.to_node(row).index)
            except BankCorruptError:
                damaged.add(row.node_id)
                continue
            if item.index.text.strip():
                found[item.node_id, item.text_hash] = item
        known = select(table.c.node_id, table.c.text_hash).where(table.c.node_id.in_(part))
        for key in connection.execute(known):
            found.pop((key.node_id, key.text_hash), None)
    return list(found.values())


def put(connection: Connection, made: Iterable[Made], table: Table) -> list[str]:
    """Store vectors of what is still wanted: a revocation may have come between; return the ids."""
    items = {(item.wanted.node_id, item.wanted.text_hash): item for item in made}
    ids = sorted({node_id for node_id, _ in items})
    still = [
        items[item.node_id, item.text_hash]
        for item in wanted(connection, ids, table, set())
        if (item.node_id, item.text_hash) in items
    ]
    values = [
        intake.vector_row(item.wanted.node_id, item.wanted.text_hash, item.vectors)
        for item in still
    ]
    if values:
        connection.execute(insert(table), values)
    return sorted({item.wanted.node_id for item in still})


# -- the commits -------------------------------------------------------------------------------------


def embed(commit: Commit, made: Iterable[Made]) -> int:
    """Fill in vectors under the present encoder; followers read the ids from the journal."""
    stored = put(commit.connection, made, tables.vectors)
    for node_id in stored:
        commit.note("embedded", node_id)
    return len(stored)


def flip(commit: Commit, target: EncoderIdentity | None) -> None:
    """Let the bank use what was made: a swap of two names, whatever the size of the bank."""
    vectors, following, spare = _NAMES
    for old, new in ((vectors, spare), (following, vectors), (spare, following)):
        commit.connection.execute(text(f"ALTER TABLE {old} RENAME TO {new}"))
    commit.connection.execute(update(tables.bank).values(encoder=_text(target) or None))
    commit.connection.execute(delete(job))
    commit.note("encoder", target.fingerprint if target is not None else "none")


def successor(
    present: EncoderIdentity | None, model: str, target: EncoderIdentity
) -> EncoderIdentity:
    """Return the identity to store, which remembers the encoders the bank had before.

    Args:
        present: the bank's encoder now.
        model: the settings' name of that encoder.
        target: of the new one.
    """
    earlier = present.former if present is not None else ()
    last = FormerEncoder(model=model, fingerprint=present.fingerprint if present else "")
    former = [*(item for item in earlier if item != last), last]
    return target.model_copy(update={"former": tuple(former)})


def _text(target: EncoderIdentity | None) -> str:
    return target.canonical().decode("utf-8") if target is not None else ""
