"""Controllers named on the command line, what they cost, and dry runs."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli_program import QUESTION, Epimem, lesson, run_record, write

DERIVED = {
    "lessons": [
        {
            "polarity": "positive",
            "guidance": "Leave out the hollow stations.",
            "applies_when": "",
            "cautions": [],
            "title": "hollow stations",
            "topic": "stations",
            "scope": "red line diagrams",
            "question_anchor": "How many stations does the train call at?",
            "evidence": [],
        }
    ],
    "nothing": "",
}


def script(path: Path, *lines: dict[str, object]) -> str:
    return f"scripted:{write(path, *lines)}"


def test_a_model_on_the_command_line_derives_and_what_it_cost_is_shown(
    bank: Path, tmp_path: Path, epimem: Epimem
) -> None:
    epimem("contribute", bank, write(tmp_path / "r.jsonl", run_record("a"), run_record("b")))
    spec = script(
        tmp_path / "derive.jsonl",
        {
            "operation": "derive",
            "when": "(a)",
            "reply": DERIVED,
            "tokens_in": 700,
            "tokens_out": 90,
        },
        {"operation": "derive", "reply": "I cannot help.", "times": None, "tokens_in": 600},
    )
    done = epimem("ingest", bank, "--memory-controller", spec)
    assert done.status == 0, done.err
    assert done.lines[0]["runs"] == {"derived": 1, "queued": 1}

    costs = epimem("stats", bank, "--costs").lines
    assert [(row["role"], row["operation"], row["model"]) for row in costs] == [
        ("memory controller", "derive", "scripted/derive")
    ]
    # The refused reply was asked for once more.
    (row,) = costs
    assert (row["requests"], row["calls"], row["refused"]) == (2, 3, 1)
    assert (row["tokens_in"], row["tokens_out"]) == (1900, 90)

    (refused,) = epimem("stats", bank, "--refused", 5).lines
    assert refused["raw"] == "I cannot help."
    assert "hollow" in epimem("retrieve", bank, QUESTION, "--text").out


def test_the_account_of_a_bank_without_models_is_empty(grown: Path, epimem: Epimem) -> None:
    assert epimem("stats", grown, "--costs").lines == []


def test_the_account_is_drawn_on_a_terminal(
    bank: Path, tmp_path: Path, epimem: Epimem, on_terminal: None
) -> None:
    del on_terminal
    assert "no model has worked" in epimem("stats", bank, "--costs").err
    epimem("contribute", bank, write(tmp_path / "l.jsonl", lesson(1)))
    spec = script(tmp_path / "place.jsonl", {"reply": "rubbish", "times": None, "tokens_in": 5})
    epimem("maintain", bank, "--tree-organizer", spec)
    drawn = epimem("stats", bank, "--costs").out
    assert "tree organizer" in drawn
    assert "place" in drawn
    assert "rubbish" in epimem("stats", bank, "--refused", 1).out


def test_a_dry_run_prints_what_would_be_done_and_changes_nothing(
    bank: Path, tmp_path: Path, epimem: Epimem
) -> None:
    epimem("contribute", bank, write(tmp_path / "l.jsonl", *map(lesson, range(9))))
    before = epimem("stats", bank, "--json").lines[0]["sequence_number"]
    done = epimem("maintain", bank, "--dry-run")
    *planned, report = done.lines
    assert report["placed"] == 9
    assert sum(item.get("op") == "place" for item in planned) == 9
    assert epimem("stats", bank, "--json").lines[0]["sequence_number"] == before
    assert epimem("maintain", bank).lines == [report]


def test_a_spec_that_init_is_given_is_kept_in_the_settings(tmp_path: Path, epimem: Epimem) -> None:
    spec = script(tmp_path / "s.jsonl", {"reply": {"gate": 1}})
    done = epimem("init", tmp_path / "b", "--encoder", "none", "--memory-controller", spec)
    assert done.status == 0, done.err
    assert f"spec = {json.dumps(spec)}" in (tmp_path / "b" / "epimem.toml").read_text()


def test_an_unknown_controller_is_refused_with_those_there_are(
    bank: Path, tmp_path: Path, epimem: Epimem
) -> None:
    epimem("contribute", bank, write(tmp_path / "l.jsonl", lesson(1)))
    done = epimem("maintain", bank, "--tree-organizer", "oracle:9")
    assert done.status == 2
    assert "embedded" in done.err


def test_the_gate_can_be_opened_and_shut_from_outside(grown: Path, epimem: Epimem) -> None:
    counts = {
        gate: len(epimem("retrieve", grown, QUESTION, "--gate", gate).lines[0].get("crops", []))
        for gate in ("always", "off")
    }
    assert counts["always"] > 0
    assert counts["off"] == 0
