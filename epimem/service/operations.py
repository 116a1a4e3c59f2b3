"""What each request of `epimem/1` does to an opened bank; the same for every transport.

`perform` takes the name of an operation and the JSON of its request, and returns the canonical JSON of
its answer, so that all transports give the same bytes. What may not be seen is answered as what is not
there: the same error, with the same text.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from epimem.errors import AccessError, BankBusyError, NotFoundError, RecordError
from epimem.feedback import Feedback
from epimem.retrieve import namespace_of, shown
from epimem.schema import strict_json
from epimem.schema.base import Record
from epimem.schema.memory_input import MemoryInput
from epimem.schema.names import checked_name
from epimem.schema.outcome import SealedOutcome
from epimem.schema.proposal import Rejection
from epimem.schema.receipt import Receipt
from epimem.service import health
from epimem.service.access import Principal, Right
from epimem.service.messages import (
    ContributeRequest,
    HealthAnswer,
    HealthRequest,
    ImageReceipt,
    IngestAnswer,
    IngestRequest,
    MaintainAnswer,
    MaintainRequest,
    RetrieveRequest,
    ReviewAnswer,
    ReviewRequest,
    ReviseAnswer,
    ReviseRequest,
    RevokeAnswer,
    RevokeRequest,
    SnapshotReceipt,
    SnapshotRequest,
)
from epimem.service.quotas import Quotas

if TYPE_CHECKING:
    from epimem.memory import ExperienceMemory
    from epimem.service.uploads import Uploads

WAIT_S = 2.0
"""How long an answer waits for a write that it has to know of."""
TRUSTED_AFTER = 20
"""Lessons of a contributor of another organisation that have to stand before others come in unseen."""
_POLL_S = 0.02
_READ = frozenset({"namespace", "family", "reader", "run_id", "k", "mode", "budget", "gate"})
_READ |= {"minimum_authority", "exclude", "images"}


Room = Literal["answers", "works", "revises"]
ROOMS: tuple[Room, ...] = get_args(Room)


@dataclass(frozen=True)
class Opened:
    """An opened bank, where documents wait that were uploaded for it, and what was written lately."""

    memory: ExperienceMemory
    uploads: Uploads
    quotas: Quotas = field(default_factory=Quotas)


@dataclass(frozen=True)
class Operation:
    """One operation: what it takes and gives, the right it needs, and in which room it is done.

    Short ones in `answers`; `works` has what may take minutes, `revises` what asks a model for a caller
    who waits: neither may hold up an answer, nor the second be held up by the first.
    """

    name: str
    request: type[Record]
    answer: type[Record]
    right: Right
    work: Callable[[Opened, Principal, Any], Record]
    summary: str
    room: Room = "answers"

    def read(self, body: bytes) -> Record:
        """Return the request in a body.

        Raises:
            RecordError: it is none; names the field.
        """
        # A run nests deeper than a request may, and its text is never refused for lone surrogates.
        holds_run = self.request is ContributeRequest
        depth = strict_json.RUN_DEPTH if holds_run else strict_json.MAX_DEPTH
        value = strict_json.loads(body, max_depth=depth, keep_surrogates=holds_run)
        if not isinstance(value, dict):
            raise RecordError("a request is an object", got=type(value).__name__)
        return self.request.read(value)


def perform(opened: Opened, principal: Principal, name: str, body: bytes) -> bytes:
    """Do one operation and return its answer as canonical JSON.

    Args:
        opened: the bank.
        principal: on whose behalf.
        name: a key of `OPERATIONS`.
        body: the JSON of the request.

    Raises:
        EpimemError: refused or failed; the code says why.
    """
    operation = OPERATIONS[name]
    principal.require(operation.right)
    request = operation.read(body)
    if operation.right == "contribute":
        _spend(opened, principal)
    with opened.memory.acting_as(principal.caller):
        return operation.work(opened, principal, request).canonical()


def crop(opened: Opened, principal: Principal, blob: str) -> bytes:
    """Return the PNG of a crop that was shown in a namespace that the principal sees.

    Raises:
        NotFoundError: there is none, or none to be seen.
    """
    principal.require("read")
    for space, found in shown(opened.memory.bank, blob):
        if principal.sees(space):
            return opened.memory.crop_png(found)
    raise NotFoundError("no such blob")


def item(opened: Opened, principal: Principal, node_id: str) -> bytes:
    """Return a live node as canonical JSON.

    Raises:
        NotFoundError: there is none, or none to be seen.
    """
    principal.require("read")
    found = opened.memory.bank.nodes([node_id]).get(node_id)
    if found is None or not principal.sees(found.namespace):
        raise NotFoundError("no such item")
    return found.canonical()


def put_image(
    opened: Opened, principal: Principal, data: bytes, declared: str | None
) -> ImageReceipt:
    """Store an image.

    Raises:
        ImageError: refused by format, size or content.
    """
    principal.require("contribute")
    _spend(opened, principal)
    with opened.memory.acting_as(principal.caller):
        image = opened.memory.add_image(data, declared=declared)
    return ImageReceipt(image_id=image.image_id, width=image.width, height=image.height)


def _spend(opened: Opened, principal: Principal) -> None:
    """Count one write of a principal.

    Raises:
        AccessError: `quota_exceeded`.
    """
    if principal.quota is not None:
        name = principal.caller.contributor
        opened.quotas.spend(
            name, principal.quota, lambda: opened.memory.bank.standing_lessons(name)
        )


def wait_for(opened: Opened, seq: int) -> None:
    """Return when the bank has come to a sequence number.

    Raises:
        BankBusyError: `not_ready`, it has not within `WAIT_S` seconds.
    """
    until = time.monotonic() + WAIT_S
    while (head := opened.memory.bank.head_seq) < seq:
        if time.monotonic() > until:
            raise BankBusyError(
                "the bank has not come to that write", code="not_ready", got=head, field="at_least"
            )
        time.sleep(_POLL_S)


def _retrieve(opened: Opened, principal: Principal, request: RetrieveRequest) -> MemoryInput:
    if request.at_least is not None:
        wait_for(opened, request.at_least)
    given = {name: getattr(request, name) for name in _READ}
    given["namespace"] = _space(opened, principal, request.namespace)
    return opened.memory.retrieve(request.question, **given)


def _contribute(opened: Opened, principal: Principal, request: ContributeRequest) -> Receipt:
    if (request.item is None) == (request.blob is None):
        raise RecordError("give either item or blob", field="item, blob")
    outcome = SealedOutcome.read(request.outcome) if request.outcome is not None else None
    space = _space(opened, principal, request.namespace)
    given = request.item
    return opened.memory.contribute(
        opened.uploads.get(principal.name, request.blob or "") if given is None else given,
        outcome=outcome,
        namespace=space,
        idempotency_key=request.idempotency_key,
        quarantine=_is_strange(opened, principal),
    )


def _is_strange(opened: Opened, principal: Principal) -> bool:
    """Say whether a contributor is of another organisation, and too few of his lessons were let in."""
    if principal.caller.organisation == opened.memory.config.caller.organisation:
        return False
    return opened.memory.bank.known_lessons(principal.caller.contributor) < TRUSTED_AFTER


def _feedback(opened: Opened, principal: Principal, request: Feedback) -> Receipt:
    space = namespace_of(opened.memory.bank, request.retrieval_id)
    if space is None or not principal.sees(space):
        raise NotFoundError("no such retrieval in the log", field="retrieval_id")
    return opened.memory.give_feedback(request)


def _snapshot(opened: Opened, _: Principal, request: SnapshotRequest) -> SnapshotReceipt:
    name = checked_name(request.name, "name")
    return SnapshotReceipt(name=name, seq=opened.memory.snapshot(name))


def _ingest(opened: Opened, _: Principal, request: IngestRequest) -> IngestAnswer:
    report = opened.memory.ingest(limit=request.limit)
    return IngestAnswer(
        states=dict(report.states),
        lessons=report.lessons,
        folded=report.folded,
        refused=dict(report.refused),
        failures=dict(report.failures),
        usage=report.usage,
    )


def _maintain(opened: Opened, _: Principal, request: MaintainRequest) -> MaintainAnswer:
    report = opened.memory.maintain(max_steps=request.max_steps)
    return MaintainAnswer(
        steps=report.steps,
        placed=report.placed,
        waiting=report.waiting,
        operations=dict(report.operations),
        rejections=dict(report.rejections),
        usage=report.usage,
    )


def _revoke(opened: Opened, _: Principal, request: RevokeRequest) -> RevokeAnswer:
    scope = opened.memory.revoke(request.target, request.name)
    return RevokeAnswer(items=len(scope.node_ids), runs=len(scope.run_ids), folds=len(scope.folds))


def _review(opened: Opened, _: Principal, request: ReviewRequest) -> ReviewAnswer:
    receipts = tuple(opened.memory.approve(item_id) for item_id in request.approve)
    for item_id in request.refuse:
        opened.memory.refuse(item_id)
    lessons, runs = opened.memory.bank.quarantine_counts()
    return ReviewAnswer(
        approved=receipts,
        refused=request.refuse,
        waiting=tuple(opened.memory.quarantined(limit=request.limit)),
        lessons=lessons,
        runs=runs,
    )


def _revise(opened: Opened, _: Principal, request: ReviseRequest) -> ReviseAnswer:
    session = opened.memory.start_refine(
        request.question,
        images=[_from_base64(image, at) for at, image in enumerate(request.images)],
        max_attempts=request.max_attempts,
        visual=request.visual,
        gate=request.gate,
        budget=request.budget,
    )
    try:
        session.resume(request.memory, made=request.attempt - 1)
        found = session.propose_update(request.answer, request.trace)
        given = session.memory_input()
        return ReviseAnswer(
            memory=session.memory,
            input=given,
            crops=tuple(
                base64.b64encode(opened.memory.crop_png(crop)).decode("ascii")
                for crop in given.crops
            ),
            may_attempt=session.may_attempt,
            refused=found.reason if isinstance(found, Rejection) else "",
        )
    finally:
        session.finish()


def _from_base64(text: str, at: int) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise RecordError("not base64", field=f"images.{at}") from None


def _health(opened: Opened, principal: Principal, _: HealthRequest) -> HealthAnswer:
    if principal.namespaces is not None:
        raise AccessError("counts of the whole bank need a token for all of it", field="namespaces")
    return health.answer(opened.memory)


def _space(opened: Opened, principal: Principal, wanted: str | None) -> str:
    """Return the namespace of a request, held to those of the principal.

    Raises:
        NotFoundError: it is not one of them; whether the bank has it is not said.
    """
    own = opened.memory.config.namespace
    if wanted is None:
        if principal.namespaces is None or own in principal.namespaces:
            return own
        if len(principal.namespaces) == 1:
            return next(iter(principal.namespaces))
        raise RecordError("name one of the namespaces of the token", field="namespace")
    space = checked_name(wanted, "namespace")
    if not principal.sees(space):
        raise NotFoundError("no such namespace", field="namespace")
    return space


OPERATIONS: dict[str, Operation] = {
    each.name: each
    for each in (
        Operation(
            "retrieve",
            RetrieveRequest,
            MemoryInput,
            "read",
            _retrieve,
            "What the bank knows for a question: rules, one lesson, or nothing.",
        ),
        Operation(
            "contribute",
            ContributeRequest,
            Receipt,
            "contribute",
            _contribute,
            "Hand in a run or a ready lesson; durable when acknowledged.",
        ),
        Operation(
            "feedback",
            Feedback,
            Receipt,
            "contribute",
            _feedback,
            "Say what became of a question that memory was retrieved for.",
        ),
        Operation(
            "revise",
            ReviseRequest,
            ReviseAnswer,
            "read",
            _revise,
            "Revise the memory of one question after an attempt; the bank keeps nothing of it.",
            room="revises",
        ),
        Operation(
            "snapshot",
            SnapshotRequest,
            SnapshotReceipt,
            "maintain",
            _snapshot,
            "Name the present state of the bank.",
        ),
        Operation(
            "ingest",
            IngestRequest,
            IngestAnswer,
            "maintain",
            _ingest,
            "Derive lessons from queued runs.",
            room="works",
        ),
        Operation(
            "maintain",
            MaintainRequest,
            MaintainAnswer,
            "maintain",
            _maintain,
            "Organize the inbox into the tree.",
            room="works",
        ),
        Operation(
            "revoke",
            RevokeRequest,
            RevokeAnswer,
            "admin",
            _revoke,
            "Remove an item, a run or a contributor with everything derived from it.",
            room="works",
        ),
        Operation(
            "review",
            ReviewRequest,
            ReviewAnswer,
            "admin",
            _review,
            "Approve or refuse what other organisations handed in, and list what waits.",
            room="works",
        ),
        Operation(
            "health",
            HealthRequest,
            HealthAnswer,
            "read",
            _health,
            "Whether the bank can be read and written, and what waits in it.",
        ),
    )
}
