"""Revocation: remove an item, a run or a contributor with everything derived from it.

Two steps. `remove` is one commit: from it on nothing of the closure is read at any sequence number, and
hashes of the texts are remembered so that they cannot come back. What still holds old bytes (blobs,
free pages, the log, what lies beside the bank) is purged then; a crash in between is made good when
the bank is next opened for writing. The journal keeps ids and hashes only.

The closure follows the derivation edges, transitively. A copy that was folded into another's lesson
is taken out of it again, and what was written from that lesson after the copy had added text or
evidence to it is derived from the copy too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Table, delete, func, insert, select, update

from epimem.bank import intake, reading, rows, run_queue, steps, tables, usage
from epimem.bank.journal import Commit
from epimem.errors import NotFoundError
from epimem.operations import repair
from epimem.operations.base import Context, authority_of
from epimem.operations.rules import Standing, cleared, relevel
from epimem.schema.ids import sha256
from epimem.schema.lesson import IndexText, text_key
from epimem.schema.proposal import Rejection
from epimem.schema.tree import Node, Tree

Target = Literal["item", "run", "contributor"]
# How far a revocation has come: old bytes may still lie in files, or not.
HIDDEN, DONE = 0, 1

edges, nodes = tables.edges, tables.nodes


@dataclass(frozen=True)
class Scope:
    """What a revocation reaches.

    Attributes:
        node_ids: lessons, which go, and inner nodes, which lose their text.
        run_ids: runs, which go.
        contributor: whose signals and unused images go too; None unless one is revoked.
        folds: folded copies, by `intake.fold_id`, which are taken out of the lessons that hold them.
        touched: those lessons; they stay.
    """

    node_ids: frozenset[str]
    run_ids: frozenset[str]
    contributor: str | None = None
    folds: frozenset[str] = frozenset()
    touched: frozenset[str] = frozenset()


# -- the closure -------------------------------------------------------------------------------------


def closure(connection: Connection, target: Target, name: str) -> Scope:
    """Return everything derived from the target, transitively, itself included.

    Raises:
        NotFoundError: the bank holds nothing of that name.
    """
    items, run_ids, folds = _seeds(connection, target, name)
    if not items | run_ids | folds and not _contributed(connection, target, name):
        raise NotFoundError(f"no such {target}", field=target, got=name)
    reached = _descendants(connection, items | run_ids | folds)
    folds = _children(connection, reached, "by", of_child=True)
    return Scope(
        node_ids=frozenset(_not_yet_gone(connection, reached - run_ids - folds)),
        run_ids=frozenset(run_ids),
        contributor=name if target == "contributor" else None,
        folds=frozenset(folds),
        touched=frozenset(_children(connection, folds, "support") - reached),
    )


def _seeds(
    connection: Connection, target: Target, name: str
) -> tuple[set[str], set[str], set[str]]:
    """Return the items, runs and folded copies that a target names."""
    runs = tables.runs
    if target == "item":
        # An inner node that maintenance dropped still has its history.
        query = select(nodes.c.node_id).where(
            nodes.c.node_id == name, nodes.c.body != rows.TOMBSTONE
        )
        return set(connection.execute(query).scalars()), set(), set()
    if target == "run":
        query = select(runs.c.run_id).where(runs.c.run_id == name)
        return set(), set(connection.execute(query).scalars()), set()
    query = select(nodes.c.node_id).where(
        nodes.c.contributor == name, nodes.c.to_seq.is_(None), nodes.c.kind == "lesson"
    )
    items = set(connection.execute(query).scalars())
    query = select(runs.c.run_id).where(runs.c.contributor == name)
    return items, set(connection.execute(query).scalars()), _children(connection, {name}, "by")


def _not_yet_gone(connection: Connection, node_ids: set[str]) -> set[str]:
    """Return the nodes without those that an earlier revocation took: their edges stay, as history."""
    found: set[str] = set()
    for part in reading.chunks(sorted(node_ids)):
        query = select(nodes.c.node_id).where(
            nodes.c.node_id.in_(part), nodes.c.body != rows.TOMBSTONE
        )
        found |= set(connection.execute(query).scalars())
    return found


def _contributed(connection: Connection, target: Target, name: str) -> bool:
    """Return whether a contributor ever wrote here, signals and images among it."""
    if target != "contributor":
        return False
    journal = tables.journal
    query = select(journal.c.seq).where(journal.c.contributor == name).limit(1)
    return connection.execute(query).first() is not None


def _children(
    connection: Connection, vertices: Iterable[str], relation: str, *, of_child: bool = False
) -> set[str]:
    """Return the children over edges of a relation whose parent, or child, is among the vertices."""
    found: set[str] = set()
    end = edges.c.child if of_child else edges.c.parent
    for part in reading.chunks(sorted(vertices)):
        query = select(edges.c.child).where(end.in_(part), edges.c.relation == relation)
        found |= set(connection.execute(query).scalars())
    return found


def _descendants(connection: Connection, seeds: set[str]) -> set[str]:
    reached, frontier = set(seeds), set(seeds)
    while frontier:
        following = _children(connection, frontier, "derived")
        following |= _told_after(connection, frontier)
        frontier = following - reached
        reached |= frontier
    return reached


def _told_after(connection: Connection, vertices: Iterable[str]) -> set[str]:
    """Return what was written from a lesson after a copy among the vertices had added to it."""
    told, written = edges.alias("told"), edges.alias("written")
    found: set[str] = set()
    for part in reading.chunks(sorted(vertices)):
        query = select(written.c.child).where(
            told.c.parent.in_(part),
            told.c.relation == "told",
            written.c.parent == told.c.child,
            written.c.relation == "derived",
            written.c.seq > told.c.seq,
        )
        found |= set(connection.execute(query).scalars())
    return found


# -- the commit --------------------------------------------------------------------------------------


def remove(commit: Commit, scope: Scope, context: Context) -> None:
    """Take the closure out of the trees, the inbox and the history, in one commit.

    Lessons leave, inner nodes lose the text that came from what is revoked, lessons that stay lose
    what was folded into them, and levels follow.
    """
    connection = commit.connection
    commit.touches_tree = True
    commit.note("revoke", [len(scope.node_ids), len(scope.run_ids)])
    _block(commit, scope)
    for namespace in reading.namespaces(connection):
        tree = reading.tree(connection, namespace)
        if tree is not None:
            _remove_from_tree(commit, tree, scope, context)
    _remove_from_inbox(commit, scope)
    _purge_rejections(commit, scope)
    _purge_history(commit, scope)
    _purge_feedback(commit, scope)
    _purge_images(commit, scope)
    for run_id in sorted(scope.run_ids):
        run_queue.drop(commit, run_id)
    values = {
        "seq": commit.seq,
        "target": scope.contributor or "",
        "items": json.dumps([sorted(scope.node_ids), sorted(scope.run_ids), sorted(scope.touched)]),
    }
    connection.execute(insert(tables.revocations), {**values, "purged": HIDDEN})
    commit.count("revocation", *values.values())


def _block(commit: Commit, scope: Scope) -> None:
    """Remember the hashes of the lessons' texts and of the runs' contents."""
    connection = commit.connection
    keys = {text_key(text) for text in _texts(connection, scope)}
    for part in reading.chunks(sorted(scope.run_ids)):
        query = select(tables.runs.c.content_hash).where(tables.runs.c.run_id.in_(part))
        keys |= set(connection.execute(query).scalars())
    for key in sorted(keys):
        known = select(tables.blocked.c.seq).where(tables.blocked.c.hash == key)
        if connection.execute(known).first() is None:
            connection.execute(insert(tables.blocked), {"hash": key, "seq": commit.seq})
            commit.count("blocked", key)


def _texts(connection: Connection, scope: Scope) -> set[str]:
    """Return the guidance and statements of the lessons in the closure."""
    found: set[str] = set()
    for part in reading.chunks(sorted(scope.node_ids)):
        query = select(nodes).where(
            nodes.c.node_id.in_(part), nodes.c.kind == "lesson", tables.is_live
        )
        for row in connection.execute(query):
            lesson = rows.to_node(row).lesson
            if lesson is not None:
                found |= {lesson.guidance, *(statement.text for statement in lesson.statements)}
    return found


def _remove_from_tree(commit: Commit, tree: Tree, scope: Scope, context: Context) -> None:
    gone = [node.node_id for node in tree.lessons() if node.node_id in scope.node_ids]
    after, sources = tree, dict[str, tuple[str, ...]]()
    if gone:
        result = repair.remove(tree, gone, context)
        assert not isinstance(result, Rejection), result.detail
        after, sources = result.tree, dict(result.written_from)
    for node in list(after.walk()):
        if node.node_id in scope.touched:
            after = after.put(strip(node, scope.folds))
    for node in list(after.walk()):
        if node.height > 0 and node.node_id in scope.node_ids:
            after, sources[node.node_id] = without_text(after, node)
        elif node.level > 0:
            after = after.put(_releveled(commit.connection, after, node))
    _write(commit, tree, after, scope, sources)


def _write(
    commit: Commit,
    before: Tree,
    after: Tree,
    scope: Scope,
    sources: Mapping[str, tuple[str, ...]],
) -> None:
    for node_id, node in sorted(after.nodes.items()):
        if before.nodes.get(node_id) is node and node_id not in sources:
            continue
        row = rows.live_row(commit.connection, node_id)
        contributor = row.contributor if row is not None else ""
        rows.put(commit, node, contributor=contributor, previous=row)
        if node.height > 0 and node_id in scope.node_ids:
            intake.drop_edges(commit, (edges.c.child == node_id) & (edges.c.relation == "derived"))
        intake.add_edges(commit, node_id, sources.get(node_id, ()), "derived")
    for node_id in sorted(key for key in before.nodes if key not in after.nodes):
        if before.node(node_id).kind != "lesson":
            rows.drop(commit, node_id)


def without_text(tree: Tree, node: Node) -> tuple[Tree, tuple[str, ...]]:
    """Return the tree with an inner node named anew, after its first lesson, and that lesson's id."""
    source = next(iter(tree.lessons(node.node_id)), None)
    index = source.index if source is not None else IndexText()
    renamed = cleared(node).model_copy(
        update={
            "title": source.title or index.topic if source is not None else "",
            "index": index,
            "authority": authority_of((source,) if source is not None else ()),
        }
    )
    return tree.put(renamed), (source.node_id,) if source is not None else ()


