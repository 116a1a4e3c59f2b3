"""Requests without their texts: what reading a reply needs, and nothing of the data they were made of.

The data beside the checkout may not be copied into it. A reply is held against ids, kinds, sizes and
counts, so those are stored, and a request of the same schema is made from them anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from epimem.schema.atif import AgentInfo, Step, Trajectory
from epimem.schema.lesson import Lesson, Polarity, Support, VerdictSource
from epimem.schema.memory_input import Candidate
from epimem.schema.region import Region
from epimem.schema.run import Answer, Run, System, Task, interleave
from epimem.schema.tree import Node
from epimem.schema.working_memory import VisualEvidence, WorkingMemory

Plain = dict[str, Any]
TEXT = "left out"
TURNS = 40  # of an attempt, where a reply cannot name any


def stripped(operation: str, request: Any) -> Plain:
    """Return what remains of a request: plain JSON data."""
    return _STRIP[operation](request)


def rebuilt(operation: str, plain: Mapping[str, Any]) -> Any:
    """Return a request with the ids, kinds, sizes and counts of the one that `plain` came from."""
    return _BUILD[operation](plain)


def _pages_of(pages: tuple[Picture, ...]) -> list[list[int]]:
    return [[picture.width, picture.height] for picture in pages]


def _pages(sizes: list[list[int]]) -> tuple[Picture, ...]:
    return tuple(
        Picture(f"image-{at}", width, height, at) for at, (width, height) in enumerate(sizes, 1)
    )


def _run(turns: int) -> Run:
    steps = tuple(
        Step(step_id=at + 1, source="agent", message=TEXT, extra={"epimem": {"seq": at}})
        for at in range(turns)
    )
    return Run(
        run_id="run",
        created_at="2026-01-01T00:00:00.000+00:00",
        task=Task(task_id="task", question=TEXT),
        system=System(harness="recorded"),
        trajectory=Trajectory(
            schema_version="ATIF-v1.8", agent=AgentInfo(name="solver", version="1"), steps=steps
        ),
        answer=Answer(text=TEXT),
    )


def _lesson(node_id: str, polarity: Polarity = "positive") -> Node:
    lesson = Lesson(
        guidance=TEXT,
        polarity=polarity,
        contributor="us",
        organisation="us",
        supports=(Support(question_key=node_id),),
    )
    return Node(node_id=node_id, namespace="default", kind="lesson", form="guidance", lesson=lesson)


def _category(node_id: str) -> Node:
    return Node(node_id=node_id, namespace="default", kind="category", height=1, form="guidance")


# -- one pair of functions per operation -----------------------------------------------------------


def _strip_derive(request: DeriveRequest) -> Plain:
    turns = len(interleave(request.run))
    return {"verdict": request.verdict, "pages": _pages_of(request.pages), "turns": turns}


def _build_derive(plain: Mapping[str, Any]) -> DeriveRequest:
    source: VerdictSource = "oracle" if plain["verdict"] != "unknown" else "none"
    return DeriveRequest(
        _run(plain["turns"]), plain["verdict"], source, pages=_pages(plain["pages"])
    )


def _strip_update(request: UpdateRequest) -> Plain:
    held = request.memory.evidence is not None
    return {"visual": request.visual, "pages": _pages_of(request.pages), "holds_evidence": held}


def _build_update(plain: Mapping[str, Any]) -> UpdateRequest:
    pages = _pages(plain["pages"])
    memory = WorkingMemory()
    if plain["holds_evidence"]:
        page = pages[0]
        region = Region.whole(page.width, page.height)
        memory = WorkingMemory(evidence=VisualEvidence(image_id=page.image_id, region=region))
    return UpdateRequest(TEXT, pages, memory, TEXT, _run(TURNS), 1, 4, visual=plain["visual"])


def _strip_gate(request: GateRequest) -> Plain:  # noqa: ARG001
    return {}


def _build_gate(plain: Mapping[str, Any]) -> GateRequest:  # noqa: ARG001
    return GateRequest(TEXT, 0, (), {})


def _strip_place(request: PlaceRequest) -> Plain:
    return {"parents": [view.parent_id for view in request.candidates]}


def _build_place(plain: Mapping[str, Any]) -> PlaceRequest:
    views = [
        CategoryView(_category(f"category-{at}"), 0.5, 0.5, parent, 1)
        for at, parent in enumerate(plain["parents"])
    ]
    return PlaceRequest(_lesson("lesson"), tuple(views))


def _strip_merge(request: MergeRequest) -> Plain:  # noqa: ARG001
    return {}


def _build_merge(plain: Mapping[str, Any]) -> MergeRequest:  # noqa: ARG001
    return MergeRequest(_category("kept"), _category("absorbed"), (), (), 0.5)


def _strip_split(request: SplitRequest) -> Plain:
    return {
        "children": len(request.children),
        "capacity": request.capacity,
        "min_group": request.min_group,
    }


def _build_split(plain: Mapping[str, Any]) -> SplitRequest:
    children = tuple(_lesson(f"child-{at:03d}") for at in range(plain["children"]))
    return SplitRequest(_category("group"), children, {}, plain["capacity"], plain["min_group"])


def _strip_consolidate(request: ConsolidateRequest) -> Plain:
    return {"lessons": [node.polarity for node in request.lessons]}


def _build_consolidate(plain: Mapping[str, Any]) -> ConsolidateRequest:
    lessons = [_lesson(f"lesson-{at}", word) for at, word in enumerate(plain["lessons"])]
    return ConsolidateRequest(_category("category"), tuple(lessons))


def _strip_select(request: SelectRequest) -> Plain:
    kinds = [request.nodes[candidate.node_id].kind for candidate in request.candidates]
    limits = {"max_rules": request.max_rules, "max_lessons": request.max_lessons}
    return {"kinds": kinds, **limits, "strict": request.strict}


def _build_select(plain: Mapping[str, Any]) -> SelectRequest:
    nodes: dict[str, Node] = {}
    for at, kind in enumerate(plain["kinds"]):
        node = _lesson(f"node-{at}")
        if kind != "lesson":
            node = _category(f"node-{at}").model_copy(update={"kind": kind, "guidance": TEXT})
        nodes[node.node_id] = node
    candidates = tuple(
        Candidate(node_id=key, kind=node.kind, passes=True) for key, node in nodes.items()
    )
    limits = {name: plain[name] for name in ("max_rules", "max_lessons", "strict")}
    return SelectRequest(TEXT, "", candidates, nodes, **limits)


_STRIP: dict[str, Callable[[Any], Plain]] = {
    "derive": _strip_derive,
    "update": _strip_update,
    "gate": _strip_gate,
    "place": _strip_place,
    "merge": _strip_merge,
    "split_lift": _strip_split,
    "consolidate": _strip_consolidate,
    "select": _strip_select,
}
_BUILD: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "derive": _build_derive,
    "update": _build_update,
    "gate": _build_gate,
    "place": _build_place,
    "merge": _build_merge,
    "split_lift": _build_split,
    "consolidate": _build_consolidate,
    "select": _build_select,
}
