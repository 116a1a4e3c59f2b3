"""Derive: the lessons of one run, with the regions of its pages that support them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from controllers.embedded.anchors import anchor, shared_names
from controllers.embedded.derive import UNVERIFIED
from controllers.embedded.fitting import fitted
from controllers.embedded.scopes import public_scope
from controllers.prompts.conform import built, conform
from controllers.prompts.fence import cut
from controllers.prompts.material import BOX_RULE, DATA_RULE, Material, system
from controllers.prompts.message import Prompt, Refused
from controllers.prompts.schema import (
    BOX,
    STRING,
    Schema,
    closed,
    fields,
    listed,
    one_of,
    one_or_none,
)
from controllers.prompts.trace import Transcript, aliases_of, shown_pages, transcript
from epimem.protocols import Derived, DeriveRequest, Picture
from epimem.schema.lesson import Evidence, IndexText, LessonDraft, TurnRef
from epimem.schema.region import Region
from epimem.schema.run import interleave
from epimem.schema.text import TAG_BYTES, TITLE_BYTES, LessonText

MAX_LESSONS = 4
MAX_EVIDENCE = 4
MAX_CAUTIONS = 4
QUESTION_CHARS = 3000
ANSWER_CHARS = 2000
NAME_CHARS = 120
MAX_TOKENS = 1600

_LESSON = {
    "polarity": "<positive or negative>",
    "guidance": "<what to do next time>",
    "applies_when": "<when it holds>",
    "cautions": ["<what to watch out for>"],
    "title": "<short name>",
    "topic": "<what it is about>",
    "scope": "<where it holds>",
    "question_anchor": "<the question in general words>",
    "evidence": [
        {"image": "P0", "box": [0, 0, 0, 0], "note": "<what is seen there>", "turn": "T0"}
    ],
}
_REASON: TypeAdapter[str] = TypeAdapter(LessonText)
_FILLED = (
    "form",
    "body",
    "statements",
    "tags",
    "family",
    "question_key",
    "group_key",
    "verdict_source",
    "audience",
    "pair",
    "method",
    "harness",
    "backbone",
    "agent",
    "run_ids",
    "parents",
)

EXAMPLE = {"lessons": [_LESSON], "nothing": ""}
SYSTEM = f"""You turn one run of a team of agents into lessons for other questions of the same kind.
A lesson says what to do, when it applies and what to watch out for. Use only what the run and its \
pages show. Leave out the answer itself and whatever is true of this one question only.
Verdict right: polarity positive, say what led to the answer.
Verdict wrong: polarity negative, quote what was judged wrong and say what to check again; nothing from \
the run is advice.
Verdict unknown: nobody checked the answer; keep to what is seen on the pages.
topic, scope and question_anchor serve to find the lesson again: what it is about, where it holds, and \
the question without its numbers and names.
evidence: what on a page supports the lesson: image, box, what is seen there, and the turn that says so \
(or null). {BOX_RULE} Without a page: [].
One lesson is usual, {MAX_LESSONS} are the most. Nothing to learn: lessons [] and the reason in nothing.
{DATA_RULE}
Reply with one JSON object of this shape, nothing else:
{json.dumps(EXAMPLE)}"""


def render(request: DeriveRequest) -> Prompt:
    """Return the prompt for one run: question, pages, turns and views, answer and verdict."""
    run, task = request.run, request.run.task
    pages, trace = _shown(request)
    asked = {
        "question": cut(task.question, QUESTION_CHARS),
        "family": cut(task.family, NAME_CHARS),
        "scope": cut(public_scope(task), NAME_CHARS),
    }
    material = Material()
    material.fence("question", [asked])
    for name, picture in pages.items():
        material.picture(name, picture, f"page {picture.page or name[1:]} of the question")
    material.fence("run", trace.lines)
    material.fence("answer", [{"answer": cut(run.answer.text, ANSWER_CHARS)}])
    material.say(f"Verdict on the answer: {request.verdict}; source: {request.verdict_source}.")
    negative = ", every polarity negative" if request.verdict == "wrong" else ""
    material.say(f"Return only the JSON object with the lessons{negative}.")
    return Prompt("derive", (system(SYSTEM), material.message()), schema(request), MAX_TOKENS)


def schema(request: DeriveRequest) -> Schema:
    """Return the schema of a reply to this request."""
    pages, trace = _shown(request)
    evidence = fields(
        Evidence,
        filled=("run_id", "contributor", "question_key", "state"),
        changed={
            "image_id": {"image": one_of(tuple(pages))},
            "region": {"box": BOX},
            "turn": {"turn": one_or_none(tuple(trace.turns))},
        },
    )
    polarities = ("negative",) if request.verdict == "wrong" else ("positive", "negative")
    lesson = fields(
        LessonDraft,
        filled=_FILLED,
        changed={
            "polarity": {"polarity": one_of(polarities)},
            "cautions": {"cautions": listed(STRING, most=MAX_CAUTIONS)},
            "index": fields(IndexText),
            "evidence": {
                "evidence": listed(
                    closed(evidence) if pages else STRING,
                    most=MAX_EVIDENCE if pages else 0,
                )
            },
        },
    )
    return closed({"lessons": listed(closed(lesson), most=MAX_LESSONS), "nothing": STRING})


def parse(request: DeriveRequest, reply: Mapping[str, Any]) -> Derived:
    """Return the lessons, with what code fills in: question, family, verdict source, provenance.

    An empty scope or question anchor gets the task's public scope, or its blanked question: a lesson
    without them would not be found. A lesson of an unjudged run says so in its first caution.

    Raises:
        Refused: also `schema` unless there are either lessons or a reason for none; `contradiction` for
            positive guidance from a wrong run; `image` for a box that is no region.
    """
    pages, trace = _shown(request)
    needed = ("guidance", "image", "box")
    _check_polarity(request, reply)
    found = conform(reply, schema(request), example=EXAMPLE, needed=needed)
    nothing = built(lambda: _checked(found["nothing"]))
    if bool(found["lessons"]) == bool(nothing.strip()):
        raise Refused("schema", "give lessons, or none and the reason in nothing")
    common = _common(request)
    drafts = [_draft(request, lesson, pages, trace, common) for lesson in found["lessons"]]
    return Derived(tuple(drafts), nothing=nothing)


def target(request: DeriveRequest, value: Derived) -> dict[str, Any]:
    """Return the reply that says this; KeyError where evidence or turn is not shown."""
    pages, trace = _shown(request)
    return {
        "lessons": [_lesson_target(request, draft, pages, trace) for draft in value.drafts],
        "nothing": value.nothing,
    }


def _shown(request: DeriveRequest) -> tuple[dict[str, Picture], Transcript]:
    pages = shown_pages(request.pages, request.run)
    return pages, transcript(request.run, pages)


def _draft(
    request: DeriveRequest,
    lesson: Mapping[str, Any],
    pages: Mapping[str, Picture],
    trace: Transcript,
    common: Mapping[str, Any],
) -> LessonDraft:
    task = request.run.task
    scope = lesson["scope"] or public_scope(task)
    asked = lesson["question_anchor"] or anchor(task.question, scope, shared_names(request.batch))
    unverified = (UNVERIFIED,) if request.verdict == "unknown" else ()
    return built(
        lambda: LessonDraft(
            polarity=lesson["polarity"],
            guidance=lesson["guidance"],
            applies_when=lesson["applies_when"],
            cautions=(*unverified, *lesson["cautions"]),
            title=lesson["title"],
            index=IndexText(topic=lesson["topic"], scope=scope, question_anchor=asked),
            evidence=tuple(_evidence(request, item, pages, trace) for item in lesson["evidence"]),
            **common,
        )
    )


def _evidence(
    request: DeriveRequest,
    item: Mapping[str, Any],
    pages: Mapping[str, Picture],
    trace: Transcript,
) -> Evidence:
    picture, turn = pages[item["image"]], item["turn"]
    return Evidence(
        image_id=picture.image_id,
        region=Region.from_scaled(tuple(item["box"]), picture.width, picture.height),
        note=item["note"],
        turn=TurnRef(run_id=request.run.run_id, seq=trace.turns[turn].seq) if turn else None,
    )


def _common(request: DeriveRequest) -> dict[str, Any]:
    """Return what every lesson of a run gets from the run: run text, made fit for a lesson."""
    run = request.run
    speakers = {turn.actor for turn in interleave(run) if turn.step is not None}
    return {
        "family": fitted(run.task.family, TITLE_BYTES),
        "question_key": run.task.question_key,
        "group_key": run.task.group_key,
        "verdict_source": "none" if request.verdict == "unknown" else request.verdict_source,
        "harness": fitted(run.system.harness, TAG_BYTES),
        "backbone": fitted(run.system.backbones[0].id, TAG_BYTES) if run.system.backbones else "",
        "agent": fitted(speakers.pop(), TAG_BYTES) if len(speakers) == 1 else "",
        "run_ids": (run.run_id,),
    }


def _lesson_target(
    request: DeriveRequest, draft: LessonDraft, pages: Mapping[str, Picture], trace: Transcript
) -> dict[str, Any]:
    alias = aliases_of(pages)
    own = draft.cautions[1:] if request.verdict == "unknown" else draft.cautions
    return {
        "polarity": draft.polarity,
        "guidance": draft.guidance,
        "applies_when": draft.applies_when,
        "cautions": list(own),
        "title": draft.title,
        **draft.index.model_dump(),
        "evidence": [
            {
                "image": alias[item.image_id],
                "box": list(item.region.to_scaled()),
                "note": item.note,
                "turn": trace.alias(item.turn.seq) if item.turn is not None else None,
            }
            for item in draft.evidence
        ],
    }


def _check_polarity(request: DeriveRequest, reply: Any) -> None:
    """Refuse positive guidance from a wrong run under its own name, before the schema does."""
    lessons = reply.get("lessons") if isinstance(reply, dict) else None
    for lesson in lessons if isinstance(lessons, list) else ():
        positive = isinstance(lesson, dict) and lesson.get("polarity") == "positive"
        if request.verdict == "wrong" and positive:
            raise Refused("contradiction", "the run was judged wrong: polarity must be negative")


def _checked(text: str) -> str:
    return _REASON.validate_python(text)
