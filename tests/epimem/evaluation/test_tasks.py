"""Reading a task stream, and telling which line is no task."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from epimem.errors import NotFoundError, RecordError
from epimem.evaluation import EvalTask, exact_match, read_tasks
from epimem.evaluation.answers import counted_tokens
from epimem.evaluation.tasks import tasks_digest, with_image_ids

GOOD = {"id": "a", "question": "What?", "reference": "seven"}


def stream(folder: Path, *lines: object) -> Path:
    path = folder / "tasks.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def test_paths_of_images_are_relative_to_the_stream(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4), (1, 2, 3)).save(tmp_path / "page.png")

    (task,) = read_tasks(stream(tmp_path, {**GOOD, "images": ["page.png"], "family": "f"}))

    assert task.images == (str(tmp_path / "page.png"),)
    (known,) = with_image_ids([task])
    assert len(known.image_ids[0]) == 64
    assert known.public.question_key != task.public.question_key
    assert task.reference.get_secret_value() == "seven"


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ({**GOOD, "question": ""}, "tasks.jsonl:2 question"),
        ({**GOOD, "id": "b", "reference": 7}, "tasks.jsonl:2 reference"),
        ({**GOOD, "answer": "seven"}, "tasks.jsonl:2 answer"),
        ({"id": "b", "question": "zero\u0000"}, "tasks.jsonl:2 question"),
        ({**GOOD, "id": "b", "images": ["no.png"]}, "tasks.jsonl:2 images"),
        (["a"], "tasks.jsonl:2"),
        (GOOD, "tasks.jsonl id"),
    ],
)
def test_a_line_that_is_no_task_is_named(tmp_path: Path, line: object, where: str) -> None:
    with pytest.raises(RecordError) as caught:
        read_tasks(stream(tmp_path, GOOD, line))

    assert caught.value.field == where


def test_a_stream_must_be_there_and_hold_something(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        read_tasks(tmp_path / "tasks.jsonl")
    with pytest.raises(RecordError, match="no task"):
        read_tasks(stream(tmp_path))


def test_the_digest_covers_what_is_asked_and_what_is_right() -> None:
    one, other = EvalTask(**GOOD), EvalTask(**{**GOOD, "id": "b"})

    assert tasks_digest([one, other]) == tasks_digest([other, one])
    changed = (
        {"reference": "eight"},
        {"question": "Why?"},
        {"group": "g"},
    )
    digests = {tasks_digest([EvalTask(**{**GOOD, **change})]) for change in changed}
    assert len(digests | {tasks_digest([one])}) == 4


@pytest.mark.parametrize(
    ("answer", "reference", "right"),
    [
        (" Seven\n", "seven", True),
        ("ﬁve  stops", "FIVE stops", True),
        ("seven.", "seven", False),
        ("", "seven", False),
    ],
)
def test_exact_match_after_normalising(answer: str, reference: str, *, right: bool) -> None:
    task = EvalTask(**GOOD).public

    assert exact_match(task, answer, reference) is right


def test_a_token_is_four_bytes() -> None:
    assert [counted_tokens(text) for text in ("", "a", "abcd", "abcde", "图图")] == [0, 1, 1, 2, 2]
