"""What is said in the protocol `epimem/1`: one request and one answer for each operation.

Each transport carries the canonical JSON of these records; which operation there is for which record
says `epimem.service.operations`. Requests never name who calls: that is the credential's to say.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from epimem.config import GateMode
from epimem.operations.update import VisualMode
from epimem.refine import MAX_ATTEMPTS
from epimem.schema.base import Record, StrictBool, StrictInt
from epimem.schema.lesson import Authority
from epimem.schema.memory_input import Budget, MemoryInput
from epimem.schema.receipt import Receipt, Usage
from epimem.schema.run import MAX_PAGES
from epimem.schema.text import RunText
from epimem.schema.waiting import Waiting
from epimem.schema.working_memory import WorkingMemory

PROTOCOL = "epimem/1"
MAX_EXCLUDED = 256
MAX_KEY = 256
MAX_CANDIDATES = 50
MAX_REVISE_IMAGES = 8
# For the description alone: the rules of texts, which no schema can say, refuse an empty one by name.
Filled = Annotated[str, Field(json_schema_extra={"minLength": 1})]


class RetrieveRequest(Record):
    """A question, by whom it will be read, and what may be answered.

    Fields are those of `ExperienceMemory.retrieve`. `at_least` is the sequence number of an
    acknowledged write that the answer has to know of.
    """

    question: Filled
    images: tuple[str, ...] = Field(default=(), max_length=MAX_PAGES)
    namespace: str | None = None
    family: str = ""
    reader: str = ""
    run_id: str | None = Field(default=None, max_length=MAX_KEY)
    k: StrictInt | None = Field(default=None, ge=1, le=MAX_CANDIDATES)
    mode: Literal["fused", "dense", "lexical"] | None = None
    budget: Budget | None = None
    minimum_authority: Authority = "none"
    exclude: tuple[str, ...] = Field(default=(), max_length=MAX_EXCLUDED)
    gate: GateMode | None = None
    at_least: StrictInt | None = Field(default=None, ge=0)


class ContributeRequest(Record):
    """A run or a ready lesson, in the request itself (`item`) or uploaded before (`blob`).

    `outcome` belongs to a run. The same `idempotency_key` gives the same receipt for seven days.
    """

    item: dict[str, Any] | None = None
    blob: str | None = None
    outcome: dict[str, Any] | None = None
    namespace: str | None = None
    idempotency_key: str | None = Field(default=None, max_length=MAX_KEY)


class ImageReceipt(Record):
    """An image that is stored: its id, and its size upright, in pixels."""

    image_id: str
    width: StrictInt
    height: StrictInt


class UploadReceipt(Record):
    """A document that waits to be contributed: the hash of its bytes, and how many they are."""

    blob: str
    bytes: StrictInt


class SnapshotRequest(Record):
    """The name for the present state."""

    name: Filled


class SnapshotReceipt(Record):
    """The name, and the sequence number that it stands for."""

    name: str
    seq: StrictInt


class IngestRequest(Record):
    """How many runs are tried at most; all that are due where `limit` is null."""

    limit: StrictInt | None = Field(default=None, ge=1)


class IngestAnswer(Record):
    """What became of the runs, by state; lessons stored and folded; refusals and failures by reason."""

    states: dict[str, StrictInt] = Field(default_factory=dict)
    lessons: StrictInt = 0
    folded: StrictInt = 0
    refused: dict[str, StrictInt] = Field(default_factory=dict)
    failures: dict[str, StrictInt] = Field(default_factory=dict)
    usage: Usage = Usage()


class MaintainRequest(Record):
    """How many steps are made at most; until the inbox is empty where `max_steps` is null."""

    max_steps: StrictInt | None = Field(default=None, ge=1)


class MaintainAnswer(Record):
    """What maintenance did: lessons placed and waiting, operations by kind, refusals by reason."""

    steps: StrictInt = 0
    placed: StrictInt = 0
    waiting: StrictInt = 0
    operations: dict[str, StrictInt] = Field(default_factory=dict)
    rejections: dict[str, StrictInt] = Field(default_factory=dict)
    usage: Usage = Usage()


class RevokeRequest(Record):
    """What is removed for good, with everything derived from it."""

    target: Literal["item", "run", "contributor"]
    name: str


class RevokeAnswer(Record):
    """How much went: items, runs, and folded copies."""

    items: StrictInt = 0
    runs: StrictInt = 0
    folds: StrictInt = 0


class ReviewRequest(Record):
    """What is let out of quarantine and what is refused, by id; the list that is left comes back."""

    approve: tuple[str, ...] = Field(default=(), max_length=MAX_EXCLUDED)
    refuse: tuple[str, ...] = Field(default=(), max_length=MAX_EXCLUDED)
    limit: StrictInt = Field(default=100, ge=0, le=1000)


class ReviewAnswer(Record):
    """Receipts of what was approved, what was refused, and what waits: a list, and all counts."""

    approved: tuple[Receipt, ...] = ()
    refused: tuple[str, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    lessons: StrictInt = 0
    runs: StrictInt = 0


class ReviseRequest(Record):
    """One attempt at a question, and the memory that it was made with; the caller keeps both.

    `images` are the question's files (PNG, JPEG, WebP) in base64, in page order. `attempt` counts the
    attempt that was just made, from 1. Nothing of it is kept, and nothing enters the bank.
    """

    question: Filled
    images: tuple[str, ...] = Field(default=(), max_length=MAX_REVISE_IMAGES)
    memory: WorkingMemory = WorkingMemory()
    answer: str | None = None
    trace: RunText = ""
    attempt: StrictInt = Field(default=1, ge=1, le=MAX_ATTEMPTS)
    max_attempts: StrictInt = Field(default=MAX_ATTEMPTS, ge=1, le=MAX_ATTEMPTS)
    visual: VisualMode = "evolving"
    gate: GateMode | None = None
    budget: Budget | None = None


class ReviseAnswer(Record):
    """The memory for the next attempt, the input that it makes, and that input's crops in base64.

    `refused` says why a proposal was not taken; the memory is then what it was. `may_attempt` is false
    where the answer was judged ready or no attempt is left.
    """

    memory: WorkingMemory
    input: MemoryInput
    crops: tuple[str, ...] = ()
    may_attempt: StrictBool = True
    refused: str = ""


class HealthRequest(Record):
    """Nothing is asked for in particular."""


class HealthAnswer(Record):
    """Whether the bank can be read and written, and what waits in it.

    `writable` is false where a probe could not be written; `frozen` banks are not probed. Ages are in
    seconds, 0 where nothing waits. `index_lag` counts the commits that the search index does not know
    yet; they are scanned one by one meanwhile.
    """

    protocol: str = PROTOCOL
    bank_id: str = ""
    bank_seq: StrictInt = 0
    frozen: StrictBool = False
    writable: StrictBool = True
    queued_runs: StrictInt = 0
    oldest_queued_run_s: StrictInt = 0
    unplaced_lessons: StrictInt = 0
    oldest_unplaced_lesson_s: StrictInt = 0
    index_lag: StrictInt = 0
    fault: str = ""
