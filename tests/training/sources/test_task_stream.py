"""The task stream of a data set: what eval reads, grown by whole lines, bad rows set aside by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from epimem.cli import main
from epimem.errors import BankBusyError
from epimem.evaluation.tasks import read_tasks, with_image_ids
from tests.training.sources import hub_fixtures as fixtures
from training.sources.task_stream import TaskStream

NAME = "HuggingFaceM4/ChartQA"


def chart(number, shade=None, label=("1",), image=None):
    data = fixtures.picture(shade or number, kind="JPEG" if number % 2 else "PNG")
    return {
        "image": fixtures.stored(image or data),
        "query": f"How much is {number}?",
        "label": list(label),
        "human_or_machine": 0,
    }


@pytest.fixture
def copy(tmp_path):
    rows = [
        chart(1),
        chart(2, label=("2", "two")),
        chart(3, image=b"\x89PNG\r\n\x1a\nbroken"),
        chart(4, label=()),
        chart(5, shade=1),
        chart(1),
    ]
    fixtures.write_parquet(tmp_path / "copy" / "train-0.parquet", fixtures.CHARTQA, rows)
    return tmp_path / "copy"


def call(capsys, *arguments):
    status = main(["train", "questions", *map(str, arguments)])
    captured = capsys.readouterr()
    lines = [json.loads(line) for line in captured.out.splitlines()]
    return status, lines, captured.err


def test_the_stream_is_what_eval_reads_with_pictures_by_their_pixels(tmp_path, copy, capsys):
    out = tmp_path / "out"
    status, (report,), _ = call(capsys, NAME, out, "--folder", copy)
    assert status == 0
    assert report == {
        "data": NAME,
        "licence": "GPL-3.0",
        "written": 3,
        "known": 1,
        "tasks": 3,
        "set_aside": {"bad_image": 1, "no_answer": 1},
    }
    first, second, third = with_image_ids(read_tasks(out / "tasks.jsonl"))
    assert first.question == "How much is 1?"
    assert first.reference.get_secret_value() == "1"
    assert [Path(name).stem for name in first.images] == list(first.image_ids)
    assert first.group == third.group != second.group
    lines = (out / "references.jsonl").read_text().splitlines()
    assert json.loads(lines[0]) == {"id": second.id, "references": ["2", "two"]}
    assert len(lines) == 1
    reasons = [json.loads(line) for line in (out / "rejected.jsonl").read_text().splitlines()]
    assert [(reason["line"], reason["code"]) for reason in reasons] == [
        (3, "bad_image"),
        (4, "no_answer"),
    ]


def test_the_same_command_goes_on_where_it_stopped_and_mends_a_torn_line(tmp_path, copy, capsys):
    out = tmp_path / "out"
    _, (report,), _ = call(capsys, NAME, out, "--folder", copy, "--limit", 1)
    assert report["tasks"] == 1
    with (out / "tasks.jsonl").open("a") as handle:
        handle.write('{"id": "torn')
    _, (report,), _ = call(capsys, NAME, out, "--folder", copy)
    assert (report["written"], report["tasks"]) == (2, 3)
    assert len(read_tasks(out / "tasks.jsonl")) == 3
    before = (out / "tasks.jsonl").read_bytes()
    _, (report,), _ = call(capsys, NAME, out, "--folder", copy)
    assert (report["written"], report["known"]) == (0, 4)
    assert (out / "tasks.jsonl").read_bytes() == before


def test_a_question_with_a_group_too_long_for_a_title_keeps_its_neighbours(tmp_path, capsys):
    address = "http://x/" + "é" * 300
    rows = [
        {
            "questionId": str(number),
            "question": "Which year?",
            "answers": ["2011"],
            "image": fixtures.stored(fixtures.picture(number)),
            "image_url": address + "z" * (number == 3),
        }
        for number in (1, 2, 3)
    ]
    fixtures.write_parquet(tmp_path / "copy" / "validation.parquet", fixtures.INFOGRAPHIC, rows)
    out = tmp_path / "out"
    call(capsys, "lmms-lab/DocVQA:InfographicVQA", out, "--folder", tmp_path / "copy")
    first, second, third = read_tasks(out / "tasks.jsonl")
    assert first.group == second.group != third.group
    assert 0 < len(first.group.encode()) <= 256


def test_a_data_set_whose_pictures_lie_apart_asks_for_their_folder(tmp_path, capsys):
    fixtures.write_annotations(tmp_path, [])
    status, _, err = call(capsys, "Zhiqiang007/MathV360K", tmp_path / "out", "--folder", tmp_path)
    assert status == 2
    assert "--images" in err


def test_two_processes_cannot_write_one_stream(tmp_path):
    with TaskStream(tmp_path / "out"):
        with pytest.raises(BankBusyError, match="another process"):
            TaskStream(tmp_path / "out")
    with TaskStream(tmp_path / "out") as again:
        assert len(again) == 0
