from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epimem.errors import ConfigError, NotFoundError
from epimem.schema.ids import counting_ids
from epimem.schema.region import Region
from epimem.schema.run import Run, interleave
from harness_adapters.importer import Imported, LossReport, Refused
from harness_adapters.vlm_runs import Take, VlmRunsImporter

Png = Callable[..., bytes]


def read(path: Path, album: Any, take: Take = "both") -> list[Imported | Refused]:
    importer = VlmRunsImporter(take=take, ids=counting_ids(), clock=lambda: 0.0)
    return list(importer.read(path, admit=album.admit))


def rows(folder: Path, name: str) -> dict[str, dict[str, Any]]:
    lines = (folder / name).read_text(encoding="utf-8").splitlines()
    return {row["task_id"]: row for row in map(json.loads, lines)}


@pytest.fixture(scope="module")
def folder(shared_data: Path) -> Path:
    return shared_data / "vlm_runs"


@pytest.fixture
def imported(folder: Path, album: Any) -> list[Imported]:
    found = read(folder, album)
    assert [item for item in found if isinstance(item, Refused)] == []
    return [item for item in found if isinstance(item, Imported)]


def test_all_36_runs_are_sound_and_rebuild_their_steps(
    folder: Path,
    album: Any,
    imported: list[Imported],
    assert_sound: Callable[[Run, Any], None],
) -> None:
    native = rows(folder, "runs.jsonl")
    assert [item.run.task.task_id for item in imported if item.run] == list(native)
    for item in imported:
        assert item.run is not None
        assert_sound(item.run, album)
        row = native[item.run.task.task_id]
        steps: list[dict[str, Any]] = []
        for turn in interleave(item.run):
            if turn.step is not None:
                steps.append({"actor": turn.actor, "text": turn.text, "region": None})
            elif turn.event is not None:
                assert (turn.event.kind, turn.event.page) == ("view", 1)
                assert turn.event.step_ref is not None
                assert turn.actor == turn.event.step_ref.traj == steps[-1]["actor"]
                steps[-1]["region"] = turn.event.region
        page = item.run.task.pages[0]
        for step in row["steps"]:
            if step["region"]:
                box = tuple(step["region"])
                step["region"] = Region.from_scaled(box, page.width, page.height)
        assert steps == row["steps"]
        assert item.run.answer.text == str(row["answer"])
        assert (item.run.task.family, item.run.task.house) == (row["family"], row["house"])
        assert item.run.task.public == {"round": row["round"]}


def test_outcomes_are_sealed_and_nowhere_else(folder: Path, imported: list[Imported]) -> None:
    native = rows(folder, "outcomes.jsonl")
    right = 0
    for item in imported:
        assert item.run is not None
        assert item.outcome is not None
        row = native[item.run.task.task_id]
        assert item.outcome.verdict == ("right" if row["correct"] else "wrong")
        assert item.outcome.source == "oracle"
        assert item.outcome.reference == str(row["reference"])
        assert item.outcome.run_id == item.run.run_id
        assert b"reference" not in item.run.canonical()
        right += row["correct"]
    assert right == 5


def test_ready_lessons_keep_their_words_and_the_region_of_their_image(
    folder: Path, album: Any, imported: list[Imported]
) -> None:
    native = rows(folder, "lessons.jsonl")
    for item in imported:
        assert item.run is not None
        (lesson,) = item.lessons
        row = native[item.run.task.task_id]
        assert (lesson.guidance, lesson.applies_when) == (row["guidance"], row["applies_when"])
        assert lesson.cautions == (row["cautions"],)
        assert lesson.index.topic == lesson.title == row["topic"]
        assert lesson.index.scope == row["scope"]
        assert lesson.index.question_anchor == row["question_anchor"]
        assert lesson.question_key == item.run.task.question_key
        assert lesson.group_key == item.run.task.group_key
        assert lesson.family == row["task_id"].split("-")[1]
        assert (lesson.polarity, lesson.verdict_source) == ("positive", "oracle")
        assert lesson.run_ids == (item.run.run_id,)
        (evidence,) = lesson.evidence
        width, height = album.stored[evidence.image_id].size
        box = tuple(row["evidence"]["region"])
        assert evidence.region == Region.from_scaled(box, width, height)
        assert evidence.image_id == item.run.task.pages[0].image_id
        assert evidence.note == row["evidence"]["note"]


