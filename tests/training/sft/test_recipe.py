"""One tiny training, what it leaves, and that it goes on after a kill as if nothing had been.

Children are forked, so that a kill is a real one and costs no second start of all packages.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import shutil
import signal
import time

import pytest

from controllers.backends.local_base import Base, acquire, release
from controllers.backends.local_packages import package
from controllers.backends.transformers import TransformersBackend
from controllers.prompts import OPERATIONS
from epimem.errors import ConfigError
from tests.training.sft.small_runs import ROLE, settings, steps, write_set
from training.sft import checkpoints
from training.sft.batches import schedule
from training.sft.kinds import kind
from training.sft.progress import read
from training.sft.recipe import read as read_split
from training.sft.recipe import train
from training.sft.rows import RowMaker, collate

pytestmark = pytest.mark.torchvision
MOST = 9


@pytest.fixture
def made(monkeypatch):
    """Rows as they are made: first those of the survey, then those that are learnt."""
    rows, make = [], RowMaker.row

    def noted(maker, shown):
        rows.append(make(maker, shown))
        return rows[-1]

    monkeypatch.setattr(RowMaker, "row", noted)
    return rows


def run(found, out, checkpoint, told=None, **changed):
    return train(
        settings(max_steps=MOST, **changed),
        found,
        out,
        model=str(checkpoint),
        role=ROLE,
        tell=told.append if told is not None else (lambda _: None),
    )


def killed_at(step, found, out, checkpoint):
    """Train in a child that is killed with -9 once its log holds this step; return its last step."""
    child = os.fork()
    if not child:
        try:
            run(found, out, checkpoint)
        finally:
            os._exit(1)
    until = time.monotonic() + 120
    while not steps(out)[-1:] or steps(out)[-1][0] < step if (out / "log.jsonl").exists() else True:
        assert time.monotonic() < until
        assert os.waitpid(child, os.WNOHANG) == (0, 0), "the child ended by itself"
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    return steps(out)[-1][0]


@pytest.fixture(scope="module")
def killed(gates, checkpoint, tmp_path_factory):
    """The folder of a run that was killed between two checkpoints; first, before threads are about."""
    for name in ("datasets", "peft", "trl"):
        importlib.import_module(name)
    out = tmp_path_factory.mktemp("runs") / "killed"
    last = killed_at(5, gates, out, checkpoint)
    assert 5 <= last < MOST
    kept = out.with_name("as-it-was")
    shutil.copytree(out, kept)
    return kept


@pytest.fixture(scope="module")
def whole(killed, gates, checkpoint, tmp_path_factory):
    """A run that nothing disturbed: its folder, its result, and what it told."""
    del killed  # it has to be forked before
    out, told = tmp_path_factory.mktemp("runs") / "whole", []
    return out, run(gates, out, checkpoint, told), told


def test_a_killed_run_goes_on_with_the_same_losses_and_the_same_adapter(
    killed, whole, gates, checkpoint, tmp_path
):
    out = tmp_path / "run"
    shutil.copytree(killed, out)
    with (out / "log.jsonl").open("a") as log:
        log.write('{"event": "step", "st')  # torn by the kill
    told = []
    result = run(gates, out, checkpoint, told)
    assert "going on after step 3" in told[0]
    assert steps(out) == steps(whole[0])
    assert [step for step, _ in steps(out)] == list(range(1, MOST + 1))
    assert result.steps == MOST
    mine, theirs = (
        (each / "adapter" / "adapter_model.safetensors").read_bytes() for each in (out, whole[0])
    )
    assert mine == theirs


def test_the_log_has_a_line_per_step_and_one_per_checkpoint(whole, gates):
    out, result, told = whole
    lines = read(out / "log.jsonl")
    by_step = [line for line in lines if line["event"] == "step"]
    assert [line["step"] for line in by_step] == list(range(1, MOST + 1))
    assert by_step[-1]["loss"] < by_step[0]["loss"]
    for line in by_step:
        assert line["tokens_per_second"] > 0
        assert line["mfu"] is None  # there is no peak of a processor
        assert 0 <= line["padding"] <= 0.1
        assert line["rows"] in (1, 2)
    measured = [line for line in lines if line["event"] == "dev"]
    assert [line["step"] for line in measured] == [3, 6, 9]
    assert all(set(line["by_operation"]) == {"gate"} for line in measured)
    best = max(measured, key=lambda line: line["operation_accuracy"])
    assert (result.step, result.accuracy) == (best["step"], best["operation_accuracy"])
    assert result.rows == len(list(gates.read("train", ["gate"])))
    assert result.padding <= 0.1
    assert any("tokens/s" in text for text in told)


def test_the_run_says_what_it_is_made_of(whole, checkpoint):
    out, result, _ = whole
    record = json.loads((out / "run.json").read_text())
    assert record["format"] == "epimem-sft/1"
    assert (record["role"], record["model"], record["config"]["seed"]) == (ROLE, "tiny", 5)
    assert record["versions"]["trl"]
    assert len(record["data"]["card"]) == len(record["base"]) == 64
    assert record["result"]["path"] == "adapter"
    assert result.path == out / "adapter"
    assert str(checkpoint.parent) not in json.dumps(record)
    held = {path.name for path in out.glob("checkpoint-*")}
    assert held == {"checkpoint-9", f"checkpoint-{result.step}"} | (
        {"checkpoint-6"} if result.step == 9 else set()
    )


def test_the_adapter_is_served_and_the_reply_has_become_likelier(whole, gates, checkpoint):
    _, result, _ = whole
    (shown, *_) = gates.read("train", ["gate"])
    path = str(checkpoint)
    base = acquire(path)
    try:
        backend = TransformersBackend(path, str(result.path))
        maker = RowMaker(base.processor, base.markers)
        batch = collate([maker.row(shown)], maker.pad)
        losses = []
        for adapter in (None, backend._adapter):
            with base.speaking(adapter) as model, package("torch").inference_mode():
                losses.append(float(model(**batch).loss))
        assert losses[1] < losses[0] - 0.1
        (reply,) = backend.complete([OPERATIONS["gate"].render(shown.request)])
        assert not reply.error
        backend.close()
    finally:
        release(base)


def test_a_finished_run_is_not_done_again(whole, gates, checkpoint):
    out, result, _ = whole
    before = (out / "log.jsonl").read_bytes()
    told = []
    assert run(gates, out, checkpoint, told) == result
    assert (out / "log.jsonl").read_bytes() == before
    assert not told


@pytest.mark.parametrize(("changed", "field"), [({"seed": 6}, "config"), ({"groups": 9}, "data")])
def test_another_run_does_not_go_into_the_same_folder(
    whole, gates, checkpoint, tmp_path, changed, field
):
    found = write_set(tmp_path / "set", changed["groups"]) if "groups" in changed else gates
    other = {"seed": changed["seed"]} if "seed" in changed else {}
    with pytest.raises(ConfigError) as caught:
        run(found, whole[0], checkpoint, **other)
    assert caught.value.field == field


def test_only_what_training_wrote_is_loaded_from_a_checkpoint(killed, gates, checkpoint, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(killed, out)
    foreign = out / "checkpoint-3" / "pytorch_model.bin"
    foreign.write_bytes(pickle.dumps({"weight": [1.0]}))
    with pytest.raises(ConfigError, match="was put there") as caught:
        run(gates, out, checkpoint)
    assert caught.value.got == "pytorch_model.bin"


@pytest.mark.parametrize("weight", [0.0, 2.5])
def test_the_loss_weighs_the_tokens_that_the_reply_chooses_by(
    whole, gates, checkpoint, tmp_path, made, weight
):
    del whole  # children are forked before
    changed = settings(
        max_steps=1,
        choice_weight=weight,
        lora={"rank": 2, "alpha": 2},
        batch={"rows": 1, "accumulate": 1},
        dev={"rows": 0},
    )
    result = train(changed, gates, tmp_path / "run", model=str(checkpoint), role=ROLE)
    surveyed, row = made[: result.rows], made[result.rows]
    mean = sum(each.reply_tokens for each in surveyed) / len(surveyed)
    batch = collate([row], 0)
    labels = batch.pop("labels")[0, 1:]
    with package("torch").inference_mode():
        scores = Base(str(checkpoint)).model(**batch).logits[0, :-1].float().log_softmax(-1)
    learnt = labels != -100
    losses = -scores[learnt].gather(-1, labels[learnt][:, None])[:, 0]
    marks = row.chosen[1:][learnt]
    assert 0 < marks.sum() < len(marks)
    wanted = float((losses * (1 + weight * mean * marks)).sum() / len(marks))
    ((_, loss),) = steps(tmp_path / "run")
    assert loss == pytest.approx(wanted, rel=1e-3)


def test_what_the_set_cannot_give_is_set_aside_with_its_line(tmp_path):
    found = write_set(tmp_path / "set")
    learn, unread = read_split(found, "train", ROLE)
    assert not unread
    lost = learn[2].request.pages[0].image_id
    (found.path / "images" / f"{lost}.png").unlink()
    again, unread = read_split(found, "train", ROLE)
    assert [each.id for each in again] == [each.id for each in learn if each is not learn[2]]
    assert [(each.id, each.reason) for each in unread] == [("line 3", "not_found")]


class Touch:
    """A pickle of it writes a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_a_pickle_in_place_of_a_state_runs_no_code(killed, gates, checkpoint, tmp_path):
    out, ran = tmp_path / "run", tmp_path / "ran"
    shutil.copytree(killed, out)
    state = out / "checkpoint-3" / "optimizer.pt"
    package("torch").save({"state": Touch(ran)}, state)
    checkpoints.mark(state.parent)  # as one would who knows the mark
    with pytest.raises(ConfigError, match="pickle"):
        run(gates, out, checkpoint)
    assert not ran.exists()


