"""Verification: what `epimem check` looks at. Everything found is listed, nothing is repaired here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select

from epimem.bank import journal, reading, rows, run_queue, steps, tables
from epimem.bank.blobs import BlobStore
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
    """Check chain, rows, replay, trees and derivation edges."""
    found = [_problem("journal", detail) for detail in journal.verify_chain(connection)]
    found += _row_problems(connection)
    if not found:
        found += [_problem("replay", detail) for detail in replay_differences(connection)]
        found += _tree_problems(connection, limits)
    return found


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
    for row in connection.execute(select(tables.vectors)):
        found += _caught(f"vector {row.node_id}", lambda row=row: reading.vectors_of(row))
    return found


def _caught(where: str, call: Any) -> list[Problem]:
    try:
        call()
    except EpimemError as error:
        return [Problem(code=error.code, where=where, detail=error.message)]
    return []


def replay_differences(connection: Connection) -> list[str]:
    """Replay the journal and compare with the stored versions; return the differences.

    The journal names every version that was put and every node that was dropped. Replaying it must
    give exactly the stored rows with their times of validity; purged rows keep their place.
    """
    expected: dict[tuple[str, int], int | None] = {}
    current: dict[str, int] = {}
    for row in connection.execute(select(tables.journal).order_by(tables.journal.c.seq)):
        body = json.loads(row.body)
        for node_id, _ in body.get("put", ()):
            if node_id in current:
                expected[node_id, current[node_id]] = row.seq
            current[node_id] = row.seq
            expected[node_id, row.seq] = None
        for node_id in body.get("drop", ()):
            if node_id in current:
                expected[node_id, current.pop(node_id)] = row.seq
    nodes = tables.nodes
    stored = {
        (row.node_id, row.from_seq): row.to_seq
        for row in connection.execute(select(nodes.c.node_id, nodes.c.from_seq, nodes.c.to_seq))
    }
    differences = []
    for key in sorted(expected.keys() | stored.keys()):
        if key not in stored:
            differences.append(f"version {key} is in the journal and not in the table")
        elif key not in expected:
            differences.append(f"version {key} is in the table and not in the journal")
        elif stored[key] != expected[key]:
            differences.append(f"version {key} ends at {stored[key]}, journal says {expected[key]}")
    return differences


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
