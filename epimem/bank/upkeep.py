"""What upkeep and feedback write: lease, steps, operations, counters, a change of the encoder.

`Bank` (epimem.bank.bank) adds what comes in, versions and revocation.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal

from sqlalchemy import update

from epimem.bank import journal, reading, reembed, rows, steps, tables, usage
from epimem.bank.encoder import EncoderIdentity, NodeVectors
from epimem.bank.failpoints import failpoint
from epimem.bank.intake import Caller
from epimem.bank.journal import Commit
from epimem.bank.reader import BankReader
from epimem.bank.steps import LEASE_S, Lease
from epimem.errors import AccessError
from epimem.schema.proposal import Accepted, Rejection
from epimem.schema.tree import Node, Tree


class BankUpkeep(BankReader):
    """One opened bank, as far as it is maintained and judged."""

    @contextmanager
    def _commit(self, kind: str, contributor: str) -> Iterator[Commit]:
        with self._db.write() as connection:
            commit = journal.begin(connection, kind, contributor, self._clock)
            yield commit
            if commit.body or commit.sum:
                commit.seal()

    def _refuse_evaluation_write(self, caller: Caller, *, oracle: bool) -> None:
        if caller.phase == "evaluation" and oracle:
            raise AccessError(
                "oracle-sourced input is refused in the evaluation phase",
                hint="open the bank in the construction phase",
            )

    # -- maintenance -----------------------------------------------------------------------------

    @contextmanager
    def lease(self, holder: str = "maintainer", *, ttl_s: float = LEASE_S) -> Iterator[Lease]:
        """Hold the right to change trees.

        Raises:
            BankBusyError: `bank_locked_elsewhere`, a living maintainer holds it.
        """
        # The wall clock may jump while the lease is held: it counts from where it stood then.
        steady = self._steady
        offset = self._clock() - steady() if steady is not None else None
        name = steps.holder_name(holder, offset=offset)
        with self._db.write() as connection:
            epoch = steps.take(
                connection, name, now=self._clock(), steady=self._steady_now, ttl_s=ttl_s
            )

        def renew() -> None:
            now = self._clock() if steady is None or offset is None else steady() + offset
            with self._db.write() as connection:
                steps.extend(connection, epoch, now=now, ttl_s=ttl_s)

        def release() -> None:
            with self._db.write() as connection:
                steps.release(connection, epoch)

        try:
            yield Lease(name, epoch, renew)
        except BaseException:
            # The fault that ended the work is what counts; a lease left behind runs out.
            with suppress(Exception):
                release()
            raise
        release()

    def probe(self) -> None:
        """Write to the disk and to the database, read it back, and take it back.

        Raises:
            BankError: that failed; the code says how.
        """
        with self._db.write() as connection:
            # A row that stays as it is still goes through the log and its flush. The file is written
            # under the lock, so that no purge or freeze meets it.
            connection.execute(update(tables.bank).values(epoch=tables.bank.c.epoch))
            name = self._blobs.put(secrets.token_bytes(16))
            try:
                self._blobs.get(name)
            finally:
                self._blobs.delete(name)

    def plant(self, lease: Lease, namespace: str) -> Tree:
        """Return the tree of a namespace, made with an empty root where there is none."""
        with self._db.read() as connection:
            found = reading.tree(connection, namespace)
        if found is not None:
            return found
        root = Node(node_id=self._ids(), namespace=namespace, kind="category", height=2)
        accepted = Accepted(op="repair", tree=Tree.empty(root), put=(root,))
        self.commit_operation(lease, accepted, base=self.tree_seq)
        return Tree.empty(root)

    def begin_step(
        self,
        lease: Lease,
        *,
        namespace: str,
        lesson_ids: Sequence[str],
        settings: Mapping[str, Any],
    ) -> int:
        """Open maintenance step k over a batch; return k."""
        with self._commit("step", "") as commit:
            return steps.open_step(
                commit, lease.epoch, namespace=namespace, lessons=lesson_ids, settings=settings
            )

    def end_step(self, lease: Lease, step: int) -> None:
        """Close a step."""
        with self._commit("step_done", "") as commit:
            steps.close_step(commit, lease.epoch, step)

    def commit_operation(
        self,
        lease: Lease,
        accepted: Accepted,
        *,
        base: int,
        vectors: Mapping[str, NodeVectors] | None = None,
    ) -> int:
        """Write one applied operation with its journal row, in one transaction; return its number.

        Args:
            lease: of this maintainer.
            accepted: the operation.
            base: the `tree_seq` it was computed on, or the number that the last call returned.
            vectors: of inner nodes whose index text is new; not stored in a bank without an encoder.

        Raises:
            BankConflictError: the tree changed since; read it again. `embedding_mismatch`: the
                bank's encoder did.
            BankBusyError: `stale_epoch`.
        """
        with self._commit(f"op:{accepted.op}", "") as commit:
            self._check_encoder(commit.encoder)
            stored = vectors if vectors is not None and self.encoder is not None else {}
            steps.apply(commit, lease.epoch, accepted, base=base, vectors=stored)
            failpoint("maintain.rows")
        failpoint("maintain.committed")
        return commit.seq

    def record_rejection(self, lease: Lease, rejection: Rejection, *, step: int) -> None:
        """Keep a refused proposal."""
        with self._commit("rejection", "") as commit:
            steps.reject(commit, lease.epoch, rejection, step=step)

    # -- feedback --------------------------------------------------------------------------------

    def add_signal(
        self,
        node_id: str,
        question_key: str,
        signal: usage.Signal,
        *,
        caller: Caller,
        source: str,
        detail: str = "",
    ) -> bool:
        """Count a helped or hurt signal; False when it counted before."""
        with self._commit("feedback", caller.contributor) as commit:
            return usage.add_signal(
                commit, node_id, question_key, signal, caller=caller, source=source, detail=detail
            )

    def add_verdict(
        self,
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
        """Count the verdict of a question whose memory input held `items`."""
        self._refuse_evaluation_write(caller, oracle=source == "oracle")
        with self._commit("feedback", caller.contributor) as commit:
            return usage.add_verdict(
                commit,
                namespace=namespace,
                question_key=question_key,
                reader=reader,
                family=family,
                verdict=verdict,
                source=source,
                items=items,
                caller=caller,
            )

    def lower(self, before: Node, after: Node) -> bool:
        """Replace an inner node by a lower version; False when it changed meanwhile."""
        with self._commit("demote", "") as commit:
            row = rows.live_row(commit.connection, before.node_id)
            if row is None or rows.to_node(row) != before:
                return False
            commit.touches_tree = True
            rows.put(commit, after, contributor=row.contributor, previous=row)
        return True

    def refuse_read_only(self) -> None:
        """Refuse what would write, where nothing may happen to be written.

        Raises:
            BankFrozenError: `bank_frozen`, or the bank was opened for reading.
        """
        self._db.refuse_read_only()

    # -- the encoder -----------------------------------------------------------------------------

    def take_reembedding(self, target: EncoderIdentity | None) -> reembed.Job:
        """Begin to change the encoder, or go on where it was interrupted.

        Raises:
            BankFrozenError: the bank is frozen.
            BankBusyError: `bank_locked_elsewhere`, a living process is at it.
        """
        with self._db.write() as connection:
            job = reembed.take(connection, target, self._clock())
        failpoint("reembed.begun")
        while self._clear_part(job):
            failpoint("reembed.cleared")
        return job

    def _clear_part(self, job: reembed.Job) -> bool:
        with self._db.write() as connection:
            return reembed.clear(connection, job, self._clock())

    def renew_reembedding(self, job: reembed.Job) -> None:
        """Stay the one who is at it.

        Raises:
            BankBusyError: `stale_epoch`, another process took the job over.
        """
        with self._db.write() as connection:
            reembed.hold(connection, job, self._clock())

    def leave_reembedding(self, job: reembed.Job) -> None:
        """Let others go on with the job at once."""
        with self._db.write() as connection:
            reembed.give_up(connection, job)

    def node_ids(self, *, after: str = "", limit: int) -> list[str]:
        """Return the ids of all nodes there ever were in order, page by page."""
        with self._db.read() as connection:
            return reembed.page(connection, after, limit)

    def node_count(self) -> int:
        """Return how many nodes there ever were."""
        with self._db.read() as connection:
            return reembed.count(connection)

    def written_since(self, seq: int) -> tuple[int, list[str]]:
        """Return the present sequence number, and the ids of nodes written after `seq`."""
        with self._db.read() as connection:
            return int(reading.head(connection).head_seq), reembed.changed(connection, seq)

    def without_vectors(self, ids: Sequence[str], job: reembed.Job | None) -> list[reembed.Wanted]:
        """Return index texts without vectors: of the job's encoder, or of the present one."""
        table = tables.vectors if job is None else tables.next_vectors
        with self._db.read() as connection:
            return reembed.wanted(connection, ids, table, self._damaged)

    def put_ahead(self, job: reembed.Job, made: Sequence[reembed.Made]) -> int:
        """Store vectors of the encoder to come, beside those in use; return how many nodes got some.

        Raises:
            BankBusyError: `stale_epoch`, another process took the job over.
        """
        with self._db.write() as connection:
            reembed.hold(connection, job, self._clock())
            stored = len(reembed.put(connection, made, tables.next_vectors))
            failpoint("reembed.batch")
        return stored

    def embed(self, made: Sequence[reembed.Made], *, caller: Caller) -> int:
        """Fill in vectors that are missing under the present encoder; followers take them up.

        Raises:
            BankConflictError: `embedding_mismatch`, the bank's encoder was changed meanwhile.
        """
        with self._commit(reading.EMBED, caller.contributor) as commit:
            self._check_encoder(commit.encoder)
            stored = reembed.embed(commit, made)
            failpoint("reembed.embed")
        return stored

    def flip_encoder(
        self,
        job: reembed.Job,
        since: int,
        vectorize: Callable[[Sequence[reembed.Wanted]], Sequence[reembed.Made]],
        *,
        most: int,
        caller: Caller,
    ) -> bool:
        """Let the bank use the new encoder, in one commit.

        Args:
            job: whose vectors are used.
            since: all nodes written up to this sequence number have theirs.
            vectorize: makes those of the few that came since, inside the commit.
            most: so many at most; with more this returns False and nothing happened.
            caller: who changes it.

        Raises:
            BankBusyError: `bank_locked_elsewhere`, a maintainer is at work, who knows vectors of the
                old encoder; `stale_epoch`, another process took the job over.
        """
        with self.lease("reembed"), self._commit(reading.REEMBED, caller.contributor) as commit:
            reembed.hold(commit.connection, job, self._clock())
            if job.target is not None:
                late = reembed.changed(commit.connection, since)
                wanted = reembed.wanted(commit.connection, late, tables.next_vectors, self._damaged)
                if len(wanted) > most:
                    return False
                reembed.put(commit.connection, vectorize(wanted), tables.next_vectors)
            reembed.flip(commit, job.target)
            failpoint("reembed.flip")
        failpoint("reembed.flipped")
        self.follow_encoder()
        return True

    def sweep_vectors(self) -> None:
        """Delete the vectors that no encoder and no job uses, part by part."""
        with self._db.read() as connection:
            if reembed.swept(connection):
                return
        more = True
        while more:
            with self._db.write() as connection:
                more = reembed.sweep(connection)
            failpoint("reembed.swept")