def _releveled(connection: Connection, tree: Tree, node: Node) -> Node:
    """Return a summary or rule with the level that its lessons now give, never a higher one."""
    lessons = tree.child_nodes(node.node_id)
    family = next((n.lesson.family for n in lessons if n.lesson and n.lesson.family), "")
    standing = usage.standing(connection, [(node.node_id, node.namespace, family)])
    after = relevel(node, lessons, standing.get(node.node_id, Standing()))
    return after if after.level < node.level else node


def _remove_from_inbox(commit: Commit, scope: Scope) -> None:
    """Drop the lessons of the closure, placed or waiting, and strip those that wait."""
    for node_id in sorted(scope.node_ids):
        row = rows.live_row(commit.connection, node_id)
        if row is not None and row.kind == "lesson":
            rows.drop(commit, node_id)
    for node_id in sorted(scope.touched):
        row = rows.live_row(commit.connection, node_id)
        if row is not None and row.parent_id is None and row.from_seq != commit.seq:
            stripped = strip(rows.to_node(row), scope.folds)
            rows.put(commit, stripped, contributor=row.contributor, previous=row)


def strip(node: Node, folds: frozenset[str]) -> Node:
    """Return a lesson without what these folded copies added to it; its own support stays."""
    lesson = node.lesson
    if lesson is None:
        return node
    gone = [s for s in lesson.supports[1:] if intake.fold_id(node.node_id, s) in folds]
    if not gone:
        return node
    kept = tuple(support for support in lesson.supports if support not in gone)
    names = {(support.contributor, support.question_key) for support in gone}
    cautions = {text for support in gone for text in support.cautions}
    changed = lesson.model_copy(
        update={
            "supports": kept,
            "evidence": tuple(
                item
                for item in lesson.evidence
                if (item.contributor, item.question_key) not in names
            ),
            "cautions": tuple(text for text in lesson.cautions if text not in cautions),
            "folded": lesson.folded - len(gone),
        }
    )
    return node.model_copy(update={"lesson": changed})