def test_all_weights_are_learnt_but_those_that_see_and_training_ends_without_progress(
    whole, gates, checkpoint, tmp_path, made
):
    del whole  # children are forked before
    changed = {
        "method": "full",
        "checkpoint_every": 1,
        "optimizer": {"learning_rate": 1e-4},
        "dev": {"rows": 1, "patience": 1},
    }
    result = run(gates, tmp_path / "run", checkpoint, **changed)
    assert (result.step, result.steps) == (1, 2)
    surveyed, learnt = made[: result.rows], made[result.rows :]
    made_of = {each.id: kind(each) for each in gates.read("train", ["gate"])}
    batch = settings().batch
    plan = schedule(
        [row.length for row in surveyed],
        tokens=batch.tokens,
        rows=batch.rows,
        accumulate=batch.accumulate,
        epochs=settings().epochs,
        seed=settings().seed,
        kinds=[made_of[row.id] for row in surveyed],
    )
    wanted = [place for step in (1, 2) for each in plan.batches(step) for place in each]
    assert [row.id for row in learnt] == [surveyed[place].id for place in wanted]
    assert result.path.name == "weights"
    left = package("safetensors.torch").load_file(result.path / "model.safetensors")
    before = dict(Base(str(checkpoint)).model.named_parameters())
    assert left.keys() == before.keys()
    moved = {name for name, weight in before.items() if not weight.equal(left[name])}
    assert moved
    assert not any("visual" in name for name in moved)
    assert {name for name in before if "language_model" in name and "proj" in name} <= moved
