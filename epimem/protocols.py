"""The two roles a bank needs, as typed protocols, and what is said in each call.

Every method takes a batch and returns one reply per request, in order. A reply carries a value, or
the reason why there is none; it never carries both. A controller that fails as a whole raises
`ControllerError`; the journeys then leave everything as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from epimem.schema.lesson import LessonDraft, VerdictSource
from epimem.schema.memory_input import Candidate, Item, Selection
from epimem.schema.proposal import Consolidate, Merge, Place, Reason, SplitLift
from epimem.schema.receipt import Usage
from epimem.schema.run import Run
from epimem.schema.tree import Node
from epimem.schema.working_memory import Update, WorkingMemory

Vector = NDArray[np.float32]
T = TypeVar("T")


@dataclass(frozen=True)
class Reply(Generic[T]):
    """One controller reply: `value`, or None with a `reason`; `raw` is the text as it came."""

    value: T | None
    reason: Reason | None = None
    detail: str = ""
    raw: str = ""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True)
class Picture:
    """An image that a controller may look at: a page of a question, or a crop.

    Nothing is read before `png` is called. `page` is its number in the question, 0 for a crop; `width`
    and `height` are those of the upright image, in pixels.
    """

    image_id: str
    width: int
    height: int
    page: int = 0
    read: Callable[[int], bytes | None] = field(default=lambda _: None, compare=False, repr=False)

    def png(self, max_pixels: int) -> bytes | None:
        """Return the image as PNG, scaled down to at most so many pixels; None where it is gone."""
        return self.read(max_pixels)


@dataclass(frozen=True)
class DeriveRequest:
    """A run to derive from. The verdict is typed; the reference never comes along.

    `batch` holds the questions of the runs that were handed in around it, its own among them: what
    stands in one of them only is peculiar to that question. It depends on the order of contribution
    alone, so that an interrupted ingest goes on as if it had not been. `pages` are the pages of the
    question that the bank has, in order.
    """

    run: Run
    verdict: Literal["right", "wrong", "unknown"]
    verdict_source: VerdictSource
    batch: tuple[str, ...] = ()
    pages: tuple[Picture, ...] = ()


@dataclass(frozen=True)
class Derived:
    """Lessons of one run; with none, `nothing` says why there was nothing to learn."""

    drafts: tuple[LessonDraft, ...]
    nothing: str = ""


@dataclass(frozen=True)
class GateRequest:
    """Whether crops go along: decided on the question and the descriptions of what was selected.

    `crops` counts the available crops per item id; `question_images` counts the question's own, and
    `pages` are those of them that the bank has.
    """

    question: str
    question_images: int
    items: tuple[Item, ...]
    crops: Mapping[str, int]
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pages: tuple[Picture, ...] = ()


@dataclass(frozen=True)
class UpdateRequest:
    """One attempt at a question, and the question-level memory to revise after it.

    `crop` shows the evidence that the memory holds now, None where it holds none. `trace` is the run of
    the attempt, or its transcript as text. `attempt` counts from 1; `left` attempts may follow.
    `visual` says what may become of the evidence: in "none" there is none to write, in "frozen" it
    may be written once and is then retained.
    """

    question: str
    pages: tuple[Picture, ...]
    memory: WorkingMemory
    answer: str
    trace: Run | str
    attempt: int
    left: int
    crop: Picture | None = None
    visual: Literal["none", "frozen", "evolving"] = "evolving"


class MemoryController(Protocol):
    """Derives lessons from runs, decides whether crops go along, and revises question-level memory.

    A controller that has several calls in flight may say how many in an attribute `concurrency`; a batch
    then gets that much more time than a single call.
    """

    name: str
    prompt_version: str

    def derive(self, requests: Sequence[DeriveRequest]) -> Sequence[Reply[Derived]]:
        """Return 0..n lessons per run."""
        ...

    def gate(self, requests: Sequence[GateRequest]) -> Sequence[Reply[Literal[0, 1]]]:
        """Return 1 where crops go along."""
        ...

    def update(self, requests: Sequence[UpdateRequest]) -> Sequence[Reply[Update]]:
        """Return the revised memory per attempt: text, evidence, gate and stop together."""
        ...


@dataclass(frozen=True)
class CategoryView:
    """A category shown for Place: the node, its likeness to the lesson, and some of its lessons.

    `likeness` is the mean, `scope_likeness` the scope part of the per-field cosines of scope and
    question anchor, in [-1, 1].
    """

    node: Node
    likeness: float
    scope_likeness: float
    parent_id: str
    size: int
    examples: tuple[Node, ...] = ()


@dataclass(frozen=True)
class PlaceRequest:
    """A lesson and the categories nearest to it, best first; all as of the start of the step."""

    lesson: Node
    candidates: tuple[CategoryView, ...]


@dataclass(frozen=True)
class MergeRequest:
    """Two sibling categories and their likeness; `kept` is the larger one."""

    kept: Node
    absorbed: Node
    kept_lessons: tuple[Node, ...]
    absorbed_lessons: tuple[Node, ...]
    likeness: float


@dataclass(frozen=True)
class SplitRequest:
    """An over-full node, its children and their index vectors (unit length, keyed by id)."""

    node: Node
    children: tuple[Node, ...]
    vectors: Mapping[str, Vector]
    capacity: int
    min_group: int


@dataclass(frozen=True)
class ConsolidateRequest:
    """A category and its lessons, with the supports that count for each."""

    node: Node
    lessons: tuple[Node, ...]


@dataclass(frozen=True)
class SelectRequest:
    """A question and its candidates, best first. `strict` forbids rules and a lesson together.

    `families` names the task family of each candidate, empty where it has none; `crops` holds pictures
    of the evidence of each, best first, and `pages` those of the question.
    """

    question: str
    family: str
    candidates: tuple[Candidate, ...]
    nodes: Mapping[str, Node]
    max_rules: int
    max_lessons: int
    strict: bool = False
    families: Mapping[str, str] = field(default_factory=dict)
    crops: Mapping[str, tuple[Picture, ...]] = field(default_factory=dict)
    pages: tuple[Picture, ...] = ()


class TreeOrganizer(Protocol):
    """Proposes the four operations and selects among candidates."""

    name: str
    prompt_version: str

    def place(self, requests: Sequence[PlaceRequest]) -> Sequence[Reply[Place]]:
        """Return a category, or a new one, per lesson."""
        ...

    def merge(self, requests: Sequence[MergeRequest]) -> Sequence[Reply[Merge]]:
        """Return a Merge per pair, or no value and no reason to leave the two apart."""
        ...

    def split_lift(self, requests: Sequence[SplitRequest]) -> Sequence[Reply[SplitLift]]:
        """Return a partition per over-full node."""
        ...

    def consolidate(self, requests: Sequence[ConsolidateRequest]) -> Sequence[Reply[Consolidate]]:
        """Return the common guidance per category."""
        ...

    def select(self, requests: Sequence[SelectRequest]) -> Sequence[Reply[Selection]]:
        """Return what applies to each question."""
        ...


class Encoder(Protocol):
    """A frozen text encoder: unit-length float32 vectors."""

    name: str
    dimension: int
    fingerprint: str

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return an array of shape (len(texts), dimension), each row of unit length."""
        ...
