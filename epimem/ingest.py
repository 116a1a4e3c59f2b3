"""Ingest (journey A, second half): queued runs become lessons in the inbox.

Idempotent: a run is ended in the commit that stores its lessons. A failed derive leaves the run
queued, with the reason and a time for the next try; the other runs of the batch go on one by one.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from epimem import calls, pictures
from epimem.bank.bank import Bank
from epimem.bank.costs import Costs
from epimem.bank.encoder import NodeVectors
from epimem.bank.run_queue import BATCH, QueuedRun
from epimem.errors import BankConflictError, ControllerError, EpimemError, RecordError
from epimem.protocols import Derived, DeriveRequest, MemoryController, Reply
from epimem.schema.contribution import read_lesson
from epimem.schema.lesson import IndexText, LessonDraft
from epimem.schema.receipt import Receipt, Usage
from epimem.schema.secrets import redacted, scrubbed
from epimem.schema.text import TAG_BYTES, TITLE_BYTES, clean_text

Vectorize = Callable[[Sequence[IndexText]], Sequence[NodeVectors | None]]
Derive = Callable[[Sequence[QueuedRun]], list["Reply[Derived] | ControllerError"]]
Progress = Callable[[str, int, int], None]


@dataclass
class IngestReport:
    """What became of the runs: states, lessons stored and folded, failures by reason."""

    states: Counter[str] = field(default_factory=Counter)
    lessons: int = 0
    folded: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    usage: Usage = field(default_factory=Usage)


def ingest(
    bank: Bank,
    controller: MemoryController,
    vectorize: Vectorize,
    *,
    deadline_s: float,
    limit: int | None = None,
    progress: Progress | None = None,
) -> IngestReport:
    """Derive lessons from queued runs until none is due or `limit` runs were tried.

    Args:
        bank: opened for writing.
        controller: derives.
        vectorize: vectors of index texts by the encoder that the bank has when it is called, None
            where it has none.
        deadline_s: seconds one derive call may take.
        limit: at most so many runs; None: all that are due.
        progress: called with (phase, done, total).
    """
    report = IngestReport()
    abandoned = threading.Event()
    ahead = _Ahead(bank, controller, deadline_s, limit, abandoned)
    try:
        _ingest(bank, controller, vectorize, ahead, report, progress)
    finally:
        abandoned.set()
    return report


def _ingest(
    bank: Bank,
    controller: MemoryController,
    vectorize: Vectorize,
    ahead: _Ahead,
    report: IngestReport,
    progress: Progress | None,
) -> None:
    done = 0
    current = ahead.start()
    while current is not None:
        replies = current.result()
        # The next batch is on its way while this one is encoded and committed; a fault in getting it
        # may not cost what was derived.
        following, fault = None, None
        try:
            following = ahead.start()
        except EpimemError as error:
            fault = error
        for queued, reply in zip(current.batch, replies, strict=True):
            _finish(bank, controller, vectorize, queued, reply, report)
            done += 1
        if progress is not None:
            progress("ingest", done, done + bank.counts()["runs"].get("queued", 0))
        if fault is not None:
            raise fault
        current = following


class _Ahead:
    """Starts batches one after the other, each run once."""

    def __init__(
        self,
        bank: Bank,
        controller: MemoryController,
        deadline_s: float,
        limit: int | None,
        abandoned: threading.Event,
    ) -> None:
        self._bank = bank
        self._derive = partial(_derive, bank, controller, deadline_s, abandoned)
        self._limit = limit
        self._tried: set[str] = set()

    def start(self) -> _InFlight | None:
        """Return the next batch under way, None where no run is due or the limit is reached."""
        room = BATCH if self._limit is None else min(BATCH, self._limit - len(self._tried))
        batch = self._bank.queued_runs(limit=room, skip=self._tried) if room else ()
        self._tried.update(queued.run_id for queued in batch)
        return _InFlight(self._derive, batch) if batch else None


class _InFlight:
    """A batch that is being derived by a thread of its own, which an interrupt leaves behind."""

    def __init__(self, derive: Derive, batch: Sequence[QueuedRun]) -> None:
        self.batch = batch
        self._replies: list[Reply[Derived] | ControllerError] = []
        self._fault: BaseException | None = None

        def run() -> None:
            try:
                self._replies = derive(batch)
            except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
                self._fault = error

        self._thread = threading.Thread(target=run, name="derive", daemon=True)
        self._thread.start()

    def result(self) -> list[Reply[Derived] | ControllerError]:
        """Wait for the replies, one per run."""
        self._thread.join()
        if self._fault is not None:
            raise self._fault
        return self._replies


def _derive(
    bank: Bank,
    controller: MemoryController,
    deadline_s: float,
    abandoned: threading.Event,
    batch: Sequence[QueuedRun],
) -> list[Reply[Derived] | ControllerError]:
    """Derive a batch in one call; when that fails, each run by itself: one must not hold up all."""
    costs = Costs(bank, abandoned=abandoned)
    try:
        return [*_call(bank, costs, controller, batch, deadline_s)]
    except ControllerError as error:
        if len(batch) == 1:
            return [error]
    replies: list[Reply[Derived] | ControllerError] = []
    for queued in batch:
        if abandoned.is_set():
            break
        try:
            replies.extend(_call(bank, costs, controller, [queued], deadline_s))
        except ControllerError as error:
            replies.append(error)
    return replies


def _call(
    bank: Bank,
    costs: Costs,
    controller: MemoryController,
    batch: Sequence[QueuedRun],
    deadline_s: float,
) -> Sequence[Reply[Derived]]:
    requests = [
        DeriveRequest(
            queued.run,
            queued.verdict,
            queued.verdict_source,
            queued.batch,
            pages=pictures.pages(bank, queued.run.task.pages),
        )
        for queued in batch
    ]
    return calls.ask(
        costs,
        "memory controller",
        controller,
        "derive",
        requests,
        kind=Derived,
        deadline_s=deadline_s,
    )


def _finish(
    bank: Bank,
    controller: MemoryController,
    vectorize: Vectorize,
    queued: QueuedRun,
    reply: Reply[Derived] | ControllerError,
    report: IngestReport,
) -> None:
    if isinstance(reply, ControllerError):
        _fail(bank, queued, f"{reply.code}: {reply.message}", report)
        return
    report.usage += reply.usage
    reason = _fault(reply)
    if reason or reply.value is None:
        _fail(bank, queued, reason, report)
        return
    drafts, faults = _sound(reply.value.drafts, queued)
    if faults and not drafts:
        _fail(bank, queued, faults[0], report)
        return
    report.refused.update(faults)

    def commit() -> tuple[Receipt, ...]:
        return bank.commit_derivation(
            queued,
            drafts,
            vectorize([draft.index for draft in drafts]),
            controller=controller.name,
            prompt_version=controller.prompt_version,
            nothing=nothing,
        )

    nothing = redacted(reply.value.nothing)[0] if not drafts else ""
    try:
        try:
            receipts = commit()
        except BankConflictError as error:
            if error.code != "embedding_mismatch":
                raise
            # The bank's encoder was changed between the two: `vectorize` knows the new one.
            receipts = commit()
    except BankConflictError as error:
        if error.code == "conflict":
            # Another ingest was faster; its lessons stand.
            report.states["ended_elsewhere"] += 1
        else:
            _fail(bank, queued, f"{error.code}: {error.message}", report)
        return
    statuses = Counter(receipt.status for receipt in receipts)
    stored = statuses["stored"] + statuses["folded"] + statuses["duplicate"]
    report.states["derived" if stored else "nothing"] += 1
    report.lessons += statuses["stored"]
    report.folded += statuses["folded"]
    report.refused.update(r.reason for r in receipts if r.status == "rejected")


def _fail(bank: Bank, queued: QueuedRun, reason: str, report: IngestReport) -> None:
    # A back end may echo its key in the fault that it reports.
    reason, _ = redacted(reason)
    bank.fail_derivation(queued, reason=reason)
    report.states["queued"] += 1
    report.failures[reason] += 1


def _fault(reply: Reply[Derived]) -> str:
    """Return why a reply cannot be used at all, empty where it can."""
    if reply.value is None:
        return f"{reply.reason or 'schema'}: {reply.detail}"
    if not isinstance(reply.value.drafts, tuple | list):
        return "schema: no drafts"
    return ""


def _sound(drafts: Sequence[LessonDraft], queued: QueuedRun) -> tuple[list[LessonDraft], list[str]]:
    """Return the drafts that can be stored, and why the others cannot: an odd one goes alone.

    A run judged wrong never yields positive guidance, whatever the controller says.
    """
    sound: list[LessonDraft] = []
    faults: list[str] = []
    for draft in drafts:
        if not isinstance(draft, LessonDraft):
            faults.append("schema: not a lesson")
        elif queued.verdict == "wrong" and draft.polarity == "positive":
            faults.append("contradiction: positive guidance from a run judged wrong")
        else:
            try:
                # Read again: what was built with `model_copy` was never checked. The run is without
                # secrets, but what a controller wrote may put one together, or come from elsewhere.
                sound.append(scrubbed(read_lesson(_of_run(draft, queued)))[0])
            except RecordError as error:
                faults.append(f"{error.code}: {error.field}: {error.message}")
    return sound, faults


def _of_run(draft: LessonDraft, queued: QueuedRun) -> LessonDraft:
    """Return a draft with what only the run can say: question, group, family, verdict source.

    Family and harness are run text, and are made fit for a lesson.
    """
    task, system = queued.run.task, queued.run.system
    source = queued.verdict_source if queued.verdict != "unknown" else "none"
    return draft.model_copy(
        update={
            "question_key": task.question_key,
            "group_key": task.group_key,
            "family": draft.family or _shortened(task.family, TITLE_BYTES),
            "verdict_source": source,
            "harness": _shortened(system.harness, TAG_BYTES),
        }
    )


def _shortened(text: str, limit: int) -> str:
    """Return a name of the run as ours: cleaned, and cut to so many bytes."""
    return clean_text(clean_text(text).encode("utf-8")[:limit].decode("utf-8", "ignore")).strip()
