from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epimem.schema import strict_json
from epimem.schema.ids import counting_ids
from epimem.schema.run import Run, find_leaks, interleave
from harness_adapters.importer import Imported, LossReport, Refused
from harness_adapters.who_and_when import WhoAndWhenImporter

LABELS = {
    "mistake_agent",
    "mistake_step",
    "mistake_reason",
    "mistake_type",
    "is_correct",
    "is_corrected",
    "ground_truth",
    "level",
    "question_ID",
    "labels",
}
INCONSISTENT = {
    "Algorithm-Generated/14.json",
    "Algorithm-Generated/15.json",
    "Algorithm-Generated/59.json",
    "Hand-Crafted/22.json",
    "Hand-Crafted/49.json",
}


def importer() -> WhoAndWhenImporter:
    return WhoAndWhenImporter(ids=counting_ids(), clock=lambda: 0.0)


@pytest.fixture(scope="module")
def folder(shared_data: Path) -> Path:
    return shared_data / "who_and_when"


@pytest.fixture(scope="module")
def imported(folder: Path) -> list[Imported]:
    found = list(importer().read(folder, admit=_no_images))
    assert [item for item in found if isinstance(item, Refused)] == []
    return [item for item in found if isinstance(item, Imported)]


def history(run: Run) -> list[dict[str, str]]:
    """Rebuild the history of the file from the run alone."""
    named = run.task.family.endswith("algorithm-generated")
    turns = []
    for turn in interleave(run):
        if turn.step is not None:
            extra = turn.step.extra or {}
            item = {"content": str(turn.step.message), "role": extra["role"]}
            turns.append(item | ({"name": turn.actor} if named else {}))
    return turns


def test_all_184_histories_are_rebuilt_exactly_from_their_runs(
    folder: Path, imported: list[Imported]
) -> None:
    assert len(imported) == 184
    for item in imported:
        assert item.run is not None
        file = json.loads((folder / item.source).read_bytes())
        assert history(item.run) == file["history"], item.source
        assert item.run.task.question == file["question"]


def test_all_184_runs_are_sound(
    imported: list[Imported], assert_sound: Callable[[Run, Any], None], album: Any
) -> None:
    for item in imported:
        assert item.run is not None
        assert_sound(item.run, album)


def keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(keys, value.values()))
    return set().union(*map(keys, value)) if isinstance(value, list) else set()


def test_labels_are_in_the_sealed_outcome_and_nowhere_else(
    folder: Path, imported: list[Imported]
) -> None:
    for item in imported:
        assert item.run is not None
        assert item.outcome is not None
        file = json.loads((folder / item.source).read_bytes())
        plain = item.run.plain()
        assert not keys(plain) & LABELS
        labels = {key: value for key, value in file.items() if key in LABELS}
        assert item.outcome.labels | {"ground_truth": item.outcome.reference} == labels
        assert (item.outcome.verdict, item.outcome.source) == ("wrong", "oracle")
        assert item.outcome.run_id == item.run.run_id
        visible = json.dumps([file["history"], file["question"], file.get("system_prompt")])
        for name in ("mistake_reason", "ground_truth", "question_ID"):
            # A truth of one or two characters stands in numbers by chance, as 1.8 in a version.
            text = json.dumps(file[name])[1:-1]
            if text not in visible and len(text) > 2:
                assert text not in json.dumps(plain).replace("ATIF-v1.8", ""), (item.source, name)


def test_the_five_labels_that_point_at_another_agent_are_reported(
    imported: list[Imported],
) -> None:
    report = sum((item.loss for item in imported), LossReport())
    found = [note.source for note in report.notes if note.code == "label_inconsistent"]
    assert sorted(found) == sorted(INCONSISTENT)
    assert report.note_counts() == {
        "label_inconsistent": 5,
        "label_names_recipient": 1,
        "label_spelling": 2,
    }


def test_nothing_of_the_files_is_lost(imported: list[Imported]) -> None:
    report = sum((item.loss for item in imported), LossReport())
    assert report.total.native == report.total.mapped == 11_042
    rows = {row[0]: row[1] for row in report.rows()}
    assert rows["history[].content"] == 4_092
    assert rows["ground_truth"] == 184


