"""The real runs: 184 failed runs of multi-agent systems, and 36 runs of a vision-language model."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from epimem.config import Config, EncoderConfig
from epimem.memory import ExperienceMemory
from epimem.schema.ids import question_key
from epimem.schema.lesson import LessonDraft
from epimem.schema.run import interleave
from harness_adapters.vlm_runs import VlmRunsImporter
from harness_adapters.who_and_when import WhoAndWhenImporter

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"

needs_traces = pytest.mark.skipif(
    not (DATA / "who_and_when").is_dir(), reason="the Who&When runs are not beside this checkout"
)
needs_visual = pytest.mark.skipif(
    not (DATA / "vlm_runs").is_dir(), reason="the visual runs are not beside this checkout"
)


def _bank(folder: Path) -> ExperienceMemory:
    return ExperienceMemory.create(folder, Config())


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _grams(text: str, size: int) -> set[tuple[str, ...]]:
    words = _words(text)
    return {tuple(words[i : i + size]) for i in range(len(words) - size + 1)}


def _contains(words: list[str], wanted: list[str]) -> bool:
    n = len(wanted)
    return n > 0 and any(words[i : i + n] == wanted for i in range(len(words) - n + 1))


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    with _bank(folder / "bank") as memory:
        records = list(WhoAndWhenImporter().read(DATA / "who_and_when", admit=memory.add_image))
        report = memory.build(records, rejected=folder / "rejected.jsonl")
        yield memory, records, report


@needs_traces
def test_each_of_the_184_runs_ends_in_one_state_and_nine_of_ten_are_derived(traces):
    memory, records, report = traces
    states = memory.bank.run_states()
    assert len(records) == len(states) == 184
    assert set(states) == {record.run.run_id for record in records}
    counted = Counter(state for state, _ in states.values())
    assert counted["derived"] >= 0.9 * 184
    assert set(counted) <= {"derived", "nothing"}
    assert sum(report.received.values()) == 184
    assert not report.set_aside
    assert memory.check() == []


@needs_traces
def test_no_wrong_run_yields_positive_guidance(traces):
    memory, records, _ = traces
    wrong = {r.run.run_id for r in records if r.outcome.verdict == "wrong"}
    assert len(wrong) == 184
    for node in memory.tree().lessons():
        assert set(node.lesson.run_ids) <= wrong
        assert node.lesson.polarity == "negative"
    assert all(
        not node.guidance or _polarity(memory, node) == "negative" for node in memory.tree().walk()
    )


def _polarity(memory, node):
    if node.lesson:
        return node.lesson.polarity
    return memory.bank.node(node.supported_by[0]).lesson.polarity


@needs_traces
def test_no_lesson_holds_a_label_or_the_reference_that_the_run_did_not_show(traces):
    memory, records, _ = traces
    by_run = {record.run.run_id: record for record in records}
    checked = 0
    for node in memory.tree().lessons():
        record = by_run[node.lesson.run_ids[0]]
        text = "\n".join(
            [
                node.lesson.guidance,
                node.lesson.applies_when,
                *node.lesson.cautions,
                node.lesson.body,
                node.title,
                node.index.text,
            ]
        )
        visible = "\n".join([record.run.task.question, *(t.text for t in interleave(record.run))])
        reason = str(record.outcome.labels["mistake_reason"])
        size = min(8, len(_words(reason)))
        leaked = _grams(text, size) & _grams(reason, size) - _grams(visible, size)
        assert not leaked, f"{record.source}: {leaked}"
        truth = _words(record.outcome.reference or "")
        if not _contains(_words(visible), truth):
            assert not _contains(_words(text), truth), record.source
        checked += 1
    assert checked >= 166


@needs_traces
def test_a_leak_would_be_seen(traces):
    """Sabotage twin: a lesson that quotes the label must fail the comparison above."""
    _, records, _ = traces
    record = next(r for r in records if len(_words(str(r.outcome.labels["mistake_reason"]))) >= 8)
    reason = str(record.outcome.labels["mistake_reason"])
    visible = "\n".join([record.run.task.question, *(t.text for t in interleave(record.run))])
    assert _grams(f"Mind this: {reason}", 8) & _grams(reason, 8) - _grams(visible, 8)


@needs_traces
def test_every_statement_of_a_lesson_stands_in_the_turns_it_names(traces):
    memory, records, _ = traces
    turns = {
        (record.run.run_id, turn.seq): " ".join(turn.text.split())
        for record in records
        for turn in interleave(record.run)
    }
    statements = 0
    for node in memory.tree().lessons():
        for statement in node.lesson.statements:
            assert statement.turns
            for turn in statement.turns:
                assert (turn.run_id, turn.seq) in turns
            statements += 1
    assert statements >= 166


@pytest.fixture(scope="module")
def visual(tmp_path_factory):
    folder = tmp_path_factory.mktemp("visual")
    with _bank(folder / "bank") as memory:
        records = list(VlmRunsImporter(take="runs").read(DATA / "vlm_runs", admit=memory.add_image))
        memory.build(records, rejected=folder / "rejected.jsonl")
        yield memory, records


@needs_visual
def test_the_three_rounds_of_a_house_share_their_category_with_no_other_house(visual):
    memory, records = visual
    house_of = {record.run.run_id: record.run.task.house for record in records}
    tree = memory.tree()
    houses_in, parents_of = defaultdict(set), defaultdict(set)
    for node in tree.lessons():
        house = house_of[node.lesson.run_ids[0]]
        houses_in[node.parent_id].add(house)
        parents_of[house].add(node.parent_id)
    assert len(parents_of) == 12
    assert all(len(parents) == 1 for parents in parents_of.values())
    assert all(len(houses) == 1 for houses in houses_in.values())


@needs_visual
def test_polarity_follows_the_verdict_of_each_visual_run(visual):
    memory, records = visual
    verdicts = {record.run.run_id: record.outcome.verdict for record in records}
    assert Counter(verdicts.values()) == {"wrong": 31, "right": 5}
    for node in memory.tree().lessons():
        right = verdicts[node.lesson.run_ids[0]] == "right"
        assert node.lesson.polarity == ("positive" if right else "negative")


@needs_visual
def test_every_crop_equals_the_slice_of_its_source(visual):
    memory, records = visual
    questions = {record.run.task.house: record.run.task for record in records}
    shown = 0
    for house, task in sorted(questions.items()):
        answer = memory.retrieve(
            task.question,
            images=[page.image_id for page in task.pages],
            family=task.family,
        )
        assert answer.items, house
        for crop in answer.crops:
            width, height, rgb = _pixels(memory.crop_png(crop))
            assert (width, height) == (crop.width, crop.height)
            assert rgb == _slice(memory, crop)
            shown += 1
    assert shown >= 12


def _pixels(png: bytes):
    from io import BytesIO

    from PIL import Image

    image = Image.open(BytesIO(png)).convert("RGB")
    return image.width, image.height, image.tobytes()


def _slice(memory, crop) -> bytes:
    from PIL import Image

    width, height, rgb = memory.bank.images.pixels(memory.bank.image(crop.image_id))
    margin = round(0.02 * max(width, height))
    x0, y0, x1, y1 = crop.region.box
    box = (
        max(0, x0 - margin),
        max(0, y0 - margin),
        min(width, x1 + margin),
        min(height, y1 + margin),
    )
    return Image.frombytes("RGB", (width, height), bytes(rgb)).crop(box).tobytes()


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ready")
    with _bank(folder / "bank") as memory:
        records = list(
            VlmRunsImporter(take="lessons").read(DATA / "vlm_runs", admit=memory.add_image)
        )
        memory.build(records, rejected=folder / "rejected.jsonl")
        yield memory, records


def _houses() -> dict[str, str]:
    lines = (DATA / "vlm_runs" / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    runs = [json.loads(line) for line in lines]
    return {run["question"]: run["house"] for run in runs}


def _house_of_lesson() -> dict[str, str]:
    """Return the house by guidance: ready lessons and runs share their task id."""
    folder = DATA / "vlm_runs"
    houses = {
        run["task_id"]: run["house"]
        for run in map(json.loads, (folder / "runs.jsonl").read_text("utf-8").splitlines())
    }
    lessons = map(json.loads, (folder / "lessons.jsonl").read_text("utf-8").splitlines())
    return {lesson["guidance"]: houses[lesson["task_id"]] for lesson in lessons}


@needs_visual
def test_each_house_gets_exactly_one_summary_of_support_three_from_itself_alone(ready):
    memory, _ = ready
    houses = _house_of_lesson()
    tree = memory.tree()
    summaries = [node for node in tree.walk() if node.kind == "summary"]
    assert len(summaries) == 12
    assert not [node for node in tree.walk() if node.kind == "rule"]
    seen = set()
    for node in summaries:
        lessons = [tree.node(key).lesson for key in node.supported_by]
        assert len({lesson.question_key for lesson in lessons}) == 3
        from_houses = {houses[lesson.guidance] for lesson in lessons}
        assert len(from_houses) == 1
        seen |= from_houses
        assert {houses[n.lesson.guidance] for n in tree.lessons(node.node_id)} == from_houses
    assert len(seen) == 12


@needs_visual
def test_a_fourth_question_makes_a_houses_summary_a_rule(tmp_path):
    """Each house in a bank of its own copy: one more question with the same advice."""
    houses = _house_of_lesson()
    with _bank(tmp_path / "bank") as memory:
        records = list(
            VlmRunsImporter(take="lessons").read(DATA / "vlm_runs", admit=memory.add_image)
        )
        memory.build(records, rejected=tmp_path / "rejected.jsonl")
        by_house = defaultdict(list)
        for record in records:
            for draft in record.lessons:
                by_house[houses[draft.guidance]].append(draft)
        before = memory.tree()
        for house, drafts in sorted(by_house.items()):
            summary = next(
                node
                for node in before.walk()
                if node.kind == "summary"
                and houses[before.node(node.supported_by[0]).lesson.guidance] == house
            )
            source = before.node(summary.supported_by[0]).lesson
            memory.contribute(
                LessonDraft(
                    guidance=f"{summary.guidance.rstrip('.')}. Seen once more.",
                    applies_when=source.applies_when,
                    index=source.index,
                    family=source.family,
                    question_key=question_key(f"a fourth question of {house}"),
                    verdict_source="oracle",
                )
            )
            assert len(drafts) == 3
        memory.maintain()
        tree = memory.tree()
        rules = [node for node in tree.walk() if node.kind == "rule"]
        assert len(rules) == 12
        assert all(len(node.supported_by) == 4 for node in rules)


@needs_visual
def test_two_builds_of_the_same_files_have_one_state_digest(ready, tmp_path):
    memory, _ = ready
    with _bank(tmp_path / "bank") as again:
        records = VlmRunsImporter(take="lessons").read(DATA / "vlm_runs", admit=again.add_image)
        again.build(records, rejected=tmp_path / "rejected.jsonl")
        assert again.bank.state_digest() == memory.bank.state_digest()


@needs_visual
def test_a_build_without_an_encoder_works_and_says_that_recall_is_lexical(tmp_path):
    with ExperienceMemory.create(
        tmp_path / "bank", Config(encoder=EncoderConfig(model="none"))
    ) as memory:
        records = VlmRunsImporter(take="lessons").read(DATA / "vlm_runs", admit=memory.add_image)
        memory.build(records, rejected=tmp_path / "rejected.jsonl")
        answer = memory.retrieve("How many stations does a train call at on a Rubra Metro diagram?")
        assert answer.searchable == "lexical"
        assert answer.items
        assert "Rubra" in answer.text
