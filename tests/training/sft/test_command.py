"""The command: help without torch, usage, and a plan from a tokenizer and a configuration alone."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from epimem.errors import ConfigError, NotFoundError
from tests.training.sft.small_runs import ROLE
from training.sft.command import sft


def test_help_teaches_without_torch():
    code = "import sys; from training.sft.command import sft\n"
    code += "try: sft(['--help'])\nfinally: assert not {'torch', 'transformers', 'trl'} & {*sys.modules}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for word in ("--plan", "accelerate launch", "log.jsonl", "Examples"):
        assert word in done.stdout


def call(*arguments):
    return CliRunner().invoke(sft, [*map(str, arguments)])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("set", "--role", ROLE, "--config", "qwen3.5-2b-full-1xh100"), "OUT is missing"),
        (("set", "out", "--role", ROLE, "--config", "{file}"), "name no model"),
        (("set", "out", "--role", "judge", "--config", "{file}"), "judge"),
    ],
)
def test_what_is_missing_is_told(tmp_path, arguments, told):
    (tmp_path / "mine.toml").write_text("epochs = 1\n")
    done = call(*(each.format(file=tmp_path / "mine.toml") for each in arguments))
    assert done.exit_code == 2
    assert told in done.output


def test_no_settings_and_no_set_are_told_by_name(tmp_path):
    done = call(tmp_path, tmp_path / "out", "--role", ROLE, "--config", "nothing")
    assert isinstance(done.exception, NotFoundError)
    done = call(tmp_path, tmp_path / "o", "--role", ROLE, "--config", "qwen3.5-2b-full-1xh100")
    assert isinstance(done.exception, NotFoundError)
    assert not (tmp_path / "o").exists()


def test_a_plan_needs_no_weights(gates, text_checkpoint, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    for path in text_checkpoint.iterdir():
        if path.suffix != ".safetensors":
            (bare / path.name).write_bytes(path.read_bytes())
    settings = tmp_path / "mine.toml"
    settings.write_text("epochs = 3\n[batch]\ntokens = 3_000\naccumulate = 1\n")
    done = call(gates.path, "--role", ROLE, "--config", settings, "--model", bare, "--plan")
    assert done.exit_code == 0, done.output
    (line,) = (text for text in done.output.splitlines() if text.startswith("{"))
    plan = json.loads(line)
    assert plan["rows"] == len(list(gates.read("train", ["gate"])))
    assert plan["padding"] <= 0.1
    assert 0 < plan["learnt"] < plan["weights"]
    assert plan["tokens"] > 3 * plan["rows"] * 500
    assert list(tmp_path.glob("**/run.json")) == []


def test_a_model_that_is_not_there_is_named(gates, tmp_path):
    settings = tmp_path / "mine.toml"
    settings.write_text("epochs = 1\n")
    none = tmp_path / "none"
    done = call(gates.path, "--role", ROLE, "--config", settings, "--model", none, "--plan")
    assert isinstance(done.exception, ConfigError)
