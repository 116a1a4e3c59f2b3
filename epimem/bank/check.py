"""Verification: what `epimem check` looks at. Everything found is listed, nothing is repaired here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, inspect, select

from epimem.bank import journal, reading, rows, run_queue, steps, tables
from epimem.bank.blobs import BlobStore
from epimem.bank.encoder import EncoderIdentity
from epimem.errors import EpimemError, RecordError
from epimem.operations.base import Limits
from epimem.schema.base import Record
from epimem.schema.ids import sha256
from epimem.schema.run import Finding
from epimem.schema.tree import violations


class Problem(Record):
    """One fault: a code of the error table, where it is, and what was found."""

    code: str
    where: str
    detail: str


def unresolved(findings: Sequence[Finding]) -> RecordError:
    """Return the error for a run whose references do not resolve."""
    first = findings[0]
    more = f"and {len(findings) - 1} more" if len(findings) > 1 else None
    return RecordError(f"{first.code}: {first.detail}", field="run", hint=more)


def image_checksum(row: Any) -> str:
    """Return the checksum over the columns of an image row."""
    return image_checksum_of(row._mapping)


def image_checksum_of(values: Mapping[str, Any]) -> str:
    """Return the checksum over the named columns."""
    names = ("image_id", "width", "height", "blob", "original_sha256", "contributor", "seq")
    return sha256("\x1f".join(str(values[name]) for name in names).encode())


def database_problems(connection: Connection, limits: Limits) -> list[Problem]:
    """Check pages, chain, rows, sums, replay, trees and derivation edges."""
    found = [_problem("database", detail) for detail in _page_faults(connection)]
    found += [_problem("journal", detail) for detail in journal.verify_chain(connection)]
    found += _row_problems(connection)
    if not found:
        found += [_problem("replay", detail) for detail in replay_differences(connection)]
        found += _tree_problems(connection, limits)
    return found


def _page_faults(connection: Connection) -> list[str]:
    """Ask the embedded database about its own pages and indexes; a served one checks itself."""
    if connection.dialect.name != "sqlite":
        return []
    lines = connection.exec_driver_sql("PRAGMA integrity_check(20)").scalars()
    return [str(line) for line in lines if line != "ok"]


def _problem(where: str, detail: str) -> Problem:
    return Problem(code="bank_corrupt", where=where, detail=detail)


def _row_problems(connection: Connection) -> list[Problem]:
    found = []
    for row in connection.execute(select(tables.nodes)):
        if rows.checksum(row) != row.checksum:
            found.append(_problem(f"node {row.node_id}", "row does not match its checksum"))
        elif row.body != rows.TOMBSTONE:
            found += _caught(f"node {row.node_id}", lambda row=row: rows.to_node(row))
    for row in connection.execute(select(tables.runs)):
        if run_queue.checksum(row) != row.checksum:
            found.append(_problem(f"run {row.run_id}", "row does not match its checksum"))
    for row in connection.execute(select(tables.images)):
        if image_checksum(row) != row.checksum:
            found.append(_problem(f"image {row.image_id}", "row does not match its checksum"))
    return found + _vector_problems(connection)


def _vector_problems(connection: Connection) -> list[Problem]:
    """Check every vector, and that those in use have the dimension of the bank's encoder."""
    found = []
    stored = reading.head(connection).encoder
    dimension = EncoderIdentity.read(stored).dimension if stored else None
    for table in (tables.vectors, tables.next_vectors):
        if not inspect(connection).has_table(table.name):  # frozen before there was such a table
            continue
        for row in connection.execute(select(table)):
            where = f"vector {row.node_id}"
            found += _caught(where, lambda row=row: reading.vectors_of(row))
            floats = len(row.index_vector) // 4
            if table is tables.vectors and dimension is not None and floats != dimension:
                found.append(_problem(where, f"{floats} dimensions, the encoder makes {dimension}"))
    return found


def _caught(where: str, call: Any) -> list[Problem]:
    try:
        call()
    except EpimemError as error:
        return [Problem(code=error.code, where=where, detail=error.message)]
    return []


@dataclass
class _Replayed:
    """What the journal says is stored: versions with end and checksum, runs, images, the sum.

    `encoder` is the fingerprint that the last change of the encoder led to; None where there was none.
    """

    versions: dict[tuple[str, int], tuple[int | None, str]] = field(default_factory=dict)
    live: dict[str, int] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)
    images: dict[str, str] = field(default_factory=dict)
    total: int = 0
    encoder: str | None = None

    def take(self, seq: int, body: dict[str, Any]) -> None:
        """Follow one journal row."""
        for node_id, digest in body.get("put", ()):
            self._end(node_id, seq)
            self.live[node_id] = seq
            self.versions[node_id, seq] = (None, digest)
        for node_id in body.get("drop", ()):
            self._end(node_id, seq)
            self.live.pop(node_id, None)
        for node_id, start, digest in body.get("rewrite", ()):
            end, _ = self.versions.get((node_id, start), (None, ""))
            self.versions[node_id, start] = (end, digest)
        self.runs.update({run_id: state for run_id, _, state in body.get("run", ())})
        self.images.update(body.get("image", ()))
        self.encoder = body.get("encoder", [self.encoder])[-1]
        for name, table in (("run_gone", self.runs), ("image_gone", self.images)):
            for gone in body.get(name, ()):
                table.pop(gone, None)
        self.total += sum(int(part, 16) for part in body.get("sum", ()))

    def _end(self, node_id: str, seq: int) -> None:
        start = self.live.get(node_id)
        if start is not None:
            self.versions[node_id, start] = (seq, self.versions[node_id, start][1])


