"""Feedback as counts: helped and hurt signals, verdicts of questions, and the standing they give.

Feedback never changes support. One contributor counts once per (item, question, signal), and at most
`MAX_PER_CONTRIBUTOR` times per item and signal (ours).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update

from epimem.bank import tables
from epimem.bank.intake import Caller
from epimem.bank.journal import Commit
from epimem.bank.reading import chunks
from epimem.operations.rules import Standing

MAX_PER_CONTRIBUTOR = 100
Signal = Literal["helped", "hurt"]


def add_signal(
    commit: Commit,
    node_id: str,
    question_key: str,
    signal: Signal,
    *,
    caller: Caller,
    source: str,
    detail: str = "",
) -> bool:
    """Count one signal; False when it was counted before or the contributor's bound is reached."""
    table = tables.signals
    connection = commit.connection
    known = select(table.c.seq).where(
        table.c.node_id == node_id,
        table.c.question_key == question_key,
        table.c.signal == signal,
    )
    used = select(func.count()).where(
        table.c.node_id == node_id,
        table.c.signal == signal,
        table.c.contributor == caller.contributor,
    )
    if connection.execute(known).first() is not None:
        return False
    if connection.execute(used).scalar_one() >= MAX_PER_CONTRIBUTOR:
        return False
    values = {
        "node_id": node_id,
        "question_key": question_key,
        "signal": signal,
        "contributor": caller.contributor,
        "source": source,
        "detail": detail,
        "seq": commit.seq,
    }
    connection.execute(insert(table), values)
    commit.count("signal", *values.values())
    commit.note("signal", [node_id, signal])
    return True


def add_verdict(
    commit: Commit,
    *,
    namespace: str,
    question_key: str,
    reader: str,
    family: str,
    verdict: Literal["right", "wrong"],
    source: str,
    items: Sequence[str],
    caller: Caller,
) -> bool:
    """Count the verdict of one question whose memory input held `items`; each question once a reader."""
    table = tables.verdicts
    where = (
        table.c.namespace == namespace,
        table.c.question_key == question_key,
        table.c.reader == reader,
    )
    if commit.connection.execute(select(table.c.seq).where(*where)).first() is not None:
        return False
    key = {"namespace": namespace, "question_key": question_key, "reader": reader}
    values = {
        **key,
        "family": family,
        "verdict": verdict,
        "source": source,
        "contributor": caller.contributor,
        "seq": commit.seq,
    }
    commit.connection.execute(insert(table), values)
    commit.count("verdict", *values.values())
    for node_id in sorted(set(items)):
        commit.connection.execute(insert(tables.verdict_items), {**key, "node_id": node_id})
        commit.count("use", *key.values(), node_id)
    commit.note("verdict", [question_key[:16], verdict, len(items)])
    return True


def drop_signals(commit: Commit, condition: ColumnElement[bool]) -> None:
    """Delete signals (revocation)."""
    table = tables.signals
    for row in commit.connection.execute(select(table).where(condition)).all():
        commit.discount("signal", *row)
    commit.connection.execute(delete(table).where(condition))


def blank_signals(commit: Commit, condition: ColumnElement[bool]) -> None:
    """Forget the statements of signals; that there was one still counts (revocation)."""
    table = tables.signals
    condition &= table.c.detail != ""
    for row in commit.connection.execute(select(table).where(condition)).all():
        commit.discount("signal", *row)
        commit.count("signal", *{**row._mapping, "detail": ""}.values())
    commit.connection.execute(update(table).where(condition).values(detail=""))


def drop_uses(commit: Commit, condition: ColumnElement[bool]) -> None:
    """Forget that verdicts' inputs held items (revocation)."""
    table = tables.verdict_items
    for row in commit.connection.execute(select(table).where(condition)).all():
        commit.discount("use", *row)
    commit.connection.execute(delete(table).where(condition))


