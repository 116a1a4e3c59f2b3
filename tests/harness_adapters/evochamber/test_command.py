"""`epimem run evochamber` as it is typed, with a real server behind it, and the model client itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from PIL import Image

from epimem.config import Config, EncoderConfig
from epimem.errors import ConfigError, ControllerError, PluginError
from epimem.memory import ExperienceMemory
from harness_adapters import llm
from harness_adapters.evochamber.start import changed
from harness_adapters.fake_model import FakeModel
from harness_adapters.llm import Message, Metered
from harness_adapters.streams.task import StreamTask, lines

TASKS = [
    StreamTask(
        task_id=f"t-{number}",
        niche="ab"[number % 2],
        question=f"How many stations has line {number}?",
        images=("page.png",),
        checker="number",
        reference="6" if number % 2 else "7",
    )
    for number in range(1, 7)
]


@pytest.fixture
def place(tmp_path):
    (tmp_path / "stream.jsonl").write_bytes(b"".join(lines(TASKS)))
    Image.new("RGB", (90, 60), "white").save(tmp_path / "page.png")
    config = Config(encoder=EncoderConfig(model="none"))
    ExperienceMemory.create(tmp_path / "bank", config).close()
    return tmp_path


def typed(place, url, *more, code=0):
    words = [
        "--stream",
        place / "stream.jsonl",
        "--llm",
        f"openai:fake@{url}",
        "--encoder",
        "table:64",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "epimem", "run", "evochamber", *map(str, (*words, *more))],
        cwd=place,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_a_stream_is_solved_kept_and_gone_on_with(place):
    with FakeModel(answer="The answer is 6.") as model:
        told, _ = typed(
            place, model.url, "--bank", "bank", "--set", "agents=4", "--set", "period=3"
        )
        *tasks, summary = told
        assert [each["score"] for each in tasks] == [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
        assert (summary["tasks"], summary["score"]) == (6, 0.5)
        assert summary["spent"]["solve"]["calls"] == 18
        assert summary["spent"]["solve"]["tokens_out"] > 0
        assert all(len(each.images) == 1 for each in model.seen)
        calls = len(model.seen)
        again, _ = typed(
            place, model.url, "--bank", "bank", "--set", "agents=4", "--set", "period=3"
        )
        assert again == [summary]
        assert len(model.seen) == calls, "what is done is not done again"
    with ExperienceMemory.open(place / "bank", read_only=True) as memory:
        runs = [each.run for each in memory.bank.queued_runs(limit=9)]
    assert [run.task.task_id for run in runs] == [task.task_id for task in TASKS]
    assert runs[0].task.pages[0].width == 90
    assert runs[0].answer.text == "The answer is 6."
    folder = place / "evochamber-run"
    assert (folder / "report" / "report.json").is_file()
    assert (folder / "report" / "signals.svg").is_file()


def test_two_runs_of_one_pool_on_one_bank_are_two(place):
    with FakeModel(answer="6") as model:
        for folder in ("a", "b"):
            typed(place, model.url, "--bank", "bank", "--set", "agents=3", "--folder", folder)
    with ExperienceMemory.open(place / "bank", read_only=True) as memory:
        assert len(memory.bank.queued_runs(limit=99)) == 2 * len(TASKS)


def test_what_is_wrong_is_said_before_any_work(place):
    (place / "none.jsonl").write_bytes(b"")
    (place / "file").write_bytes(b"")
    with FakeModel(answer="6") as model:
        for words, code, word in (
            (("--stream", "none.jsonl"), 2, "empty"),
            (("--stream", "nowhere.jsonl"), 4, "nowhere"),
            (("--bank", "bank", "--group", "a/b"), 2, "slash"),
            (("--bank", "bank", "--group", "x" * 41), 2, "bytes"),
            (("--bank", "no-bank"), 4, "no bank"),
            (("--folder", "file"), 2, "no folder"),
            (("--set", "tau=3"), 2, "tau"),
            (("--set", "agents"), 2, "NAME=VALUE"),
            (("--llm", "nobody"), 2, "nobody"),
            (("--encoder", "none"), 2, "encoder"),
        ):
            told, said = typed(place, model.url, *words, code=code)
            assert (told, word in said, said.count("\n")) == ([], True, 1), (words, said)
        page = place / "page.png"
        page.unlink()
        for outside in (None, "/etc/hostname"):
            if outside:
                page.symlink_to(outside)
            _, said = typed(place, model.url, code=4)
            assert "t-1" in said
        assert not model.seen


def test_other_options_in_the_same_folder_are_refused(place):
    with FakeModel(answer="6") as model:
        typed(place, model.url, "--set", "agents=3")
        _, said = typed(place, model.url, "--set", "agents=4", code=5)
        assert "settings" in said


def test_a_model_that_is_gone_costs_what_was_under_way_and_no_more(place):
    with FakeModel(answer="6") as model:
        url = model.url
    told, said = typed(place, url, code=1)
    assert told == [{**told[0], "tasks": 0}]
    assert "model_failed" in said
    assert "goes on from here" in said
    with FakeModel(answer="6") as model:
        told, _ = typed(place, model.url)
    assert told[-1]["tasks"] == 6


def test_agreement_in_the_evaluation_phase(place):
    with FakeModel(answer="The answer is 6.") as model:
        more = ("--bank", "bank", "--phase", "evaluation", "--set", "agents=3")
        _, said = typed(place, model.url, *more, "--folder", "a", code=1)
        assert "oracle" in said
        told, _ = typed(place, model.url, *more, "--rewards", "agreement", "--folder", "b")
    assert told[-1]["score"] == 0.5


def test_a_part_is_switched_off_and_a_wrong_setting_is_named(place):
    with FakeModel(answer="6") as model:
        told, _ = typed(place, model.url, "--without", "structures", "--without", "codream")
        assert set(told[-1]["spent"]) == {"solve"}
        _, said = typed(place, model.url, "--set", "theta=7", "--folder", "x", code=2)
        assert "theta" in said


# -- settings and specs ---------------------------------------------------------------------------


def test_settings_are_read_as_data():
    assert changed(["theta=0.5", "synergy=ewma", "most_agents=null", 'x="a"']) == {
        "theta": 0.5,
        "synergy": "ewma",
        "most_agents": None,
        "x": "a",
    }
    for wrong in ("theta", "=1"):
        with pytest.raises(ConfigError):
            changed([wrong])


@pytest.mark.parametrize("spec", ["openai:", "openai:model", "openai:@http://x", "openai"])
def test_a_spec_that_is_none_is_named(spec):
    with pytest.raises(ConfigError):
        llm.load(spec)


def test_an_unknown_model_lists_what_there_is():
    with pytest.raises(PluginError, match="nobody"):
        llm.load("nobody:x")


def test_thoughts_are_left_out_and_tokens_counted():
    with FakeModel(answer="<think>\nhm\n</think>\n\nSix.") as model:
        client = Metered(llm.load(f"openai:fake@{model.url}"))
        done = client.complete([Message("user", "How many?")], max_tokens=20, tag="solve")
    assert done.text == "Six."
    assert done.tokens_in > 0
    spent = client.taken()
    assert spent["solve"].calls == 1
    assert spent["solve"].time_s > 0
    assert client.taken() == {}


def test_a_call_that_fails_is_counted_and_named():
    with FakeModel(answer="x") as model:
        url = model.url
    client = Metered(llm.load(f"openai:fake@{url}"))
    with pytest.raises(ControllerError, match="solve"):
        client.complete([Message("user", "q")], max_tokens=5, tag="solve")
    assert client.taken()["solve"].calls == 1
