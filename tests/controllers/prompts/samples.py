"""One request per operation, every text of which holds a given text; and a reply to each."""

from __future__ import annotations

from typing import Any

from epimem.protocols import (
    CategoryView,
    ConsolidateRequest,
    DeriveRequest,
    GateRequest,
    MergeRequest,
    Picture,
    PlaceRequest,
    SelectRequest,
    SplitRequest,
    UpdateRequest,
)
from epimem.schema.lesson import IndexText, Lesson, Support
from epimem.schema.memory_input import Candidate, Item
from epimem.schema.region import Region
from epimem.schema.run import Run
from epimem.schema.tree import Conflict, ConflictSide, Node
from epimem.schema.working_memory import VisualEvidence, WorkingMemory

PAGES = (Picture("image-a", 800, 600, 1), Picture("image-b", 333, 1201, 2))


def name(text: str) -> str:
    """Cut to what a title holds, in bytes."""
    return text.encode()[:240].decode(errors="ignore").rstrip()


def run(text: str = "", *, turns: int = 3, **task: Any) -> Run:
    steps = [
        {
            "step_id": at + 1,
            "source": "agent",
            "message": f"Turn {at}: {text}",
            "extra": {"epimem": {"seq": 2 * at}},
        }
        for at in range(turns)
    ]
    steps[0]["tool_calls"] = [
        {"tool_call_id": "1", "function_name": f"zoom {text}", "arguments": {"on": text}}
    ]
    view = {
        "seq": 1,
        "kind": "view",
        "from": f"reader {text}",
        "page": 2,
        "region": {"x0": 30, "y0": 40, "x1": 90, "y1": 100, "width": 333, "height": 1201},
        "parts": [{"type": "text", "text": f"a legend {text}"}],
    }
    actors = [{"id": f"reader {text}", "traj": "main", "role": f"reads {text}"}]
    return Run.read(
        {
            "schema": "epimem-run/1",
            "run_id": "run-1",
            "created_at": "2026-01-01T00:00:00.000+00:00",
            "task": {
                "task_id": "task-1",
                "family": name(f"metro {text}"),
                "house": name(f"Norden {text}"),
                "question": f"How many stops from A to B? {text}",
                "pages": [
                    {
                        "page": page.page,
                        "image_id": page.image_id,
                        "width": page.width,
                        "height": page.height,
                    }
                    for page in PAGES
                ],
                **task,
            },
            "system": {"harness": "test"},
            "trajectory": {
                "schema_version": "ATIF-v1.8",
                "trajectory_id": "main",
                "agent": {"name": "reader", "version": "1"},
                "steps": steps,
                "extra": {"epimem": {"actors": actors, "events": [view]}},
            },
            "answer": {"text": f"nine {text}"},
        }
    )


def index(text: str = "") -> IndexText:
    return IndexText(
        topic=name(f"markers {text}"),
        scope=name(f"metro, Norden {text}"),
        question_anchor=f"How many stops? {text}",
    )


def lesson(number: int = 1, text: str = "", *, polarity: str = "positive") -> Node:
    found = Lesson(
        polarity=polarity,
        guidance=f"Count filled markers only {number} {text}",
        applies_when=f"Norden maps {text}",
        cautions=(f"rings are closed {text}", f"short lines {text}"),
        title=name(f"markers {text}"),
        index=index(text),
        contributor="team",
        organisation="team",
        supports=(Support(question_key=f"q-{number}"),),
    )
    return Node(
        node_id=f"node-{number:04d}",
        namespace="default",
        kind="lesson",
        title=found.title,
        index=found.index,
        authority="observed",
        lesson=found,
    )


def category(number: int = 1, text: str = "", *, kind: str = "category") -> Node:
    guided = kind != "category"
    return Node(
        node_id=f"group-{number:04d}",
        namespace="default",
        kind=kind,
        height=1,
        title=name(f"markers {text}"),
        index=index(text),
        guidance=f"Count filled markers {text}" if guided else "",
        applies_when=f"metro maps {text}" if guided else "",
        cautions=(f"look at the legend {text}",) if guided else (),
        conflicts=(
            Conflict(
                first=ConflictSide(statement=f"count all {text}", items=("node-0001",)),
                second=ConflictSide(statement=f"count filled {text}", items=("node-0002",)),
            ),
        ),
    )


def derive(text: str = "", verdict: str = "right", turns: int = 3) -> DeriveRequest:
    found = run(text, turns=turns)
    return DeriveRequest(found, verdict, "oracle", batch=(found.task.question,), pages=PAGES)


def update(text: str = "", visual: str = "evolving", *, held: bool = True) -> UpdateRequest:
    seen = VisualEvidence(
        image_id="image-a", region=Region.from_scaled((10, 20, 30, 40), 800, 600), note=f"x {text}"
    )
    return UpdateRequest(
        question=f"How many stops? {text}",
        pages=PAGES,
        memory=WorkingMemory(
            guidance=f"look at the legend {text}",
            applies_when=f"on page 1 {text}",
            cautions=(f"not the frame {text}",),
            evidence=seen if held else None,
        ),
        answer=f"nine {text}",
        trace=run(text),
        attempt=2,
        left=3,
        crop=Picture("crop", 40, 30) if held else None,
        visual=visual,
    )


