"""`epimem build`: the whole job at once, its table, what it sets aside, stopping and going on."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from epimem.cli import INTERRUPTED, main
from epimem.memory import ExperienceMemory

PROGRAM = (sys.executable, "-m", "epimem")
SHAPES = ("triangle", "diamond", "circle", "square", "hexagon")
COLORS = ("white", "black", "hollow", "striped", "dotted", "grey", "double")
OPERATORS = ("Rubra", "Azul", "Orio", "Verda", "Nera", "Plata", "Cobre", "Lima")


def lesson(number: int) -> dict[str, Any]:
    color, shape = COLORS[number % 7], SHAPES[number % 5]
    operator = OPERATORS[number % 8]
    return {
        "guidance": f"On {operator} maps a {color} {shape} is no stop: leave it out ({number}).",
        "title": f"{color} {shape} on {operator} maps",
        "index": {
            "topic": f"{color} {shape}",
            "scope": f"{operator} Metro line diagrams",
            "question_anchor": "How many stations does a train call at?",
        },
        "question_key": f"q{number}",
    }


def pair(number: int) -> dict[str, Any]:
    color, shape = COLORS[number % 7], SHAPES[number % 5]
    text = f"The legend says that a {color} {shape} is a depot. So the train calls at {number}."
    step = {"step_id": 1, "source": "agent", "message": text}
    run = {
        "schema": "epimem-run/1",
        "run_id": f"run-{number:03}",
        "created_at": "2026-01-01T00:00:00Z",
        "task": {
            "task_id": f"t{number}",
            "family": "stations",
            "question": f"How many stations does train {number} call at?",
        },
        "system": {"harness": "h"},
        "trajectory": {
            "schema_version": "ATIF-v1.8",
            "agent": {"name": "solver", "version": "1"},
            "steps": [step],
        },
        "answer": {"text": str(number)},
    }
    outcome = {"run_id": run["run_id"], "verdict": ("right", "wrong")[number % 2]}
    return {"run": run, "outcome": {**outcome, "source": "verifier"}}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of 34 runs and 66 lessons: two batches of ingest, two steps of maintain."""
    path = tmp_path_factory.mktemp("source") / "records.jsonl"
    values = [*map(pair, range(34)), *map(lesson, range(66))]
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


