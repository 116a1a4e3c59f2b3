"""The run queue: runs wait here until a memory controller has derived their lessons.

Each run ends in exactly one state: `derived`, `nothing`, `duplicate` (never stored twice), `rejected`,
or it is still `queued`, with a reason and a time for the next try after a failed one.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sqlalchemy import Connection, delete, func, insert, or_, select, update

from epimem.bank import tables
from epimem.bank.blobs import BlobStore
from epimem.bank.intake import FOLD, Caller, add_edges
from epimem.bank.journal import Commit
from epimem.errors import (
    AccessError,
    BankConflictError,
    BankCorruptError,
    NotFoundError,
    RecordError,
)
from epimem.schema import strict_json
from epimem.schema.ids import sha256
from epimem.schema.lesson import Authority, VerdictSource
from epimem.schema.outcome import SealedOutcome
from epimem.schema.receipt import Receipt
from epimem.schema.run import Run

runs = tables.runs
# Runs are derived in batches by their order of contribution (ours).
BATCH = 32
FIRST_RETRY_S = 60
LAST_RETRY_S = 24 * 3600


@dataclass(frozen=True)
class QueuedRun:
    """A run to derive from: the run itself, and the verdict with its source; never the reference.

    `batch` holds the questions of the `BATCH` runs that were contributed around it.
    """

    run_id: str
    run: Run
    verdict: Literal["right", "wrong", "unknown"]
    verdict_source: VerdictSource
    namespace: str
    contributor: str
    organisation: str
    authority: Authority
    attempts: int
    batch: tuple[str, ...] = ()


@dataclass(frozen=True)
class SealedRun:
    """A stored run with its whole outcome, reference included: for offline work alone (training)."""

    queued: QueuedRun
    outcome: SealedOutcome | None = field(repr=False)


def checksum(row: Any) -> str:
    """Return the checksum over the columns of a run that carry meaning."""
    parts = (
        row.run_id,
        row.seq,
        row.namespace,
        row.content_hash,
        row.blob,
        row.outcome,
        row.question_key,
        row.contributor,
        row.organisation,
        row.authority,
        row.state,
        row.reason,
        row.attempts,
        row.retry_at,
        row.lessons,
    )
    return sha256("\x1f".join("" if part is None else str(part) for part in parts).encode())


def checksum_of(values: Mapping[str, Any]) -> str:
    """Return the checksum of a run about to be written."""
    return checksum(_Row(**values))


class _Row:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


def known_run(connection: Connection, namespace: str, content_hash: str) -> Any:
    """Return the stored run with this content, None where there is none."""
    return connection.execute(
        select(runs).where(runs.c.namespace == namespace, runs.c.content_hash == content_hash)
    ).one_or_none()


def add(
    commit: Commit,
    run: Run,
    outcome: str | None,
    *,
    blob: str,
    caller: Caller,
    namespace: str,
) -> Receipt:
    """Queue a run whose blob is already durable; a run of equal content is a duplicate.

    Raises:
        AccessError: `text_blocked`, a run of this content was revoked.
        BankConflictError: the id stands for another run, of other content or in another namespace.
    """
    connection = commit.connection
    content = run.content_hash
    same = known_run(connection, namespace, content)
    if same is not None:
        return Receipt(status="duplicate", id=same.run_id, seq=same.seq)
    refuse_blocked(connection, content)
    _refuse_taken(connection, run.run_id)
    values = {
        "run_id": run.run_id,
        "seq": commit.seq,
        "namespace": namespace,
        "content_hash": content,
        "blob": blob,
        "outcome": outcome,
        "question_key": run.task.question_key,
        "contributor": caller.contributor,
        "organisation": caller.organisation,
        "authority": caller.authority,
        "state": "queued",
        "reason": "",
        "attempts": 0,
        "retry_at": 0,
        "lessons": 0,
    }
    connection.execute(insert(runs), {**values, "checksum": checksum(_Row(**values))})
    commit.note("run", [run.run_id, content[:16], "queued"])
    add_edges(commit, run.run_id, sorted(run.image_ids), "image")
    return Receipt(status="queued", id=run.run_id, seq=commit.seq)


def refuse_blocked(connection: Connection, content_hash: str) -> None:
    """Refuse a run of revoked content.

    Raises:
        AccessError: `text_blocked`.
    """
    blocked = select(tables.blocked.c.seq).where(tables.blocked.c.hash == content_hash)
    if connection.execute(blocked).first() is not None:
        raise AccessError("this run was revoked", code="text_blocked")


def _refuse_taken(connection: Connection, run_id: str) -> None:
    """Refuse an id that stands for something else here, which a revocation could not tell apart."""
    known = select(runs.c.run_id).where(runs.c.run_id == run_id)
    node = select(tables.nodes.c.node_id).where(tables.nodes.c.node_id == run_id).limit(1)
    if run_id.startswith(FOLD) or any(connection.execute(q).first() for q in (known, node)):
        raise BankConflictError("another item has this id", field="run_id", got=run_id)


def due(
    connection: Connection,
    blobs: BlobStore,
    *,
    limit: int,
    now: float,
    skip: Container[str],
    damaged: set[str],
) -> tuple[QueuedRun, ...]:
    """Return queued runs whose time has come, oldest first.

    A run whose row or blob is damaged is withheld and its id added to `damaged`: it may not hold up
    the others. A time further ahead than any delay was set by a clock that ran ahead: it has come.
    """
    found: list[QueuedRun] = []
    batches: dict[int, tuple[str, ...]] = {}
    query = (
        select(runs)
        .where(
            runs.c.state == "queued",
            ~runs.c.namespace.startswith(tables.QUARANTINE, autoescape=True),
            or_(runs.c.retry_at <= int(now), runs.c.retry_at > int(now) + LAST_RETRY_S),
        )
        .order_by(runs.c.seq)
    )
    for row in connection.execute(query):
        if row.run_id in skip:
            continue
        try:
            batch = _batch_of(connection, blobs, row.seq, batches)
            found.append(replace(load(row, blobs), batch=batch))
        except (BankCorruptError, NotFoundError, RecordError):
            damaged.add(row.run_id)
        if len(found) == limit:
            break
    return tuple(found)


def sealed(connection: Connection, blobs: BlobStore, damaged: set[str]) -> list[SealedRun]:
    """Return all stored runs with their outcomes, by order of contribution, whatever their state.

    An outcome that may not be seen offline is left out. A damaged run is withheld and its id added to
    `damaged`.
    """
    found: list[SealedRun] = []
    batches: dict[int, tuple[str, ...]] = {}
    for row in connection.execute(select(runs).order_by(runs.c.seq)):
        try:
            batch = _batch_of(connection, blobs, row.seq, batches)
            queued = replace(load(row, blobs), batch=batch)
            outcome = SealedOutcome.read(row.outcome) if row.outcome else None
        except (BankCorruptError, NotFoundError, RecordError):
            damaged.add(row.run_id)
            continue
        visible = outcome is not None and "offline" in outcome.visible_to
        found.append(SealedRun(queued, outcome if visible else None))
    return found


def _batch_of(
    connection: Connection, blobs: BlobStore, seq: int, known: dict[int, tuple[str, ...]]
) -> tuple[str, ...]:
    """Return the questions of the batch that a run belongs to by its order of contribution."""
    before = select(func.count()).select_from(runs).where(runs.c.seq < seq)
    number = int(connection.execute(before).scalar_one()) // BATCH
    if number not in known:
        query = select(runs).order_by(runs.c.seq).offset(number * BATCH).limit(BATCH)
        known[number] = tuple(_question(blobs, row) for row in connection.execute(query))
    return known[number]


def _question(blobs: BlobStore, row: Any) -> str:
    """Return the question of a stored run, empty where its row or blob is damaged."""
    if checksum(row) != row.checksum:
        return ""
    try:
        value = strict_json.loads(blobs.get(row.blob), max_depth=strict_json.RUN_DEPTH)
        return str(value["task"]["question"])
    except (BankCorruptError, NotFoundError, RecordError, KeyError, TypeError):
        return ""


def load(row: Any, blobs: BlobStore) -> QueuedRun:
    """Read a run and the verdict of its sealed outcome from a verified row."""
    if checksum(row) != row.checksum:
        raise BankCorruptError("a stored run does not match its checksum", field=row.run_id)
    run = Run.read(strict_json.loads(blobs.get(row.blob), max_depth=strict_json.RUN_DEPTH))
    outcome = SealedOutcome.read(row.outcome) if row.outcome else None
    usable = outcome is not None and "construction" in outcome.visible_to
    return QueuedRun(
        run_id=row.run_id,
        run=run,
        verdict=outcome.verdict if outcome is not None and usable else "unknown",
        verdict_source=outcome.source if outcome is not None and usable else "none",
        namespace=row.namespace,
        contributor=row.contributor,
        organisation=row.organisation,
        authority=row.authority,
        attempts=row.attempts,
    )


def set_state(commit: Commit, run_id: str, **changes: Any) -> bool:
    """Change a queued run; return False when it is no longer queued (somebody else was first)."""
    row = commit.connection.execute(select(runs).where(runs.c.run_id == run_id)).one_or_none()
    if row is None or row.state != "queued":
        return False
    values = {**row._mapping, **changes}
    values["checksum"] = checksum(_Row(**values))
    commit.connection.execute(update(runs).where(runs.c.run_id == run_id).values(**values))
    commit.note("run", [run_id, row.content_hash[:16], values["state"]])
    return True


def retry_delay(attempts: int) -> int:
    """Return seconds until the next try: 60 s doubling to a day (ours)."""
    return min(FIRST_RETRY_S << min(attempts, 16), LAST_RETRY_S)


def mark_derived(
    commit: Commit, run_id: str, *, controller: str, prompt_version: str, lessons: int, nothing: str
) -> bool:
    """End a run as derived or with nothing to learn; False when it was ended before."""
    state = "derived" if lessons else "nothing"
    if not set_state(commit, run_id, state=state, reason=nothing, lessons=lessons):
        return False
    values = {
        "run_id": run_id,
        "controller": controller,
        "prompt_version": prompt_version,
        "seq": commit.seq,
    }
    commit.connection.execute(insert(tables.derivations), values)
    commit.count("derivation", *values.values())
    return True


def drop(commit: Commit, run_id: str) -> None:
    """Delete a run and what is known of its derivation (revocation)."""
    table = tables.derivations
    for row in commit.connection.execute(select(table).where(table.c.run_id == run_id)).all():
        commit.discount("derivation", *row)
    for name in (runs, table):
        commit.connection.execute(delete(name).where(name.c.run_id == run_id))
    commit.note("run_gone", run_id)


def counts(connection: Connection) -> dict[str, int]:
    """Return the number of runs by state."""
    query = select(runs.c.state, func.count()).group_by(runs.c.state)
    return {state: int(count) for state, count in connection.execute(query)}


def states(
    connection: Connection, run_ids: Sequence[str] | None = None
) -> dict[str, tuple[str, str]]:
    """Return (state, reason) by run id."""
    query = select(runs.c.run_id, runs.c.state, runs.c.reason)
    if run_ids is not None:
        query = query.where(runs.c.run_id.in_(run_ids))
    return {row.run_id: (row.state, row.reason) for row in connection.execute(query)}