# -- what the commit takes out of the tables ---------------------------------------------------------


def _purge_history(commit: Commit, scope: Scope) -> None:
    """Take the text out of all versions: none of the closure's, and none that was folded in."""
    connection = commit.connection
    for part in reading.chunks(sorted(scope.node_ids | scope.touched)):
        query = select(nodes).where(nodes.c.node_id.in_(part), nodes.c.body != rows.TOMBSTONE)
        for row in connection.execute(query).all():
            if row.node_id in scope.touched:
                node = rows.to_node(row)
                stripped = strip(node, scope.folds)
                if stripped != node:
                    rows.rewrite(commit, row, stripped)
            elif row.kind == "lesson":
                rows.rewrite(commit, row, None)
            elif row.to_seq is not None:
                rows.rewrite(commit, row, _blank(rows.to_node(row)))
    for table in (tables.vectors, tables.next_vectors):
        _purge_vectors(connection, scope, table)


def _blank(node: Node) -> Node:
    """Return an old version of an inner node with its place and none of its text."""
    return Node(
        node_id=node.node_id,
        namespace=node.namespace,
        kind="category",
        height=node.height,
        parent_id=node.parent_id,
        form=node.form,
        audience=node.audience,
    )


def _purge_vectors(connection: Connection, scope: Scope, table: Table) -> None:
    for part in reading.chunks(sorted(scope.node_ids)):
        live = reading.live_nodes(connection, part)
        kept = {key: sha256(node.index.text.encode("utf-8")) for key, node in live.items()}
        query = select(table.c.node_id, table.c.text_hash).where(table.c.node_id.in_(part))
        for node_id, text_hash in connection.execute(query).all():
            if kept.get(node_id) != text_hash:
                connection.execute(
                    delete(table).where(table.c.node_id == node_id, table.c.text_hash == text_hash)
                )


