"""What comes in: ready lessons and what they bring along; no model is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, bindparam, delete, insert, select, update

from epimem.bank import rows, tables
from epimem.bank.encoder import NodeVectors
from epimem.bank.journal import Commit
from epimem.bank.prepared import Prepared
from epimem.errors import AccessError, BankConflictError, NotFoundError
from epimem.schema.ids import IdGenerator, question_key, sha256
from epimem.schema.lesson import (
    AUTHORITIES,
    MAX_EVIDENCE,
    Authority,
    Evidence,
    Lesson,
    LessonDraft,
    Support,
    fold_key,
    lowest,
    text_key,
)
from epimem.schema.receipt import Receipt
from epimem.schema.tree import Node, lesson_shelf

IDEMPOTENCY_S = 7 * 24 * 3600
# The receipts are looked through for expired ones once in so many commits.
SWEEP_EVERY = 256
MAX_SUPPORTS = 512
MAX_CAUTIONS = 32
FOLD = "fold:"

_vectors_insert = Prepared(
    insert(tables.vectors), tuple(column.name for column in tables.vectors.c)
)
_vectors_known = Prepared(
    select(tables.vectors.c.node_id).where(
        tables.vectors.c.node_id == bindparam("node"),
        tables.vectors.c.text_hash == bindparam("text"),
    )
)
_edges_insert = Prepared(insert(tables.edges), ("child", "parent", "relation", "seq"))
_edge_known = Prepared(
    select(tables.edges.c.seq).where(
        tables.edges.c.child == bindparam("child"),
        tables.edges.c.parent == bindparam("parent"),
        tables.edges.c.relation == bindparam("relation"),
    )
)
_edges_renew = Prepared(
    update(tables.edges)
    .where(
        tables.edges.c.child == bindparam("child"),
        tables.edges.c.parent == bindparam("parent"),
        tables.edges.c.relation == bindparam("relation"),
    )
    .values(seq=bindparam("now"))
)
_fold_match = Prepared(
    select(tables.nodes.c.node_id)
    .where(
        tables.nodes.c.fold_key == bindparam("key"),
        tables.nodes.c.to_seq.is_(None),
    )
    .order_by(tables.nodes.c.version)
)
_blocked = Prepared(select(tables.blocked.c.seq).where(tables.blocked.c.hash == bindparam("hash")))
_image_known = select(tables.images.c.image_id).where(
    tables.images.c.image_id == bindparam("image_id")
)


@dataclass(frozen=True)
class Caller:
    """Who calls, taken from the credential or the opened handle, never from what is written.

    `authority` is what the caller's own lessons get; `phase` decides which rewards may be used.
    """

    contributor: str
    organisation: str
    phase: Literal["construction", "evolution", "evaluation"] = "construction"
    authority: Authority = "observed"


@dataclass(frozen=True)
class Origin:
    """Who a lesson is attributed to, and the run it was derived from."""

    contributor: str
    organisation: str
    authority: Authority
    run_id: str | None = None


def store_lesson(
    commit: Commit,
    draft: LessonDraft,
    vectors: NodeVectors | None,
    *,
    origin: Origin,
    namespace: str,
    ids: IdGenerator,
) -> Receipt:
    """Put a lesson into the inbox, or fold it into the lesson that says the same.

    Raises:
        AccessError: `text_blocked`, the text was revoked.
        NotFoundError: a parent or an evidence image is not in the bank.
    """
    _refuse_blocked(commit.connection, draft)
    _check_images(commit.connection, draft.evidence)
    same = same_lesson(commit.connection, fold_key(draft, namespace))
    if same is not None:
        return fold(commit, same, draft, origin)
    return _insert(commit, draft, vectors, origin=origin, namespace=namespace, ids=ids)


def same_lesson(connection: Connection, key: str) -> Any:
    """Return the live row of the lesson with a fold key, None where there is none."""
    same = _fold_match.first(connection, {"key": key})
    return None if same is None else rows.live_row(connection, same[0])


def _insert(
    commit: Commit,
    draft: LessonDraft,
    vectors: NodeVectors | None,
    *,
    origin: Origin,
    namespace: str,
    ids: IdGenerator,
) -> Receipt:
    lesson = _attributed(commit.connection, draft, origin)
    form, audience = lesson_shelf(lesson)
    node = Node(
        node_id=ids(),
        namespace=namespace,
        kind="lesson",
        title=lesson.title,
        index=lesson.index,
        form=form,
        audience=audience,
        authority=lesson.authority,
        lesson=lesson,
    )
    rows.put(commit, node, contributor=origin.contributor)
    parents = sorted({*draft.parents, *lesson.run_ids})
    add_edges(commit, node.node_id, parents, "derived")
    add_edges(commit, node.node_id, _images(draft.evidence), "image")
    if vectors is not None:
        put_vectors(commit.connection, node, vectors)
    searchable: Literal["dense", "lexical"] = "dense" if vectors is not None else "lexical"
    return Receipt(
        status="stored",
        id=node.node_id,
        seq=commit.seq,
        searchable=searchable,
        truncated_tokens=vectors.truncated_tokens if vectors is not None else 0,
    )


def _attributed(connection: Connection, draft: LessonDraft, origin: Origin) -> Lesson:
    run_ids = draft.run_ids
    if origin.run_id is not None and origin.run_id not in run_ids:
        run_ids = (*run_ids, origin.run_id)
    authority = lowest([origin.authority, *_authorities(connection, draft.parents)])
    fields = {name: getattr(draft, name) for name in LessonDraft.model_fields}
    fields.update(
        run_ids=run_ids,
        evidence=_evidence_of(draft, origin),
        question_key=_question(draft),
        contributor=origin.contributor,
        organisation=origin.organisation,
        authority=authority,
        supports=(_support(draft, origin),),
    )
    return Lesson.model_construct(**fields)


def _authorities(connection: Connection, parents: Sequence[str]) -> list[Authority]:
    found: list[Authority] = []
    for parent in parents:
        row = rows.live_row(connection, parent)
        if row is None:
            raise NotFoundError("a parent of the lesson is not in the bank", field="parents")
        found.append(rows.to_node(row).authority)
    return found


def _question(draft: LessonDraft) -> str:
    if draft.question_key:
        return draft.question_key
    return question_key(draft.index.question_anchor or draft.guidance)


def _support(draft: LessonDraft, origin: Origin) -> Support:
    return Support(
        question_key=_question(draft),
        verdict_source=draft.verdict_source,
        organisation=origin.organisation,
        contributor=origin.contributor,
        run_id=origin.run_id or (draft.run_ids[0] if draft.run_ids else None),
    )


def _evidence_of(draft: LessonDraft, origin: Origin, question: str = "") -> tuple[Evidence, ...]:
    return tuple(
        item.model_copy(
            update={
                "contributor": origin.contributor,
                "question_key": question,
                "run_id": item.run_id or (item.turn.run_id if item.turn else origin.run_id),
            }
        )
        for item in draft.evidence
    )


def fold(commit: Commit, row: object, draft: LessonDraft, origin: Origin) -> Receipt:
    """Add a copy to the lesson that says the same: its support, and what it knows besides.

    Evidence and cautions are taken up only from a copy of at least the lesson's authority, so that
    nobody speaks in the name of a higher one (ours).
    """
    node = rows.to_node(row)
    assert node.lesson is not None
    support = _support(draft, origin)
    authority = lowest([origin.authority, *_authorities(commit.connection, draft.parents)])
    known = any(_same_support(old, support) for old in node.lesson.supports)
    if known or len(node.lesson.supports) >= MAX_SUPPORTS:
        return Receipt(
            status="duplicate", id=node.node_id, seq=commit.seq - 1, searchable="lexical"
        )
    trusted = AUTHORITIES.index(authority) >= AUTHORITIES.index(node.lesson.authority)
    evidence = _new_evidence(node.lesson, draft, origin, support) if trusted else ()
    cautions = _new_cautions(node.lesson, draft) if trusted else ()
    lesson = node.lesson.model_copy(
        update={
            "supports": (
                *node.lesson.supports,
                support.model_copy(update={"cautions": cautions}),
            ),
            "evidence": (*node.lesson.evidence, *evidence),
            "cautions": (*node.lesson.cautions, *cautions),
            "folded": node.lesson.folded + 1,
        }
    )
    merged = node.model_copy(update={"lesson": lesson})
    rows.put(commit, merged, contributor=node.lesson.contributor, previous=row)
    _add_fold_edges(commit, node.node_id, draft, support, told=bool(evidence or cautions))
    add_edges(commit, node.node_id, _images(evidence), "image")
    return Receipt(status="folded", id=node.node_id, seq=commit.seq, searchable="lexical")


def _new_evidence(
    lesson: Lesson, draft: LessonDraft, origin: Origin, support: Support
) -> tuple[Evidence, ...]:
    known = {(item.image_id, item.region.box) for item in lesson.evidence}
    found = _evidence_of(draft, origin, support.question_key)
    new = [item for item in found if (item.image_id, item.region.box) not in known]
    return tuple(new[: MAX_EVIDENCE - len(lesson.evidence)])


def _new_cautions(lesson: Lesson, draft: LessonDraft) -> tuple[str, ...]:
    new = [text for text in dict.fromkeys(draft.cautions) if text not in lesson.cautions]
    return tuple(new[: max(0, MAX_CAUTIONS - len(lesson.cautions))])


def fold_id(node_id: str, support: Support) -> str:
    """Return the name of a folded copy among the derivation edges."""
    parts = (node_id, support.contributor, support.question_key)
    return f"{FOLD}{sha256(chr(31).join(parts).encode('utf-8'))[:32]}"


def _add_fold_edges(
    commit: Commit, node_id: str, draft: LessonDraft, support: Support, *, told: bool
) -> None:
    """Record a folded copy: where it came from, who gave it, and what it was added to."""
    fold = fold_id(node_id, support)
    runs = {support.run_id} if support.run_id else set()
    add_edges(commit, fold, sorted({*draft.parents, *draft.run_ids, *runs}), "derived")
    add_edges(commit, fold, [support.contributor], "by")
    add_edges(commit, node_id, [fold], "support")
    if told:
        add_edges(commit, node_id, [fold], "told")


def _images(evidence: Sequence[Evidence]) -> list[str]:
    return sorted({item.image_id for item in evidence})


def _same_support(first: Support, second: Support) -> bool:
    return (first.question_key, first.contributor) == (second.question_key, second.contributor)


def _refuse_blocked(connection: Connection, draft: LessonDraft) -> None:
    for text in (draft.guidance, *(statement.text for statement in draft.statements)):
        if _blocked.first(connection, {"hash": text_key(text)}) is not None:
            raise AccessError(
                "this text was revoked", code="text_blocked", hint="it cannot be offered again"
            )


def _check_images(connection: Connection, evidence: Sequence[Evidence]) -> None:
    for item in evidence:
        found = connection.execute(
            select(tables.images.c.width, tables.images.c.height).where(
                tables.images.c.image_id == item.image_id
            )
        ).one_or_none()
        if found is None:
            raise NotFoundError("evidence names an image that is not stored", field="evidence")
        if (found.width, found.height) != (item.region.width, item.region.height):
            raise BankConflictError(
                "evidence was measured on an image of another size",
                code="invalid_field",
                field="evidence.region",
            )


def add_edges(commit: Commit, child: str, parents: Sequence[str], relation: str) -> None:
    """Record where a node's text came from; each edge once, with the last commit that made it.

    Relations: "derived" the child's text came from the parent (a node, a run); "image" the child
    shows the parent; and for a folded copy, a vertex of its own: "by" its contributor, "support" the
    lesson it was added to, "told" the same where it added text or evidence.
    """
    for parent in parents:
        edge = {"child": child, "parent": parent, "relation": relation}
        known = _edge_known.first(commit.connection, edge)
        if known is None:
            _edges_insert.run(commit.connection, {**edge, "seq": commit.seq})
        elif known[0] != commit.seq:
            commit.discount("edge", child, parent, relation, known[0])
            _edges_renew.run(commit.connection, {**edge, "now": commit.seq})
        else:
            continue
        commit.count("edge", child, parent, relation, commit.seq)


def drop_edges(commit: Commit, condition: ColumnElement[bool]) -> list[str]:
    """Delete edges; return the parents they named, sorted."""
    edges = tables.edges
    found = commit.connection.execute(select(edges).where(condition)).all()
    for row in found:
        commit.discount("edge", row.child, row.parent, row.relation, row.seq)
    commit.connection.execute(delete(edges).where(condition))
    return sorted({row.parent for row in found})


def put_vectors(connection: Connection, node: Node, vectors: NodeVectors) -> None:
    """Store the vectors of a node's index text, once per text."""
    text_hash = sha256(node.index.text.encode("utf-8"))
    if _vectors_known.first(connection, {"node": node.node_id, "text": text_hash}) is not None:
        return
    _vectors_insert.run(connection, vector_row(node.node_id, text_hash, vectors))


