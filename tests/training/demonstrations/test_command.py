"""`epimem train demonstrations` as it is typed: what it takes, what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from epimem.cli import main
from tests.training.demonstrations import small_runs
from training.demonstrations.store import DemonstrationSet

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def epimem(capfd):
    def call(*arguments):
        status = main(["train", "demonstrations", *map(str, arguments)])
        captured = capfd.readouterr()
        return status, [json.loads(line) for line in captured.out.splitlines()], captured.err

    return call


def runs_file(tmp_path, houses=("Rubra",), count=2):
    pairs = [small_runs.pair_of(house, n) for house in houses for n in range(count)]
    return small_runs.write_runs(tmp_path / "runs.jsonl", *pairs)


def test_runs_become_a_finished_set_with_a_card_and_splits(tmp_path, epimem):
    out = tmp_path / "out"
    status, (line,), err = epimem(
        runs_file(tmp_path), out, "--teacher", "embedded", "--encoder", "none"
    )
    assert status == 0
    assert line["teacher"] == {"embedded": line["demonstrations"]}
    assert line["source"] == {"runs.jsonl": line["demonstrations"]}
    assert (line["runs"]["runs"], line["runs"]["bundles"]) == (2, 1)
    assert line["runs"]["accepted"] == line["demonstrations"] > 0
    assert json.loads((out / "splits.json").read_text())["groups"] == {"Rubra": "train"}
    assert "bundles" in err
    assert len(list(DemonstrationSet.open(out).read("train"))) == line["demonstrations"]


def test_no_reference_is_in_any_file_that_is_left_behind(tmp_path, epimem):
    out = tmp_path / "out"
    epimem(runs_file(tmp_path), out, "--teacher", "embedded", "--encoder", "none")
    files = [path for path in out.rglob("*") if path.is_file()]
    assert len(files) > 8
    assert not [path for path in files if b"CANARY" in path.read_bytes()]


def test_any_backend_may_teach_and_another_revise(tmp_path, epimem):
    script = tmp_path / "replies.jsonl"
    script.write_text('{"reply": "no JSON", "times": null}\n')
    out = tmp_path / "out"
    status, (line,), _ = epimem(
        runs_file(tmp_path),
        out,
        *("--teacher", f"scripted:{script}", "--reviser", "embedded", "--encoder", "none"),
    )
    assert status == 0
    assert line["reviser"] == {"embedded": line["demonstrations"]}
    assert line["teacher"] == {"scripted/replies": line["demonstrations"]}
    assert line["runs"]["revised"] == line["runs"]["accepted"] > 0
    assert line["runs"]["usage"]["calls"] > 0


def test_an_installed_importer_reads_runs_of_another_format(tmp_path, epimem):
    status, lines, err = epimem(
        tmp_path, tmp_path / "out", "--teacher", "embedded", "--format", "nothing-of-the-kind"
    )
    assert (status, lines) == (2, [])
    assert "vlm-runs" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "[RUNS] OUT"),
        (["out"], "nothing to collect from"),
        (["runs", "out"], "RUNS need a --teacher"),
        (["a", "b", "c"], "one RUNS and one OUT"),
        (["out", "--world", "charts", "--teacher", "embedded"], "go with RUNS"),
        (["out", "--world", ""], "nothing to collect from"),
    ],
)
def test_what_does_not_go_together_is_refused_in_words(
    tmp_path, monkeypatch, epimem, arguments, said
):
    monkeypatch.chdir(tmp_path)
    status, lines, err = epimem(*arguments)
    assert (status, lines) == (2, [])
    assert said in err
    assert not list(tmp_path.iterdir())


def test_a_teacher_that_cannot_be_loaded_is_named(tmp_path, epimem):
    status, _, err = epimem(
        runs_file(tmp_path), tmp_path / "out", "--teacher", "nobody", "--encoder", "none"
    )
    assert status == 2
    assert "embedded" in err


def test_worlds_are_drawn_without_runs_and_the_same_call_adds_nothing(tmp_path, epimem):
    arguments = (tmp_path / "out", "--world", "charts", "--count", "1", "--encoder", "none")
    status, (line,), _ = epimem(*arguments)
    assert status == 0
    assert line["teacher"] == {"world:charts": 8}
    assert sum(sum(row.values()) for row in line["operations"].values()) == 8
    _, (again,), _ = epimem(*arguments)
    assert again["demonstrations"] == 8
    status, _, err = epimem(tmp_path / "out", "--world", "moons", "--encoder", "none")
    assert status == 4
    assert "charts" in err


def test_help_teaches_and_imports_no_model_library():
    code = (
        "import sys; from epimem.cli import main; main(['train', 'demonstrations', '--help']);"
        "sys.exit(3 if {'torch', 'transformers', 'datasets'} & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for word in ("RUNS", "--reviser", "set aside", "Examples", "--world charts"):
        assert word in done.stdout


@pytest.mark.long
def test_ctrl_c_ends_with_130_and_the_same_command_finishes_the_set(tmp_path):
    source = runs_file(tmp_path, ("Rubra", "Azul", "Orio"))
    command = [
        *(sys.executable, "-m", "epimem", "train", "demonstrations", str(source)),
        *(str(tmp_path / "out"), "--teacher", "embedded", "--encoder", "none", "--mix", "1"),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    job = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, env=environment
    )
    lines = tmp_path / "out" / "demonstrations.jsonl"
    while not (lines.exists() and lines.stat().st_size) and job.poll() is None:
        time.sleep(0.01)
    job.send_signal(signal.SIGINT)
    _, err = job.communicate(timeout=60)
    assert job.returncode == 130, err
    assert b"the same command goes on" in err
    before = lines.read_bytes()
    done = subprocess.run(command, capture_output=True, cwd=ROOT, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert lines.read_bytes().startswith(before)
    card = json.loads(done.stdout)
    assert card["groups"]["all"] == 3
    assert card["runs"]["known"] + card["runs"]["accepted"] >= card["demonstrations"]
