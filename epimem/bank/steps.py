"""Maintenance on the bank's side: the lease with its epoch, steps, applied operations, rejections.

One maintainer changes the trees. Its lease carries an epoch; every commit checks it, so that a
maintainer that was declared dead and comes back (fenced) changes nothing.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from epimem.bank import intake, rows, tables
from epimem.bank.encoder import NodeVectors
from epimem.bank.journal import Commit
from epimem.errors import BankBusyError, BankConflictError
from epimem.schema import strict_json
from epimem.schema.proposal import Accepted, Rejection
from epimem.schema.tree import Node

bank = tables.bank
MAX_REPLY_BYTES = 4000
LEASE_S = 30.0
# A time further ahead than this was written by a clock that ran ahead, and binds nobody (ours).
LONGEST_S = 24 * 3600


@dataclass(frozen=True)
class Lease:
    """The right to change trees, until `epoch` is overtaken."""

    holder: str
    epoch: int
    renew: Callable[[], None]


def holder_name(name: str, *, offset: float | None) -> str:
    """Return a holder's name with host and process, so that a dead one can be told.

    Args:
        name: free text.
        offset: seconds by which the wall clock was ahead of the steady one when the right was taken.
            On the same boot its time is told by the steady clock, whatever the wall clock does.
            None: by the wall clock alone.
    """
    boot = [_boot_id(), offset] if offset is not None else []
    return json.dumps([name, socket.gethostname(), os.getpid(), *boot])


@lru_cache(maxsize=1)
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def take(connection: Connection, holder: str, *, now: float, steady: float, ttl_s: float) -> int:
    """Take the lease and return the new epoch.

    Raises:
        BankBusyError: `bank_locked_elsewhere`, a living maintainer holds it.
    """
    row = connection.execute(select(bank)).one()
    if is_held(row, now=now, steady=steady):
        raise BankBusyError(
            "another maintainer is at work",
            code="bank_locked_elsewhere",
            hint="it ends by itself or its lease runs out",
        )
    epoch = int(row.epoch) + 1
    connection.execute(
        update(bank).values(epoch=epoch, lease_holder=holder, lease_until=int(now + ttl_s) + 1)
    )
    return epoch


def is_held(row: Any, *, now: float, steady: float) -> bool:
    """Return whether a living maintainer holds the lease, by the bank's row."""
    return bool(row.lease_holder) and is_living(
        row.lease_holder, row.lease_until, now=now, steady=steady
    )


def is_living(holder: str, until: float, *, now: float, steady: float) -> bool:
    """Return whether a holder is at work: its time is not over, and its process is not known dead.

    Args:
        holder: as `holder_name` made it; one on another host is taken for alive.
        until: when its time is over, by the wall clock as it stood when the right was taken.
        now: seconds since 1970 by the wall clock.
        steady: seconds by a clock that nobody sets.
    """
    _, host, pid, *rest = rows.stored_list(holder)
    if host == socket.gethostname() and _is_gone(pid):
        return False
    boot, offset = rest or ("", 0.0)
    if boot and boot == _boot_id():
        now = steady + offset
    return int(now) < until <= now + LONGEST_S


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def check_epoch(connection: Connection, epoch: int) -> Any:
    """Return the bank's row when the epoch still holds.

    Raises:
        BankBusyError: `stale_epoch`, another maintainer took over.
    """
    row = connection.execute(select(bank)).one()
    if row.epoch != epoch:
        raise BankBusyError(
            "this maintainer was overtaken by another", code="stale_epoch", hint="start again"
        )
    return row


def extend(connection: Connection, epoch: int, *, now: float, ttl_s: float) -> None:
    """Keep the lease for another `ttl_s` seconds."""
    check_epoch(connection, epoch)
    connection.execute(update(bank).values(lease_until=int(now + ttl_s) + 1))


def release(connection: Connection, epoch: int) -> None:
    """Give the lease back; harmless when it was overtaken."""
    connection.execute(
        update(bank).where(bank.c.epoch == epoch).values(lease_holder=None, lease_until=None)
    )


def open_step(
    commit: Commit,
    epoch: int,
    *,
    namespace: str,
    lessons: Sequence[str],
    settings: Mapping[str, Any],
) -> int:
    """Start maintenance step k over a batch of lessons; the settings are stored with it."""
    check_epoch(commit.connection, epoch)
    table = tables.steps
    last = commit.connection.execute(select(func.max(table.c.step))).scalar_one()
    step = int(last or 0) + 1
    values = {
        "step": step,
        "namespace": namespace,
        "epoch": epoch,
        "seq": commit.seq,
        "lessons": json.dumps(list(lessons)),
        "settings": strict_json.dumps(dict(settings)).decode("utf-8"),
        "state": "open",
    }
    commit.connection.execute(insert(table), values)
    commit.count("step", *values.values())
    commit.note("step", [step, len(lessons)])
    return step


@dataclass(frozen=True)
class OpenStep:
    """A step that was begun and not ended: its batch, and the sequence number it started from."""

    step: int
    seq: int
    lesson_ids: tuple[str, ...]