def _purge_rejections(commit: Commit, scope: Scope) -> None:
    """Empty the refused proposals whose writer may have had something of the closure in view.

    A reply can quote anything that was shown, in part or reworded, so no search for a text finds
    all of it. Emptied are those of the closure's namespaces from its first item on; operation and
    reason stay.
    """
    for namespace, first in sorted(_first_seen(commit.connection, scope).items()):
        steps.blank_rejections(commit, namespace, first)


def _first_seen(connection: Connection, scope: Scope) -> dict[str, int]:
    """Return, by namespace, the first commit that held something of the closure."""
    first: dict[str, int] = {}
    for part in reading.chunks(sorted(scope.node_ids | scope.touched)):
        query = (
            select(nodes.c.namespace, func.min(nodes.c.from_seq))
            .where(nodes.c.node_id.in_(part))
            .group_by(nodes.c.namespace)
        )
        for namespace, seq in connection.execute(query):
            first[namespace] = min(int(seq), first.get(namespace, int(seq)))
    return first


def _purge_feedback(commit: Commit, scope: Scope) -> None:
    """Delete signals and uses of what is revoked, and all that a revoked contributor judged."""
    signals, verdicts = tables.signals, tables.verdicts
    for part in reading.chunks(sorted(scope.node_ids)):
        usage.drop_signals(commit, signals.c.node_id.in_(part))
        usage.drop_uses(commit, tables.verdict_items.c.node_id.in_(part))
    for part in reading.chunks(sorted(scope.touched)):
        # A statement that was contradicted may quote what was folded in; that it was, still counts.
        usage.blank_signals(commit, signals.c.node_id.in_(part))
    if scope.contributor is not None:
        usage.drop_signals(commit, signals.c.contributor == scope.contributor)
        usage.drop_verdicts(commit, verdicts.c.contributor == scope.contributor)


