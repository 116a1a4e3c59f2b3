"""`epimem show`, and drawing for a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli_program import QUESTION, Epimem, lesson, run_record, write


def test_show_prints_a_line_a_node_parents_first(grown: Path, epimem: Epimem) -> None:
    lines = epimem("show", grown).lines

    assert lines[0]["depth"] == 0
    assert lines[0]["lessons"] == 12
    assert sum(line["kind"] == "lesson" for line in lines) == 12
    seen: set[str | None] = {None}
    for line in lines:
        assert line["parent_id"] in seen
        seen.add(line["node_id"])
    assert max(line["depth"] for line in epimem("show", grown, "--depth", 1).lines) == 1
    one = epimem("show", grown, "--children", 1).lines
    assert [line["depth"] for line in one] == list(range(len(one)))


def test_show_lists_what_waits_in_the_inbox(bank: Path, tmp_path: Path, epimem: Epimem) -> None:
    assert "nothing is stored" in epimem("show", bank).err
    epimem("contribute", bank, write(tmp_path / "l.jsonl", lesson(0), lesson(1)))

    assert [line["inbox"] for line in epimem("show", bank).lines] == [True, True]
    other = epimem("show", bank, "--namespace", "other")
    assert (other.status, other.lines) == (0, [])
    assert "default" in other.err


def test_show_gives_one_node_in_full(grown: Path, epimem: Epimem) -> None:
    lines = epimem("show", grown).lines
    leaf = next(line for line in lines if line["kind"] == "lesson")
    inner = next(line for line in lines if line["children"] and line["depth"] == 1)
    shown = epimem("show", grown, leaf["node_id"]).lines[0]

    assert shown["record"]["lesson"]["evidence"][0]["note"] == "the white triangle"
    assert shown["record"]["lesson"]["contributor"] == "local"
    assert shown["path"][-1]["node_id"] == leaf["parent_id"]
    assert shown["derived_from"]["images"]
    below = epimem("show", grown, inner["node_id"]).lines[0]
    assert len(below["child_nodes"]) == inner["children"]
    assert epimem("show", grown, "no-such").status == 4


def test_show_looks_at_an_earlier_point(grown: Path, tmp_path: Path, epimem: Epimem) -> None:
    epimem("snapshot", grown, "before")
    epimem("contribute", grown, write(tmp_path / "more.jsonl", lesson(77)))
    epimem("maintain", grown)

    assert epimem("show", grown).lines[0]["lessons"] == 13
    assert epimem("show", grown, "--at", "before").lines[0]["lessons"] == 12
    assert epimem("show", grown, "--at", "never").status == 4
    assert epimem("show", grown, "--at", 10**9).status == 4


def test_a_node_of_another_namespace_is_shown_with_its_place(
    bank: Path, tmp_path: Path, epimem: Epimem
) -> None:
    source = write(tmp_path / "l.jsonl", *map(lesson, range(3)))
    stored = epimem("contribute", bank, source, "--namespace", "other").lines[0]
    epimem("maintain", bank)
    shown = epimem("show", bank, stored["id"]).lines[0]

    assert shown["namespace"] == "other"
    assert shown["path"]


@pytest.mark.usefixtures("on_terminal")
def test_the_drawn_tree_is_bounded_and_says_what_it_leaves_out(
    bank: Path, tmp_path: Path, epimem: Epimem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epimem.cli.show.NODES", 10)
    epimem("contribute", bank, write(tmp_path / "l.jsonl", *map(lesson, range(30))))
    epimem("maintain", bank)
    epimem("contribute", bank, write(tmp_path / "m.jsonl", *map(lesson, range(50, 57))))
    out = epimem("show", bank).out

    assert "30 lessons" in out
    assert " more" in out
    assert "inbox: 7 lessons wait" in out
    assert out.count("· ") <= 10 + 5


@pytest.mark.usefixtures("on_terminal")
def test_a_terminal_gets_drawings_and_json_when_asked(grown: Path, epimem: Epimem) -> None:
    epimem("retrieve", grown, QUESTION)
    leaf = epimem("show", grown, "--json").lines[-1]["node_id"]
    drawn = [
        epimem("show", grown),
        epimem("show", grown, leaf),
        epimem("explain", grown),
        epimem("stats", grown),
        epimem("log", grown),
        epimem("check", grown),
    ]

    assert [result.status for result in drawn] == [0] * 6
    assert [result.lines for result in drawn] == [[]] * 6
    expected = ("12 lessons", "the white triangle", "verdict", "lesson 12", "step_done", "sound")
    for result, words in zip(drawn, expected, strict=True):
        assert words in result.out
    for command in ("explain", "stats", "log", "check"):
        assert epimem(command, grown, "--json").lines


@pytest.mark.usefixtures("on_terminal")
@pytest.mark.parametrize("columns", ["1", "7"])
def test_a_terminal_of_no_width_breaks_nothing(
    grown: Path, epimem: Epimem, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    epimem("retrieve", grown, QUESTION)

    for command in ("show", "explain", "stats", "log", "check"):
        assert epimem(command, grown).status == 0


@pytest.mark.usefixtures("on_terminal")
def test_terminal_escapes_in_a_bank_are_never_printed_raw(
    bank: Path, tmp_path: Path, epimem: Epimem
) -> None:
    # Our text refuses them, so they stand where a harness may write what it likes.
    run = run_record("run\x1b]0;owned\x07", family="a\x1b[2Jb")
    source = write(tmp_path / "r.jsonl", run)
    printed = epimem("contribute", bank, source)
    shown = [printed, epimem("ingest", bank), epimem("stats", bank), epimem("log", bank)]
    shown += [epimem("show", bank), epimem("check", bank)]
    for line in epimem("show", bank, "--json").lines:
        shown.append(epimem("show", bank, line["node_id"]))

    assert printed.lines[0]["status"] == "queued"
    for result in shown:
        assert "\x1b]" not in result.out + result.err
        assert "\x1b[2J" not in result.out + result.err
        assert "\x07" not in result.out + result.err
