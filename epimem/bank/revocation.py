"""Revocation: hide an item, a run or a contributor with everything derived from it, then purge.

Two steps. `hide` is one commit: from it on nothing of the closure is read, and hashes of the texts are
remembered so that they cannot come back. `purge` then removes text, vectors, crops' sources, old
versions and log pages; a crash in between is made good when the bank is next opened for writing.
The journal keeps ids and hashes only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import Connection, delete, insert, select, update

from epimem.bank import intake, reading, rows, run_queue, tables
from epimem.bank.journal import Commit
from epimem.errors import NotFoundError
from epimem.operations.base import Context
from epimem.operations.repair import remove
from epimem.schema.ids import sha256
from epimem.schema.lesson import IndexText, Lesson, text_key
from epimem.schema.proposal import Rejection
from epimem.schema.tree import Node, Tree

Target = Literal["item", "run", "contributor"]
# How far a revocation has come.
HIDDEN, ROWS_PURGED, DONE = 0, 1, 2


@dataclass(frozen=True)
class Scope:
    """What a revocation reaches: nodes and runs by id, and whose additions are taken out elsewhere."""

    node_ids: frozenset[str]
    run_ids: frozenset[str]
    contributor: str | None = None


@dataclass
class Purged:
    """What a purge removed."""

    nodes: int = 0
    runs: int = 0
    images: int = 0
    texts: list[str] = field(default_factory=list)


def closure(connection: Connection, target: Target, name: str) -> Scope:
    """Return everything derived from the target, transitively, itself included.

    Raises:
        NotFoundError: the bank holds nothing of that name.
    """
    nodes, runs = tables.nodes, tables.runs
    if target == "item":
        found = connection.execute(select(nodes.c.node_id).where(nodes.c.node_id == name)).first()
        seeds = {name} if found else set()
        run_seeds: set[str] = set()
    elif target == "run":
        found = connection.execute(select(runs.c.run_id).where(runs.c.run_id == name)).first()
        seeds, run_seeds = set(), {name} if found else set()
    else:
        query = select(nodes.c.node_id).where(nodes.c.contributor == name).distinct()
        seeds = set(connection.execute(query).scalars())
        query = select(runs.c.run_id).where(runs.c.contributor == name)
        run_seeds = set(connection.execute(query).scalars())
    if not seeds and not run_seeds and not _contributed(connection, target, name):
        raise NotFoundError(f"no such {target}", field=target, got=name)
    reached = _descendants(connection, seeds | run_seeds)
    return Scope(
        node_ids=frozenset(reached - run_seeds),
        run_ids=frozenset(run_seeds),
        contributor=name if target == "contributor" else None,
    )


def _contributed(connection: Connection, target: Target, name: str) -> bool:
    """Return whether a contributor is known by its folded additions alone."""
    if target != "contributor":
        return False
    journal = tables.journal
    return (
        connection.execute(
            select(journal.c.seq).where(journal.c.contributor == name).limit(1)
        ).first()
        is not None
    )


def _descendants(connection: Connection, seeds: set[str]) -> set[str]:
    reached, frontier = set(seeds), sorted(seeds)
    while frontier:
        following: set[str] = set()
        for part in reading.chunks(frontier):
            query = select(tables.edges.c.child).where(
                tables.edges.c.parent.in_(part), tables.edges.c.relation == "derived"
            )
            following |= set(connection.execute(query).scalars())
        frontier = sorted(following - reached)
        reached |= following
    return reached


def hide(commit: Commit, scope: Scope, context: Context) -> None:
    """Hide the closure in one commit: lessons leave, categories lose their text, supports their share."""
    connection = commit.connection
    commit.touches_tree = True
    _block(commit, scope)
    for namespace in reading.namespaces(connection):
        tree = reading.tree(connection, namespace)
        if tree is not None:
            _hide_in_tree(commit, tree, scope, context)
    for node_id in sorted(scope.node_ids):
        row = rows.live_row(connection, node_id)
        if row is not None and row.kind == "lesson":
            rows.drop(commit, node_id)
    _strip_live(commit, scope)
    for run_id in sorted(scope.run_ids):
        _revoke_run(commit, run_id)
    connection.execute(
        insert(tables.revocations),
        {
            "seq": commit.seq,
            "target": scope.contributor or "",
            "items": json.dumps([sorted(scope.node_ids), sorted(scope.run_ids), []]),
            "purged": HIDDEN,
        },
    )
    commit.note("revoke", [len(scope.node_ids), len(scope.run_ids)])


def _hide_in_tree(commit: Commit, tree: Tree, scope: Scope, context: Context) -> None:
    gone = [node.node_id for node in tree.lessons() if node.node_id in scope.node_ids]
    after = tree
    if gone:
        result = remove(tree, gone, context)
        assert not isinstance(result, Rejection), result.detail
        after = result.tree
    for node in list(after.walk()):
        if node.kind != "lesson" and node.node_id in scope.node_ids:
            after = after.put(_rewritten(after, node, scope))
    before = dict(tree.nodes.items())
    for node_id, node in sorted(after.nodes.items()):
        if before.get(node_id) is not node:
            row = rows.live_row(commit.connection, node_id)
            contributor = row.contributor if row is not None else ""
            rows.put(commit, node, contributor=contributor, previous=row)
            if node.kind != "lesson" and node_id in scope.node_ids:
                _renew_edges(commit, after, node)
    for node_id in sorted(before.keys() - set(after.nodes)):
        if before[node_id].kind != "lesson":
            rows.drop(commit, node_id)


def _rewritten(tree: Tree, node: Node, scope: Scope) -> Node:
    """Return a category without any text that came from what is revoked."""
    source = next(
        (lesson for lesson in tree.lessons(node.node_id) if lesson.node_id not in scope.node_ids),
        None,
    )
    index = source.index if source is not None else IndexText()
    return node.model_copy(
        update={
            "kind": "category",
            "title": index.scope[:120] if source is not None else "",
            "index": index,
            "guidance": "",
            "applies_when": "",
            "cautions": (),
            "supported_by": (),
            "conflicts": (),
        }
    )


def _renew_edges(commit: Commit, tree: Tree, node: Node) -> None:
    edges = tables.edges
    commit.connection.execute(
        delete(edges).where(edges.c.child == node.node_id, edges.c.relation == "derived")
    )
    parents = sorted(tree.children_of(node.node_id))
    intake.add_edges(commit, node.node_id, parents, "derived")


def _strip_live(commit: Commit, scope: Scope) -> None:
    """Take the supports and evidence of revoked runs or contributors out of others' lessons."""
    for node_id in _supported(commit.connection, scope):
        row = rows.live_row(commit.connection, node_id)
        if row is None or row.kind != "lesson":
            continue
        node = rows.to_node(row)
        stripped = strip(node, scope)
        if stripped != node:
            rows.put(commit, stripped, contributor=row.contributor, previous=row)


