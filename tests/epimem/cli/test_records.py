"""Reading what a user hands in on the command line."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from epimem.cli import records
from epimem.cli.records import Given, Refused
from epimem.errors import NotFoundError, RecordError

LESSON = {"guidance": "Count from the station after the start."}
RUN: dict[str, Any] = {
    "schema": "epimem-run/1",
    "run_id": "run-1",
    "created_at": "2026-01-01T00:00:00Z",
    "task": {"task_id": "t", "question": "How many stations?"},
    "system": {"harness": "h"},
    "trajectory": {
        "schema_version": "ATIF-v1.8",
        "agent": {"name": "a", "version": "1"},
        "steps": [{"step_id": 1, "source": "agent", "message": "Six."}],
    },
}


def read(tmp_path: Path, data: bytes, name: str = "records", **options: bool) -> list[Any]:
    (tmp_path / name).write_bytes(data)
    return list(records.read_records(str(tmp_path / name), **options))


def lines(*values: object) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def shapes(found: list[Any]) -> list[object]:
    return [item.source if isinstance(item, Given) else (item.line, item.code) for item in found]


def test_runs_lessons_and_pairs_stand_one_on_a_line(tmp_path: Path) -> None:
    pair = {"run": RUN, "outcome": {"run_id": "run-1", "verdict": "wrong", "source": "oracle"}}
    run, lesson, both = read(tmp_path, lines(RUN, LESSON, pair))

    assert run.run.run_id == "run-1"
    assert run.outcome is None
    assert lesson.lessons[0].guidance == LESSON["guidance"]
    assert both.outcome.verdict == "wrong"
    assert [run.source, lesson.source, both.source] == ["records:1", "records:2", "records:3"]


def test_a_document_may_be_one_record_or_a_list(tmp_path: Path) -> None:
    pretty = json.dumps(RUN, indent=1).encode()
    listed = json.dumps([LESSON, RUN], indent=1).encode()

    assert shapes(read(tmp_path, pretty)) == ["records"]
    assert shapes(read(tmp_path, listed)) == ["records[0]", "records[1]"]


def test_a_bad_line_is_refused_by_number_and_the_rest_is_read(tmp_path: Path) -> None:
    data = lines(LESSON) + b"\n{broken\n\xff\xfe\n[1]\n" + lines({"guidance": ""}, 5, LESSON)

    assert shapes(read(tmp_path, data, "r.jsonl")) == [
        "r.jsonl:1",
        (3, "bad_json"),
        (4, "bad_json"),
        (5, "invalid_field"),
        (6, "invalid_text"),
        (7, "invalid_field"),
        "r.jsonl:8",
    ]


@pytest.mark.parametrize("first", [b"garbage\n", b'{"guidance": "cut\n', b"\xef\xbb\xbf{}\n"])
def test_a_bad_first_line_does_not_take_the_others_along(tmp_path: Path, first: bytes) -> None:
    assert shapes(read(tmp_path, first + lines(LESSON))) == [(1, "bad_json"), "records:2"]


def test_windows_line_ends_are_read(tmp_path: Path) -> None:
    data = lines(LESSON, LESSON).replace(b"\n", b"\r\n")

    assert shapes(read(tmp_path, data)) == ["records:1", "records:2"]


def test_a_line_over_the_bound_is_refused_and_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MAX_DOCUMENT", 200)
    data = lines(LESSON) + b'{"guidance": "' + b"x" * 1000 + b'"}\n' + lines(LESSON)

    assert shapes(read(tmp_path, data)) == ["records:1", (2, "too_large"), "records:3"]


def test_text_of_a_run_that_nothing_can_store_is_kept_visibly(tmp_path: Path) -> None:
    broken = json.dumps(RUN).replace("Six.", "Six\\ud800\\u0000").encode()
    (found,) = read(tmp_path, broken)

    assert found.run.replaced == 2
    assert found.run.trajectory.steps[0].message == "Six\\ud800\\u0000"


def test_a_lesson_with_a_lone_surrogate_is_refused(tmp_path: Path) -> None:
    (found,) = read(tmp_path, b'{"guidance": "a\\ud800"}')

    assert isinstance(found, Refused)


@pytest.mark.parametrize(
    "pair",
    [
        {"run": RUN, "outcome": {"run_id": "another"}},
        {"run": 1},
        {"run": RUN, "outcome": 1},
        {"run": RUN, "outcome": {"run_id": "run-1", "verdict": "perhaps"}},
    ],
)
def test_a_pair_that_does_not_belong_together_is_refused(tmp_path: Path, pair: object) -> None:
    assert shapes(read(tmp_path, lines(pair))) == [(1, "invalid_field")]


def test_only_what_is_wanted_is_taken(tmp_path: Path) -> None:
    data = lines(RUN) + b"[\n" + lines(LESSON)

    def wanted(take: records.Take) -> list[object]:
        found = iter(read(tmp_path, data, "r.jsonl"))
        return shapes(list(records.taken(found, take)))

    assert wanted("both") == ["r.jsonl:1", (2, "bad_json"), "r.jsonl:3"]
    assert wanted("runs") == ["r.jsonl:1", (2, "bad_json")]
    assert wanted("lessons") == [(2, "bad_json"), "r.jsonl:3"]


def test_records_are_counted_without_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(lines(LESSON) + b"\n  \n" + lines(LESSON))

    assert records.count_lines(str(path)) == 2
    assert records.count_lines("-") == 0


def test_what_is_not_a_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        list(records.read_records(str(tmp_path / "absent")))
    with pytest.raises(NotFoundError):
        list(records.read_records(str(tmp_path / "absent" / "deeper")))
    with pytest.raises(RecordError, match="folder"):
        list(records.read_records(str(tmp_path)))
    with pytest.raises(RecordError) as long:
        list(records.read_records("x" * 5000))
    assert long.value.code == "too_large"
    with pytest.raises(RecordError) as bytes_:
        list(records.read_records("\udcff"))
    assert bytes_.value.code == "invalid_text"


def test_standard_input_is_read_for_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines(LESSON, LESSON))))
    assert shapes(list(records.read_records("-"))) == ["standard input:1", "standard input:2"]

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"wo?\r\n")))
    assert records.read_text("-") == "wo?"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    with pytest.raises(RecordError) as error:
        records.read_text("-")
    assert error.value.code == "invalid_text"
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(RecordError, match="closed"):
        records.read_text("-")


def test_a_folder_gives_its_images_in_order(tmp_path: Path) -> None:
    for name in ("b.PNG", "a.jpg", "notes.txt"):
        (tmp_path / name).write_bytes(name.encode())
    empty = tmp_path / "empty"
    empty.mkdir()

    found = list(records.image_files([str(tmp_path), str(tmp_path / "notes.txt")]))

    assert [name for name, _ in found] == ["a.jpg", "b.PNG", "notes.txt"]
    with pytest.raises(NotFoundError):
        list(records.image_files([str(empty)]))
