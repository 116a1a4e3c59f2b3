"""The ARC experiment in small: its host, its arms, its line, on training tasks alone."""

from __future__ import annotations

import contextlib
import io
import json
import random
import shutil

import pytest

from benchmarks.arc import experiment
from benchmarks.arc.programs import all_programs
from benchmarks.arc.search import search, with_suggestions
from benchmarks.arc.solving import answer_text, best_within, explore, held_out_order
from benchmarks.arc.tasks import load_tasks
from epimem.bank.encoder import TableEncoder
from training.evaluation.ends import BenchResult

SEEDS = 2
ARMS = {"none", "product", "flat", "shuffled", "wrong", "frequency", "oracle"}


@pytest.fixture(scope="module")
def few():
    """Return 24 training tasks, most of which some program solves, and all that fits each."""
    tasks, oracle = load_tasks()
    explored = [explore(task) for task in tasks[:110]]
    solvable = [item for item in explored if item.fitting]
    others = [item for item in explored if not item.fitting]
    return tuple((solvable + others)[:24]), oracle


def start(few, folder, tries):
    known, oracle = few
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "load_tasks", lambda _part="training": (known, oracle))
        patch.setattr(experiment, "_explored", lambda tasks: tasks)
        patch.setattr(experiment, "load_encoder", lambda _model: TableEncoder(64))
        patch.setattr(experiment, "LINE_SEEDS", SEEDS)
        return experiment.run(
            folder, SEEDS, tries, development=False, results=folder / "bench.json"
        )


@pytest.fixture(scope="module")
def finished(few, tmp_path_factory):
    """Return the folder of an experiment whose questions are the bank's own tasks; and its output."""
    folder = tmp_path_factory.mktemp("arc")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert start(few, folder, (1, 3)) == 1
    return folder, printed.getvalue()


@pytest.fixture
def banks(finished, tmp_path):
    """Return a copy of its banks, without any result."""
    shutil.copytree(finished[0], tmp_path / "x", ignore=shutil.ignore_patterns("tries-*"))
    return tmp_path / "x"


def test_the_host_finds_what_a_search_with_its_budget_finds(few):
    for item in few[0]:
        order = held_out_order(item.task, 1)
        suggested = random.Random(item.task.task_id).sample(all_programs(), 4)
        for tries in (0, 1, 3, 60, 1981):
            tried = with_suggestions(suggested, order)
            found = search(item.task.demonstrations, tried, budget=tries).found
            wanted = found.answer(item.task.test_inputs) if found is not None else []
            made = best_within(item, suggested, order, tries=tries)
            assert answer_text(made) == answer_text(wanted)


def test_all_arms_are_written(finished):
    table = json.loads((finished[0] / "results.json").read_text())
    assert set(table) == {"1", "3"}
    for row in table.values():
        assert set(row["mean"]) == ARMS
        assert row["mean"]["oracle"] >= row["mean"]["product"]
        assert len(row["over"]["shuffled"]["by_seed"]) == SEEDS


def test_the_figures_that_controllers_are_compared_by_are_those_of_the_line(finished):
    found = BenchResult.read((finished[0] / "bench.json").read_bytes())
    row = json.loads((finished[0] / "results.json").read_text())["3"]
    named = {measure.name: measure for measure in found.measures}
    assert named["solved with memory"].value == row["mean"]["product"]
    for arm in ("none", "shuffled"):
        over = named[f"memory - {arm}"]
        assert (over.value, over.low, over.high) == tuple(
            row["over"][arm][key] for key in ("mean", "low", "high")
        )


def test_controllers_are_those_that_were_asked_for(tmp_path, capsys, monkeypatch):
    seen = []
    monkeypatch.setattr(experiment, "_run", lambda *given, **_: seen.append(given[3:]) or {})
    monkeypatch.setattr(experiment, "_report", lambda *_, **__: 0)
    script = tmp_path / "script.jsonl"
    script.touch()
    assert experiment.main(["--tree-organizer", f"scripted:{script}"]) == 0
    (config, (controller, organizer)) = seen[0]
    assert config.memory_controller.spec == controller.name == "embedded"
    assert organizer.name == "scripted/script"
    for role in ("--memory-controller", "--tree-organizer"):
        assert experiment.main([role, "nobody:x"]) != 0
        assert "nobody" in capsys.readouterr().err


def test_banks_are_built_by_the_controllers_that_were_asked_for(tmp_path):
    config = experiment.config_of("embedded", "embedded")
    assert config == experiment.CONFIG
    given = object(), object()
    banks = experiment.Banks(tmp_path, TableEncoder(8), None, {}, config, given)
    with banks.open("product", (), tree=False) as memory:
        assert memory.controllers == given


def test_questions_that_the_bank_was_built_from_are_called_out(finished):
    assert "CONTAMINATED" in finished[1]


def test_an_interrupted_run_goes_on_and_ends_the_same(finished, few, banks):
    results = finished[0] / "tries-3" / "results.jsonl"
    rows = results.read_text()
    assert rows.count("\n") == SEEDS * len(few[0]) * len(ARMS)
    half = banks / "tries-3"
    half.mkdir()
    for name in ("setup.json", "results.jsonl"):
        shutil.copy(finished[0] / "tries-3" / name, half)
    (half / "results.jsonl").write_text(rows[: len(rows) * 3 // 4])
    start(few, banks, (3,))
    whole = json.loads((finished[0] / "results.json").read_text())["3"]
    assert json.loads((banks / "results.json").read_text())["3"] == whole


def test_the_line_is_reached_with_the_right_lessons_and_missed_with_any(
    finished, few, banks, monkeypatch, capsys
):
    # The tasks are the bank's own here: whoever finds the right lesson reaches the line.
    assert ": reached" in finished[1]
    real = experiment.Persistent.ask

    def blind(self, memory, task):
        return real(self, memory, task.model_copy(update={"question": "equal size"}))

    monkeypatch.setattr(experiment.Persistent, "ask", blind)
    assert start(few, banks, (3,)) == 1
    assert "NOT reached" in capsys.readouterr().out


def test_asking_again_brings_items_that_were_not_there(few, banks):
    known, oracle = few
    opened = experiment.Banks(banks / "seed-0", TableEncoder(64), oracle, {})
    with opened.open("product", (), tree=True) as memory:
        task = experiment.stream(known[:1], oracle)[0].public
        once = memory.retrieve(task.question, family=experiment.FAMILY)
        asked = experiment.Persistent(budget=experiment.BUDGET).ask(memory, task)
    ids = [item.node_id for item in asked.items]
    assert len(ids) == len(set(ids)) > len(once.items)
    assert all(item.guidance in asked.text for item in asked.items)
