"""Reading a bank: what any process may ask of it, at one sequence number per question.

`Bank` (epimem.bank.bank) adds the writing. Nothing here changes a file of the bank.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from sqlalchemy import func, select

from epimem.bank import (
    check,
    creation,
    quarantine,
    reading,
    revocation,
    run_queue,
    steps,
    tables,
    usage,
    versions,
)
from epimem.bank.blobs import BlobStore
from epimem.bank.database import Database
from epimem.bank.encoder import EncoderIdentity, NodeVectors, encoder_changed
from epimem.bank.images import ImageStore
from epimem.bank.index import IndexRow
from epimem.bank.journal import Clock, steady_clock, wall_clock
from epimem.bank.run_queue import QueuedRun
from epimem.bank.side import Side
from epimem.errors import (
    BankCorruptError,
    NotFoundError,
)
from epimem.operations.base import Limits
from epimem.operations.rules import Standing
from epimem.schema.ids import IdGenerator
from epimem.schema.tree import Node, Tree
from epimem.schema.waiting import Waiting


class BankReader:
    """One opened bank, as far as it is read.

    Attributes:
        path: the bank's folder.
        bank_id: uuid7 of the bank.
        frozen: what `frozen.json` says, None where the bank is not frozen.
        encoder: identity of the text encoder whose vectors are stored, None for lexical recall only;
            as this handle knows it. Another process may change it: reading or writing vectors then
            raises, until `follow_encoder`.
    """

    def __init__(
        self,
        path: Path,
        database: Database,
        *,
        frozen: versions.Frozen | None,
        ids: IdGenerator,
        clock: Clock,
    ) -> None:
        self.path = path
        self.frozen = frozen
        self._db = database
        self._ids = ids
        self._clock = clock
        # A clock that was injected is all the time there is; only the real one can be set.
        self._steady: Clock | None = steady_clock if clock in {wall_clock, time.time} else None
        self._blobs = BlobStore(path / "blobs", read_only=database.read_only, stop=database.stop)
        self._images = ImageStore(self._blobs)
        self._damaged: set[str] = set()
        self._side: Side | None = None
        with database.read() as connection:
            row = reading.head(connection)
        if row.format != tables.FORMAT:
            raise creation.version_error(row.format)
        self.bank_id: str = row.bank_id
        self._know_encoder(row.encoder)

    def _know_encoder(self, stored: str | None) -> None:
        self._encoder_text = stored
        self.encoder = EncoderIdentity.read(stored) if stored else None

    def follow_encoder(self) -> bool:
        """Look which encoder the bank has now; return whether it is another than this handle knew."""
        with self._db.read() as connection:
            stored = reading.head(connection).encoder
        changed: bool = stored != self._encoder_text
        self._know_encoder(stored)
        return changed

    def _check_encoder(self, stored: str | None) -> None:
        """Refuse to mix vectors: of the encoder that is stored now, and of the one known here.

        Raises:
            BankConflictError: `embedding_mismatch`, naming both.
        """
        if stored != self._encoder_text:
            present = EncoderIdentity.read(stored) if stored else None
            raise encoder_changed(present, self.encoder)

    @property
    def _steady_now(self) -> float:
        return (self._steady or steady_clock)()

    def close(self) -> None:
        """Close all files."""
        self._images.close()
        self._db.close()
        if self._side is not None:
            self._side.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def read_only(self) -> bool:
        """Whether writes are refused."""
        return self._db.read_only

    @property
    def head_seq(self) -> int:
        """The number of the last commit."""
        with self._db.read() as connection:
            return reading.head_seq(connection)

    @property
    def tree_seq(self) -> int:
        """The number of the last commit that changed a tree."""
        with self._db.read() as connection:
            return int(reading.head(connection).tree_seq)

    @property
    def damaged(self) -> frozenset[str]:
        """Ids of nodes and runs that were withheld because their rows or blobs are damaged."""
        return frozenset(self._damaged)

    @property
    def side(self) -> Side:
        """The retrieval log and cache beside the bank."""
        if self._side is None:
            self._side = Side(self.path, self.bank_id)
        return self._side

    @property
    def changed(self) -> tuple[int, int]:
        """A cheap sign that differs after a commit of any process."""
        return self._db.data_version()

    @property
    def images(self) -> ImageStore:
        """Decoding and cropping of stored images."""
        return self._images

    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces that hold something, sorted."""
        with self._db.read() as connection:
            return reading.namespaces(connection)

    def inbox(self, namespace: str, *, limit: int) -> tuple[Node, ...]:
        """Return lessons without a place, oldest first."""
        with self._db.read() as connection:
            return reading.inbox(connection, namespace, limit=limit)

    def waiting(self, namespace: str) -> int:
        """Return how many lessons have no place yet."""
        with self._db.read() as connection:
            return reading.inbox_size(connection, namespace)

    def tree(self, namespace: str, at: int | str | None = None) -> Tree | None:
        """Return the tree of a namespace, now or at a sequence number or snapshot."""
        with self._db.read() as connection:
            seq = versions.resolve(connection, at) if at is not None else None
            return reading.tree(connection, namespace, seq)

    def node(self, node_id: str) -> Node:
        """Return a live node.

        Raises:
            NotFoundError: absent, revoked or never there.
        """
        with self._db.read() as connection:
            return reading.live_node(connection, node_id)

    def nodes(self, ids: Sequence[str]) -> dict[str, Node]:
        """Return the live nodes among `ids`; damaged ones are withheld and named in `damaged`."""
        with self._db.read() as connection:
            return reading.live_nodes(connection, ids, self._damaged)

    def vectors(self, nodes: Iterable[Node]) -> dict[str, NodeVectors]:
        """Return the stored vectors of the nodes' present index texts.

        Raises:
            BankConflictError: `embedding_mismatch`, the bank's encoder was changed meanwhile.
        """
        with self._db.read() as connection:
            self._check_encoder(reading.head(connection).encoder)
            return reading.stored_vectors(connection, nodes)

    def index_rows(self, after: int) -> list[IndexRow]:
        """Return what changed since `after`, for followers; damaged nodes count as gone.

        Raises:
            BankConflictError: `embedding_mismatch`, the bank's encoder was changed meanwhile: what
                was followed so far is of no use.
        """
        with self._db.read() as connection:
            self._check_encoder(reading.head(connection).encoder)
            return list(reading.index_rows(connection, after, self._damaged))

    def image(self, image_id: str) -> str:
        """Return the blob of a stored image.

        Raises:
            NotFoundError: no such image.
        """
        table = tables.images
        with self._db.read() as connection:
            row = connection.execute(
                select(table).where(table.c.image_id == image_id)
            ).one_or_none()
        if row is None:
            raise NotFoundError("no such image", field="image_id", got=image_id)
        if check.image_checksum(row) != row.checksum:
            raise BankCorruptError("a stored image row does not match its checksum", field=image_id)
        return str(row.blob)

    def image_sizes(self, image_ids: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Return (width, height) in pixels of those images that are stored, by id."""
        table = tables.images
        found: dict[str, tuple[int, int]] = {}
        with self._db.read() as connection:
            for part in reading.chunks(image_ids):
                for row in connection.execute(select(table).where(table.c.image_id.in_(part))):
                    if check.image_checksum(row) == row.checksum:
                        found[row.image_id] = (row.width, row.height)
        return found

    def run_states(self, run_ids: Sequence[str] | None = None) -> dict[str, tuple[str, str]]:
        """Return (state, reason) by run id."""
        with self._db.read() as connection:
            return run_queue.states(connection, run_ids)

    def queued_runs(self, *, limit: int, skip: Container[str] = ()) -> tuple[QueuedRun, ...]:
        """Return runs whose turn has come, oldest first; damaged ones are withheld."""
        with self._db.read() as connection:
            return run_queue.due(
                connection,
                self._blobs,
                limit=limit,
                now=self._clock(),
                skip=skip,
                damaged=self._damaged,
            )

    def sealed_runs(self) -> list[run_queue.SealedRun]:
        """Return all stored runs with their sealed outcomes, damaged ones withheld; for offline work."""
        with self._db.read() as connection:
            return run_queue.sealed(connection, self._blobs, self._damaged)

    def open_steps(self, namespace: str) -> list[steps.OpenStep]:
        """Return interrupted steps of a namespace, oldest first."""
        with self._db.read() as connection:
            return steps.open_steps(connection, namespace)

    def changed_since(self, namespace: str, seq: int) -> list[str]:
        """Return live inner nodes that changed after a sequence number."""
        with self._db.read() as connection:
            return steps.changed_since(connection, namespace, seq)

    def tree_changed_by(self) -> str:
        """Return the kind of the last commit that changed a tree, empty where none did."""
        table = tables.journal
        with self._db.read() as connection:
            seq = reading.head(connection).tree_seq
            found = connection.execute(
                select(table.c.kind).where(table.c.seq == seq)
            ).scalar_one_or_none()
        return str(found or "")

    def counts(self) -> dict[str, dict[str, int]]:
        """Return counts: runs by state, nodes by kind, operations by kind, rejections by reason."""
        with self._db.read() as connection:
            return {
                "runs": run_queue.counts(connection),
                "nodes": reading.kind_counts(connection),
                "operations": steps.operation_counts(connection),
                "rejections": steps.rejection_counts(connection),
            }

    def quarantined(self, *, limit: int) -> list[Waiting]:
        """Return what waits for review, lessons first, oldest first; at most so many of either kind."""
        with self._db.read() as connection:
            return quarantine.waiting(connection, limit=limit)

    def quarantine_counts(self) -> tuple[int, int]:
        """Return how many lessons and how many runs wait for review."""
        with self._db.read() as connection:
            return quarantine.counts(connection)

    def quarantined_kind(self, item_id: str) -> Literal["item", "run"]:
        """Return what waits for review under an id.

        Raises:
            NotFoundError: nothing does.
        """
        with self._db.read() as connection:
            return quarantine.kind_of(connection, item_id)

    def known_lessons(self, contributor: str) -> int:
        """Return how many lessons of a contributor stand outside quarantine."""
        with self._db.read() as connection:
            return quarantine.known(connection, contributor)

    def standing_lessons(self, contributor: str) -> int:
        """Return how many lessons of a contributor stand, in quarantine or not."""
        with self._db.read() as connection:
            return quarantine.known(connection, contributor, waiting=True)

    def backlog(self) -> reading.Backlog:
        """Return what waits to be derived and to be placed, and for how long."""
        with self._db.read() as connection:
            return reading.backlog(connection, now=self._clock())

    def journal_rows(self, *, last: int) -> list[dict[str, Any]]:
        """Return the last journal rows, oldest first."""
        table = tables.journal
        with self._db.read() as connection:
            found = connection.execute(select(table).order_by(table.c.seq.desc()).limit(last)).all()
        return [dict(row._mapping) for row in reversed(found)]

    def journal_hash(self, seq: int) -> str:
        """Return the hash of the journal at a sequence number; empty where there is no such row."""
        table = tables.journal
        with self._db.read() as connection:
            found = connection.execute(
                select(table.c.hash).where(table.c.seq == seq)
            ).scalar_one_or_none()
        return str(found or "")

    def state_digest(self, at: int | str | None = None) -> str:
        """Return the digest of all trees: content only, no ids, times, numbers or usage."""
        with self._db.read() as connection:
            seq = versions.resolve(connection, at) if at is not None else None
            return reading.state_digest(connection, seq)

    def standing(self, wanted: Sequence[tuple[str, str, str]]) -> dict[str, Standing]:
        """Return the standing of items given as (node id, namespace, family)."""
        with self._db.read() as connection:
            return usage.standing(connection, wanted)

    def snapshots(self) -> list[dict[str, Any]]:
        """Return all snapshots."""
        with self._db.read() as connection:
            return versions.listed(connection)

    def diff(self, first: int | str, second: int | str) -> versions.Difference:
        """Compare two states, each a sequence number or a snapshot."""
        with self._db.read() as connection:
            a, b = versions.resolve(connection, first), versions.resolve(connection, second)
            return versions.difference(connection, a, b)

    def reach(self, target: revocation.Target, name: str) -> revocation.Scope:
        """Return what revoking an item, a run or a contributor would reach now; changes nothing.

        Raises:
            NotFoundError: the bank holds nothing of that name.
        """
        with self._db.read() as connection:
            return revocation.closure(connection, target, name)

    def revoked_since(self, seq: int) -> list[revocation.Pending]:
        """Return what revocations after a sequence number reached, purged or not, oldest first."""
        with self._db.read() as connection:
            return revocation.since(connection, seq)

    def last_revocation(self) -> int:
        """Return the sequence number of the last revocation, 0 where there was none."""
        with self._db.read() as connection:
            latest = select(func.max(tables.revocations.c.seq))
            return int(connection.execute(latest).scalar_one() or 0)

    def check(self, limits: Limits) -> list[check.Problem]:
        """Verify everything: chain, rows, replay, trees, blobs, images; return the problems found."""
        with self._db.read() as connection:
            found = check.database_problems(connection, limits)
            found += check.blob_problems(connection, self._blobs)
        if self.frozen is not None:
            digest = versions.file_digest(self.path)
            if digest != self.frozen.file_digest:
                found.append(
                    check.Problem(code="bank_corrupt", where="files", detail="digest differs")
                )
        return found
