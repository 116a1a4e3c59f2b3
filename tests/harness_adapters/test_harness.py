"""Harnesses: an installed third party's passes the contract, broken ones do not; a command drives it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from epimem.errors import ControllerError
from harness_adapters import contract
from harness_adapters.fake_model import FakeModel
from harness_adapters.harness import Asked, Solved
from harness_adapters.processes import ended

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs" / "example_harness"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the example of the documentation, installed as a package by pip."""
    folder = tmp_path_factory.mktemp("packages")
    source = folder / "source"
    shutil.copytree(EXAMPLE, source)
    words = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run(
        [sys.executable, "-m", "pip", *words, "--target", folder / "site", source],
        check=True,
        capture_output=True,
        timeout=200,
    )
    return folder / "site"


@pytest.fixture
def example(installed, monkeypatch):
    monkeypatch.syspath_prepend(str(installed))
    import epimem_one_request

    return epimem_one_request.OneRequest


def test_the_example_of_the_documentation_passes_the_contract_as_an_installed_package(
    example, tmp_path
):
    from importlib.metadata import entry_points

    point = entry_points(group="epimem.harnesses")["one-request"]
    assert point.load() is example
    contract.check(lambda url: point.load()(endpoint=url, model="fake"), tmp_path)


def broken(example, name):
    """Return the example with one thing done wrong."""

    class Broken(example):
        def solve(self, asked):
            changed = {
                "forgets the memory": {"memory": ""},
                "says the memory twice": {"memory": f"{asked.memory}\n{asked.memory}"},
                "forgets the crops": {"crops": ()},
                "forgets the pages": {"images": ()},
                "shows crops before pages": {"images": asked.crops, "crops": asked.images},
                "puts the question first": {"question": asked.memory, "memory": asked.question},
            }.get(name, {})
            if not asked.memory:
                changed = {"memory": "Experience from earlier tasks"} if "announces" in name else {}
            solved = super().solve(Asked(**{**vars(asked), **changed}))
            if name == "loses the answer":
                return Solved(None, solved.log)
            if name == "answers something else":
                return Solved("seven", solved.log)
            return solved

    return Broken


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("forgets the memory", "0 times"),
        ("says the memory twice", "2 times"),
        ("forgets the crops", "pictures of"),
        ("forgets the pages", "pictures of"),
        ("shows crops before pages", "pictures of"),
        ("puts the question first", "does not stand before"),
        ("loses the answer", "the answer is None"),
        ("answers something else", "the answer is 'seven'"),
        ("announces an empty memory", "announced"),
    ],
)
def test_a_harness_that_does_something_wrong_fails_the_contract(example, tmp_path, name, words):
    kind = broken(example, name)
    with pytest.raises(AssertionError, match=words):
        contract.check(lambda url: kind(endpoint=url, model="fake"), tmp_path)


def test_a_memory_that_stays_in_the_run_fails_the_contract(example, tmp_path, monkeypatch):
    monkeypatch.setattr("harness_adapters.harness._as_asked", lambda run, *_: run)
    with pytest.raises(AssertionError, match="echo"):
        contract.check(lambda url: example(endpoint=url, model="fake"), tmp_path)


def test_the_command_drives_an_installed_harness_and_solves_nothing_twice(installed, tmp_path):
    bank, tasks = tmp_path / "bank", tmp_path / "tasks.jsonl"
    contract._fill(bank)
    lines = [{"question": contract.QUESTION, "family": "metro"}, {"question": "Another one?"}]
    tasks.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    paths = os.pathsep.join([str(installed), str(ROOT)])
    with FakeModel(answer="six") as model:

        def run(*words):
            return subprocess.run(
                [sys.executable, "-m", "epimem", "run", "one-request", *words],
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )

        words = [str(bank), "--tasks", str(tasks), "--set", f"endpoint={model.url}"]
        first = run(*words, "--set", "model=m")
        told = [json.loads(line) for line in first.stdout.splitlines()]
        assert first.returncode == 0, first.stderr
        assert [each["answer"] for each in told] == ["six", "six"]
        assert [each["crops"] for each in told] == [1, 0]
        asked = len(model.seen)
        again = run(*words, "--set", "model=m")
        assert again.stdout == first.stdout
        assert len(model.seen) == asked
        for bad, message in (
            (["--set", "mdl=m"], "no such setting"),
            ([], "the harness needs --set model"),
            (["--set", "model=m", "--set", "timeout_s=soon"], "a number is needed"),
        ):
            refused = run(*words, *bad)
            assert (refused.returncode, message in refused.stderr) == (2, True), refused.stderr
    down = run(*words, "--set", "model=m", "--folder", "elsewhere")
    assert down.returncode == 1
    assert "the model did not answer" in down.stderr


# -- processes


def test_a_program_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ControllerError, match="no-such-program cannot be started"):
        ended(["no-such-program"], cwd=tmp_path, env={}, timeout_s=5, log=tmp_path / "log")


def test_a_program_that_takes_too_long_is_ended_with_its_children(tmp_path):
    script = "import subprocess,sys;print('began',flush=True);subprocess.run(['sleep','987'])"
    with pytest.raises(ControllerError, match="took longer than 2 s"):
        ended(
            [sys.executable, "-c", script], cwd=tmp_path, env={}, timeout_s=2, log=tmp_path / "log"
        )
    assert (tmp_path / "log").read_text() == "began\n"
    running = subprocess.run(["pgrep", "-f", "sleep 987"], capture_output=True, check=False)
    assert running.stdout == b""