@pytest.fixture(scope="module")
def whole(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the bank of that file, built without an interruption."""
    bank = tmp_path_factory.mktemp("whole") / "bank"
    assert main(["build", str(bank), "jsonl", str(source), "--encoder", "none"]) == 0
    return bank


def digest(bank: Path) -> str:
    with ExperienceMemory.open(bank, read_only=True) as memory:
        assert not memory.check()
        return memory.bank.state_digest()


def report(capfd: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    capfd.readouterr()
    assert main([str(argument) for argument in arguments]) == 0
    values: dict[str, Any] = json.loads(capfd.readouterr().out)
    return values


def test_build_ends_with_a_report(
    source: Path, tmp_path: Path, whole: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    values = report(capfd, "build", tmp_path / "b", "jsonl", source, "--encoder", "none")

    assert sum(values["runs"].values()) == 34
    assert values["received"] == {"queued": 34, "stored": 66}
    assert values["lessons"] + values["folded"] >= 66
    assert values["placed"] == values["lessons"]
    assert values["operations"]["place"] == values["lessons"]
    assert values["steps"] >= 2
    assert values["calls"] > 0
    assert values["seconds"] > 0
    assert (values["set_aside"], values["rejected_file"]) == ({}, "")
    assert digest(tmp_path / "b") == digest(whole)


def test_building_again_does_nothing_twice(
    source: Path, whole: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = digest(whole)
    values = report(capfd, "build", whole, "jsonl", source, "--encoder", "none")

    assert values["received"] == {"duplicate": 100}
    assert (values["lessons"], values["placed"], values["operations"]) == (0, 0, {})
    assert digest(whole) == before


def test_a_table_is_drawn_on_a_terminal(
    whole: Path, source: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epimem.cli.output.is_terminal", lambda stream: stream is sys.stdout)
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["build", str(whole), "jsonl", str(source)]) == 0
    out = capfd.readouterr().out

    assert "runs of the bank by state" in out
    assert "derived" in out
    assert "duplicate 100" in out
    assert "seconds" in out


def test_progress_is_drawn_on_a_terminal(
    whole: Path, source: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epimem.cli.progress.is_terminal", lambda _: True)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    assert main(["build", str(whole), "jsonl", str(source)]) == 0
    captured = capfd.readouterr()

    assert json.loads(captured.out)["received"] == {"duplicate": 100}
    assert "contribute" in captured.err
    assert "100, " in captured.err


def test_bad_lines_are_set_aside_with_their_reason_and_the_rest_is_built(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "records.jsonl"
    lines = [json.dumps(lesson(number)) for number in range(30)]
    lines[7:7] = ['{"guidance": "cut', '{"guidance": "\\u202eabc"}']
    lines.append(json.dumps({**lesson(1), "parents": ["gone"]}))
    source.write_text("\n".join(lines))
    bank = tmp_path / "b"
    assert main(["build", str(bank), "jsonl", str(source), "--encoder", "none"]) == 0
    captured = capfd.readouterr()
    values = json.loads(captured.out)

    assert values["received"] == {"stored": 30}
    assert values["set_aside"] == {"bad_json": 1, "invalid_text": 1, "not_found": 1}
    aside = [json.loads(line) for line in Path(values["rejected_file"]).read_text().splitlines()]
    assert [(item["source"], item["line"], item["code"]) for item in aside] == [
        ("records.jsonl", 8, "bad_json"),
        ("records.jsonl", 9, "invalid_text"),
        ("records.jsonl:33", 0, "not_found"),
    ]
    assert "3 records set aside" in captured.err


def test_a_fault_of_the_bank_ends_a_build(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "records.jsonl"
    source.write_text(json.dumps(lesson(1)))
    bank = tmp_path / "b"
    main(["init", str(bank), "--encoder", "none"])
    (bank / "epimem.toml").write_text('[encoder]\nmodel = "table:32"\n')
    main(["init", str(tmp_path / "c"), "--encoder", "table:64"])
    (tmp_path / "c" / "epimem.toml").write_text('[encoder]\nmodel = "table:32"\n')
    capfd.readouterr()

    assert main(["build", str(tmp_path / "c"), "jsonl", str(source)]) == 5
    assert capfd.readouterr().err.startswith("epimem: embedding_mismatch: ")
    assert not list(tmp_path.glob("*.rejected.jsonl"))


def test_a_source_that_cannot_be_written_beside_is_no_obstacle(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "data" / "r.jsonl"
    source.parent.mkdir()
    source.write_text('{"guidance": "Look twice"}\n{\n')
    monkeypatch.setattr("epimem.cli.contribute._may_write", lambda _: False)
    monkeypatch.chdir(tmp_path)
    values = report(capfd, "build", tmp_path / "b", "jsonl", source, "--encoder", "none")

    assert values["rejected_file"] == "r.jsonl.rejected.jsonl"
    assert (tmp_path / "r.jsonl.rejected.jsonl").exists()
    assert [path.name for path in source.parent.iterdir()] == ["r.jsonl"]


def test_a_source_of_another_format_is_no_success(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "notes.jsonl"
    source.write_text("these are\nno records\n")
    arguments = ["build", str(tmp_path / "b"), "jsonl", str(source), "--encoder", "none"]
    assert main(arguments) == 1
    assert json.loads(capfd.readouterr().out)["set_aside"] == {"bad_json": 2}


def test_a_source_that_is_not_there_leaves_no_bank(tmp_path: Path) -> None:
    assert main(["build", str(tmp_path / "b"), "jsonl", str(tmp_path / "none.jsonl")]) == 4
    assert not (tmp_path / "b").exists()


def test_build_reads_standard_input_and_takes_what_is_wanted(source: Path, tmp_path: Path) -> None:
    arguments = ("build", str(tmp_path / "b"), "jsonl", "-", "--take", "lessons")
    result = subprocess.run(
        [*PROGRAM, *arguments, "--encoder", "none", "--contributor", "alice"],
        check=False,
        input=source.read_bytes(),
        capture_output=True,
        timeout=120,
        cwd=tmp_path,
    )
    values = json.loads(result.stdout)

    assert result.returncode == 0
    assert values["received"] == {"stored": 66}
    assert values["runs"] == {}
    assert b"maintain: 66" in result.stderr


def test_options_that_an_existing_bank_does_not_have_are_refused(
    whole: Path, source: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for option, value in (
        ("--encoder", "table:64"),
        ("--namespace", "x"),
        ("--contributor", "x"),
        ("--organisation", "x"),
        ("--capacity", "9"),
    ):
        assert main(["build", str(whole), "jsonl", str(source), option, value]) == 5
        line = capfd.readouterr().err
        assert line.startswith("epimem: conflict: ")
        assert option in line


def test_an_unknown_format_lists_those_there_are(
    tmp_path: Path, source: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["build", str(tmp_path / "b"), "no-such", str(source)]) == 2
    line = capfd.readouterr().err

    assert "jsonl" in line
    assert "openai-chat" in line
    assert not (tmp_path / "b").exists()
    take = ["build", str(tmp_path / "b"), "openai-chat", str(source), "--take", "runs"]
    assert main(take) == 2


def test_foreign_runs_are_built_by_their_importer(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    turns = [{"role": "user", "content": "How many?"}, {"role": "assistant", "content": "Six."}]
    source = tmp_path / "chat.jsonl"
    source.write_text(json.dumps({"messages": turns}) + "\n" + json.dumps({"messages": 3}) + "\n")
    values = report(capfd, "build", tmp_path / "b", "openai-chat", source, "--encoder", "none")

    assert values["received"] == {"queued": 1}
    assert sum(values["runs"].values()) == 1
    assert values["set_aside"] == {"invalid_field": 1}


# -- stopping and going on -------------------------------------------------------------------------


def _interrupted(bank: Path, source: Path, query: str, *, times: int = 1) -> bytes:
    """Build in a process, send Ctrl-C once `query` on the bank's database gives a row."""
    process = subprocess.Popen(
        [*PROGRAM, "build", str(bank), "jsonl", str(source), "--encoder", "none"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    until = time.monotonic() + 100
    while not _holds(bank, query):
        assert process.poll() is None, "the build ended before it could be interrupted"
        assert time.monotonic() < until
        time.sleep(0.002)
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.005)
    out, err = process.communicate(timeout=100)
    assert process.returncode == INTERRUPTED
    assert out == b""
    assert b"Traceback" not in err
    return err


def _holds(bank: Path, query: str) -> bool:
    try:
        connection = sqlite3.connect(f"file:{bank}/bank.db?mode=ro", uri=True)
    except sqlite3.OperationalError:
        return False
    try:
        return connection.execute(query).fetchone() is not None
    except sqlite3.OperationalError:
        return False
    finally:
        connection.close()


def journal(kind: str, count: int) -> str:
    return f"SELECT 1 FROM journal WHERE kind = '{kind}' GROUP BY kind HAVING count(*) >= {count}"


def test_an_interrupted_build_goes_on_to_the_same_bank(
    source: Path, whole: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bank = tmp_path / "b"
    # In the middle of contributing, of a batch of ingest, and of a step of maintenance.
    for query in (journal("lesson", 20), journal("derive", 5), journal("op:place", 5)):
        err = _interrupted(bank, source, query)
        assert b"stopping after what is under way" in err
        assert err.endswith(b"epimem: interrupted; the same command goes on where it stopped\n")
        assert main(["check", str(bank)]) == 0
    values = report(capfd, "build", bank, "jsonl", source, "--encoder", "none")

    assert values["received"] == {"duplicate": 100}
    assert 0 < values["placed"] < 100
    assert digest(bank) == digest(whole)


def test_a_second_interrupt_stops_at_once_and_loses_nothing(
    source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bank = tmp_path / "b"
    _interrupted(bank, source, journal("op:place", 3), times=2)
    with ExperienceMemory.open(bank) as memory:
        assert not memory.check()
        placed = memory.bank.counts()["operations"]["place"]
    values = report(capfd, "build", bank, "jsonl", source, "--encoder", "none")

    assert values["placed"] + placed == 66 + values["runs"]["derived"]
    assert digest(bank)