def test_every_directed_turn_is_followed_by_its_message_event(imported: list[Imported]) -> None:
    directed = 0
    for item in imported:
        assert item.run is not None
        turns = interleave(item.run)
        for turn, following in zip(turns, (*turns[1:], None), strict=True):
            role = (turn.step.extra or {})["role"] if turn.step else ""
            match = re.fullmatch(r"Orchestrator \(-> (\w+)\)", role)
            if match is None:
                assert following is None or following.event is None or turn.event is not None
                continue
            directed += 1
            assert following is not None
            assert following.event is not None
            assert turn.step is not None
            assert following.seq == turn.seq + 1
            assert following.event.kind == "message"
            assert (following.event.sender, following.event.to) == ("Orchestrator", (match[1],))
            assert following.event.step_ref is not None
            assert following.event.step_ref.step == turn.step.step_id
    assert directed == 602 + 41 + 36 + 10


def test_prompts_go_to_the_agents_and_silent_experts_keep_theirs(
    folder: Path, imported: list[Imported]
) -> None:
    silent = 0
    for item in imported:
        assert item.run is not None
        file = json.loads((folder / item.source).read_bytes())
        found = {
            chain.trajectory_id: chain.agent.extra["system_prompt"]
            for chain in item.run.trajectory.walk()
            if chain.agent.extra
        }
        assert found == file.get("system_prompt", {})
        silent += sum(not chain.steps for chain in item.run.trajectory.walk()[1:])
    assert silent == 14


def test_speakers_have_the_source_that_fits_them(imported: list[Imported]) -> None:
    sources: dict[str, set[tuple[str, int | None]]] = {}
    for item in imported:
        assert item.run is not None
        for turn in interleave(item.run):
            if turn.step is not None:
                role = (turn.step.extra or {})["role"]
                name = role if "Orchestrator" in role else turn.actor
                pair = (turn.step.source, turn.step.llm_call_count)
                sources.setdefault(name, set()).add(pair)
    assert sources["human"] == {("user", None)}
    assert sources["Orchestrator (termination condition)"] == {("system", None)}
    assert sources["Computer_terminal"] == sources["ComputerTerminal"] == {("agent", 0)}
    assert sources["WebSurfer"] == sources["Orchestrator (thought)"] == {("agent", None)}


def test_answers_are_the_last_completed_ones(imported: list[Imported]) -> None:
    runs = {item.source: item.run for item in imported if item.run}
    answers = {source: run.answer for source, run in runs.items()}
    crafted = {source: answer for source, answer in answers.items() if "Hand" in source}
    assert crafted["Hand-Crafted/2.json"].text == "CSI Cyber"
    assert crafted["Hand-Crafted/18.json"].text == "-201"
    assert crafted["Hand-Crafted/31.json"].text == "Muscle Headz Gym, Ohio WV YMCA"
    assert crafted["Hand-Crafted/9.json"].by_actor == {}
    without = [source for source, answer in crafted.items() if not answer.text]
    assert sorted(without) == ["Hand-Crafted/23.json", "Hand-Crafted/4.json"]
    assert not any("SCENARIO" in answer.text for answer in crafted.values())
    first = answers["Algorithm-Generated/1.json"]
    assert first.text.endswith("I can conclude the task.")
    assert list(first.by_actor) == ["DataVerification_Expert"]
    assert first.finish_reason == "terminate"
    # The last turn is the terminal's, the one before an expert's.
    assert list(answers["Algorithm-Generated/7.json"].by_actor) == ["NumericalAnalysis_Expert"]
    # The expert before TERMINATE said nothing at all.
    assert answers["Algorithm-Generated/36.json"].text.startswith("The final output, after")
    generated = [answer for source, answer in answers.items() if "Algo" in source]
    assert all(answer.text for answer in generated)
    assert not any(answer.text.endswith("TERMINATE") for answer in generated)