def _supported(connection: Connection, scope: Scope) -> list[str]:
    """Return lessons outside the closure that something of it was folded into."""
    found: set[str] = set()
    for part in reading.chunks(sorted(scope.run_ids)):
        query = select(tables.edges.c.child).where(
            tables.edges.c.parent.in_(part), tables.edges.c.relation == "support"
        )
        found |= set(connection.execute(query).scalars())
    if scope.contributor is not None:
        nodes = tables.nodes
        query = select(nodes.c.node_id).where(
            nodes.c.kind == "lesson", nodes.c.body.contains(json.dumps(scope.contributor))
        )
        found |= set(connection.execute(query).scalars())
    return sorted(found - scope.node_ids)


def strip(node: Node, scope: Scope) -> Node:
    """Return a lesson without what revoked runs or contributors added to it."""
    lesson = node.lesson
    if lesson is None:
        return node

    def stays(contributor: str, run_id: str | None) -> bool:
        return run_id not in scope.run_ids and (
            scope.contributor is None or contributor != scope.contributor
        )

    changed = lesson.model_copy(
        update={
            "supports": tuple(s for s in lesson.supports if stays(s.contributor, s.run_id)),
            "evidence": tuple(e for e in lesson.evidence if stays(e.contributor, e.run_id)),
        }
    )
    return node if changed == lesson else node.model_copy(update={"lesson": changed})


