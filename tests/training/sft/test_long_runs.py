"""Runs of minutes: two processes that train together, kills at random steps, all eight operations."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from controllers.prompts import OPERATIONS
from tests.training.demonstrations.made import demonstration, drawn, request
from tests.training.sft.small_runs import steps, write_set
from training.demonstrations.record import ROLE_OF
from training.demonstrations.store import DemonstrationSet

pytestmark = [pytest.mark.long]
SETTINGS = """
epochs = 3
checkpoint_every = 4
seed = 5
[lora]
rank = 4
alpha = 8
dropout = 0.1
[optimizer]
learning_rate = 1e-2
[batch]
tokens = 2_400
rows = 2
accumulate = 2
[dev]
rows = 4
patience = 0
"""


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    path = tmp_path_factory.mktemp("settings") / "small.toml"
    path.write_text(SETTINGS)
    return path


def command(found, out, checkpoint, settings, role="memory_controller"):
    arguments = [found, out, "--role", role, "--config", settings, "--model", checkpoint]
    return [sys.executable, "-m", "tests.training.sft.train_child", *map(str, arguments)]


def environment(**more):
    return {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **more}


_children = []


@pytest.fixture(autouse=True)
def _ended():
    """End the processes that a failed test left."""
    yield
    for process in _children:
        if process.poll() is None:
            process.kill()
            process.communicate()
    _children.clear()


def started(arguments, **more):
    root = Path(__file__).parents[3]
    process = subprocess.Popen(
        arguments,
        cwd=root,
        env=environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    _children.append(process)
    return process


def done(process):
    said, told = process.communicate(timeout=600)
    assert process.returncode == 0, told[-4_000:]
    return [json.loads(line) for line in said.splitlines()], told


def test_kills_at_random_steps_leave_the_losses_as_they_were(gates, checkpoint, settings, tmp_path):
    (result,), told = done(started(command(gates.path, tmp_path / "whole", checkpoint, settings)))
    assert "tokens/s" in told
    wanted = steps(tmp_path / "whole")
    out, draw = tmp_path / "killed", random.Random(0)
    for _ in range(3):
        at = draw.randint(1, len(wanted) - 1)
        process = started(command(gates.path, out, checkpoint, settings))
        until = time.monotonic() + 300
        while not (out / "log.jsonl").exists() or (steps(out) or [(0, 0)])[-1][0] < at:
            assert time.monotonic() < until
            if process.poll() is not None:
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    (again,), _ = done(started(command(gates.path, out, checkpoint, settings)))
    assert steps(out) == wanted
    assert again["step"] == result["step"]
    left = "adapter/adapter_model.safetensors"
    assert (out / left).read_bytes() == (tmp_path / "whole" / left).read_bytes()


def together(found, out, checkpoint, settings):
    """Run two processes over gloo, as `accelerate launch` starts them; return what each printed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    world = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    world |= {"ACCELERATE_USE_CPU": "true"}
    processes = [
        started(
            command(found, out, checkpoint, settings), **world, RANK=str(rank), LOCAL_RANK=str(rank)
        )
        for rank in range(2)
    ]
    return [done(process) for process in processes]


def test_two_processes_train_one_adapter_and_one_of_them_speaks(
    gates, checkpoint, settings, tmp_path
):
    out = tmp_path / "run"
    (((result,), told), (nothing, silent)) = together(gates.path, out, checkpoint, settings)
    assert nothing == []
    assert "tokens/s" in told
    assert "tokens/s" not in silent
    losses = steps(out)
    assert [step for step, _ in losses] == list(range(1, result["steps"] + 1))
    assert losses[-1][1] < losses[0][1]
    lines = list(map(json.loads, (out / "log.jsonl").read_text().splitlines()))
    assert sum(line["rows"] for line in lines if line["event"] == "step") == 3 * result["rows"]
    measured = [line for line in lines if line["event"] == "dev"]
    assert measured[0]["rows"] == len(list(gates.read("dev", ["gate"])))
    record = json.loads((out / "run.json").read_text())
    assert record["ranks"] == 2
    # Finished: both leave at once.
    (((again,), _), _) = together(gates.path, out, checkpoint, settings)
    assert again == result


@pytest.mark.parametrize("role", ["memory_controller", "tree_organizer"])
def test_all_operations_of_a_role_are_learnt_and_measured(role, checkpoint, tmp_path):
    settings = tmp_path / "short.toml"
    settings.write_text(f"max_steps = 2\n{SETTINGS.replace('rows = 4', 'rows = 5')}")
    with DemonstrationSet.create(tmp_path / "set") as made:
        for number in range(4):
            pages = drawn(made, number)
            for name in (name for name in OPERATIONS if ROLE_OF[name] == role):
                asked = request(name, pages, str(number))
                key, group = f"{name}-{number}", f"group-{number}"
                made.add(demonstration(name, asked, key=key, group=group))
        made.finish(seed=1)
    out = tmp_path / "run"
    (result,), _ = done(started(command(tmp_path / "set", out, checkpoint, settings, role)))
    assert not result["aside"]
    lines = list(map(json.loads, (out / "log.jsonl").read_text().splitlines()))
    measured = [line for line in lines if line["event"] == "dev"]
    assert set(measured[-1]["by_operation"]) == {
        name for name in OPERATIONS if ROLE_OF[name] == role
    }


def test_a_model_without_eyes_learns_too(text_checkpoint, settings, tmp_path):
    found = write_set(tmp_path / "set")
    out = tmp_path / "run"
    (result,), _ = done(started(command(found.path, out, text_checkpoint, settings)))
    assert not result["aside"]
    losses = steps(out)
    assert losses[-1][1] < losses[0][1]