def test_nothing_of_the_files_is_lost(imported: list[Imported]) -> None:
    report = sum((item.loss for item in imported), LossReport())
    assert report.total.native == report.total.mapped
    found = {row[0]: row[1] for row in report.rows()}
    assert (found["steps[].text"], found["lessons.guidance"], found["outcomes.correct"]) == (
        151,
        36,
        36,
    )
    assert report.notes == ()


def test_take_chooses_runs_lessons_or_both(folder: Path, album: Any) -> None:
    runs = [item for item in read(folder, album, "runs") if isinstance(item, Imported)]
    lessons = [item for item in read(folder, album, "lessons") if isinstance(item, Imported)]
    assert len(runs) == len(lessons) == 36
    assert all(item.run and item.outcome and not item.lessons for item in runs)
    assert all(item.run is None and item.outcome is None for item in lessons)
    assert all(len(item.lessons) == 1 and not item.lessons[0].run_ids for item in lessons)
    assert all(item.loss.notes == () for item in lessons)
    keys = [item.run.task.question_key for item in runs if item.run]
    assert [item.lessons[0].question_key for item in lessons] == keys


def test_a_re_import_has_the_same_content(folder: Path, album: Any) -> None:
    def hashes(path: Path) -> list[str]:
        found = VlmRunsImporter(take="runs").read(path, admit=album.admit)
        return [item.run.content_hash for item in found if isinstance(item, Imported) and item.run]

    first = hashes(folder)
    assert hashes(folder / "runs.jsonl") == first
    assert len(set(first)) == 36


def test_an_unknown_choice_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError):
        VlmRunsImporter(take="everything")  # type: ignore[arg-type]


RUN: dict[str, Any] = {
    "task_id": "t1",
    "family": "metro",
    "house": "Rubra",
    "question": "How many stops?",
    "image": "images/a.png",
    "steps": [
        {"actor": "reader", "text": "nine markers", "region": [0, 0, 500, 1000]},
        {"actor": "checker", "text": "agreed", "region": None},
    ],
    "answer": 9,
}
LESSON = {"task_id": "t1", "guidance": "Leave out the triangles.", "evidence": None}


