"""Question-level memory W = (text, visual): what one question taught while it was being solved.

It starts empty, is revised after each attempt by an `Update` that code has checked, and never enters the
bank by itself.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from epimem.schema.base import Bit, Record, StrictBool
from epimem.schema.lesson import MAX_EVIDENCE
from epimem.schema.region import Region
from epimem.schema.text import LessonText


class VisualEvidence(Record):
    """A region of a source image that the memory points to; the crop is cut from it by code."""

    image_id: str
    region: Region
    note: LessonText = ""


class WorkingMemory(Record):
    """The memory of one question: text, at most one region (ours), and what the last update decided.

    `gate` 1: the crop goes into the next input; 0: it stays stored and stays out. `stop`: the answer
    was judged ready to return.
    """

    guidance: LessonText = ""
    applies_when: LessonText = ""
    cautions: tuple[LessonText, ...] = Field(default=(), max_length=MAX_EVIDENCE)
    evidence: VisualEvidence | None = None
    gate: Bit = 0
    stop: StrictBool = False


class Update(Record):
    """A proposed revision: text, source image, region, gate and stop jointly.

    `visual` says what becomes of the evidence: "retain" keeps what is there, "replace" points to
    `evidence`, "remove" drops it. The text replaces the old one as a whole.
    """

    guidance: LessonText = ""
    applies_when: LessonText = ""
    cautions: tuple[LessonText, ...] = Field(default=(), max_length=MAX_EVIDENCE)
    visual: Literal["retain", "replace", "remove"] = "retain"
    evidence: VisualEvidence | None = None
    gate: Bit = 0
    stop: StrictBool = False