def _revoke_run(commit: Commit, run_id: str) -> None:
    runs = tables.runs
    row = commit.connection.execute(select(runs).where(runs.c.run_id == run_id)).one_or_none()
    if row is None:
        return
    values = {**row._mapping, "state": "rejected", "reason": "revoked"}
    values["checksum"] = run_queue.checksum(_Columns(values))
    commit.connection.execute(update(runs).where(runs.c.run_id == run_id).values(**values))


class _Columns:
    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)


def _block(commit: Commit, scope: Scope) -> None:
    connection = commit.connection
    keys: set[str] = set()
    for text in texts_of(connection, scope):
        keys.add(text_key(text))
    for part in reading.chunks(sorted(scope.run_ids)):
        query = select(tables.runs.c.content_hash).where(tables.runs.c.run_id.in_(part))
        keys |= set(connection.execute(query).scalars())
    for key in sorted(keys):
        known = connection.execute(
            select(tables.blocked.c.seq).where(tables.blocked.c.hash == key)
        ).first()
        if known is None:
            connection.execute(insert(tables.blocked), {"hash": key, "seq": commit.seq})


def texts_of(connection: Connection, scope: Scope) -> list[str]:
    """Return the guidance and statements of the lessons in the closure, all versions."""
    found: set[str] = set()
    nodes = tables.nodes
    for part in reading.chunks(sorted(scope.node_ids)):
        query = select(nodes).where(
            nodes.c.node_id.in_(part), nodes.c.kind == "lesson", nodes.c.body != rows.TOMBSTONE
        )
        for row in connection.execute(query):
            lesson = rows.to_node(row).lesson
            if lesson is not None:
                found |= set(_lesson_texts(lesson))
    return sorted(found)


def _lesson_texts(lesson: Lesson) -> Iterable[str]:
    yield lesson.guidance
    for statement in lesson.statements:
        yield statement.text


@dataclass(frozen=True)
class Pending:
    """A revocation that is hidden but not wholly purged; `blobs` are left to be deleted."""

    seq: int
    scope: Scope
    rows_purged: bool
    blobs: tuple[str, ...]


def pending(connection: Connection) -> list[Pending]:
    """Return revocations that are not wholly purged, oldest first."""
    table = tables.revocations
    found = []
    query = select(table).where(table.c.purged < DONE).order_by(table.c.seq)
    for row in connection.execute(query):
        node_ids, run_ids, blobs = json.loads(row.items)
        scope = Scope(frozenset(node_ids), frozenset(run_ids), row.target or None)
        found.append(Pending(int(row.seq), scope, row.purged >= ROWS_PURGED, tuple(blobs)))
    return found


def note_progress(connection: Connection, item: Pending, stage: int, blobs: Sequence[str]) -> None:
    """Record how far a purge has come, so that a crash loses nothing of it."""
    items = json.dumps([sorted(item.scope.node_ids), sorted(item.scope.run_ids), list(blobs)])
    table = tables.revocations
    connection.execute(
        update(table).where(table.c.seq == item.seq).values(purged=stage, items=items)
    )


def unreferenced(connection: Connection, blobs: Sequence[str]) -> list[str]:
    """Return the blobs among these that no run and no image names."""
    free = []
    for blob in blobs:
        run = connection.execute(
            select(tables.runs.c.run_id).where(tables.runs.c.blob == blob)
        ).first()
        image = connection.execute(
            select(tables.images.c.image_id).where(tables.images.c.blob == blob)
        ).first()
        if run is None and image is None:
            free.append(blob)
    return free


def purge_rows(connection: Connection, scope: Scope) -> tuple[Purged, list[str]]:
    """Remove the closure's text from all tables; return counts, and blobs that nothing needs now."""
    result = Purged()
    texts = texts_of(connection, scope)
    _purge_nodes(connection, scope, result)
    _purge_supported(connection, scope)
    _purge_rejections(connection, scope, texts)
    for part in reading.chunks(sorted(scope.node_ids)):
        connection.execute(delete(tables.signals).where(tables.signals.c.node_id.in_(part)))
    free = _purge_images(connection, scope, result)
    free += _purge_runs(connection, scope, result)
    return result, free