def drop_verdicts(commit: Commit, condition: ColumnElement[bool]) -> None:
    """Delete verdicts and what their inputs held (revocation)."""
    table, items = tables.verdicts, tables.verdict_items
    for row in commit.connection.execute(select(table).where(condition)).all():
        commit.discount("verdict", *row)
        drop_uses(
            commit,
            (items.c.namespace == row.namespace)
            & (items.c.question_key == row.question_key)
            & (items.c.reader == row.reader),
        )
    commit.connection.execute(delete(table).where(condition))


def standing(connection: Connection, wanted: Sequence[tuple[str, str, str]]) -> dict[str, Standing]:
    """Return the standing of items given as (node id, namespace, family).

    The base rate counts verdicts of the same namespace and family whose input did not hold the item.
    """
    ids = [node_id for node_id, _, _ in wanted]
    signals = _signal_counts(connection, ids)
    with_item = _verdicts_with(connection, ids)
    totals: dict[tuple[str, str], dict[str, int]] = {}
    result = {}
    for node_id, namespace, family in wanted:
        if (namespace, family) not in totals:
            totals[namespace, family] = _verdict_totals(connection, namespace, family)
        total = totals[namespace, family]
        mine = with_item.get(node_id, {})
        in_family = _verdicts_of(connection, node_id, namespace, family) if mine else {}
        result[node_id] = Standing(
            helped=signals.get((node_id, "helped"), 0),
            hurt=signals.get((node_id, "hurt"), 0),
            used_right=mine.get("right", 0),
            used_wrong=mine.get("wrong", 0),
            base_right=total.get("right", 0) - in_family.get("right", 0),
            base_wrong=total.get("wrong", 0) - in_family.get("wrong", 0),
        )
    return result


def _signal_counts(connection: Connection, ids: Sequence[str]) -> dict[tuple[str, str], int]:
    table = tables.signals
    found: dict[tuple[str, str], int] = {}
    for part in chunks(ids):
        query = (
            select(table.c.node_id, table.c.signal, func.count())
            .where(table.c.node_id.in_(part))
            .group_by(table.c.node_id, table.c.signal)
        )
        for node_id, signal, count in connection.execute(query):
            found[node_id, signal] = int(count)
    return found


def _verdicts_with(connection: Connection, ids: Sequence[str]) -> dict[str, dict[str, int]]:
    items, verdicts = tables.verdict_items, tables.verdicts
    found: dict[str, dict[str, int]] = {}
    for part in chunks(ids):
        query = (
            select(
                items.c.node_id, verdicts.c.verdict, func.count(verdicts.c.question_key.distinct())
            )
            .join(
                verdicts,
                (verdicts.c.namespace == items.c.namespace)
                & (verdicts.c.question_key == items.c.question_key)
                & (verdicts.c.reader == items.c.reader),
            )
            .where(items.c.node_id.in_(part))
            .group_by(items.c.node_id, verdicts.c.verdict)
        )
        for node_id, verdict, count in connection.execute(query):
            found.setdefault(node_id, {})[verdict] = int(count)
    return found


def _verdict_totals(connection: Connection, namespace: str, family: str) -> dict[str, int]:
    table = tables.verdicts
    query = (
        select(table.c.verdict, func.count(table.c.question_key.distinct()))
        .where(table.c.namespace == namespace, table.c.family == family)
        .group_by(table.c.verdict)
    )
    return {verdict: int(count) for verdict, count in connection.execute(query)}


def _verdicts_of(
    connection: Connection, node_id: str, namespace: str, family: str
) -> dict[str, int]:
    items, verdicts = tables.verdict_items, tables.verdicts
    query = (
        select(verdicts.c.verdict, func.count(verdicts.c.question_key.distinct()))
        .join(
            items,
            (verdicts.c.namespace == items.c.namespace)
            & (verdicts.c.question_key == items.c.question_key)
            & (verdicts.c.reader == items.c.reader),
        )
        .where(
            items.c.node_id == node_id,
            verdicts.c.namespace == namespace,
            verdicts.c.family == family,
        )
        .group_by(verdicts.c.verdict)
    )
    return {verdict: int(count) for verdict, count in connection.execute(query)}
