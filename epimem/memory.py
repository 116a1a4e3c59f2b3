"""The facade: one bank, an encoder, two controllers, and the verbs that use them.

contribute -> ingest -> maintain          a run becomes lessons, lessons become a tree
retrieve -> feedback                      a question gets guidance, its outcome moves counters
snapshot, restore, diff, freeze, revoke, check
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from epimem import compose, plugins
from epimem import config as configuration
from epimem.bank import revocation, versions
from epimem.bank.bank import Bank
from epimem.bank.check import Problem
from epimem.bank.decoder import Decoder
from epimem.bank.encoder import identity_of, load_encoder
from epimem.bank.failpoints import failpoint
from epimem.bank.intake import Caller
from epimem.bank.journal import Clock, wall_clock
from epimem.bank.quarantine import aside, is_aside
from epimem.build import BuildReport, ImportedRecord, RefusedRecord, Rejects
from epimem.build import build as run_build
from epimem.config import Config, GateMode
from epimem.errors import (
    AccessError,
    ConfigError,
    NotFoundError,
    RecordError,
)
from epimem.feedback import Feedback, feedback
from epimem.gate import checked_mode
from epimem.ingest import IngestReport, Progress, ingest
from epimem.maintain import MaintainReport, maintain
from epimem.operations.base import Limits
from epimem.operations.update import VisualMode
from epimem.protocols import Encoder, MemoryController, TreeOrganizer
from epimem.question_images import QuestionImages
from epimem.reembed import ReembedReport, reembed
from epimem.refine import MAX_ATTEMPTS, Host, Refinement, RefineResult, check
from epimem.rehearsal import Rehearsal
from epimem.retrieve import Question, Roles, explain, retrieve
from epimem.schema.contribution import read_contribution
from epimem.schema.ids import IdGenerator, sha256, uuid7
from epimem.schema.lesson import Authority, LessonDraft
from epimem.schema.memory_input import Budget, Crop, MemoryInput
from epimem.schema.names import checked_id, checked_name, checked_title
from epimem.schema.outcome import SealedOutcome
from epimem.schema.receipt import Receipt
from epimem.schema.run import Run
from epimem.schema.secrets import scrubbed
from epimem.schema.tree import Tree
from epimem.schema.waiting import Waiting
from epimem.serving import Serving

if TYPE_CHECKING:
    from epimem.bank.images import AdmittedImage
    from epimem.bank.recall import Recall

Phase = Literal["construction", "evolution", "evaluation"]


class ExperienceMemory:
    """An opened bank with everything that reads and writes it.

    Use `create` or `open`, and `with` or `close`. Not for use by several threads at once; several
    processes may each open the same bank. One that another process gives a new encoder is followed:
    the handle loads that encoder by itself.

    Attributes:
        notice: what a person should know of how the bank was opened; empty as a rule.
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
        self.notice = ""
        self._roles = plugins.Controllers(controllers)
        self._refinements: weakref.WeakSet[QuestionImages] = weakref.WeakSet()
        self._decoder: Decoder | None = None
        self._ids = ids
        self._clock = clock
        self._serving = Serving(
            bank, given=encoder, model=config.encoder.model, rrf_k=config.recall.rrf_k
        )

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
        loaded = encoder if encoder is not None else load_encoder(config.encoder.model)
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
        settings = config or configuration.load(folder)
        memory = cls(
            bank,
            settings,
            caller=_caller(settings, phase, caller),
            encoder=encoder,
            controllers=controllers,
            ids=ids,
            clock=clock,
        )
        if config is None:
            memory._correct_settings()
        return memory

    def _correct_settings(self) -> None:
        """Let the settings follow a change of the encoder: the database is the truth."""
        stored, named = self.bank.encoder, self.config.encoder.model
        if stored is None or not stored.outdates(named):
            return
        self.notice = f"the encoder of this bank was changed from {named} to {stored.model}"
        self._name_encoder(stored.model)

    def _name_encoder(self, model: str) -> None:
        """Write the model into the settings; where that cannot be done, into the notice."""
        encoder = self.config.encoder.model_copy(update={"model": model})
        self.config = self.config.model_copy(update={"encoder": encoder})
        self._serving.model = model
        if self.bank.read_only:
            return
        failpoint("reembed.settings")
        try:
            configuration.set_encoder(self.bank.path, model)
        except (ConfigError, OSError) as error:
            self.notice = (
                f"set encoder.model to {model} in epimem.toml: it could not be written: {error}"
            )

    def close(self) -> None:
        """Save derived data to the cache, where that is worth it, and close all files."""
        self._serving.close()
        for images in list(self._refinements):
            images.close()
        if self._decoder is not None:
            self._decoder.close()
        try:
            self._roles.close()
        finally:
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
            BankConflictError: `embedding_mismatch`, the configured encoder is another, and not one
                that the bank had before; or the one it has now cannot be loaded here.
        """
        return self._serving.encoder

    @property
    def loaded_encoder(self) -> Encoder | None:
        """The text encoder, if something has needed it already."""
        return self._serving.loaded

    @property
    def recall(self) -> Recall:
        """Recall over this bank; follows its journal."""
        return self._serving.recall

    @property
    def controllers(self) -> tuple[MemoryController, TreeOrganizer]:
        """Memory controller and tree organizer: given ones, or by the specs of the settings."""
        return self._roles.memory_controller(self.config), self._roles.tree_organizer(self.config)

    @controllers.setter
    def controllers(self, given: tuple[MemoryController, TreeOrganizer]) -> None:
        self._roles.close()
        self._roles = plugins.Controllers(given)

    def use_controllers(self, memory_controller: str | None, tree_organizer: str | None) -> None:
        """Fill roles by these specs instead of those of the settings; None leaves a role as it is."""
        wanted: dict[plugins.Role, str | None] = {
            "memory_controller": memory_controller,
            "tree_organizer": tree_organizer,
        }
        for role, spec in wanted.items():
            if spec is not None:
                self._roles.empty(role)
                section = getattr(self.config, role).model_copy(update={"spec": spec})
                self.config = self.config.model_copy(update={role: section})

    @contextmanager
    def acting_as(self, caller: Caller) -> Iterator[None]:
        """Attribute what is done in the block to another caller, and hold it to that one's phase."""
        former, self.caller = self.caller, caller
        try:
            yield
        finally:
            self.caller = former

    @property
    def index_lag(self) -> int:
        """How many commits the search index has not followed yet; all where it was not loaded."""
        return self._serving.lag

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
        quarantine: bool = False,
    ) -> Receipt:
        """Hand in a run (queued for ingest) or a ready lesson (in the inbox at once).

        Durable when this returns; no model is called. The same run again is a `duplicate`, the same
        lesson from another question is `folded` into the first as evidence. Secrets in its texts are
        replaced before it is looked at any further; `redacted` of the receipt counts them.
        In `quarantine` it is seen by no question and no job until it is approved.

        Raises:
            RecordError: not a run or lesson, or the outcome of another run; names the field.
            AccessError: revoked text, or an oracle outcome in the evaluation phase.
        """
        record, secrets = scrubbed(read_contribution(item))
        found = {"redacted": secrets.total()}
        space = self._space(namespace)
        if quarantine:
            space = aside(space)
        if idempotency_key is not None:
            checked_id(idempotency_key, "idempotency_key")
        if isinstance(record, Run):
            if outcome is not None and outcome.run_id != record.run_id:
                raise RecordError("the outcome is of another run", field="outcome.run_id")
            queued = self.bank.add_run(
                record,
                outcome,
                caller=self.caller,
                namespace=space,
                idempotency_key=idempotency_key,
            )
            return _received(queued, found, quarantine=quarantine)
        if outcome is not None:
            raise RecordError("an outcome belongs to a run", field="outcome")

        def add() -> Receipt:
            return self.bank.add_lesson(
                record,
                self._serving.vectorize([record.index])[0],
                caller=self.caller,
                namespace=space,
                idempotency_key=idempotency_key,
            )

        return _received(self._serving.following(add), found, quarantine=quarantine)

    def quarantined(self, *, limit: int = 100) -> list[Waiting]:
        """Return what waits for review: lessons, then runs, oldest first; so many of either."""
        return self.bank.quarantined(limit=limit)

    def approve(self, item_id: str) -> Receipt:
        """Let a lesson or run out of quarantine into the namespace that it was meant for.

        Raises:
            NotFoundError: nothing of that id waits.
        """
        self._require_construction("approve")
        return self.bank.approve(checked_id(item_id, "approve"), caller=self.caller)

    def refuse(self, item_id: str) -> None:
        """Revoke what waits in quarantine: its text goes, and cannot be offered again.

        Raises:
            NotFoundError: nothing of that id waits.
        """
        self.revoke(self.bank.quarantined_kind(checked_id(item_id, "refuse")), item_id)

    def _space(self, namespace: str | None) -> str:
        """Return a namespace as its lessons carry it; the configured one for None only."""
        if namespace is None:
            return self.config.namespace
        name = checked_name(namespace, "namespace")
        if is_aside(name):
            raise RecordError("names that begin so are kept for quarantine", field="namespace")
        return name

    def ingest(self, *, limit: int | None = None, progress: Progress | None = None) -> IngestReport:
        """Derive lessons from queued runs that are due.

        Raises:
            AccessError: in the evaluation phase, where no verdict may reach a controller.
        """
        self._require_construction("ingest")
        return ingest(
            self.bank,
            self._roles.memory_controller(self.config),
            self._serving.vectorize_anew,
            deadline_s=self.config.memory_controller.deadline_s,
            limit=limit,
            progress=progress,
        )

    def maintain(
        self,
        *,
        max_steps: int | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> MaintainReport:
        """Organize the inbox into the tree.

        Args:
            max_steps: stop after so many steps; None: when the inbox is empty.
            dry_run: ask the organizer and check what it proposes, but write nothing: `planned` of the
                report says what would be done.
            progress: called with (phase, done, total).

        Raises:
            BankBusyError: another maintainer is at work.
        """

        def organize() -> MaintainReport:
            target = Rehearsal(self.bank, self._ids) if dry_run else self.bank
            report = maintain(
                target,
                self._roles.tree_organizer(self.config),
                self._serving.namer(),
                settings=self.config.tree,
                ids=self._ids,
                max_steps=max_steps,
                deadline_s=self.config.tree_organizer.deadline_s,
                progress=progress,
            )
            report.planned = target.planned if isinstance(target, Rehearsal) else []
            return report

        # The encoder is not changed while a maintainer is at work, only before it starts.
        report = self._serving.following(organize)
        if report.steps and not dry_run:
            self._serving.following(self._keep_index)
        return report

    def _keep_index(self) -> None:
        self.recall.refresh()
        self.recall.fold()
        self.recall.save()

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

    def retrieve(  # noqa: PLR0913 - all but the question are keywords
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
        exclude: Sequence[str] = (),
        gate: GateMode | None = None,
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
            exclude: ids of items that the caller has had for this question and wants something beside;
                what an excluded rule speaks for is left out too.
            gate: whether crops go along: "adaptive" (the controller decides; the seed's form),
                "always" or "off"; that of the settings by default. What a run was answered before
                (`run_id`) is answered again, whatever is asked for here.

        Raises:
            RecordError: the question is empty or holds refused characters.
        """
        asked = Question(
            text=question,
            namespace=self._space(namespace),
            image_ids=tuple(checked_id(image, "images") for image in images),
            family=checked_title(family, "family"),
            reader=checked_name(reader, "reader") if reader else "",
            run_id=checked_id(run_id, "run_id") if run_id is not None else None,
            minimum_authority=minimum_authority,
            exclude=tuple(checked_id(item, "exclude") for item in exclude),
        )
        controller, organizer = self.controllers
        return self._serving.following(
            lambda: retrieve(
                self.bank,
                self.recall,
                Roles(
                    controller,
                    organizer,
                    gate_deadline_s=self.config.memory_controller.deadline_s,
                    select_deadline_s=self.config.tree_organizer.deadline_s,
                    gate=checked_mode(gate or self.config.gate),
                ),
                asked,
                budget=budget or self.config.budget,
                candidates=k if k is not None else self.config.recall.candidates,
                mode=mode or self.config.recall.mode,
                strict_selection=self.config.strict_selection,
                ids=self._ids,
                now=self._clock(),
            )
        )

    def start_refine(
        self,
        question: str,
        *,
        images: Sequence[bytes] = (),
        max_attempts: int = MAX_ATTEMPTS,
        visual: VisualMode = "evolving",
        gate: GateMode | None = None,
        budget: Budget | None = None,
    ) -> Refinement:
        """Begin question-level memory for one question; the returned object goes step by step.

        Nothing of it enters the bank, which may be frozen.

        Args:
            question: as it is asked.
            images: files (PNG, JPEG, WebP) of the question's images, in page order.
            max_attempts: 1 to 5, the first attempt included.
            visual: "evolving" evidence (the seed's form), "frozen" after the first, or "none".
            gate: "adaptive" (the seed's form), "always" or "off"; that of the settings by default.
            budget: characters, images and pixels of one memory input.

        Raises:
            RecordError: the question is empty or holds refused characters, or an argument is out of
                range.
            ImageError: an image is refused.
        """
        mode = gate or self.config.gate
        check(question, pages=len(images), max_attempts=max_attempts, visual=visual, gate=mode)
        if self._decoder is None:
            self._decoder = Decoder()
        aside = QuestionImages(self._decoder)
        self._refinements.add(aside)
        return Refinement(
            bank=self.bank,
            controller=self._roles.memory_controller(self.config),
            images=aside,
            question=question,
            pages=tuple(aside.add(data) for data in images),
            ids=self._ids,
            budget=budget or self.config.budget,
            deadline_s=self.config.memory_controller.deadline_s,
            max_attempts=max_attempts,
            visual=visual,
            gate=mode,
        )

    def refine(
        self,
        question: str,
        host: Host,
        *,
        images: Sequence[bytes] = (),
        max_attempts: int = MAX_ATTEMPTS,
        visual: VisualMode = "evolving",
        gate: GateMode | None = None,
        budget: Budget | None = None,
    ) -> RefineResult:
        """Let a host attempt a question with memory that is revised between its attempts.

        Args:
            question: as it is asked.
            host: takes a memory input, returns an `Attempt` with its answer and trace.
            images: as for `start_refine`, like all that follow.
            max_attempts: see there.
            visual: see there.
            gate: see there.
            budget: see there.
        """
        session = self.start_refine(
            question,
            images=images,
            max_attempts=max_attempts,
            visual=visual,
            gate=gate,
            budget=budget,
        )
        return session.run(host)

    def crop_png(self, crop: Crop) -> bytes:
        """Return the PNG of a crop; cut again from the source where the cache was emptied."""
        path = self.crop_path(crop)
        return path.read_bytes()

    def crop_path(self, crop: Crop) -> Path:
        """Return the file of a crop, made anew where it is missing or damaged.

        Raises:
            NotFoundError: the source is gone or damaged.
        """
        aside = (images.crop_path(crop.blob) for images in self._refinements)
        own = next((found for found in aside if _holds(found, crop.blob)), None)
        if own is not None:
            return own
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

        A question counts once for a reader: of several answers to it (see `exclude` of `retrieve`), the
        first one that a verdict is given on. The receipts of the others say `duplicate`.

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
        return self.give_feedback(given)

    def give_feedback(self, given: Feedback) -> Receipt:
        """Take feedback as a record; see `feedback`."""
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

        def fold() -> versions.Frozen:
            recall = self.recall
            recall.refresh()
            recall.fold(at_any_cost=True)
            return self.bank.freeze(recall.save, caller=self.caller)

        frozen = self._serving.following(fold)
        self._serving.forget_recall()
        return frozen

    def revoke(self, target: revocation.Target, name: str) -> revocation.Scope:
        """Remove an item, a run or a contributor with everything derived from it, for good."""
        name = (checked_name if target == "contributor" else checked_id)(name, target)
        scope = self.bank.revoke(target, name, self.limits, caller=self.caller)
        self._serving.forget_recall()
        return scope

    def reembed(
        self,
        model: str | None = None,
        *,
        encoder: Encoder | None = None,
        progress: Progress | None = None,
    ) -> ReembedReport:
        """Change the encoder of the bank while the old one serves, or fill in missing vectors.

        Contributors and readers go on with the old encoder until one commit lets everybody use the
        new one; the settings file follows that commit. Interrupted, the same call goes on.

        Args:
            model: the new encoder as `encoder.model` names it, "none" for lexical recall only. None,
                or the encoder that the bank has: lessons without vectors get them.
            encoder: used instead of loading the model. Without `model`, other handles cannot load it
                by themselves and must be given it.
            progress: called with (phase, done, total).

        Raises:
            AccessError: in the evaluation phase.
            BankFrozenError: `bank_frozen`.
            BankBusyError: `bank_locked_elsewhere`, another process is changing the encoder.
            ConfigError: the model cannot be loaded; or there is no encoder to fill in with.
        """
        self._require_construction("reembed")
        report = reembed(self._serving, model, encoder, caller=self.caller, progress=progress)
        if model is not None:
            self._name_encoder(model)
        return report

    def check(self) -> list[Problem]:
        """Verify the whole bank; return the problems found."""
        return self.bank.check(self.limits)

    def _require_construction(self, verb: str) -> None:
        if self.caller.phase == "evaluation":
            raise AccessError(f"{verb} is refused in the evaluation phase")


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


def _received(receipt: Receipt, found: dict[str, int], *, quarantine: bool) -> Receipt:
    """Return a receipt with what else is to be said of the contribution."""
    aside = quarantine and receipt.status in {"stored", "folded", "queued"}
    return receipt.model_copy(update={**found, **({"status": "quarantined"} if aside else {})})


def _holds(path: Path, digest: str) -> bool:
    return path.is_file() and sha256(path.read_bytes()) == digest


def _point(point: int | str) -> int | str:
    return checked_id(point, "point") if isinstance(point, str) else point