def replay_differences(connection: Connection) -> list[str]:
    """Replay the journal and compare with what is stored; return the differences.

    The journal names every version that was put, rewritten by a purge or dropped, every run with its
    state and every image. Replaying it must give exactly the stored rows. For the tables without
    row checksums it keeps the sum of their rows.
    """
    replayed = _Replayed()
    for row in connection.execute(select(tables.journal).order_by(tables.journal.c.seq)):
        replayed.take(row.seq, json.loads(row.body))
    versions = {
        (row.node_id, row.from_seq): (row.to_seq, rows.first_checksum(row))
        for row in connection.execute(select(tables.nodes))
    }
    runs, images = tables.runs, tables.images
    states = connection.execute(select(runs.c.run_id, runs.c.state)).all()
    blobs = connection.execute(select(images.c.image_id, images.c.blob)).all()
    return [
        *_compared("version", replayed.versions, versions),
        *_compared("run", replayed.runs, {row.run_id: row.state for row in states}),
        *_compared("image", replayed.images, {row.image_id: row.blob[:16] for row in blobs}),
        *_encoder_differences(connection, replayed.encoder),
        *_sum_differences(connection, replayed.total),
    ]


def _compared(what: str, expected: Mapping[Any, Any], stored: Mapping[Any, Any]) -> list[str]:
    found = []
    for key in sorted(expected.keys() | stored.keys()):
        if key not in stored:
            found.append(f"{what} {key} is in the journal and not in the table")
        elif key not in expected:
            found.append(f"{what} {key} is in the table and not in the journal")
        elif stored[key] != expected[key]:
            found.append(f"{what} {key} is {stored[key]}, journal says {expected[key]}")
    return found


def _encoder_differences(connection: Connection, expected: str | None) -> list[str]:
    stored = reading.head(connection).encoder
    found = EncoderIdentity.read(stored).fingerprint if stored else "none"
    if expected in {None, found}:
        return []
    return [f"the encoder is {found[:12]}, journal says {str(expected)[:12]}"]


def _sum_differences(connection: Connection, expected: int) -> list[str]:
    """Compare the sum over the tables whose rows carry no checksum of their own."""
    revocations, rejections = tables.revocations.c, tables.rejections.c
    queries = {
        "edge": select(tables.edges),
        "signal": select(tables.signals),
        "verdict": select(tables.verdicts),
        "use": select(tables.verdict_items),
        "snapshot": select(tables.snapshots),
        "blocked": select(tables.blocked.c.hash),
        "receipt": select(tables.idempotency),
        "derivation": select(tables.derivations),
        "step": select(tables.steps),
        "rejection": select(*[column for column in rejections if column.name != "id"]),
        "revocation": select(*[column for column in revocations if column.name != "purged"]),
    }
    found = sum(
        journal.row_sum(name, *row)
        for name, query in queries.items()
        for row in connection.execute(query)
    )
    if (found - expected) % journal.SUM_MODULUS == 0:
        return []
    return ["the rows of the tables without checksums are not those of the journal"]


def _tree_problems(connection: Connection, limits: Limits) -> list[Problem]:
    found = []
    for namespace in reading.namespaces(connection):
        tree = reading.tree(connection, namespace)
        if tree is None:
            continue
        # A step that is under way, or was interrupted, may not have come to its splits yet.
        under_way = bool(steps.open_steps(connection, namespace))
        capacity = len(tree.nodes) if under_way else limits.capacity
        broken = violations(tree, capacity=capacity, min_group=limits.min_group)
        found += [Problem(code="tree_limit", where=namespace, detail=text) for text in broken]
    return found


def blob_problems(connection: Connection, blobs: BlobStore) -> list[Problem]:
    """Check every blob that a row names, and list those that no row names."""
    found = []
    named = set(connection.execute(select(tables.runs.c.blob)).scalars())
    named |= set(connection.execute(select(tables.images.c.blob)).scalars())
    for name in sorted(named):
        found += _caught(f"blob {name}", lambda name=name: blobs.get(name))
    orphans = sorted(set(blobs.names()) - named)
    found += [
        Problem(code="orphan", where=f"blob {name}", detail="no row names it") for name in orphans
    ]
    return found
