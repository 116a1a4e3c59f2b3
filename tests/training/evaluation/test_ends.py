"""Benches as commands: what they are given, and what becomes of those that fail."""

from __future__ import annotations

import json
import shlex
import sys

import pytest

from epimem.errors import ConfigError
from training.evaluation.ends import BenchMeasure, BenchResult, run_bench

CONTROLLER = ("embedded", "f" * 64, "embedded")
BOTH = ("memory_controller", "tree_organizer")
SCRIPT = """
import argparse, json, pathlib, sys
parser = argparse.ArgumentParser()
for name in ("--memory-controller", "--tree-organizer", "--folder", "--results", "--mode"):
    parser.add_argument(name)
given = parser.parse_args()
folder = pathlib.Path(given.folder)
folder.mkdir(exist_ok=True)
count = len(list(folder.iterdir()))
(folder / str(count)).touch()
print("working as", given.memory_controller, given.tree_organizer)
if given.mode == "silent":
    sys.exit(3)
found = {"format": "epimem-bench/1", "bench": "toy", "measures": [
    {"name": "runs so far", "value": float(count), "low": 0.0, "high": 1.0}]}
if given.mode == "rubbish":
    found = {"bench": "toy"}
pathlib.Path(given.results).write_text(json.dumps(found))
sys.exit(1)
"""


@pytest.fixture
def bench(tmp_path):
    script = tmp_path / "toy bench.py"
    script.write_text(SCRIPT)
    return f"python {shlex.quote(str(script))}"


def test_a_bench_is_run_with_the_controller_and_its_result_is_read(bench, tmp_path):
    line = run_bench(bench, CONTROLLER, tmp_path / "work", roles=BOTH)
    assert (line.controller, line.bench, line.failure) == ("embedded", "toy", "")
    assert line.measures == (BenchMeasure(name="runs so far", value=0.0, low=0.0, high=1.0),)


def test_what_a_bench_keeps_is_there_when_it_goes_on(bench, tmp_path):
    def value(controller, roles=BOTH):
        line = run_bench(bench, controller, tmp_path / "work", roles=roles)
        return line.measures[0].value

    assert [value(CONTROLLER), value(CONTROLLER)] == [0.0, 1.0]
    assert value(("other", "e" * 64, "embedded")) == 0.0
    assert value(CONTROLLER, roles=("tree_organizer",)) == 0.0


@pytest.mark.parametrize(
    ("roles", "said"),
    [
        (BOTH, "working as openai:x#y openai:x#y"),
        (("memory_controller",), "working as openai:x#y embedded"),
        (("tree_organizer",), "working as embedded openai:x#y"),
    ],
)
def test_only_the_roles_asked_about_are_replaced(bench, tmp_path, roles, said):
    run_bench(bench, ("m", "f" * 64, "openai:x#y"), tmp_path / "work", roles=roles)
    (log,) = (tmp_path / "work").glob("*/bench.log")
    assert said in log.read_text()


def test_a_bench_without_a_result_is_a_failure_with_its_status(bench, tmp_path):
    work = tmp_path / "work"
    assert not run_bench(bench, CONTROLLER, work, roles=BOTH).failure
    line = run_bench(f"{bench} --mode silent", CONTROLLER, work, roles=BOTH)
    assert line.failure == "exit status 3 and no result"
    assert (line.bench, line.measures) == ("toy bench.py", ())


def test_a_result_of_before_is_not_taken_for_one_of_now(tmp_path):
    switch = tmp_path / "switch"
    body = SCRIPT.replace('given.mode == "silent"', f"pathlib.Path({str(switch)!r}).exists()")
    script = tmp_path / "bench.py"
    script.write_text(body)
    command = f"python {script}"
    assert not run_bench(command, CONTROLLER, tmp_path / "work", roles=BOTH).failure
    switch.touch()
    assert run_bench(command, CONTROLLER, tmp_path / "work", roles=BOTH).failure


def test_a_result_of_another_form_is_a_failure(bench, tmp_path):
    line = run_bench(f"{bench} --mode rubbish", CONTROLLER, tmp_path / "work", roles=BOTH)
    assert "the result is none" in line.failure
    assert "measures" in line.failure


@pytest.mark.parametrize("command", ["", "not-a-program-anywhere", "a 'quote"])
def test_a_command_that_cannot_be_started_is_refused(command, tmp_path):
    with pytest.raises(ConfigError) as caught:
        run_bench(command, CONTROLLER, tmp_path / "work", roles=BOTH)
    assert caught.value.field == "--bench"


def test_a_result_is_written_whole(tmp_path):
    found = BenchResult(bench="toy", measures=(BenchMeasure(name="a", value=1.0),))
    found.write(tmp_path / "r.json")
    assert BenchResult.read((tmp_path / "r.json").read_bytes()) == found
    assert json.loads((tmp_path / "r.json").read_text())["format"] == "epimem-bench/1"
    assert [it.name for it in tmp_path.iterdir()] == ["r.json"]


def test_python_is_the_one_that_runs_this(bench, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert sys.executable
    assert not run_bench(bench, CONTROLLER, tmp_path / "work", roles=BOTH).failure