def vector_row(node_id: str, text_hash: str, vectors: NodeVectors) -> dict[str, Any]:
    """Return the columns of a vector row, its checksum among them."""
    blobs = [vector.tobytes() for vector in (vectors.index, vectors.scope, vectors.anchor)]
    return {
        "node_id": node_id,
        "text_hash": text_hash,
        "index_vector": blobs[0],
        "scope_vector": blobs[1],
        "anchor_vector": blobs[2],
        "checksum": vector_checksum(node_id, text_hash, *blobs),
    }


def vector_checksum(node_id: str, text_hash: str, *blobs: bytes) -> str:
    """Return the checksum of a vector row."""
    return sha256(f"{node_id}\x1f{text_hash}\x1f".encode() + b"".join(blobs))


def known_receipt(
    connection: Connection, caller: Caller, key: str, body_hash: str, now: float
) -> Receipt | None:
    """Return the receipt of an earlier call with this idempotency key (kept for seven days).

    Raises:
        BankConflictError: `idempotency_mismatch`, the key came with another body.
    """
    table = tables.idempotency
    row = connection.execute(
        select(table).where(
            table.c.contributor == caller.contributor,
            table.c.key == key,
            table.c.expires_at > int(now),
        )
    ).one_or_none()
    if row is None:
        return None
    if row.body_hash != body_hash:
        raise BankConflictError(
            "this idempotency key was used with another body", code="idempotency_mismatch"
        )
    return Receipt.read(row.receipt)


def keep_receipt(
    commit: Commit, caller: Caller, key: str, body_hash: str, receipt: Receipt, now: float
) -> None:
    """Remember a receipt under its idempotency key; expired ones go now and then."""
    table = tables.idempotency
    _drop_receipts(commit, (table.c.contributor == caller.contributor) & (table.c.key == key))
    if commit.seq % SWEEP_EVERY == 0:
        _drop_receipts(commit, table.c.expires_at <= int(now))
    values = {
        "contributor": caller.contributor,
        "key": key,
        "body_hash": body_hash,
        "receipt": receipt.canonical().decode("utf-8"),
        "expires_at": int(now) + IDEMPOTENCY_S,
    }
    commit.connection.execute(insert(table), values)
    commit.count("receipt", *values.values())


def _drop_receipts(commit: Commit, condition: ColumnElement[bool]) -> None:
    table = tables.idempotency
    for row in commit.connection.execute(select(table).where(condition)).all():
        commit.discount("receipt", *row)
    commit.connection.execute(delete(table).where(condition))


def image_known(connection: Connection, image_id: str) -> bool:
    """Return whether an image is stored."""
    return connection.execute(_image_known, {"image_id": image_id}).first() is not None