def _purge_nodes(connection: Connection, scope: Scope, result: Purged) -> None:
    nodes, vectors = tables.nodes, tables.vectors
    for part in reading.chunks(sorted(scope.node_ids)):
        kept = set()
        for row in connection.execute(select(nodes).where(nodes.c.node_id.in_(part))):
            if row.kind == "lesson":
                _rewrite(connection, row, rows.TOMBSTONE, fold_key=None)
                result.nodes += 1
            elif row.to_seq is not None:
                _rewrite(connection, row, _scrubbed(rows.to_node(row)).canonical().decode())
            else:
                kept.add(_vector_key(rows.to_node(row)))
        for vector in connection.execute(
            select(vectors.c.node_id, vectors.c.text_hash).where(vectors.c.node_id.in_(part))
        ):
            if (vector.node_id, vector.text_hash) not in kept:
                connection.execute(
                    delete(vectors).where(
                        vectors.c.node_id == vector.node_id,
                        vectors.c.text_hash == vector.text_hash,
                    )
                )


def _vector_key(node: Node) -> tuple[str, str]:
    return node.node_id, sha256(node.index.text.encode("utf-8"))


def _scrubbed(node: Node) -> Node:
    """Return an old version of a category with its place and none of its text."""
    return Node(
        node_id=node.node_id,
        namespace=node.namespace,
        kind="category",
        height=node.height,
        parent_id=node.parent_id,
        form=node.form,
        audience=node.audience,
        authority=node.authority,
    )


def _rewrite(connection: Connection, row: Any, body: str, **changes: Any) -> None:
    values = {**row._mapping, "body": body, **changes}
    if body != rows.TOMBSTONE and row.kind != "lesson":
        values["kind"] = "category"
    values["checksum"] = rows.checksum(_Columns(values))
    connection.execute(
        update(tables.nodes).where(tables.nodes.c.version == row.version).values(**values)
    )


def _purge_supported(connection: Connection, scope: Scope) -> None:
    nodes = tables.nodes
    for part in reading.chunks(_supported(connection, scope)):
        query = select(nodes).where(nodes.c.node_id.in_(part), nodes.c.body != rows.TOMBSTONE)
        for row in connection.execute(query).all():
            node = rows.to_node(row)
            stripped = strip(node, scope)
            if stripped != node:
                _rewrite(connection, row, stripped.canonical().decode("utf-8"))


def _purge_rejections(connection: Connection, scope: Scope, texts: Sequence[str]) -> None:
    """Delete refused proposals that name a purged item or quote its text."""
    table = tables.rejections
    needles = [json.dumps(text, ensure_ascii=False)[1:-1] for text in texts]
    for row in connection.execute(select(table.c.id, table.c.body)).all():
        named = any(node_id in row.body for node_id in scope.node_ids)
        if named or any(needle in row.body for needle in needles):
            connection.execute(delete(table).where(table.c.id == row.id))


def _purge_images(connection: Connection, scope: Scope, result: Purged) -> list[str]:
    edges, images = tables.edges, tables.images
    revoked = sorted(scope.node_ids | scope.run_ids)
    shown: set[str] = set()
    for part in reading.chunks(revoked):
        query = select(edges.c.parent).where(edges.c.child.in_(part), edges.c.relation == "image")
        shown |= set(connection.execute(query).scalars())
        connection.execute(
            delete(edges).where(edges.c.child.in_(part), edges.c.relation == "image")
        )
    if scope.contributor is not None:
        query = select(images.c.image_id).where(images.c.contributor == scope.contributor)
        shown |= set(connection.execute(query).scalars())
    free = []
    for image_id in sorted(shown):
        used = connection.execute(
            select(edges.c.child).where(edges.c.parent == image_id, edges.c.relation == "image")
        ).first()
        row = connection.execute(select(images).where(images.c.image_id == image_id)).one_or_none()
        if used is None and row is not None:
            connection.execute(delete(images).where(images.c.image_id == image_id))
            free.append(row.blob)
            result.images += 1
    return free


def _purge_runs(connection: Connection, scope: Scope, result: Purged) -> list[str]:
    runs = tables.runs
    free = []
    for part in reading.chunks(sorted(scope.run_ids)):
        for row in connection.execute(select(runs).where(runs.c.run_id.in_(part))).all():
            free.append(row.blob)
            result.runs += 1
        connection.execute(delete(runs).where(runs.c.run_id.in_(part)))
    return free