def gate(text: str = "") -> GateRequest:
    item = Item(
        node_id="node-0001",
        kind="rule",
        title=f"markers {text}",
        guidance=f"count filled ones {text}",
        applies_when=f"metro {text}",
        cautions=(f"rings {text}",),
    )
    return GateRequest(
        question=f"How many stops? {text}",
        question_images=2,
        items=(item,),
        crops={"node-0001": 2},
        notes={"node-0001": (f"a ring {text}",)},
        pages=PAGES,
    )


def place(text: str = "", categories: int = 2) -> PlaceRequest:
    views = tuple(
        CategoryView(
            category(at, text), 0.8, 0.7, f"root-{at % 2}", 3, (lesson(at, text), lesson(9, text))
        )
        for at in range(categories)
    )
    return PlaceRequest(lesson(99, text), views)


def merge(text: str = "", lessons: int = 2) -> MergeRequest:
    ours = tuple(lesson(at, text) for at in range(lessons))
    theirs = tuple(lesson(at, text) for at in range(100, 100 + lessons))
    return MergeRequest(category(1, text), category(2, text), ours, theirs, 0.912)


def split_lift(text: str = "", children: int = 8) -> SplitRequest:
    shown = tuple(lesson(at, text) for at in range(children))
    return SplitRequest(category(1, text), shown, {}, max(children - 1, 7), 4)


def consolidate(text: str = "", lessons: int = 3) -> ConsolidateRequest:
    return ConsolidateRequest(
        category(1, text, kind="rule"), tuple(lesson(at, text) for at in range(lessons))
    )


def select(text: str = "", lessons: int = 2, *, strict: bool = False) -> SelectRequest:
    nodes = [category(1, text, kind="rule"), category(2, text, kind="summary")]
    nodes += [lesson(at, text) for at in range(lessons)]
    return SelectRequest(
        question=f"How many stops? {text}",
        family=f"metro {text}",
        candidates=tuple(
            Candidate(node_id=node.node_id, kind=node.kind, passes=True) for node in nodes
        ),
        nodes={node.node_id: node for node in nodes},
        max_rules=3,
        max_lessons=1,
        strict=strict,
        families={node.node_id: f"metro {text}" for node in nodes},
        crops={
            node.node_id: (Picture(f"crop-{at}", 30 + at, 20), Picture(f"other-{at}", 9, 9))
            for at, node in enumerate(nodes)
        },
        pages=PAGES,
    )


REQUESTS = {
    "derive": derive,
    "update": update,
    "gate": gate,
    "place": place,
    "merge": merge,
    "split_lift": split_lift,
    "consolidate": consolidate,
    "select": select,
}
"""Makes the request of an operation from a text."""

_INDEX = {"topic": "markers", "scope": "Norden", "question_anchor": "how many stops"}
REPLIES: dict[str, dict[str, Any]] = {
    "derive": {
        "lessons": [
            {
                "polarity": "positive",
                "guidance": "Count filled markers.",
                "applies_when": "Norden maps",
                "cautions": ["Rings are closed."],
                "title": "filled markers",
                **_INDEX,
                "evidence": [
                    {"image": "P2", "box": [10, 20, 400, 500], "note": "a ring", "turn": "T2"}
                ],
            }
        ],
        "nothing": "",
    },
    "update": {
        "guidance": "Count filled markers.",
        "applies_when": "this map",
        "cautions": ["Not the frame."],
        "visual": "replace",
        "image": "P1",
        "box": [10, 20, 400, 500],
        "note": "a ring",
        "gate": 1,
        "stop": False,
    },
    "gate": {"gate": 1},
    "place": {"category": None, "new": {"title": "filled markers", **_INDEX}, "under": "G2"},
    "merge": {"merge": True, "title": "markers"},
    "split_lift": {
        "parts": [
            {"children": ["N1", "N3", "N5", "N7"], "title": "odd", "index": dict(_INDEX)},
            {"children": ["N2", "N4", "N6", "N8"], "title": "even", "index": None},
        ]
    },
    "consolidate": {
        "guidance": "Count filled markers.",
        "applies_when": "Norden maps",
        "cautions": ["Rings are closed."],
        "supported_by": ["L1", "L2"],
        "conflicts": [
            {
                "first": {"statement": "filled", "applies_when": "a", "lessons": ["L1"]},
                "second": {"statement": "all", "applies_when": "b", "lessons": ["L3"]},
            }
        ],
        "title": "markers",
        "index": dict(_INDEX),
    },
    "select": {"rules": ["R2", "R1"], "lesson": "L2"},
}
"""A good reply to the request of each operation, with every field filled."""
