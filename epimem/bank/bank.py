"""The bank: a folder with one database, content-addressed blobs, and settings. The only writer.

    <bank>/bank.db       rows: runs, node versions, edges, vectors, the journal (SQLite, durable commits)
    <bank>/blobs/        runs and images, named by the hash of their bytes
    <bank>/bank.lock     the kernel lock of writers
    <bank>/epimem.toml   settings
    <bank>/frozen.json   only in a frozen bank, beside the folded `index/`
    <bank>.side/         retrieval log and caches: derived, never inside the bank

A blob is durable before the row that names it is committed, so a crash leaves an unreferenced blob at
worst. This class calls no model and reads no settings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from sqlalchemy import insert, select

from epimem.bank import (
    check,
    creation,
    intake,
    journal,
    purge,
    quarantine,
    reading,
    reembed,
    revocation,
    run_queue,
    steps,
    tables,
    versions,
)
from epimem.bank.blobs import BlobStore
from epimem.bank.database import FILE_NAME, Database, translated
from epimem.bank.encoder import EncoderIdentity, NodeVectors
from epimem.bank.failpoints import failpoint
from epimem.bank.images import AdmittedImage, ImageStore
from epimem.bank.intake import Caller, Origin
from epimem.bank.journal import Clock, Commit, wall_clock
from epimem.bank.run_queue import QueuedRun
from epimem.bank.upkeep import BankUpkeep
from epimem.errors import (
    AccessError,
    BankConflictError,
    BankCorruptError,
    BankError,
    EpimemError,
    NotFoundError,
    StorageError,
)
from epimem.operations.base import Context, Limits
from epimem.schema.ids import IdGenerator, sha256, uuid7
from epimem.schema.lesson import LessonDraft
from epimem.schema.outcome import SealedOutcome
from epimem.schema.receipt import Receipt
from epimem.schema.run import Run, check_semantics


class Bank(BankUpkeep):
    """One bank, opened for writing or reading. Use `create` and `open`; close it, or use `with`."""

    @classmethod
    def create(
        cls,
        path: Path | str,
        *,
        encoder: EncoderIdentity | None = None,
        settings: Callable[[Path], None] | None = None,
        ids: IdGenerator = uuid7,
        clock: Clock = wall_clock,
    ) -> Self:
        """Make a new bank in an absent or empty folder; of several at once one creates it.

        Args:
            path: the folder.
            encoder: whose vectors will be stored.
            settings: writes the settings file, before the database is there.
            ids: for the bank and its items.
            clock: seconds since 1970.

        Raises:
            BankConflictError: `bank_exists`.
            StorageError: the folder cannot be written.
        """
        folder = Path(path)
        with creation.new_folder(folder):
            if settings is not None:
                # Settings first: a bank that a crash left without them would open with others.
                settings(folder)
            creation.create_database(folder, encoder, ids(), clock)
        return cls.open(folder, ids=ids, clock=clock)

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        read_only: bool = False,
        ids: IdGenerator = uuid7,
        clock: Clock = wall_clock,
    ) -> Self:
        """Open a bank; a frozen one opens immutable, whatever is asked.

        Opening for writing sweeps what a crash left: temporary blobs and half-done purges.

        Raises:
            NotFoundError: no bank here.
            BankVersionError: a format this release does not read.
            BankCorruptError: the file is no bank, the journal's tail is damaged, or a frozen bank does
                not match its digest.
        """
        folder = Path(path)
        if not (folder / FILE_NAME).is_file():
            raise NotFoundError("no bank in this folder", hint="`epimem init` makes one")
        creation.check_location(folder)
        with translated():
            frozen = versions.read_frozen(folder)
        if (
            frozen is not None
            and versions.file_sha256(folder / FILE_NAME) != frozen.database_sha256
        ):
            raise BankCorruptError("the frozen bank does not match its digest", hint="epimem check")
        database = Database(folder, read_only=read_only, immutable=frozen is not None)
        creation.check_application(database)
        bank = cls(folder, database, frozen=frozen, ids=ids, clock=clock)
        if not database.read_only:
            bank._recover()
        return bank

    def _recover(self) -> None:
        creation.upgrade(self._db)
        with self._db.read() as connection:
            journal.verify_tail(connection)
            waiting = revocation.pending(connection)
        self._blobs.sweep_tmp()
        self._sweep_freeze()
        self.sweep_vectors()
        if waiting:
            try:
                self.purge()
            except BankError as error:
                # A reader keeps old pages: the next opening tries again.
                if error.code != "bank_busy":
                    raise

    def _sweep_freeze(self) -> None:
        """Remove what a freeze left that was killed; one that is at work holds the lease."""
        with translated():
            (self.path / versions.FROZEN_NAME).with_suffix(".tmp").unlink(missing_ok=True)
        if (self.path / versions.FOLDED_INDEX).exists():
            with self._db.write() as connection:
                row = reading.head(connection)
                if not steps.is_held(row, now=self._clock(), steady=self._steady_now):
                    versions.unfold_index(self.path)

    # -- what comes in ---------------------------------------------------------------------------

    def add_image(
        self, data: bytes, *, caller: Caller, declared: str | None = None
    ) -> AdmittedImage:
        """Store an image by the hash of its upright pixels; the same pixels are stored once.

        Raises:
            ImageError: refused by format, size or content.
        """
        self._refuse_evaluation_write(caller, oracle=False)
        admitted = self._images.admit(data, declared=declared)
        with self._db.read() as connection:
            if intake.image_known(connection, admitted.image_id):
                return admitted
        with self._commit("image", caller.contributor) as commit:
            if not intake.image_known(commit.connection, admitted.image_id):
                self._ensure_blob(admitted.blob, lambda: self._images.admit(data).blob)
                _insert_image(commit, admitted, caller)
        return admitted

    def _ensure_blob(self, name: str, put: Callable[[], str]) -> None:
        """Put a blob again when a purge removed it between its writing and this transaction."""
        if not self._blobs.has(name):
            put()

    def add_run(
        self,
        run: Run,
        outcome: SealedOutcome | None = None,
        *,
        caller: Caller,
        namespace: str,
        idempotency_key: str | None = None,
    ) -> Receipt:
        """Queue a run for ingest. Durable when this returns; no model is called.

        Raises:
            AccessError: an oracle outcome in the evaluation phase; revoked content.
            RecordError: `invalid_field`, the run's references do not resolve.
        """
        self._refuse_evaluation_write(
            caller, oracle=outcome is not None and outcome.source == "oracle"
        )
        data = run.canonical()
        sealed = outcome.canonical().decode("utf-8") if outcome is not None else None
        with self._db.read() as connection:
            findings = check_semantics(run, lambda name: intake.image_known(connection, name))
        if findings:
            raise check.unresolved(findings)
        content = run.content_hash
        with self._db.read() as connection:
            # Before the blob is written: revoked content must not come to the disk again.
            run_queue.refuse_blocked(connection, content)
            same = run_queue.known_run(connection, namespace, content)
        if same is not None and idempotency_key is None:
            return Receipt(status="duplicate", id=same.run_id, seq=same.seq)
        blob = self._blobs.put(data)
        failpoint("contribute.blob")

        def write(commit: Commit) -> Receipt:
            self._ensure_blob(blob, lambda: self._blobs.put(data))
            return run_queue.add(commit, run, sealed, blob=blob, caller=caller, namespace=namespace)

        body = sha256(b"\x1f".join((namespace.encode("utf-8"), data, (sealed or "").encode())))
        try:
            return self._once("run", caller, idempotency_key, body, write)
        except EpimemError:
            purge.forget_blob(self._db, self._blobs, blob)
            raise

    def add_lesson(
        self,
        draft: LessonDraft,
        vectors: NodeVectors | None = None,
        *,
        caller: Caller,
        namespace: str,
        idempotency_key: str | None = None,
    ) -> Receipt:
        """Put a ready lesson into the inbox, or fold it into the lesson that says the same.

        Raises:
            AccessError: an oracle verdict in the evaluation phase; revoked text.
            NotFoundError: a parent or image is not in the bank.
            BankConflictError: `embedding_mismatch`, the bank's encoder was changed meanwhile.
        """
        self._refuse_evaluation_write(caller, oracle=draft.verdict_source == "oracle")
        origin = Origin(caller.contributor, caller.organisation, caller.authority)

        def write(commit: Commit) -> Receipt:
            self._check_encoder(commit.encoder)
            return intake.store_lesson(
                commit, draft, vectors, origin=origin, namespace=namespace, ids=self._ids
            )

        body = ""
        if idempotency_key is not None:
            body = sha256(namespace.encode("utf-8") + b"\x1f" + draft.canonical())
        return self._once("lesson", caller, idempotency_key, body, write)

    def _once(
        self,
        kind: str,
        caller: Caller,
        key: str | None,
        body: str,
        write: Callable[[Commit], Receipt],
    ) -> Receipt:
        with self._commit(kind, caller.contributor) as commit:
            if key is not None:
                known = intake.known_receipt(commit.connection, caller, key, body, self._clock())
                if known is not None:
                    return known
            receipt = write(commit)
            if not commit.body:
                receipt = receipt.model_copy(update={"seq": commit.seq - 1})
            if key is not None:
                intake.keep_receipt(commit, caller, key, body, receipt, self._clock())
            failpoint("contribute.rows")
        failpoint("contribute.acknowledge")
        return receipt

    # -- the run queue ---------------------------------------------------------------------------

    def commit_derivation(
        self,
        queued: QueuedRun,
        drafts: Sequence[LessonDraft],
        vectors: Sequence[NodeVectors | None],
        *,
        controller: str,
        prompt_version: str,
        nothing: str = "",
    ) -> tuple[Receipt, ...]:
        """Store the lessons of one run and end the run, in one commit; once per run.

        A lesson whose text was revoked is refused by itself; the others stand.

        Raises:
            BankConflictError: another ingest ended the run; `embedding_mismatch`, the bank's encoder
                was changed meanwhile.
        """
        origin = Origin(
            queued.contributor, queued.organisation, queued.authority, run_id=queued.run_id
        )
        receipts: list[Receipt] = []
        with self._commit("derive", queued.contributor) as commit:
            self._check_encoder(commit.encoder)
            for draft, vector in zip(drafts, vectors, strict=True):
                receipts.append(
                    self._store_derived(commit, draft, vector, origin, queued.namespace)
                )
                failpoint("ingest.lesson")
            stored = sum(receipt.status != "rejected" for receipt in receipts)
            reason = nothing or ("; ".join(r.reason for r in receipts) if not stored else "")
            ended = run_queue.mark_derived(
                commit,
                queued.run_id,
                controller=controller,
                prompt_version=prompt_version,
                lessons=stored,
                nothing=reason,
            )
            if not ended:
                raise BankConflictError("this run was ended by another ingest")
            failpoint("ingest.rows")
        failpoint("ingest.acknowledge")
        return tuple(receipts)

    def _store_derived(
        self,
        commit: Commit,
        draft: LessonDraft,
        vectors: NodeVectors | None,
        origin: Origin,
        namespace: str,
    ) -> Receipt:
        try:
            return intake.store_lesson(
                commit, draft, vectors, origin=origin, namespace=namespace, ids=self._ids
            )
        except (AccessError, NotFoundError) as error:
            return Receipt(status="rejected", reason=error.code)

    def fail_derivation(self, queued: QueuedRun, *, reason: str) -> None:
        """Leave a run queued after a failed derive, with the reason and a time for the next try."""
        delay = run_queue.retry_delay(queued.attempts)
        with self._commit("derive_failed", queued.contributor) as commit:
            run_queue.set_state(
                commit,
                queued.run_id,
                reason=reason[:500],
                attempts=queued.attempts + 1,
                retry_at=int(self._clock()) + delay,
            )

    def retry_now(self) -> int:
        """Make every waiting queued run due at once; return how many."""
        with self._commit("retry", "") as commit:
            query = select(tables.runs.c.run_id).where(
                tables.runs.c.state == "queued", tables.runs.c.retry_at > 0
            )
            waiting = list(commit.connection.execute(query).scalars())
            for run_id in waiting:
                run_queue.set_state(commit, run_id, retry_at=0)
        return len(waiting)

    def approve(self, item_id: str, *, caller: Caller) -> Receipt:
        """Let out of quarantine what waits under an id.

        Raises:
            NotFoundError: nothing of that id waits.
        """
        with self._commit("approve", caller.contributor) as commit:
            return quarantine.approve(commit, item_id)

    # -- versions and revocation -----------------------------------------------------------------

    def snapshot(self, name: str, *, caller: Caller) -> int:
        """Name the present sequence number; return it."""
        with self._commit("snapshot", caller.contributor) as commit:
            return versions.name_snapshot(commit, name)

    def restore(self, point: int | str, limits: Limits, *, caller: Caller) -> int:
        """Make the trees as they were at a point, as a new commit; return its number."""
        with self._commit("restore", caller.contributor) as commit:
            seq = versions.resolve(commit.connection, point)
            versions.restore(commit, seq, Context(self._ids, limits))
            failpoint("restore.rows")
        return commit.seq

    def freeze(self, save_index: Callable[[Path], None], *, caller: Caller) -> versions.Frozen:
        """Make the bank immutable in place and reopen it so.

        A change of the encoder that was interrupted is given up.

        Raises:
            BankBusyError: a maintainer, or a change of the encoder, is at work.
            BankConflictError: other processes have it open, or revoked something meanwhile.
        """
        try:
            with self.lease("freeze"):
                self._abandon_reembedding()
                # Reads every live node: a damaged bank is found out before anything is written.
                self.state_digest()
                since = self.head_seq
                versions.fold_index(self.path, save_index)
                with self._commit("freeze", caller.contributor) as commit:
                    commit.note("freeze", commit.seq)
            purge.drop_orphans(self._db, self._blobs)
            frozen = versions.freeze(self._db, since=since)
        except BaseException as error:
            if not (self.path / versions.FROZEN_NAME).exists():
                with suppress(EpimemError):  # what cannot be removed now is when it is next opened
                    versions.unfold_index(self.path)
            if isinstance(error, StorageError) and error.code == "storage_failed":
                self._db.stop.stop("a freeze failed")
            raise
        self._db.close()
        self._db = Database(self.path, immutable=True)
        self._blobs = BlobStore(self.path / "blobs", read_only=True)
        self._images.close()
        self._images = ImageStore(self._blobs)
        self.frozen = frozen
        return frozen

    def _abandon_reembedding(self) -> None:
        with self._db.write() as connection:
            reembed.abandon(connection, self._clock())
        self.sweep_vectors()

    def revoke(
        self, target: revocation.Target, name: str, limits: Limits, *, caller: Caller
    ) -> revocation.Scope:
        """Remove an item, a run or a contributor with all that is derived from it, then purge.

        Returns what was reached. When this returns, no file of the bank, its log or cache holds the
        text; frozen copies and exports are not touched.

        Raises:
            NotFoundError: the bank holds nothing of that name.
            StorageError: `bank_busy`, it is removed, but readers keep old pages of the files; they
                are purged when the bank is next opened for writing.
        """
        with self._commit("revoke", caller.contributor) as commit:
            scope = revocation.closure(commit.connection, target, name)
            revocation.remove(commit, scope, Context(self._ids, limits))
            failpoint("revoke.rows")
        failpoint("revoke.hidden")
        self.purge()
        return scope

    def purge(self) -> int:
        """Purge the files after every revocation that is not wholly purged; return how many."""
        return purge.purge(self._db, self._blobs, lambda: self.side)


def _insert_image(commit: Commit, image: AdmittedImage, caller: Caller) -> None:
    values = {
        "image_id": image.image_id,
        "width": image.width,
        "height": image.height,
        "blob": image.blob,
        "original_sha256": image.original_sha256,
        "contributor": caller.contributor,
        "seq": commit.seq,
    }
    values["checksum"] = check.image_checksum_of(values)
    commit.connection.execute(insert(tables.images), values)
    commit.note("image", [image.image_id, image.blob[:16]])
