"""Quarantine: what other organisations hand in waits here until somebody has looked at it.

It is stored as all else is, durable, revocable, checked, but in a namespace of its own that no
question searches and no job works on. Approved, it moves to the namespace that it was meant for,
with its id and its origin; refused, it is revoked, so that the same text cannot be offered again.
"""

from __future__ import annotations

from typing import Any, Literal

from sqlalchemy import Connection, func, select, update

from epimem.bank import intake, rows, run_queue, tables
from epimem.bank.intake import Origin
from epimem.bank.journal import Commit
from epimem.errors import NotFoundError
from epimem.schema.lesson import LessonDraft, fold_key
from epimem.schema.receipt import Receipt
from epimem.schema.waiting import Waiting

PREFIX = tables.QUARANTINE
_LIKE = f"{PREFIX}%"
nodes, runs = tables.nodes, tables.runs


def aside(namespace: str) -> str:
    """Return the namespace in which what is meant for a namespace waits."""
    return PREFIX + namespace


def is_aside(namespace: str) -> bool:
    """Return whether a namespace is one of those that wait."""
    return namespace.startswith(PREFIX)


def waiting(connection: Connection, *, limit: int) -> list[Waiting]:
    """Return what waits, lessons first, oldest first.

    Args:
        connection: in a transaction.
        limit: most of either kind.
    """
    lessons = (
        select(nodes)
        .where(nodes.c.namespace.like(_LIKE), nodes.c.to_seq.is_(None))
        .order_by(nodes.c.version)
        .limit(limit)
    )
    queued = select(runs).where(runs.c.namespace.like(_LIKE)).order_by(runs.c.seq).limit(limit)
    return [
        *(_waiting_lesson(row) for row in connection.execute(lessons)),
        *(_waiting(row.run_id, "run", row, row.question_key) for row in connection.execute(queued)),
    ]


def _waiting_lesson(row: Any) -> Waiting:
    lesson = rows.to_node(row).lesson
    assert lesson is not None
    return _waiting(row.node_id, "lesson", row, lesson.guidance, lesson.organisation)


def _waiting(
    item_id: str, kind: Literal["lesson", "run"], row: Any, text: str, organisation: str = ""
) -> Waiting:
    return Waiting(
        id=item_id,
        kind=kind,
        namespace=_target(row.namespace),
        contributor=row.contributor,
        organisation=organisation or row.organisation,
        text=text,
    )


def kind_of(connection: Connection, item_id: str) -> Literal["item", "run"]:
    """Return what waits under an id, in the words of a revocation.

    Raises:
        NotFoundError: nothing does.
    """
    row = rows.live_row(connection, item_id)
    if row is not None and is_aside(row.namespace):
        return "item"
    if _waiting_run(connection, item_id) is None:
        raise NotFoundError("nothing of that id waits for review", got=item_id)
    return "run"


def _waiting_run(connection: Connection, run_id: str) -> Any:
    query = select(runs).where(runs.c.run_id == run_id, runs.c.namespace.like(_LIKE))
    return connection.execute(query).one_or_none()


def counts(connection: Connection) -> tuple[int, int]:
    """Return how many lessons and how many runs wait."""
    lessons = select(func.count()).where(nodes.c.namespace.like(_LIKE), nodes.c.to_seq.is_(None))
    queued = select(func.count()).where(runs.c.namespace.like(_LIKE))
    first, second = (connection.execute(query).scalar_one() for query in (lessons, queued))
    return first, second


def known(connection: Connection, contributor: str, *, waiting: bool = False) -> int:
    """Return how many lessons of a contributor stand; those that wait only where they are asked for."""
    # As a plain "to_seq IS NULL" SQLite would walk all live rows instead of the contributor's.
    query = select(func.count()).where(
        nodes.c.contributor == contributor, tables.is_live, nodes.c.kind == "lesson"
    )
    if not waiting:
        query = query.where(~nodes.c.namespace.like(_LIKE))
    return int(connection.execute(query).scalar_one())


def approve(commit: Commit, item_id: str) -> Receipt:
    """Move a lesson or run to the namespace that it was meant for.

    A lesson that says what one there says already is folded into it.

    Raises:
        NotFoundError: nothing of that id waits.
    """
    row = rows.live_row(commit.connection, item_id)
    if row is not None and is_aside(row.namespace):
        return _approve_lesson(commit, row)
    run = _waiting_run(commit.connection, item_id)
    if run is None:
        raise NotFoundError("nothing of that id waits for review", field="approve", got=item_id)
    target = _target(run.namespace)
    same = run_queue.known_run(commit.connection, target, run.content_hash)
    if same is not None:
        run_queue.drop(commit, item_id)
        return Receipt(status="duplicate", id=same.run_id, seq=commit.seq)
    values = {**run._mapping, "namespace": target}
    values["checksum"] = run_queue.checksum_of(values)
    commit.connection.execute(update(runs).where(runs.c.run_id == item_id).values(**values))
    commit.note("run", [item_id, run.content_hash[:16], "approved"])
    return Receipt(status="queued", id=item_id, seq=commit.seq)


def _approve_lesson(commit: Commit, row: Any) -> Receipt:
    node = rows.to_node(row)
    assert node.lesson is not None
    target, lesson = _target(row.namespace), node.lesson
    same = intake.same_lesson(commit.connection, fold_key(lesson, target))
    if same is not None:
        draft = LessonDraft.model_construct(
            **{name: getattr(lesson, name) for name in LessonDraft.model_fields}
        )
        rows.drop(commit, row.node_id)
        origin = Origin(lesson.contributor, lesson.organisation, lesson.authority)
        return intake.fold(commit, same, draft, origin)
    moved = node.model_copy(update={"namespace": target})
    rows.put(commit, moved, contributor=row.contributor, previous=row)
    return Receipt(status="stored", id=row.node_id, seq=commit.seq)


def _target(namespace: str) -> str:
    return namespace.removeprefix(PREFIX)