@pytest.fixture
def small(tmp_path: Path, png: Png) -> Callable[..., Path]:
    def write(
        runs: list[Any], outcomes: list[Any] | None = None, lessons: list[Any] | None = None
    ) -> Path:
        (tmp_path / "images").mkdir(exist_ok=True)
        (tmp_path / "images/a.png").write_bytes(png(100, 50))
        for name, items in (("runs", runs), ("outcomes", outcomes), ("lessons", lessons)):
            if items is not None:
                lines = [item if isinstance(item, str) else json.dumps(item) for item in items]
                (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
        return tmp_path

    return write


def test_a_region_of_the_file_becomes_pixels(small: Callable[..., Path], album: Any) -> None:
    (found,) = read(small([RUN]), album)
    assert isinstance(found, Imported)
    assert found.run is not None
    (event,) = found.run.events
    assert event.region == Region(x0=0, y0=0, x1=50, y1=50, width=100, height=50)
    assert [(turn.seq, turn.actor) for turn in interleave(found.run)] == [
        (0, "reader"),
        (1, "reader"),
        (2, "checker"),
    ]
    assert found.outcome is None
    assert found.loss.note_counts() == {"no_outcome": 1}


def test_unknown_fields_are_kept_and_what_may_be_a_score_is_sealed(
    small: Callable[..., Path], album: Any
) -> None:
    run = RUN | {"seed": 3, "score": 0.5, "info": {"label": 1, "x": 2}}
    (found,) = read(small([run]), album)
    assert isinstance(found, Imported)
    assert found.run is not None
    assert found.outcome is not None
    assert (found.run.trajectory.extra or {})["native"] == {"seed": 3, "info": {"x": 2}}
    assert found.outcome.labels == {"score": 0.5, "info.label": 1}
    assert found.outcome.verdict == "unknown"


BAD_RUNS: dict[str, tuple[dict[str, Any], str]] = {
    "no such image": ({"image": "images/b.png"}, "invalid_image"),
    "image outside": ({"image": "../a.png"}, "remote_image_refused"),
    "image by address": ({"image": "http://host/a.png"}, "remote_image_refused"),
    "not an image": ({"image": "runs.jsonl"}, "invalid_image"),
    "region of no width": (
        {"steps": [{"actor": "a", "text": "x", "region": [5, 0, 5, 9]}]},
        "invalid_field",
    ),
    "swapped corners": (
        {"steps": [{"actor": "a", "text": "x", "region": [9, 0, 5, 9]}]},
        "invalid_field",
    ),
    "region beyond 1000": (
        {"steps": [{"actor": "a", "text": "x", "region": [0, 0, 1001, 9]}]},
        "invalid_field",
    ),
    "region of texts": (
        {"steps": [{"actor": "a", "text": "x", "region": ["0", 0, 5, 9]}]},
        "invalid_field",
    ),
    "region of three": (
        {"steps": [{"actor": "a", "text": "x", "region": [0, 0, 5]}]},
        "invalid_field",
    ),
    "no actor": ({"steps": [{"actor": "", "text": "x"}]}, "invalid_field"),
    "unknown field of a step": ({"steps": [{"actor": "a", "text": "x", "y": 1}]}, "invalid_field"),
    "no question": ({"question": None}, "invalid_field"),
    "answer of another type": ({"answer": [1]}, "invalid_field"),
}


@pytest.mark.parametrize(("change", "code"), BAD_RUNS.values(), ids=BAD_RUNS.keys())
def test_a_bad_run_line_is_set_aside_with_its_lessons(
    small: Callable[..., Path], album: Any, change: dict[str, Any], code: str
) -> None:
    good = RUN | {"task_id": "t2"}
    folder = small([RUN | change, good], [], [LESSON])
    found = read(folder, album)
    assert [type(item) for item in found] == [Refused, Imported, Refused]
    assert isinstance(found[0], Refused)
    assert (found[0].source, found[0].line, found[0].code) == ("runs.jsonl", 1, code)
    assert isinstance(found[2], Refused)
    assert (found[2].source, found[2].line, found[2].code) == ("lessons.jsonl", 1, "not_found")


def test_faulty_lines_beside_never_cost_the_run(small: Callable[..., Path], album: Any) -> None:
    outcomes = [
        {"task_id": "t1", "correct": "no", "reference": 5},
        "{not json",
        {"task_id": 7},
    ]
    lessons = [
        LESSON | {"guidance": "hidden \u202e text"},
        LESSON | {"evidence": {"region": [0, 0, 0, 5]}},
        '{"task_id": "t1", "guidance": "lone \\ud83d"}',
        LESSON,
        LESSON | {"guidance": "a\u0000b"},
        LESSON | {"task_id": "t9"},
    ]
    first, *rest = read(small([RUN], outcomes, lessons), album)
    assert isinstance(first, Imported)
    assert first.run is not None
    assert first.outcome is None
    assert [lesson.guidance for lesson in first.lessons] == ["Leave out the triangles."]
    assert [(item.source, item.line, item.code) for item in rest if isinstance(item, Refused)] == [
        ("outcomes.jsonl", 1, "invalid_field"),
        ("outcomes.jsonl", 2, "bad_json"),
        ("outcomes.jsonl", 3, "invalid_field"),
        ("lessons.jsonl", 1, "invalid_text"),
        ("lessons.jsonl", 2, "invalid_field"),
        ("lessons.jsonl", 3, "bad_json"),
        ("lessons.jsonl", 5, "invalid_text"),
        ("lessons.jsonl", 6, "not_found"),
    ]


def test_a_second_outcome_of_a_task_is_set_aside(small: Callable[..., Path], album: Any) -> None:
    outcomes = [
        {"task_id": "t1", "correct": True, "reference": 9},
        {"task_id": "t1", "correct": False, "reference": 5},
    ]
    first, second = read(small([RUN], outcomes), album)
    assert isinstance(first, Imported)
    assert first.outcome is not None
    assert first.outcome.verdict == "right"
    assert isinstance(second, Refused)
    assert (second.line, second.code) == (2, "conflict")


def test_a_linked_file_beside_is_refused(
    small: Callable[..., Path], album: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "outcomes.jsonl"
    outside.write_text(json.dumps({"task_id": "t1", "correct": True, "reference": 9}))
    folder = small([RUN])
    (folder / "outcomes.jsonl").symlink_to(outside)
    first, second = read(folder, album)
    assert isinstance(first, Imported)
    assert first.outcome is None
    assert isinstance(second, Refused)
    assert (second.source, second.code) == ("outcomes.jsonl", "invalid_field")


def test_lessons_that_are_not_there_are_an_error(small: Callable[..., Path], album: Any) -> None:
    with pytest.raises(NotFoundError):
        read(small([RUN]), album, "lessons")
    with pytest.raises(NotFoundError):
        read(small([RUN]) / "images", album)
