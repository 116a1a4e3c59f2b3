"""From candidates to what the harness receives: Candidate, Selection, MemoryInput."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from epimem.schema.base import Bit, Record, StrictFloat, StrictInt
from epimem.schema.lesson import Authority, Form, Polarity
from epimem.schema.receipt import Usage
from epimem.schema.region import Region
from epimem.schema.tree import Kind


class Budget(Record):
    """Bounds of one memory input; `pixels` bounds each crop. Defaults are ours."""

    chars: StrictInt = Field(default=6000, ge=200, le=64_000)
    images: StrictInt = Field(default=4, ge=0, le=16)
    pixels: StrictInt = Field(default=1_048_576, ge=1024)
    max_rules: StrictInt = Field(default=3, ge=0, le=50)
    max_lessons: StrictInt = Field(default=1, ge=0, le=1)


class Candidate(Record):
    """A node that recall found. Scores: higher is better, None where that signal did not run.

    `dense` is the cosine in [-1, 1]; `lexical` is BM25 over the query's own maximum, in [0, 1];
    `passes` says whether one of the signals reached its floor.
    """

    node_id: str
    kind: Kind
    dense: StrictFloat | None = None
    lexical: StrictFloat | None = None
    rank_score: StrictFloat = 0.0
    passes: bool = False


class Verdict(Record):
    """What selection said of one candidate."""

    node_id: str
    chosen: bool
    reason: str


class Selection(Record):
    """Rules and at most one lesson, or nothing; with a verdict on every candidate."""

    rule_ids: tuple[str, ...] = ()
    lesson_id: str | None = None
    verdicts: tuple[Verdict, ...] = ()

    @property
    def item_ids(self) -> tuple[str, ...]:
        """Rules in order, then the lesson."""
        return (*self.rule_ids, *((self.lesson_id,) if self.lesson_id else ()))


class Crop(Record):
    """A crop that goes along: its own PNG by blob hash, and the source region it was cut from."""

    node_id: str
    image_id: str
    region: Region
    note: str = ""
    blob: str
    width: StrictInt
    height: StrictInt


class Item(Record):
    """One selected item as the harness sees it; text is data, never an instruction.

    `agents` are those that the lessons behind it came from, as their harness named them.
    """

    node_id: str
    kind: Kind
    form: Form | None = None
    polarity: Polarity = "positive"
    title: str = ""
    guidance: str
    applies_when: str = ""
    cautions: tuple[str, ...] = ()
    authority: Authority = "none"
    contributors: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    source_runs: tuple[str, ...] = ()
    support: StrictInt = 0
    conflicted: bool = False
    shortened: bool = False


class MemoryInput(Record):
    """The answer to `retrieve`: selected items, rendered text, crops, and what it cost.

    Empty `items` is a normal answer. `gate` is 0 when crops stay out; nothing stored is deleted.
    `bank_seq` is the sequence number of the bank that was read. `truncated_tokens` counts the tokens of
    the question that its vector does not contain: those of the middle that was left out where
    `question_shortened`, else 0.
    """

    retrieval_id: str
    bank_seq: StrictInt
    searchable: Literal["dense+lexical", "dense", "lexical"] = "lexical"
    items: tuple[Item, ...] = ()
    gate: Bit = 0
    text: str = ""
    crops: tuple[Crop, ...] = ()
    question_shortened: bool = False
    truncated_tokens: StrictInt = 0
    warning: str = ""
    usage: Usage = Usage()
