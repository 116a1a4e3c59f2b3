"""The facade: one bank, an encoder, two controllers, and the verbs that use them.

contribute -> ingest -> maintain          a run becomes lessons, lessons become a tree
retrieve -> feedback                      a question gets guidance, its outcome moves counters
snapshot, restore, diff, freeze, revoke, check
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from epimem import compose, plugins
from epimem import config as configuration
from epimem.bank import revocation, versions
from epimem.bank.bank import Bank
from epimem.bank.check import Problem
from epimem.bank.encoder import NodeVectors, check_identity, identity_of, node_vectors
from epimem.bank.intake import Caller
from epimem.bank.journal import Clock, wall_clock
from epimem.build import BuildReport, ImportedRecord, RefusedRecord, Rejects
from epimem.build import build as run_build
from epimem.config import Config
from epimem.errors import AccessError, NotFoundError, RecordError
from epimem.feedback import Feedback, feedback
from epimem.ingest import IngestReport, Progress, ingest
from epimem.maintain import MaintainReport, maintain
from epimem.operations.base import Limits
from epimem.protocols import Encoder, MemoryController, TreeOrganizer
from epimem.retrieve import Question, Roles, explain, retrieve
from epimem.schema.contribution import read_contribution
from epimem.schema.ids import IdGenerator, sha256, uuid7
from epimem.schema.lesson import Authority, IndexText, LessonDraft
from epimem.schema.memory_input import Budget, Crop, MemoryInput
from epimem.schema.names import checked_id, checked_name, checked_title
from epimem.schema.outcome import SealedOutcome
from epimem.schema.receipt import Receipt
from epimem.schema.run import Run
from epimem.schema.tree import Node, Tree

if TYPE_CHECKING:
    from epimem.bank.images import AdmittedImage
    from epimem.bank.recall import Recall

Phase = Literal["construction", "evolution", "evaluation"]
# Likeness of index texts is needed to place lessons even where no encoder is installed; hashed
# trigrams then stand in for it (ours). They are never used for recall, which is lexical then.
STAND_IN = "table:256"


class ExperienceMemory:
    """An opened bank with everything that reads and writes it.

    Use `create` or `open`, and `with` or `close`. Not for use by several threads at once; several
    processes may each open the same bank.
    """

    def __init__(
        self,
        bank: Bank,
        config: Config,
        *,
        caller: Caller,
        encoder: Encoder | None,
        controllers: tuple[MemoryController, TreeOrganizer] | None,
        ids: IdGenerator,
        clock: Clock,
    ) -> None:
        self.bank = bank
        self.config = config
        self.caller = caller
        self._encoder = encoder
        self._encoder_loaded = encoder is not None
        self._controllers = controllers
        self._ids = ids
        self._clock = clock
        self._recall: Recall | None = None
        self._stand_in: Encoder | None = None

    @classmethod
    def create(
        cls,
        path: Path | str,
        config: Config | None = None,
        *,
        encoder: Encoder | None = None,
        controllers: tuple[MemoryController, TreeOrganizer] | None = None,
        ids: IdGenerator = uuid7,
        clock: Clock = wall_clock,
    ) -> Self:
        """Make a new bank with its settings file and open it.

        Args:
            path: an absent or empty folder.
            config: settings; defaults where None. Written to `epimem.toml` in the folder.
            encoder: used instead of the configured one.
            controllers: used instead of the configured ones.
            ids: for new items.
            clock: seconds since 1970.

        Raises:
            BankConflictError: `bank_exists`.
            ConfigError: the encoder cannot be loaded.
        """
        config = config or Config()
        folder = Path(path)
        loaded = encoder if encoder is not None else _load_encoder(config)
        identity = identity_of(loaded) if loaded is not None else None
        bank = Bank.create(
            folder,
            encoder=identity,
            settings=lambda path: configuration.save(path, config),
            ids=ids,
            clock=clock,
        )
        return cls(
            bank,
            config,
            caller=_caller(config, "construction", None),
            encoder=loaded,
            controllers=controllers,
            ids=ids,
            clock=clock,
        )

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        read_only: bool = False,
        phase: Phase = "construction",
        caller: Caller | None = None,
        config: Config | None = None,
        encoder: Encoder | None = None,
        controllers: tuple[MemoryController, TreeOrganizer] | None = None,
        ids: IdGenerator = uuid7,
        clock: Clock = wall_clock,
    ) -> Self:
        """Open a bank. Encoder and controllers are loaded when they are first needed.

        Raises:
            NotFoundError: no bank here.
            BankError: it cannot be opened; the code says why.
        """
        folder = Path(path)
        bank = Bank.open(folder, read_only=read_only, ids=ids, clock=clock)
        config = config or configuration.load(folder)
        return cls(
            bank,
            config,
            caller=_caller(config, phase, caller),
            encoder=encoder,
            controllers=controllers,
            ids=ids,
            clock=clock,
        )

    def close(self) -> None:
        """Save derived data to the cache and close all files."""
        self.bank.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- parts that are loaded when needed ---------------------------------------------------------

    @property
    def limits(self) -> Limits:
        """Capacity and smallest part of the tree."""
        return Limits(capacity=self.config.tree.capacity, min_group=self.config.tree.min_group)

    @property
    def encoder(self) -> Encoder | None:
        """The text encoder of this bank, None where recall is lexical.

        Raises:
            BankConflictError: `embedding_mismatch`, the configured encoder is another.
        """
        if self.bank.encoder is None:
            return None
        if not self._encoder_loaded:
            self._encoder = _load_encoder(self.config)
            self._encoder_loaded = True
        check_identity(self.bank.encoder, self._encoder)
        return self._encoder

    @property
    def recall(self) -> Recall:
        """Recall over this bank; follows its journal."""
        if self._recall is None:
            from epimem.bank.recall import Recall

            extra = (self.bank.path / versions.FOLDED_INDEX,) if self.bank.frozen else ()
            self._recall = Recall(
                self.bank,
                encoder=self.encoder,
                cache=self.bank.side.cache,
                extra_caches=extra,
                rrf_k=self.config.recall.rrf_k,
                journal_hash=self.bank.journal_hash,
            )
        return self._recall

    @property
    def controllers(self) -> tuple[MemoryController, TreeOrganizer]:
        """Memory controller and tree organizer, by the configured specs."""
        if self._controllers is None:
            controller, _ = plugins.load_controllers(
                self.config.memory_controller.spec, self.config.tree
            )
            _, organizer = plugins.load_controllers(
                self.config.tree_organizer.spec, self.config.tree
            )
            self._controllers = (controller, organizer)
        return self._controllers

    # -- writing -----------------------------------------------------------------------------------

    def add_image(self, data: bytes, *, declared: str | None = None) -> AdmittedImage:
        """Store an image (PNG, JPEG, WebP); return its id and size.

        Raises:
            ImageError: refused by format, size or content.
        """
        return self.bank.add_image(data, caller=self.caller, declared=declared)

    def contribute(
        self,
        item: Run | LessonDraft | bytes | Mapping[str, Any],
        *,
        outcome: SealedOutcome | None = None,
        namespace: str | None = None,
        idempotency_key: str | None = None,
    ) -> Receipt:
        """Hand in a run (queued for ingest) or a ready lesson (in the inbox at once).

        Durable when this returns; no model is called. The same run again is a `duplicate`, the same
        lesson from another question is `folded` into the first as evidence.

        Raises:
            RecordError: not a run or lesson, or the outcome of another run; names the field.
            AccessError: revoked text, or an oracle outcome in the evaluation phase.
        """
        record = read_contribution(item)
        space = self._space(namespace)
        if idempotency_key is not None:
            checked_id(idempotency_key, "idempotency_key")
        if isinstance(record, Run):
            if outcome is not None and outcome.run_id != record.run_id:
                raise RecordError("the outcome is of another run", field="outcome.run_id")
            return self.bank.add_run(
                record,
                outcome,
                caller=self.caller,
                namespace=space,
                idempotency_key=idempotency_key,
            )
        if outcome is not None:
            raise RecordError("an outcome belongs to a run", field="outcome")
        vectors = self._vectorize([record.index])[0]
        return self.bank.add_lesson(
            record, vectors, caller=self.caller, namespace=space, idempotency_key=idempotency_key
        )

    def _space(self, namespace: str | None) -> str:
        """Return a namespace as its lessons carry it; the configured one for None only."""
        if namespace is None:
            return self.config.namespace
        return checked_name(namespace, "namespace")

    def _vectorize(self, texts: Sequence[IndexText]) -> list[NodeVectors | None]:
        encoder = self.encoder
        if encoder is None or not texts:
            return [None] * len(texts)
        return [*node_vectors(encoder, texts)]

    def ingest(self, *, limit: int | None = None, progress: Progress | None = None) -> IngestReport:
        """Derive lessons from queued runs that are due.

        Raises:
            AccessError: in the evaluation phase, where no verdict may reach a controller.
        """
        self._require_construction("ingest")
        return ingest(
            self.bank,
            self.controllers[0],
            self._vectorize,
            deadline_s=self.config.memory_controller.deadline_s,
            limit=limit,
            progress=progress,
        )

    def maintain(
        self, *, max_steps: int | None = None, progress: Progress | None = None
    ) -> MaintainReport:
        """Organize the inbox into the tree.

        Raises:
            BankBusyError: another maintainer is at work.
        """
        report = maintain(
            self.bank,
            self.controllers[1],
            _StoredOrMade(self.bank, self._likeness_encoder),
            settings=self.config.tree,
            ids=self._ids,
            max_steps=max_steps,
            deadline_s=self.config.tree_organizer.deadline_s,
            progress=progress,
        )
        if report.steps:
            self.recall.refresh()
            self.recall.save()
        return report

    @property
    def _likeness_encoder(self) -> Encoder:
        encoder = self.encoder
        if encoder is not None:
            return encoder
        if self._stand_in is None:
            from epimem.bank.encoder import load_encoder

            self._stand_in = load_encoder(STAND_IN)
        assert self._stand_in is not None
        return self._stand_in

    def build(
        self,
        records: Iterable[ImportedRecord | RefusedRecord],
        *,
        rejected: Path,
        total: int = 0,
        progress: Progress | None = None,
    ) -> BuildReport:
        """Contribute, ingest and maintain all records of an importer; resumable."""
        return run_build(self, records, rejects=Rejects(rejected), total=total, progress=progress)

    # -- reading -----------------------------------------------------------------------------------

    def retrieve(
        self,
        question: str,
        *,
        images: Sequence[str] = (),
        namespace: str | None = None,
        family: str = "",
        reader: str = "",
        run_id: str | None = None,
        k: int | None = None,
        mode: Literal["fused", "dense", "lexical"] | None = None,
        budget: Budget | None = None,
        minimum_authority: Authority = "none",
    ) -> MemoryInput:
        """Return what the bank knows for a question: rules, one lesson, or nothing.

        Args:
            question: text; beyond 8 KiB it is shortened for recall, and that is recorded.
            images: ids of the question's images, in page order.
            namespace: searched; the configured one by default.
            family: task family; items of another family are not selected.
            reader: the agent that will read it; matched against audiences.
            run_id: makes the call idempotent: the same run and reader get the same answer.
            k: candidates, clamped to 1..50.
            mode: "fused" (ours), "dense" (the seed's form) or "lexical".
            budget: characters, images, pixels, items.
            minimum_authority: of what may be recalled.

        Raises:
            RecordError: the question is empty or holds refused characters.
        """
        controller, organizer = self.controllers
        return retrieve(
            self.bank,
            self.recall,
            Roles(controller, organizer, self.config.tree_organizer.deadline_s),
            Question(
                text=question,
                namespace=self._space(namespace),
                image_ids=tuple(checked_id(image, "images") for image in images),
                family=checked_title(family, "family"),
                reader=checked_name(reader, "reader") if reader else "",
                run_id=checked_id(run_id, "run_id") if run_id is not None else None,
                minimum_authority=minimum_authority,
            ),
            budget=budget or self.config.budget,
            candidates=k if k is not None else self.config.recall.candidates,
            mode=mode or self.config.recall.mode,
            strict_selection=self.config.strict_selection,
            ids=self._ids,
            now=self._clock(),
        )

    def crop_png(self, crop: Crop) -> bytes:
        """Return the PNG of a crop; cut again from the source where the cache was emptied."""
        path = self.crop_path(crop)
        return path.read_bytes()

    def crop_path(self, crop: Crop) -> Path:
        """Return the file of a crop, made anew where it is missing or damaged.

        Raises:
            NotFoundError: the source is gone or damaged.
        """
        path = compose.crop_file(self.bank, crop)
        if not _holds(path, crop.blob):
            compose.cut_again(self.bank, crop)
        if not _holds(path, crop.blob):
            raise NotFoundError("the source of this crop is gone", field="crop")
        return path

    def explain(self, retrieval_id: str | None = None) -> dict[str, Any] | None:
        """Return a logged retrieval with its candidates, scores and verdicts; the last by default."""
        if retrieval_id is not None:
            checked_id(retrieval_id, "retrieval_id")
        return explain(self.bank, retrieval_id)

    def feedback(
        self,
        retrieval_id: str,
        *,
        verdict: Literal["right", "wrong"] | None = None,
        source: Literal["oracle", "verifier", "peer", "self", "none"] = "none",
        helped: Sequence[str] = (),
        hurt: Mapping[str, str] | None = None,
    ) -> Receipt:
        """Say what became of a question that memory was retrieved for.

        Args:
            retrieval_id: of the answer that `retrieve` gave.
            verdict: whether the question was then solved.
            source: who judged.
            helped: ids of items that helped.
            hurt: by id, the statement of the item that proved wrong.
        """
        given = Feedback.read(
            {
                "retrieval_id": checked_id(retrieval_id, "retrieval_id"),
                "verdict": verdict,
                "source": source,
                "helped": list(helped),
                "hurt": [{"node_id": k, "statement": v} for k, v in (hurt or {}).items()],
            }
        )
        return feedback(self.bank, given, caller=self.caller, now=self._clock())

    def tree(self, namespace: str | None = None, at: int | str | None = None) -> Tree | None:
        """Return the tree of a namespace, now or at a point."""
        return self.bank.tree(self._space(namespace), _point(at) if at is not None else None)

    # -- versions ----------------------------------------------------------------------------------

    def snapshot(self, name: str) -> int:
        """Name the present state; return its sequence number."""
        return self.bank.snapshot(name, caller=self.caller)

    def diff(self, first: int | str, second: int | str) -> versions.Difference:
        """Compare two states."""
        return self.bank.diff(_point(first), _point(second))

    def restore(self, point: int | str) -> int:
        """Make the trees as they were at a point, as a new commit."""
        self._require_construction("restore")
        return self.bank.restore(_point(point), self.limits, caller=self.caller)

    def freeze(self) -> versions.Frozen:
        """Make the bank immutable: the index is folded in, and no file changes any more."""
        recall = self.recall
        recall.refresh()
        frozen = self.bank.freeze(recall.save, caller=self.caller)
        self._recall = None
        return frozen

    def revoke(self, target: revocation.Target, name: str) -> revocation.Scope:
        """Remove an item, a run or a contributor with everything derived from it, for good."""
        name = (checked_name if target == "contributor" else checked_id)(name, target)
        scope = self.bank.revoke(target, name, self.limits, caller=self.caller)
        self._recall = None
        return scope

    def check(self) -> list[Problem]:
        """Verify the whole bank; return the problems found."""
        return self.bank.check(self.limits)

    def _require_construction(self, verb: str) -> None:
        if self.caller.phase == "evaluation":
            raise AccessError(f"{verb} is refused in the evaluation phase")


class _StoredOrMade:
    """Vectors for maintenance: stored ones of nodes where there are, made ones else."""

    def __init__(self, bank: Bank, encoder: Encoder) -> None:
        self._bank = bank
        self._encoder = encoder

    def of_nodes(self, nodes: Sequence[Node]) -> Mapping[str, NodeVectors]:
        """Return the vectors of these nodes by id."""
        found = self._bank.vectors(nodes) if self._bank.encoder is not None else {}
        missing = [node for node in nodes if node.node_id not in found]
        made = self.of_texts([node.index for node in missing])
        found.update({node.node_id: made[row] for row, node in enumerate(missing)})
        return found

    def of_texts(self, texts: Sequence[IndexText]) -> Sequence[NodeVectors]:
        """Return the vectors of these index texts, in order."""
        return node_vectors(self._encoder, texts)


def _caller(config: Config, phase: Phase, given: Caller | None) -> Caller:
    if given is not None:
        return replace(
            given,
            contributor=checked_name(given.contributor, "caller.contributor"),
            organisation=checked_name(given.organisation, "caller.organisation"),
        )
    return Caller(
        contributor=config.caller.contributor,
        organisation=config.caller.organisation,
        phase=phase,
    )


def _holds(path: Path, digest: str) -> bool:
    return path.is_file() and sha256(path.read_bytes()) == digest


def _point(point: int | str) -> int | str:
    return checked_id(point, "point") if isinstance(point, str) else point


def _load_encoder(config: Config) -> Encoder | None:
    if config.encoder.model == "none":
        return None
    from epimem.bank.encoder import load_encoder

    return load_encoder(config.encoder.model)
