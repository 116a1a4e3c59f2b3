"""`epimem snapshot`, `diff`, `restore`, `freeze` and `revoke`."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.cli_program import QUESTION, Epimem, lesson, write


def test_states_are_named_compared_and_restored(
    grown: Path, tmp_path: Path, epimem: Epimem
) -> None:
    seq = epimem("snapshot", grown, "before").lines[0]["seq"]
    epimem("contribute", grown, write(tmp_path / "more.jsonl", lesson(77)))
    epimem("maintain", grown)
    listed = epimem("snapshot", grown, "--list").lines

    assert [(item["name"], item["seq"]) for item in listed] == [("before", seq)]
    head = epimem("stats", grown).lines[0]["sequence_number"]
    assert len(epimem("diff", grown, "before", head).lines[0]["added"]) >= 1
    assert epimem("restore", grown, "before").status == 0
    assert epimem("show", grown, "--depth", 0).lines[0]["lessons"] == 12
    assert epimem("stats", grown).lines[0]["inbox"] == 1
    assert epimem("restore", grown, "before", "--phase", "evaluation").status == 3
    assert epimem("snapshot", grown, "before").status == 5
    assert epimem("snapshot", grown).status == 2
    assert epimem("snapshot", grown, "x", "--list").status == 2
    assert epimem("diff", grown, "before", "never").status == 4


def test_a_frozen_bank_answers_and_takes_nothing(
    grown: Path, tmp_path: Path, epimem: Epimem
) -> None:
    assert epimem("freeze", grown).lines[0]["file_digest"]
    before = {path: path.stat().st_mtime_ns for path in grown.rglob("*")}
    source = write(tmp_path / "l.jsonl", lesson(70))

    answer = epimem("retrieve", grown, QUESTION, "--image", tmp_path / "map.png").lines[0]
    assert answer["items"]
    assert epimem("explain", grown).status == 0
    told = epimem("feedback", grown, answer["retrieval_id"], "--verdict", "right")
    assert told.lines[0]["status"] == "stored"
    for call in (
        ("contribute", grown, source),
        ("maintain", grown),
        ("snapshot", grown, "x"),
        ("freeze", grown),
        ("restore", grown, 3),
        ("revoke", grown, "--contributor", "local", "--yes"),
    ):
        result = epimem(*call)
        assert (result.status, result.err.split(": ")[1]) == (5, "bank_frozen"), call
    for command in ("show", "stats", "log", "check"):
        assert epimem(command, grown).status == 0
    assert {path: path.stat().st_mtime_ns for path in grown.rglob("*")} == before


def test_revoke_says_what_it_reaches_and_needs_a_yes(
    grown: Path, epimem: Epimem, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaf = epimem("show", grown).lines[-1]["node_id"]
    refused = epimem("revoke", grown, "--item", leaf)
    assert refused.status == 2
    assert "reaches" in refused.err
    assert "--yes" in refused.err
    assert epimem("show", grown, leaf).status == 0

    done = epimem("revoke", grown, "--item", leaf, "--yes")
    assert done.status == 0
    assert leaf in done.lines[0]["node_ids"]
    assert "Frozen copies and exports are not touched" in done.err
    assert epimem("show", grown, leaf).status == 4

    assert epimem("revoke", grown, "--yes").status == 2
    assert epimem("revoke", grown, "--item", "a", "--run", "b", "--yes").status == 2
    assert epimem("revoke", grown, "--run", "no-such", "--yes").status == 4

    monkeypatch.setattr("epimem.cli.history.is_terminal", lambda _: True)
    for answer, status in ((b"n\n", 1), (b"\n", 1), (b"y\n", 0)):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(answer)))
        assert epimem("revoke", grown, "--contributor", "local").status == status
    assert epimem("stats", grown).lines[0]["nodes"].get("lesson", 0) == 0
