"""Lessons: guidance, when it applies, cautions, visual evidence and where all that came from."""

from __future__ import annotations

import json
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from epimem.schema.base import Record, StrictInt
from epimem.schema.ids import sha256
from epimem.schema.region import Region
from epimem.schema.text import (
    BodyText,
    GuidanceText,
    LessonText,
    NameText,
    TagText,
    TitleText,
    folded,
)

Form = Literal["guidance", "procedure", "skill", "policy", "structure", "profile", "note"]
Authority = Literal["none", "observed", "reviewed", "owner"]
AUTHORITIES: tuple[Authority, ...] = ("none", "observed", "reviewed", "owner")
VerdictSource = Literal["oracle", "verifier", "peer", "self", "none"]
Polarity = Literal["positive", "negative"]
MAX_EVIDENCE = 32


def lowest(authorities: list[Authority]) -> Authority:
    """Return the minimum of the inputs' authority: what a derived item may have at most."""
    return min(authorities, key=AUTHORITIES.index, default="none")


class IndexText(Record):
    """What recall searches: topic, scope, and the generalised question (question anchor)."""

    topic: TitleText = ""
    scope: TitleText = ""
    question_anchor: LessonText = ""

    @property
    def text(self) -> str:
        """The three fields joined for the encoder, empty ones left out."""
        return "\n".join(part for part in (self.topic, self.scope, self.question_anchor) if part)


class TurnRef(Record):
    """A turn of a run by its global `seq`."""

    run_id: str
    seq: StrictInt = Field(ge=0)


class Evidence(Record):
    """A region of a source image that supports the lesson; the crop is derived from it.

    `state` says whether the source can still be shown. The bank sets `contributor` and, for evidence
    that was folded in, the `question_key` it came with, so that it can be taken out again.
    """

    image_id: str
    region: Region
    note: LessonText = ""
    turn: TurnRef | None = None
    run_id: str | None = None
    contributor: str = ""
    question_key: str = ""
    state: Literal["present", "redacted", "missing"] = "present"


class Statement(Record):
    """One extracted sentence with its polarity and the turns it came from."""

    text: GuidanceText
    polarity: Polarity = "positive"
    turns: tuple[TurnRef, ...] = ()


class Pair(Record):
    """Who observed whom; for profiles and notes."""

    observer: NameText
    peer: NameText


class LessonDraft(Record):
    """A lesson as a controller or a client hands it in; the bank adds identity and provenance.

    `question_key` and `group_key` name the question the lesson came from; a draft derived from a run
    gets the run's. A negative lesson states what was judged wrong; it never supports a positive one.
    """

    form: Form = "guidance"
    polarity: Polarity = "positive"
    guidance: GuidanceText
    applies_when: LessonText = ""
    cautions: tuple[LessonText, ...] = ()
    body: BodyText = ""
    title: TitleText = ""
    index: IndexText = IndexText()
    evidence: tuple[Evidence, ...] = Field(default=(), max_length=MAX_EVIDENCE)
    statements: tuple[Statement, ...] = ()
    tags: tuple[TagText, ...] = Field(default=(), max_length=32)
    family: TitleText = ""
    question_key: str = ""
    group_key: str = ""
    verdict_source: VerdictSource = "none"
    audience: tuple[NameText, ...] = ()
    pair: Pair | None = None
    method: TagText = ""
    harness: TagText = ""
    backbone: TagText = ""
    agent: TagText = ""
    run_ids: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _pair_only_where_it_belongs(self) -> Self:
        if self.pair is not None and self.form not in {"profile", "note"}:
            raise ValueError("`pair` belongs to forms profile and note")
        return self


class Support(Record):
    """One question whose run yielded the guidance: what the strength of a rule is made of.

    `cautions` are those that a folded copy added to the lesson.
    """

    question_key: str
    verdict_source: VerdictSource = "none"
    organisation: str = ""
    contributor: str = ""
    run_id: str | None = None
    cautions: tuple[LessonText, ...] = ()


class Lesson(LessonDraft):
    """A stored lesson: a draft plus its supports, contributor, authority and folded copies."""

    contributor: NameText
    organisation: NameText
    authority: Authority = "observed"
    supports: tuple[Support, ...] = ()
    folded: StrictInt = 0


def fold_key(draft: LessonDraft, namespace: str) -> str:
    """Return the key under which two lessons are the same.

    The same are lessons of one namespace, form, polarity, family, pair, body and audience (folding
    never shows a lesson to a new reader) whose scope, conditions and guidance have one wording (see
    `folded`). A number, a sign or a negation makes another wording.
    """
    identity: list[Any] = [
        namespace,
        draft.form,
        draft.polarity,
        folded(draft.family),
        draft.body,
        sorted(draft.audience),
        [draft.pair.observer, draft.pair.peer] if draft.pair is not None else [],
        folded(draft.index.scope),
        folded(draft.applies_when),
        folded(draft.guidance),
    ]
    return sha256(json.dumps(identity).encode("ascii"))


def text_key(text: str) -> str:
    """Return the key under which revoked text is remembered: never the text itself."""
    return sha256(" ".join(text.casefold().split()).encode("utf-8"))
