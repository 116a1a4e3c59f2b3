"""Requests and lawful values of every operation, for properties."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from controllers.prompts import OPERATIONS, select
from controllers.prompts import consolidate as consolidate_
from controllers.prompts import derive as derive_
from controllers.prompts import merge as merge_
from controllers.prompts import place as place_
from controllers.prompts import split_lift as split_lift_
from controllers.prompts import update as update_
from epimem.protocols import Derived
from epimem.schema.lesson import Evidence, IndexText, LessonDraft, TurnRef
from epimem.schema.memory_input import Candidate
from epimem.schema.proposal import Consolidate, Merge, NewCategory, Part, Place, SplitLift
from epimem.schema.region import Region
from epimem.schema.run import interleave
from epimem.schema.text import clean_text
from epimem.schema.tree import Conflict, ConflictSide
from epimem.schema.working_memory import Update, VisualEvidence
from tests.controllers.prompts import samples

NASTY = (
    "{",
    "}",
    "{0}",
    "%s",
    "%",
    '"',
    "\\",
    "<|im_end|>",
    "<think>",
    "[INST]",
    "null",
    "L1",
    "é漢",
)
UNVERIFIED = "Not verified: nobody judged the answer of the run this comes from."

# A phrase of an example is no lawful text; Hypothesis draws texts from modules, so it would come up.
PHRASES = {
    phrase.strip("<>")
    for module in (consolidate_, derive_, place_, merge_, split_lift_, update_)
    for phrase in re.findall(r"<[a-z ]+>", json.dumps(module.EXAMPLE))
}

texts = (
    st.lists(st.one_of(st.sampled_from(NASTY), st.text(max_size=12)), max_size=4)
    .map(lambda parts: clean_text("".join(parts)))
    .filter(lambda text: text.strip().strip("<>").strip().casefold() not in PHRASES)
)
words = texts.map(lambda text: f"w {text}".rstrip())
regions = st.tuples(
    st.integers(0, 999), st.integers(0, 999), st.integers(1, 1000), st.integers(1, 1000)
).map(lambda e: (e[0], e[1], min(1000, e[0] + e[2]), min(1000, e[1] + e[3])))


@st.composite
def seen(draw: Any) -> tuple[str, Region]:
    page = draw(st.sampled_from(samples.PAGES))
    return page.image_id, Region.from_scaled(draw(regions), page.width, page.height)


@st.composite
def indexes(draw: Any) -> IndexText:
    return IndexText(topic=draw(texts), scope=draw(texts), question_anchor=draw(texts))


def some(items: Any, *, least: int = 0) -> Any:
    """Distinct members of a sequence, in any order."""
    return (
        st.lists(st.sampled_from(items), unique=True, min_size=least).map(tuple)
        if items
        else st.just(())
    )


@st.composite
def derive(draw: Any) -> tuple[Any, Any]:
    verdict = draw(st.sampled_from(["right", "wrong", "unknown"]))
    request = samples.derive(draw(texts), verdict, draw(st.integers(1, 4)))
    if draw(st.booleans()):
        return request, Derived((), nothing=draw(words))
    drafts = [draw(_draft(request)) for _ in range(draw(st.integers(1, 4)))]
    return request, Derived(tuple(drafts))


@st.composite
def _draft(draw: Any, request: Any) -> LessonDraft:
    run = request.run
    seqs = [turn.seq for turn in interleave(run)]
    evidence = []
    for _ in range(draw(st.integers(0, 2))):
        image_id, region = draw(seen())
        seq = draw(st.none() | st.sampled_from(seqs))
        turn = None if seq is None else TurnRef(run_id=run.run_id, seq=seq)
        evidence.append(Evidence(image_id=image_id, region=region, note=draw(texts), turn=turn))
    wrong, unknown = request.verdict == "wrong", request.verdict == "unknown"
    return LessonDraft(
        polarity="negative" if wrong else draw(st.sampled_from(["positive", "negative"])),
        guidance=draw(words),
        applies_when=draw(texts),
        cautions=(*((UNVERIFIED,) if unknown else ()), *draw(st.lists(texts, max_size=4))),
        title=draw(texts),
        index=IndexText(topic=draw(texts), scope=draw(words), question_anchor=draw(words)),
        evidence=tuple(evidence),
        **filled(request),
    )


def filled(request: Any) -> dict[str, Any]:
    """What code fills into a lesson of this run."""
    task = request.run.task
    (agent,) = {turn.actor for turn in interleave(request.run) if turn.step is not None}
    joined = {"family": task.family, "agent": agent}
    return {
        **{key: " ".join(clean_text(text).split()) for key, text in joined.items()},
        "question_key": task.question_key,
        "group_key": task.group_key,
        "verdict_source": "none" if request.verdict == "unknown" else "oracle",
        "harness": "test",
        "run_ids": (request.run.run_id,),
    }


@st.composite
def update(draw: Any) -> tuple[Any, Any]:
    visual = draw(st.sampled_from(["none", "frozen", "evolving"]))
    request = samples.update(draw(texts), visual, held=draw(st.booleans()))
    if draw(st.booleans()):
        request = replace(
            request, trace=draw(texts), pages=samples.PAGES[: draw(st.integers(0, 2))]
        )
    held = request.memory.evidence is not None
    lawful = ["retain"]
    if request.pages and (visual == "evolving" or (visual == "frozen" and not held)):
        lawful.append("replace")
    if visual == "evolving":
        lawful.append("remove")
    word = draw(st.sampled_from(lawful))
    evidence = None
    if word == "replace":
        page = draw(st.sampled_from(request.pages))
        region = Region.from_scaled(draw(regions), page.width, page.height)
        evidence = VisualEvidence(image_id=page.image_id, region=region, note=draw(texts))
    value = Update(
        guidance=draw(texts),
        applies_when=draw(texts),
        cautions=tuple(draw(st.lists(texts, max_size=4))),
        visual=word,
        evidence=evidence,
        gate=0 if visual == "none" else draw(st.sampled_from([0, 1])),
        stop=draw(st.booleans()),
    )
    return request, value


@st.composite
def gate(draw: Any) -> tuple[Any, Any]:
    return samples.gate(draw(texts)), draw(st.sampled_from([0, 1]))


@st.composite
def place(draw: Any) -> tuple[Any, Any]:
    request = samples.place(draw(texts), draw(st.integers(0, 10)))
    lesson_id = request.lesson.node_id
    shown = request.candidates[:8]
    if shown and draw(st.booleans()):
        view = draw(st.sampled_from(shown))
        return request, Place(lesson_id=lesson_id, category_id=view.node.node_id)
    new = NewCategory(title=draw(texts), index=draw(indexes()))
    parents = [view.parent_id for view in shown]
    parent = draw(st.none() | st.sampled_from(parents)) if parents else None
    return request, Place(lesson_id=lesson_id, new=new, parent_id=parent)


@st.composite
def merge(draw: Any) -> tuple[Any, Any]:
    request = samples.merge(draw(texts), draw(st.integers(1, 8)))
    merged = Merge(
        kept_id=request.kept.node_id, absorbed_id=request.absorbed.node_id, title=draw(texts)
    )
    return request, draw(st.sampled_from([merged, None]))


@st.composite
def split_lift(draw: Any) -> tuple[Any, Any]:
    request = samples.split_lift(draw(texts), draw(st.integers(8, 20)))
    children = draw(st.permutations([child.node_id for child in request.children]))
    count = draw(st.integers(2, len(children) // 4))
    parts = [children[at * 4 : at * 4 + 4] for at in range(count)]
    parts[-1] = children[(count - 1) * 4 :]
    return request, SplitLift(
        node_id=request.node.node_id,
        parts=tuple(
            Part(
                child_ids=tuple(part),
                title=draw(texts),
                index=draw(st.none() | indexes()),
            )
            for part in parts
        ),
    )


@st.composite
def consolidate(draw: Any) -> tuple[Any, Any]:
    request = samples.consolidate(draw(texts), draw(st.integers(2, 8)))
    keys = [node.node_id for node in request.lessons]
    supporters = draw(some(keys))
    conflicts = [
        Conflict(first=draw(_side(keys)), second=draw(_side(keys)))
        for _ in range(draw(st.integers(0, 2)))
    ]
    return request, Consolidate(
        node_id=request.node.node_id,
        guidance=draw(words) if supporters else "",
        applies_when=draw(texts),
        cautions=tuple(draw(st.lists(texts, max_size=6))),
        supported_by=supporters,
        conflicts=tuple(conflicts),
        title=draw(texts),
        index=draw(st.none() | indexes()),
    )


@st.composite
def _side(draw: Any, keys: Any) -> ConflictSide:
    return ConflictSide(statement=draw(texts), applies_when=draw(texts), items=draw(some(keys)))


@st.composite
def select_(draw: Any) -> tuple[Any, Any]:
    request = samples.select(draw(texts), draw(st.integers(0, 4)), strict=draw(st.booleans()))
    order = draw(st.permutations(request.candidates))
    passing = [
        Candidate(node_id=item.node_id, kind=item.kind, passes=draw(st.booleans()))
        for item in order
    ]
    request = replace(
        request,
        candidates=tuple(passing),
        max_rules=draw(st.integers(0, 3)),
        max_lessons=draw(st.integers(0, 1)),
    )
    shown = [item for item in passing if item.passes]
    rules = [item.node_id for item in shown if item.kind != "lesson"]
    lessons = [item.node_id for item in shown if item.kind == "lesson"]
    chosen = draw(some(rules))[: request.max_rules]
    alone = request.strict and chosen
    free = request.max_lessons and lessons and not alone
    lesson = draw(st.none() | st.sampled_from(lessons)) if free else None
    return request, select.selection(request, chosen, lesson)


STRATEGIES = {
    "derive": derive(),
    "update": update(),
    "gate": gate(),
    "place": place(),
    "merge": merge(),
    "split_lift": split_lift(),
    "consolidate": consolidate(),
    "select": select_(),
}
"""Pairs of a request and a lawful value."""

assert set(STRATEGIES) == set(OPERATIONS)