def open_steps(connection: Connection, namespace: str) -> list[OpenStep]:
    """Return the steps of a namespace that were interrupted, oldest first."""
    table = tables.steps
    query = (
        select(table)
        .where(table.c.namespace == namespace, table.c.state == "open")
        .order_by(table.c.step)
    )
    return [
        OpenStep(int(row.step), int(row.seq), tuple(rows.stored_list(row.lessons)))
        for row in connection.execute(query)
    ]


def changed_since(connection: Connection, namespace: str, seq: int) -> list[str]:
    """Return live inner nodes of a namespace that have a version younger than `seq`."""
    nodes = tables.nodes
    query = select(nodes.c.node_id).where(
        nodes.c.namespace == namespace,
        nodes.c.to_seq.is_(None),
        nodes.c.kind != "lesson",
        nodes.c.from_seq > seq,
    )
    return sorted(connection.execute(query).scalars())


def close_step(commit: Commit, epoch: int, step: int) -> None:
    """End a step."""
    check_epoch(commit.connection, epoch)
    here = tables.steps.c.step == step
    for row in commit.connection.execute(select(tables.steps).where(here)).all():
        commit.discount("step", *row)
        commit.count("step", *row[:-1], "done")
    commit.connection.execute(update(tables.steps).where(here).values(state="done"))
    commit.note("step_done", step)


def apply(
    commit: Commit,
    epoch: int,
    accepted: Accepted,
    *,
    base: int,
    vectors: Mapping[str, NodeVectors],
) -> None:
    """Write an applied operation.

    A lesson keeps what was folded into it meanwhile: of a lesson only the parent changes here. Inner
    nodes carry derivation edges to every lesson that was shown when their text was written.

    Args:
        commit: the commit under way.
        epoch: of the lease.
        accepted: the operation.
        base: the `tree_seq` the operation was computed on.
        vectors: of new or renamed inner nodes.

    Raises:
        BankConflictError: `conflict`, the tree changed since (a revocation, say).
        BankBusyError: `stale_epoch`.
    """
    head = check_epoch(commit.connection, epoch)
    if head.tree_seq != base:
        raise BankConflictError("the tree changed since this step read it", hint="read it again")
    commit.touches_tree = True
    for node in accepted.put:
        _put(commit, node, accepted)
        if node.node_id in vectors:
            intake.put_vectors(commit.connection, node, vectors[node.node_id])
    for node_id in accepted.dropped:
        rows.drop(commit, node_id)


def _put(commit: Commit, node: Node, accepted: Accepted) -> None:
    row = rows.live_row(commit.connection, node.node_id)
    if node.kind == "lesson":
        if row is None:
            raise BankConflictError("a lesson of this step is gone", hint="read the tree again")
        current = rows.to_node(row)
        if current.parent_id == node.parent_id:
            return
        moved = current.model_copy(update={"parent_id": node.parent_id})
        rows.put(commit, moved, contributor=row.contributor, previous=row)
        return
    rows.put(commit, node, contributor="", previous=row)
    sources = accepted.written_from.get(node.node_id, ())
    intake.add_edges(commit, node.node_id, sorted(sources), "derived")


def reject(commit: Commit, epoch: int, rejection: Rejection, *, step: int) -> None:
    """Keep a refused proposal with its reason and the reply as it came, shortened."""
    check_epoch(commit.connection, epoch)
    kept = rejection.model_copy(update={"raw": rejection.raw[:MAX_REPLY_BYTES]})
    values = {
        "seq": commit.seq,
        "step": step,
        "op": rejection.op,
        "reason": rejection.reason,
        "body": kept.canonical().decode("utf-8"),
    }
    commit.connection.execute(insert(tables.rejections), values)
    commit.count("rejection", *values.values())
    commit.note("rejection", [rejection.op, rejection.reason])


def blank_rejections(commit: Commit, namespace: str, after: int) -> None:
    """Take the replies out of a namespace's refused proposals after a commit (revocation)."""
    table, steps = tables.rejections, tables.steps
    query = (
        select(table)
        .join(steps, steps.c.step == table.c.step)
        .where(steps.c.namespace == namespace, table.c.seq > after)
    )
    for row in commit.connection.execute(query).all():
        body = Rejection(op=row.op, reason=row.reason).canonical().decode("utf-8")
        commit.discount("rejection", *row[1:])
        commit.count("rejection", row.seq, row.step, row.op, row.reason, body)
        commit.connection.execute(update(table).where(table.c.id == row.id).values(body=body))


def rejection_counts(connection: Connection) -> dict[str, int]:
    """Return the number of rejections by reason."""
    table = tables.rejections
    query = select(table.c.reason, func.count()).group_by(table.c.reason)
    return {reason: int(count) for reason, count in connection.execute(query)}


def operation_counts(connection: Connection) -> dict[str, int]:
    """Return the number of applied operations by kind, from the journal."""
    query = (
        select(tables.journal.c.kind, func.count())
        .where(tables.journal.c.kind.like("op:%"))
        .group_by(tables.journal.c.kind)
    )
    return {kind.removeprefix("op:"): int(count) for kind, count in connection.execute(query)}
