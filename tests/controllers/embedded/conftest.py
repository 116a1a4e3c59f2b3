"""Builders of small runs and lessons, and the real data read through the importers."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from epimem.schema.ids import counting_ids, image_id
from epimem.schema.lesson import IndexText, Lesson, LessonDraft, Support
from epimem.schema.run import Run
from epimem.schema.tree import Node
from harness_adapters.importer import Imported
from harness_adapters.vlm_runs import VlmRunsImporter
from harness_adapters.who_and_when import WhoAndWhenImporter


@dataclass(frozen=True)
class Picture:
    image_id: str
    width: int
    height: int


def admit(data: bytes) -> Picture:
    with Image.open(io.BytesIO(data)) as opened:
        picture = opened.convert("RGB")
    name = image_id(picture.width, picture.height, picture.tobytes())
    return Picture(name, picture.width, picture.height)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    folder = Path(__file__).resolve().parents[3] / "../shared/data"
    if not folder.is_dir():
        pytest.skip("the shared data folder is not on this machine")
    return folder.resolve()


@pytest.fixture(scope="session")
def who_and_when(shared_data: Path) -> list[Imported]:
    importer = WhoAndWhenImporter(ids=counting_ids(), clock=lambda: 0.0)
    found = list(importer.read(shared_data / "who_and_when", admit=admit))
    return [item for item in found if isinstance(item, Imported)]


@pytest.fixture(scope="session")
def visual_runs(shared_data: Path) -> list[Imported]:
    importer = VlmRunsImporter(ids=counting_ids(), clock=lambda: 0.0)
    found = list(importer.read(shared_data / "vlm_runs", admit=admit))
    return [item for item in found if isinstance(item, Imported)]


@pytest.fixture(scope="session")
def houses(visual_runs: list[Imported]) -> dict[str, list[Node]]:
    """The ready lessons of each house as nodes, rounds in order."""
    found: dict[str, list[Node]] = {}
    for item in visual_runs:
        assert item.run is not None
        house, _, turn = item.run.task.task_id.rpartition("-")
        (draft,) = item.lessons
        found.setdefault(house.removeprefix("cons-"), []).append(
            node_of(draft, f"{house.removeprefix('cons-')}-{turn}")
        )
    return found


def node_of(draft: LessonDraft, node_id: str, parent_id: str | None = None) -> Node:
    """Return the node the bank makes of a draft."""
    fields = {name: getattr(draft, name) for name in LessonDraft.model_fields}
    support = Support(question_key=draft.question_key, verdict_source=draft.verdict_source)
    lesson = Lesson(
        **fields,
        contributor="tester",
        organisation="tests",
        supports=(support,) if draft.question_key else (),
    )
    return Node(
        node_id=node_id,
        namespace="default",
        kind="lesson",
        parent_id=parent_id,
        form=draft.form,
        index=draft.index,
        lesson=lesson,
    )


@pytest.fixture(scope="session")
def as_node() -> Callable[..., Node]:
    return node_of


@pytest.fixture(scope="session")
def lesson() -> Callable[..., Node]:
    """Make a lesson node: `lesson("id", "guidance", scope=..., anchor=..., polarity=...)`."""

    def make(node_id: str, guidance: str, **more: Any) -> Node:
        scope = more.pop("scope", "Norden Statistik charts")
        anchor = more.pop("anchor", "What is the total in a Norden Statistik chart?")
        parent_id = more.pop("parent_id", None)
        index = IndexText(topic=more.pop("topic", ""), scope=scope, question_anchor=anchor)
        more.setdefault("question_key", f"question of {node_id}")
        draft = LessonDraft(guidance=guidance, index=index, **more)
        return node_of(draft, node_id, parent_id)

    return make


@pytest.fixture(scope="session")
def category() -> Callable[..., Node]:
    def make(node_id: str = "category", **more: Any) -> Node:
        fields = {"namespace": "default", "kind": "category", "height": 1, **more}
        return Node(node_id=node_id, **fields)

    return make


@pytest.fixture(scope="session")
def make_run() -> Callable[..., Run]:
    """Make a run of one chain per speaker; `views` are (turn, page, region, by_step) rows."""

    def make(
        turns: Sequence[tuple[str, str]],
        *,
        question: str = "How many stations does a train call at?",
        answer: str = "",
        roles: dict[str, str] | None = None,
        views: Sequence[tuple[int, int, dict[str, int], bool]] = (),
        **task: Any,
    ) -> Run:
        chains: dict[str, list[dict[str, Any]]] = {}
        place: dict[int, tuple[str, int]] = {}
        events: list[dict[str, Any]] = []
        seq = 0
        for number, (speaker, text) in enumerate(turns):
            chain = chains.setdefault(speaker, [])
            step = {"step_id": len(chain) + 1, "source": "agent", "message": text}
            chain.append({**step, "extra": {"epimem": {"seq": seq}}})
            place[number] = (speaker, len(chain))
            seq += 1
            for at, page, region, by_step in views:
                if at == number:
                    event: dict[str, Any] = {"seq": seq, "kind": "view", "from": speaker}
                    if by_step:
                        event["step_ref"] = {"traj": speaker, "step": place[at][1]}
                    events.append({**event, "page": page, "region": region})
                    seq += 1
        actors = [
            {"id": name, "traj": name, "role": (roles or {}).get(name, "")} for name in chains
        ]
        base = {"schema_version": "ATIF-v1.8", "steps": []}
        return Run.model_validate(
            {
                "run_id": "run-a",
                "created_at": "2026-01-01T00:00:00Z",
                "task": {"task_id": "task", "question": question, **task},
                "system": {"harness": "harness", "backbones": [{"id": "model"}]},
                "answer": {"text": answer},
                "trajectory": {
                    **base,
                    "agent": {"name": "team", "version": ""},
                    "extra": {"epimem": {"actors": actors, "events": events}},
                    "subagent_trajectories": [
                        {
                            **base,
                            "trajectory_id": name,
                            "agent": {"name": name, "version": ""},
                            "steps": steps,
                        }
                        for name, steps in chains.items()
                    ],
                },
            }
        )

    return make
