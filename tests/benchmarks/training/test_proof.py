"""The proof as a whole, on a tiny random model: what it keeps, and that it goes on."""

from __future__ import annotations

import contextlib
import json

import pytest

from benchmarks.training import proof
from benchmarks.training.proof_plan import requests, settings
from benchmarks.training.proof_result import table
from tests.benchmarks.training.small_families import ENCODER, PLAN, families
from tests.controllers.backends import tiny_llama


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_llama.write_checkpoint(tmp_path_factory.mktemp("proof") / "tiny-llama")


@pytest.fixture(scope="module")
def found():
    return requests(families(), ENCODER, PLAN, 0)


@pytest.fixture(scope="module")
def folder(model, found, tmp_path_factory):
    """A run that has ended."""
    folder = tmp_path_factory.mktemp("run")
    run = proof.Run(folder, model, found, PLAN, 0, lambda _: None)
    result = run.result(with_control=False)
    (folder / "result.json").write_text(json.dumps(result))
    return folder


def test_a_run_ends_in_a_result_that_can_be_printed(folder):
    result = json.loads((folder / "result.json").read_text())
    place = result["operations"]["place"]
    assert (place["n"], place["groups"]) == (20, 10)
    assert place["accuracy"]["first candidate"]["mean"] <= 0.5
    assert place["accuracy"]["nothing"]["mean"] == 0.5
    assert set(result["lawful"]) == {"untrained", "trained"}
    assert result["passed"] is False
    printed = table({0: result})
    assert "| trained, gain | +" in printed or "| trained, gain | -" in printed
    assert "random labels" not in printed
    assert f"| untrained | {result['lawful']['untrained']:.2f} of 4 |" in printed


def test_training_changes_the_scores_of_the_model(folder, model, found):
    """By how much does not matter here: that the adapter speaks does."""
    from benchmarks.training.choices import Scorer
    from controllers.backends.local_base import acquire, release

    base = acquire(str(model))
    adapter = base.adapt(str(folder / "training" / "adapter"))
    alone, tuned = Scorer(base).scores(found.asked[0]), Scorer(base, adapter).scores(found.asked[0])
    base.forget(adapter)
    release(base)
    assert alone.keys() == tuned.keys()
    assert all(alone[name] != tuned[name] for name in alone)


def test_a_run_that_has_ended_is_not_computed_again(folder, model, found, monkeypatch):
    def fail(*_):
        raise AssertionError

    monkeypatch.setattr("benchmarks.training.choices.Scorer.scores", fail)
    monkeypatch.setattr("benchmarks.training.answers.written", fail)
    again = proof.Run(folder, model, found, PLAN, 0, lambda _: None).result(with_control=False)
    assert again == json.loads((folder / "result.json").read_text())


def test_a_run_goes_on_where_it_was_killed(folder, model, found, tmp_path, monkeypatch):
    whole = (folder / "untrained.jsonl").read_text()
    lines = whole.splitlines(keepends=True)
    (tmp_path / "untrained.jsonl").write_text("".join(lines[:-2]) + lines[-2][:20])
    run = proof.Run(tmp_path, model, found, PLAN, 0, lambda _: None)
    asked = []
    plain = proof.Scorer.scores
    monkeypatch.setattr(
        proof.Scorer, "scores", lambda self, each: asked.append(each.id) or plain(self, each)
    )
    run.measure("untrained")
    assert (tmp_path / "untrained.jsonl").read_text() == whole
    assert asked == [each.id for each in found.asked[-2:]]


def test_training_takes_every_row_once_and_some_of_them_a_step():
    config = settings(PLAN, 3)
    assert (config.seed, config.epochs, config.batch.rows, config.batch.accumulate) == (3, 1, 1, 2)
    assert config.dev.rows == 0


def test_the_report_reads_what_lies_in_the_folder(folder, tmp_path, capsys):
    result = json.loads((folder / "result.json").read_text())
    seed = tmp_path / "seed-2"
    seed.mkdir()
    (seed / "result.json").write_text(json.dumps({**result, "seed": 2}))
    assert proof.main(["--report", "--folder", str(tmp_path)]) == 1
    assert "Seed 2: NOT passed" in capsys.readouterr().out


@pytest.mark.long
def test_random_labels_are_learnt_beside(folder, model, found):
    result = proof.Run(folder, model, found, PLAN, 0, lambda _: None).result(with_control=True)
    assert set(result["lawful"]) == {"untrained", "trained", "random labels"}
    assert "| trained, over random labels |" in table({0: result})
    assert (folder / "training-random" / "adapter").is_dir()


@pytest.mark.long
def test_scoring_replies_only_gives_the_same_losses(model, found, tmp_path, monkeypatch):
    def losses(name):
        run = proof.Run(tmp_path / name, model, found, PLAN, 0, lambda _: None)
        run.train("training", found.learnt)
        lines = (tmp_path / name / "training" / "log.jsonl").read_text().splitlines()
        return [json.loads(line)["loss"] for line in lines if '"step"' in line]

    ours = losses("ours")
    monkeypatch.setattr(proof, "scoring_replies_only", contextlib.nullcontext)
    theirs = losses("theirs")
    assert len(ours) == 2
    assert ours == pytest.approx(theirs, rel=1e-4)
