"""Requests of all eight operations out of real material, each made again from its number alone.

Runs and ready lessons of a vision-language model, failed runs of multi-agent systems, BIG-Bench Hard
items and GSM8K solutions of real models, read where the data lies beside the checkout. Texts are long
enough to be real and short enough for a model of 135M parameters.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from PIL import Image

from benchmarks.text.bbh import Item, load_items
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
from epimem.schema import ids
from epimem.schema.atif import AgentInfo, Step, Trajectory
from epimem.schema.lesson import IndexText, Lesson, LessonDraft, Support
from epimem.schema.memory_input import Candidate
from epimem.schema.memory_input import Item as Advice
from epimem.schema.run import Answer, Run, System, Task, interleave
from epimem.schema.text import clean_text
from epimem.schema.tree import Node
from epimem.schema.working_memory import VisualEvidence, WorkingMemory
from harness_adapters.importer import Imported
from harness_adapters.vlm_runs import VlmRunsImporter
from harness_adapters.who_and_when import WhoAndWhenImporter

FOLDER = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"
LONGEST = 400  # characters of a question, solution or item
LONGEST_RUN = 3000  # characters of all turns of a run
CAPACITY, MIN_GROUP = 7, 4
VERDICTS: tuple[Literal["right", "wrong", "unknown"], ...] = ("right", "wrong", "unknown")


@dataclass(frozen=True)
class Material:
    """What requests are made of: groups of lessons that belong together, and runs by their source."""

    groups: tuple[tuple[Node, ...], ...]
    runs: tuple[tuple[Run, ...], ...]


def load(folder: Path = FOLDER) -> Material:
    """Read the data.

    Raises:
        FileNotFoundError: it is not beside this checkout.
    """
    if not folder.is_dir():
        raise FileNotFoundError(folder)
    visual = VlmRunsImporter(ids=ids.counting_ids(), clock=lambda: 0.0)
    found = visual.read(folder / "vlm_runs", admit=_admit)
    seen = [item for item in found if isinstance(item, Imported)]
    agents = WhoAndWhenImporter(ids=ids.counting_ids(), clock=lambda: 0.0)
    failed = [
        item.run
        for item in agents.read(folder / "who_and_when", admit=_admit)
        if isinstance(item, Imported) and item.run is not None
    ]
    solved = _solutions(folder / "gsm8k" / "example_model_solutions.jsonl")
    runs = [item.run for item in seen if item.run is not None]
    short = [run for run in failed if _size(run) < LONGEST_RUN]
    groups = [*_houses(seen), *_tasks(folder / "bbh"), *_sums(solved)]
    return Material(tuple(groups), (tuple(runs), tuple(short), tuple(map(_solution_run, solved))))


def request(material: Material, operation: str, number: int) -> Any:
    """Return request `number` of an operation; the same whenever it is made."""
    return _MAKE[operation](material, random.Random(f"{operation} {number}"))


# -- material --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Seen:
    image_id: str
    width: int
    height: int


def _admit(data: bytes) -> _Seen:
    with Image.open(io.BytesIO(data)) as opened:
        picture = opened.convert("RGB")
    name = ids.image_id(picture.width, picture.height, picture.tobytes())
    return _Seen(name, picture.width, picture.height)


def _size(run: Run) -> int:
    return sum(len(turn.text) for turn in interleave(run))


def _houses(seen: Sequence[Imported]) -> list[tuple[Node, ...]]:
    found: dict[str, list[Node]] = {}
    for item in seen:
        assert item.run is not None
        house = item.run.task.house
        members = found.setdefault(house, [])
        members += [_node(draft, f"{house}-{len(members)}") for draft in item.lessons]
    return [tuple(members) for members in found.values()]


def _tasks(folder: Path) -> list[tuple[Node, ...]]:
    found: dict[str, list[Node]] = {}
    for item in load_items(folder):
        members = found.setdefault(item.task, [])
        if len(item.question) < LONGEST and len(members) < 8:
            members.append(_node(_item_draft(item), f"{item.task}-{len(members)}"))
    return [tuple(members) for members in found.values() if len(members) >= 4]


def _item_draft(item: Item) -> LessonDraft:
    question = clean_text(item.question)
    return LessonDraft(
        guidance=clean_text(f"{question}\nThe right answer was: {item.answer}"),
        index=IndexText(question_anchor=question),
        question_key=ids.question_key(question),
        verdict_source="oracle",
    )


@dataclass(frozen=True)
class _Solution:
    number: int
    question: str
    text: str
    right: bool


def _solutions(path: Path) -> list[_Solution]:
    found = []
    for number, line in enumerate(path.read_text("utf-8").splitlines()):
        value = json.loads(line)
        models = sorted(key for key, item in value.items() if isinstance(item, dict))
        said = value[models[number % len(models)]]
        text = said["solution"]
        if max(len(text), len(value["question"])) < LONGEST and text.strip():
            found.append(_Solution(number, value["question"], text, bool(said["is_correct"])))
    return found[:400]


def _sums(solved: Sequence[_Solution]) -> list[tuple[Node, ...]]:
    """Lessons of right solutions, eight questions to a group: there is little that they share."""
    right = [item for item in solved if item.right]
    nodes = [_node(_solution_draft(item), f"sum-{item.number}") for item in right]
    return [tuple(nodes[at : at + 8]) for at in range(0, min(len(nodes), 64), 8)]


def _solution_draft(item: _Solution) -> LessonDraft:
    question = clean_text(item.question)
    return LessonDraft(
        guidance=clean_text(item.text),
        index=IndexText(topic="word problem", question_anchor=question),
        question_key=ids.question_key(question),
        verdict_source="oracle",
    )


def _solution_run(item: _Solution) -> Run:
    step = Step(step_id=1, source="agent", message=item.text, extra={"epimem": {"seq": 0}})
    return Run(
        run_id=f"gsm8k-{item.number}",
        created_at="2026-01-01T00:00:00.000+00:00",
        task=Task(task_id=f"gsm8k-{item.number}", family="word problems", question=item.question),
        system=System(harness="one model"),
        trajectory=Trajectory(
            schema_version="ATIF-v1.8", agent=AgentInfo(name="solver", version="1"), steps=(step,)
        ),
        answer=Answer(text=item.text.rsplit("\n", 1)[-1]),
    )


def _node(draft: LessonDraft, node_id: str) -> Node:
    fields = {name: getattr(draft, name) for name in LessonDraft.model_fields}
    support = Support(question_key=draft.question_key, verdict_source=draft.verdict_source)
    lesson = Lesson(**fields, contributor="us", organisation="us", supports=(support,))
    return Node(
        node_id=node_id,
        namespace="default",
        kind="lesson",
        form=draft.form,
        index=draft.index,
        lesson=lesson,
    )


# -- requests --------------------------------------------------------------------------------------


def _derive(material: Material, rng: random.Random) -> DeriveRequest:
    run = rng.choice(rng.choice(material.runs))
    verdict = rng.choice(VERDICTS)
    return DeriveRequest(
        run, verdict, "oracle" if verdict != "unknown" else "none", pages=_pages(run)
    )


def _update(material: Material, rng: random.Random) -> UpdateRequest:
    run = rng.choice(rng.choice(material.runs))
    pages = _pages(run)
    views = [event for event in run.events if event.region is not None]
    memory = WorkingMemory()
    if rng.random() < 0.5:
        lesson = _lesson(rng.choice(rng.choice(material.groups)))
        evidence = None
        if views and pages:
            region = views[0].region
            assert region is not None
            evidence = VisualEvidence(image_id=pages[0].image_id, region=region)
        memory = WorkingMemory(guidance=lesson.guidance, evidence=evidence)
    attempt = rng.randrange(1, 5)
    return UpdateRequest(
        run.task.question,
        pages,
        memory,
        run.answer.text,
        run,
        attempt,
        5 - attempt,
        visual=rng.choice(("none", "frozen", "evolving")),
    )


def _gate(material: Material, rng: random.Random) -> GateRequest:
    run = rng.choice(rng.choice(material.runs))
    nodes = rng.sample(rng.choice(material.groups[:12]), 2)
    items = tuple(_advice(node) for node in nodes)
    crops = {item.node_id: rng.randrange(3) for item in items}
    notes = {
        node.node_id: tuple(seen.note for seen in _lesson(node).evidence if seen.note)
        for node in nodes
    }
    return GateRequest(run.task.question, len(run.task.pages), items, crops, notes)


def _place(material: Material, rng: random.Random) -> PlaceRequest:
    home, *others = rng.sample(material.groups, rng.randrange(2, 5))
    groups = [home, *others] if rng.random() < 0.7 else others
    views = tuple(_view(group, at) for at, group in enumerate(groups))
    return PlaceRequest(home[0], views)


def _view(group: tuple[Node, ...], number: int) -> CategoryView:
    likeness = round(0.9 - 0.1 * number, 2)
    category = _category(group, number)
    return CategoryView(category, likeness, 0.8, f"group-{number % 2}", 3, group[1:3])


def _merge(material: Material, rng: random.Random) -> MergeRequest:
    kept, absorbed = rng.sample(material.groups, 2)
    if rng.random() < 0.4:
        absorbed = kept[len(kept) // 2 :]
        kept = kept[: len(kept) // 2]
    return MergeRequest(
        _category(kept, 0), _category(absorbed, 1), kept[:3], absorbed[:3], round(rng.random(), 2)
    )


def _split(material: Material, rng: random.Random) -> SplitRequest:
    fit = [group for group in material.groups if len(group) >= 4]
    one, other = rng.sample(fit, 2)
    children = [*one[:4], *other[:4]]
    rng.shuffle(children)
    return SplitRequest(_category(tuple(children), 0), tuple(children), {}, CAPACITY, MIN_GROUP)


def _consolidate(material: Material, rng: random.Random) -> ConsolidateRequest:
    group = rng.choice(material.groups)
    return ConsolidateRequest(_category(group, 0), group[: rng.randrange(2, 5)])


def _select(material: Material, rng: random.Random) -> SelectRequest:
    run = rng.choice(rng.choice(material.runs))
    groups = rng.sample(material.groups, rng.randrange(2, 5))
    rules = [_rule(group, at) for at, group in enumerate(groups[:2])]
    nodes = [rng.choice(group) for group in groups] + rules
    rng.shuffle(nodes)
    candidates = tuple(
        Candidate(node_id=node.node_id, kind=node.kind, passes=True) for node in nodes
    )
    known = {node.node_id: node for node in nodes}
    family = run.task.family
    return SelectRequest(
        run.task.question, family, candidates, known, 3, 1, strict=rng.random() < 0.3
    )


def _pages(run: Run) -> tuple[Picture, ...]:
    return tuple(
        Picture(page.image_id, page.width, page.height, page.page) for page in run.task.pages
    )


def _lesson(node: Node) -> Lesson:
    assert node.lesson is not None
    return node.lesson


def _advice(node: Node) -> Advice:
    lesson = _lesson(node)
    return Advice(
        node_id=node.node_id,
        kind="lesson",
        title=lesson.title,
        guidance=lesson.guidance,
        applies_when=lesson.applies_when,
        cautions=lesson.cautions,
    )


def _category(group: Sequence[Node], number: int) -> Node:
    index = group[0].index
    return Node(
        node_id=f"category-{number}",
        namespace="default",
        kind="category",
        height=1,
        title=index.scope,
        index=index,
        form="guidance",
    )


def _rule(group: Sequence[Node], number: int) -> Node:
    lesson = _lesson(group[0])
    return Node(
        node_id=f"rule-{number}",
        namespace="default",
        kind="rule",
        height=1,
        title=lesson.index.scope,
        index=lesson.index,
        form="guidance",
        guidance=lesson.guidance,
        applies_when=lesson.applies_when,
        supported_by=tuple(node.node_id for node in group),
    )


_MAKE: dict[str, Callable[[Material, random.Random], Any]] = {
    "derive": _derive,
    "update": _update,
    "gate": _gate,
    "place": _place,
    "merge": _merge,
    "split_lift": _split,
    "consolidate": _consolidate,
    "select": _select,
}
OPERATIONS = tuple(_MAKE)