def _purge_images(commit: Commit, scope: Scope) -> None:
    """Delete images that only the closure showed, and those of a revoked contributor nobody shows."""
    connection, images = commit.connection, tables.images
    shown: set[str] = set()
    for part in reading.chunks(sorted(scope.node_ids | scope.run_ids)):
        shown |= set(
            intake.drop_edges(commit, edges.c.child.in_(part) & (edges.c.relation == "image"))
        )
    for node_id, node in reading.live_nodes(connection, sorted(scope.touched)).items():
        kept = {item.image_id for item in node.lesson.evidence} if node.lesson else set()
        strange = edges.c.parent.not_in(sorted(kept))
        ours = (edges.c.child == node_id) & (edges.c.relation == "image")
        shown |= set(intake.drop_edges(commit, ours & strange))
    if scope.contributor is not None:
        query = select(images.c.image_id).where(images.c.contributor == scope.contributor)
        shown |= set(connection.execute(query).scalars())
    for image_id in sorted(shown):
        used = select(edges.c.child).where(edges.c.parent == image_id, edges.c.relation == "image")
        known = select(images.c.image_id).where(images.c.image_id == image_id)
        if connection.execute(used).first() is None and connection.execute(known).first():
            connection.execute(delete(images).where(images.c.image_id == image_id))
            commit.note("image_gone", image_id)


# -- what is left to do after it ---------------------------------------------------------------------


@dataclass(frozen=True)
class Pending:
    """A revocation after which files may still hold old bytes.

    `node_ids` are all items whose text changed by it, `run_ids` the runs that went.
    """

    seq: int
    node_ids: frozenset[str]
    run_ids: frozenset[str]


def pending(connection: Connection) -> list[Pending]:
    """Return revocations that are not wholly purged, oldest first."""
    return _selected(connection, tables.revocations.c.purged < DONE)


def since(connection: Connection, seq: int) -> list[Pending]:
    """Return revocations after a sequence number, purged or not, oldest first."""
    return _selected(connection, tables.revocations.c.seq > seq)


def _selected(connection: Connection, condition: ColumnElement[bool]) -> list[Pending]:
    table = tables.revocations
    found = []
    for row in connection.execute(select(table).where(condition).order_by(table.c.seq)):
        reached, run_ids, touched = rows.stored_list(row.items)
        ids = _with_readers(connection, {*reached, *touched})
        found.append(Pending(int(row.seq), frozenset(ids), frozenset(run_ids)))
    return found


def _with_readers(connection: Connection, node_ids: set[str]) -> set[str]:
    """Return the nodes and those written from them, which may have shown their evidence."""
    return node_ids | _children(connection, node_ids, "derived")


def finish(connection: Connection, item: Pending) -> None:
    """Note that no file holds old bytes of a revocation any more."""
    table = tables.revocations
    connection.execute(update(table).where(table.c.seq == item.seq).values(purged=DONE))


def renamed_ids(connection: Connection) -> set[str]:
    """Return the ids of all nodes that revocations ever took the text from."""
    found: set[str] = set()
    column = tables.revocations.c["items"]
    for items in connection.execute(select(column)).scalars():
        found |= set(rows.stored_list(items)[0])
    return found


def unreferenced(connection: Connection, blobs: Iterable[str]) -> list[str]:
    """Return the blobs among these that no run and no image names."""
    named: set[Any] = set(connection.execute(select(tables.runs.c.blob)).scalars())
    named |= set(connection.execute(select(tables.images.c.blob)).scalars())
    return [blob for blob in blobs if blob not in named]