def test_a_re_import_has_the_same_content(folder: Path, imported: list[Imported]) -> None:
    again = WhoAndWhenImporter().read(folder / "Hand-Crafted", admit=_no_images)
    first = {
        item.run.task.task_id: (item.run.content_hash, item.run.run_id)
        for item in imported
        if item.run
    }
    compared = 0
    for item in again:
        assert isinstance(item, Imported)
        assert item.run is not None
        content, run_id = first[item.run.task.task_id]
        assert item.run.content_hash == content
        assert item.run.run_id != run_id
        compared += 1
    assert compared == 58
    assert len({content for content, _ in first.values()}) == 184


def test_runs_of_one_question_share_its_key(imported: list[Imported]) -> None:
    found = [item.run.task for item in imported if item.run]
    assert {task.family for task in found} == {
        "who-and-when/algorithm-generated",
        "who-and-when/hand-crafted",
    }
    assert len({task.task_id for task in found}) == 184
    assert len({task.question_key for task in found}) < 184


def test_leaks_are_found_where_the_history_shows_the_truth(
    folder: Path, imported: list[Imported]
) -> None:
    leaking = 0
    for item in imported:
        assert item.run is not None
        assert item.outcome is not None
        file = json.loads((folder / item.source).read_bytes())
        truth = file["ground_truth"].strip().casefold()
        shown = [truth in turn["content"].casefold() for turn in file["history"]]
        found = find_leaks(item.run, [item.outcome.reference or ""])
        assert len(found) == (sum(shown) if len(truth) > 2 else 0), item.source
        leaking += bool(found)
    assert leaking > 0


SMALL: dict[str, Any] = {
    "question": "q",
    "history": [
        {"content": "hi\x00", "role": "human"},
        {"content": "FINAL ANSWER: 7", "role": "A"},
    ],
    "is_correct": True,
    "ground_truth": 7,
    "secret": "unknown field",
}


def read_one(tmp_path: Path, value: Any) -> Imported | Refused:
    path = tmp_path / "1.json"
    path.write_bytes(json.dumps(value).encode())
    (found,) = importer().read(path, admit=_no_images)
    return found


def test_the_verdict_follows_the_label_and_unknown_fields_are_sealed(tmp_path: Path) -> None:
    found = read_one(tmp_path, SMALL)
    assert isinstance(found, Imported)
    assert found.run is not None
    assert found.outcome is not None
    assert (found.outcome.verdict, found.outcome.reference) == ("right", "7")
    assert found.outcome.labels["secret"] == "unknown field"
    assert b"unknown field" not in found.run.canonical()
    assert found.run.answer.text == "7"
    assert found.run.replaced == 1
    assert found.loss.note_counts() == {"characters_replaced": 1}
    without = {key: value for key, value in SMALL.items() if key != "is_correct"}
    unknown = read_one(tmp_path, without)
    assert isinstance(unknown, Imported)
    assert unknown.outcome is not None
    assert (unknown.outcome.verdict, unknown.outcome.source) == ("unknown", "none")


@pytest.mark.parametrize(
    "change",
    [
        {"history": []},
        {"history": [{"content": "x"}]},
        {"history": [{"content": "x", "role": ""}]},
        {"history": [{"content": "x", "role": "a", "mistake": True}]},
        {"history": "x"},
        {"question": None},
        {"system_prompt": {"a": 1}},
    ],
)
def test_a_file_of_another_shape_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    found = read_one(tmp_path, SMALL | change)
    assert isinstance(found, Refused)
    assert found.code == "invalid_field"


@pytest.mark.parametrize("step", ["9", "-1", "x", None, 1.5])
def test_a_step_label_that_cannot_be_read_is_noted(tmp_path: Path, step: Any) -> None:
    labels = {"mistake_agent": "A", "mistake_step": step}
    found = read_one(tmp_path, SMALL | labels)
    assert isinstance(found, Imported)
    assert "label_unreadable" in found.loss.note_counts()


def test_the_canonical_run_is_strict_json(imported: list[Imported]) -> None:
    item = imported[0].run
    assert item is not None
    assert strict_json.loads(item.canonical(), max_depth=strict_json.RUN_DEPTH) == item.plain()


def _no_images(_: bytes) -> Any:
    raise AssertionError("no image in here")
