"""The journal: one row per commit, a hash chain of hashes and row references, never text."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from epimem.bank import tables
from epimem.bank.prepared import Prepared
from epimem.errors import BankCorruptError
from epimem.schema import strict_json
from epimem.schema.ids import sha256

Clock = Callable[[], float]
GENESIS = "0" * 64
SUM_MODULUS = 2**64

_insert = Prepared(insert(tables.journal), ("seq", "at", "kind", "contributor", "body", "hash"))
_head = select(tables.bank.c.head_seq, tables.bank.c.head_hash, tables.bank.c.tree_seq)
_read_head = Prepared(_head.add_columns(tables.bank.c.encoder))
_advance = Prepared(
    update(tables.bank).values(
        head_seq=bindparam("seq"), head_hash=bindparam("hash"), tree_seq=bindparam("tree")
    )
)


def wall_clock() -> float:
    """Return seconds since 1970, UTC."""
    return time.time()


def steady_clock() -> float:
    """Return seconds that no setting of the wall clock moves, the same for all processes of a boot."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def timestamp(seconds: float) -> str:
    """Return a UTC time as ISO 8601 with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


@dataclass
class Commit:
    """One commit under way: its sequence number and the references its journal row will hold.

    `encoder` is the identity of the bank's encoder as it is stored at this moment.
    """

    connection: Connection
    seq: int
    kind: str
    contributor: str
    at: str
    previous: str
    tree_seq: int
    encoder: str | None = None
    body: dict[str, list[Any]] = field(default_factory=dict)
    touches_tree: bool = False
    sum: int = 0

    def note(self, name: str, reference: object) -> None:
        """Add a reference (ids and hashes only) to the journal row."""
        self.body.setdefault(name, []).append(reference)

    def count(self, *row: object) -> None:
        """Take a row of a table without row checksums into the running sum; see `row_sum`."""
        self.sum += row_sum(*row)

    def discount(self, *row: object) -> None:
        """Take a row that is deleted or replaced out of the running sum."""
        self.sum -= row_sum(*row)

    def seal(self) -> None:
        """Write the journal row and move the head."""
        if self.sum:
            self.note("sum", f"{self.sum % SUM_MODULUS:016x}")
        body = strict_json.dumps(self.body).decode("utf-8")
        digest = entry_hash(self.previous, self.seq, self.at, self.kind, self.contributor, body)
        _insert.run(
            self.connection,
            {
                "seq": self.seq,
                "at": self.at,
                "kind": self.kind,
                "contributor": self.contributor,
                "body": body,
                "hash": digest,
            },
        )
        tree_seq = self.seq if self.touches_tree else self.tree_seq
        _advance.run(self.connection, {"seq": self.seq, "hash": digest, "tree": tree_seq})


def begin(connection: Connection, kind: str, contributor: str, clock: Clock) -> Commit:
    """Start the next commit inside a write transaction."""
    head = _read_head.first(connection, {})
    assert head is not None
    return Commit(
        connection=connection,
        seq=head[0] + 1,
        kind=kind,
        contributor=contributor,
        at=timestamp(clock()),
        previous=head[1],
        tree_seq=head[2],
        encoder=head[3],
    )


def row_sum(*row: object) -> int:
    """Return a number for a row: the sum over a table tells an edited, lost or added row (ours).

    Used for tables whose rows carry no checksum of their own: a checksum there would not tell that
    a row is gone.
    """
    text = "\x1f".join("" if part is None else str(part) for part in row)
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:8], "big")


def entry_hash(previous: str, seq: int, at: str, kind: str, contributor: str, body: str) -> str:
    """Return the hash of a journal row, chained to the one before."""
    return sha256(strict_json.dumps([previous, seq, at, kind, contributor, body]))


def verify_chain(connection: Connection) -> list[str]:
    """Return what is wrong with the chain: gaps, repeats, changed rows, a head that does not fit."""
    found: list[str] = []
    previous, expected = GENESIS, 1
    for row in connection.execute(select(tables.journal).order_by(tables.journal.c.seq)):
        if row.seq != expected:
            found.append(f"journal: expected seq {expected}, found {row.seq}")
        if row.hash != entry_hash(previous, row.seq, row.at, row.kind, row.contributor, row.body):
            found.append(f"journal: row {row.seq} does not match its hash")
        previous, expected = row.hash, row.seq + 1
    head = connection.execute(_head).one()
    if (head.head_seq, head.head_hash) != (expected - 1, previous):
        found.append("journal: the head does not match the last row")
    return found


def verify_tail(connection: Connection) -> None:
    """Check the last journal row against the head; cheap, run at every open for writing.

    Raises:
        BankCorruptError: they differ.
    """
    head = connection.execute(_head).one()
    last = connection.execute(
        select(tables.journal).order_by(tables.journal.c.seq.desc()).limit(1)
    ).one_or_none()
    found = (0, GENESIS) if last is None else (last.seq, last.hash)
    if (head.head_seq, head.head_hash) != found:
        raise BankCorruptError("the journal does not end at the bank's head", hint="epimem check")
