"""`epimem retrieve`, `feedback` and `explain`."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from PIL import Image

from epimem.cli import main
from epimem.cli.ask import AUTHORITIES, VERDICT_SOURCES, image_ids
from epimem.schema import lesson as lesson_schema
from tests.cli_program import QUESTION, Epimem


def test_retrieve_prints_the_memory_input_and_writes_crops(
    grown: Path, tmp_path: Path, epimem: Epimem
) -> None:
    crops = tmp_path / "crops"
    picture = tmp_path / "map.png"
    result = epimem("retrieve", grown, QUESTION, "--image", picture, "--crops", crops)

    assert result.status == 0
    answer, *shown = result.lines
    assert answer["items"]
    assert answer["gate"] == 1
    assert "triangles" in answer["text"]
    assert shown
    assert [Path(line["crop"]) for line in shown] == sorted(crops.iterdir())
    assert Image.open(shown[0]["crop"]).getpixel((5, 5)) == (200, 10, 10)


def test_retrieve_prints_the_text_alone(grown: Path, epimem: Epimem) -> None:
    result = epimem("retrieve", grown, QUESTION, "--text", "--max-rules", 0)

    assert result.status == 0
    assert not result.lines
    assert result.out.count(" item ") == 1
    nothing = epimem("retrieve", grown, QUESTION, "--text", "--namespace", "empty")
    assert (nothing.status, nothing.out) == (0, "")
    assert "nothing" in nothing.err


def test_retrieve_keeps_to_the_bounds_given(grown: Path, epimem: Epimem) -> None:
    bounds = ("--max-rules", 1, "--max-lessons", 0, "--max-chars", 600, "--max-images", 0)
    answer = epimem("retrieve", grown, QUESTION, *bounds, "--mode", "lexical", "--k", 90).lines[0]

    assert len(answer["items"]) == 1
    assert len(answer["text"]) <= 600
    assert "crops" not in answer
    assert epimem("retrieve", grown, QUESTION, "--max-chars", 1).status == 2
    assert epimem("retrieve", grown, QUESTION, "--k", -1).status == 2
    assert epimem("retrieve", grown, "\x1b[2J").status == 2
    assert epimem("retrieve", grown, " ").status == 2


def test_what_was_had_is_left_out_of_a_follow_up(grown: Path, epimem: Epimem) -> None:
    first = epimem("retrieve", grown, QUESTION).lines[0]
    had = [item["node_id"] for item in first["items"]]
    excluded = [part for key in had for part in ("--exclude", key)]
    second = epimem("retrieve", grown, QUESTION, *excluded).lines[0]

    assert had
    assert not set(had) & {item["node_id"] for item in second["items"]}


def test_one_run_gets_one_answer(grown: Path, epimem: Epimem) -> None:
    asked = [epimem("retrieve", grown, QUESTION, "--run-id", run).lines[0] for run in "aab"]

    assert asked[0] == asked[1]
    assert asked[0]["retrieval_id"] != asked[2]["retrieval_id"]


def test_an_image_of_a_question_gets_the_id_the_bank_gives(
    bank: Path, tmp_path: Path, epimem: Epimem
) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    picture = Image.new("RGB", (9, 5), (9, 9, 9))
    picture.putpixel((0, 0), (255, 0, 0))
    picture.save(tmp_path / "turned.png", exif=turned)
    stored = epimem("contribute", bank, "--image", tmp_path / "turned.png").lines[0]

    assert image_ids([str(tmp_path / "turned.png")]) == (stored["image_id"],)
    assert (stored["width"], stored["height"]) == (5, 9)


def test_feedback_counts_once_and_names_its_items(grown: Path, epimem: Epimem) -> None:
    answer = epimem("retrieve", grown, QUESTION).lines[0]
    item = answer["items"][0]["node_id"]
    given = (
        "feedback",
        grown,
        answer["retrieval_id"],
        "--verdict",
        "wrong",
        "--source",
        "verifier",
    )
    told = (*given, "--hurt", f"{item}=white triangles = no stop")

    assert epimem(*told).lines[0]["status"] == "stored"
    assert epimem(*told).lines[0]["status"] == "duplicate"
    shown = epimem("show", grown, item).lines[0]
    assert (shown["hurt"], shown["used_wrong"]) == (1, 1)
    assert epimem("feedback", grown, answer["retrieval_id"]).status == 2
    assert epimem("feedback", grown, "no-such", "--verdict", "right").status == 4
    for bad in ("x", "=y", f"{item}=", f"{item}= "):
        assert epimem(*given, "--hurt", bad).err.startswith("epimem: usage: ")
    twice = epimem(*given, "--hurt", f"{item}=a", "--hurt", f"{item}=b")
    assert twice.status == 2


def test_explain_shows_scores_and_verdicts(grown: Path, epimem: Epimem) -> None:
    assert epimem("explain", grown).status == 4
    first = epimem("retrieve", grown, QUESTION).lines[0]["retrieval_id"]
    epimem("retrieve", grown, "Something else entirely about apples", "--reader", "solver")
    about, *candidates = epimem("explain", grown, first).lines

    assert about["retrieval_id"] == first
    assert candidates[0]["rank"] == 1
    assert candidates[0]["title"].startswith("white triangles")
    assert {"dense", "lexical", "rank_score", "verdict", "chosen"} <= candidates[0].keys()
    assert epimem("explain", grown).lines[0]["reader"] == "solver"
    assert epimem("explain", grown, "no-such").status == 4


def test_choices_are_those_of_the_records() -> None:
    assert AUTHORITIES == lesson_schema.AUTHORITIES
    assert get_args(lesson_schema.VerdictSource) == VERDICT_SOURCES


def test_a_folder_for_crops_that_cannot_be_made_is_a_mistake_of_usage(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", str(tmp_path / "b"), "--encoder", "none"]) == 0
    (tmp_path / "file").write_text("in the way")
    capfd.readouterr()
    arguments = ["retrieve", str(tmp_path / "b"), "any question", "--crops", str(tmp_path / "file")]
    assert main(arguments) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "--crops" in captured.err


def test_a_text_file_is_no_image_of_a_question(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", str(tmp_path / "b"), "--encoder", "none"]) == 0
    (tmp_path / "users").write_text("root:x:0:0\ndaemon:x:1:1\n")
    capfd.readouterr()
    arguments = ["retrieve", str(tmp_path / "b"), "any", "--image", str(tmp_path / "users")]
    assert main(arguments) == 2
    assert capfd.readouterr().err.startswith("epimem: unsupported_type: ")
