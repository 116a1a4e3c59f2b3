"""The metro experiment in small, on a made-up network: its arms, its ablations, its lines."""

from __future__ import annotations

import contextlib
import io
import json

import pytest

from benchmarks.metro import experiment
from benchmarks.metro.banks import config_of
from benchmarks.metro.figures import Figures
from benchmarks.metro.lines import lines_of
from benchmarks.metro.operators import draw_conventions
from benchmarks.metro.questions import evaluation_questions, has_legend
from benchmarks.metro.seed_results import SeedResults
from epimem.bank.encoder import TableEncoder
from tests.benchmarks.metro_towns import SPLIT, towns
from training.evaluation.ends import BenchResult

SEED = 5
SIZES = (0, 25, 50)
QUESTIONS = 40


def run(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "load_encoder", lambda _model: TableEncoder(64))
        patch.setattr(experiment, "LATER", 5)
        return experiment.run(
            folder,
            [SEED],
            SPLIT,
            config_of(),
            questions=QUESTIONS,
            sizes=SIZES,
            deciding=25,
            results=folder / "bench.json",
        )


def interrupt(*_, **__):
    raise KeyboardInterrupt


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return the folder of an experiment, and what it printed; it was interrupted twice."""
    folder = tmp_path_factory.mktemp("metro")
    printed = io.StringIO()
    for name in ("_one_item", "_change"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(experiment.Seed, name, interrupt)
            with pytest.raises(KeyboardInterrupt):
                run(folder)
    with contextlib.redirect_stdout(printed):
        run(folder)
    return folder, printed.getvalue()


@pytest.fixture(scope="module")
def figures(finished):
    found = SeedResults.load(finished[0] / f"seed-{SEED}.json")
    return Figures({SEED: found}, deciding=25, largest=50)


def test_half_of_the_questions_of_each_operator_print_a_legend():
    conventions = draw_conventions(SEED)
    asked = evaluation_questions(SPLIT.evaluation, conventions, count=100, seed=SEED)
    for question in asked:
        assert has_legend(question.id) == question.map.legend
        assert ("no legend" in question.text or "without" in question.text) != question.map.legend
        assert question.map.operator.name in question.text
        assert not any(station in question.text for station in question.map.segment.stations)
    legends = {(q.map.operator.name, q.map.legend) for q in asked}
    assert len(legends) == 10
    assert sum(q.map.legend for q in asked) == 50


def test_all_arms_were_asked_all_questions(figures):
    assert figures.evaluations() == [
        "0, misreading", "0", "25, misreading", "ablation", "sabotage", "25",
        "50, misreading", "50", "change",
    ]  # fmt: skip
    few = {"none", "product", "flat", "wrong", "frequency", "text only"}
    assert set(figures.arms("0")) == few
    assert set(figures.arms("25")) == few | {"shuffled", "oracle", "always on"}
    assert set(figures.arms("50")) == few | {"one item"}
    rows = figures.results[SEED].rows
    assert len(rows["25"]) == QUESTIONS * 9
    assert len(rows["ablation"]) == QUESTIONS // 2 * 9
    assert not any(row.error for found in rows.values() for row in found)


def test_with_a_legend_every_arm_is_right_and_no_crop_goes_along(figures):
    rows = [row for row in figures.results[SEED].rows["25"] if has_legend(row.task)]
    assert all(row.right for row in rows)
    assert not any(row.crops for row in rows if row.arm == "product")
    assert any(row.crops for row in rows if row.arm == "always on")


def test_without_pictures_memory_is_worth_nothing(figures):
    none = figures.share("25", "none", legend=False)
    for evaluation, arm in (
        ("25", "text only"), ("0", "product"), ("ablation", "removed"), ("ablation", "blanked"),
        ("sabotage", "blank crops"),
    ):  # fmt: skip
        assert figures.share(evaluation, arm, legend=False) == none
    assert figures.share("25", "product", legend=False) > none + 0.3


def test_a_crop_that_is_cut_far_beside_its_marker_is_worth_less(figures):
    right = [figures.share("ablation", f"shifted by {pixels}") for pixels in (0, 8, 48)]
    assert right[0] == right[1] == figures.share("25", "product", legend=False)
    assert right[2] < right[0]
    assert figures.share("ablation", "swapped") < right[0]


def test_rules_are_of_one_operator_each(figures):
    found = figures.measured("rules 50")[SEED]
    assert found["rules"] == found["of_one"] >= 4
    assert figures.measured("rules 0")[SEED]["rules"] == 0


def test_the_tables_and_lines_are_written(finished, figures):
    folder, printed = finished
    written = json.loads((folder / "results.json").read_text())
    assert [line["name"] for line in written["lines"]] == [line.name for line in lines_of(figures)]
    assert all(line["name"] in printed for line in written["lines"])
    assert written["shares"]["25"]["none"]["crops"] == 0


def test_a_finished_seed_is_not_run_again(finished):
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()):
        patch.setattr(experiment, "evaluate", lambda *_, **__: pytest.fail("run again"))
        run(finished[0])
    assert not (finished[0] / f"seed-{SEED}").exists()


def sabotaged(figures, evaluation, arm, rows):
    """Return figures in which the rows of an arm are those of another."""
    found = figures.results[SEED]
    renamed = [row.model_copy(update={"arm": arm}) for row in rows]
    kept = [row for row in found.rows[evaluation] if row.arm != arm]
    made = SeedResults({**found.rows, evaluation: [*kept, *renamed]}, found.measures, found.leaks)
    return Figures({SEED: made}, deciding=25, largest=50)


def missed(figures):
    return {line.name.partition(" >=")[0] for line in lines_of(figures) if not line.reached}


@pytest.mark.parametrize("broken", ["random retrieval", "blank crops", "empty scopes"])
def test_a_broken_product_misses_the_line(figures, broken):
    assert f"sabotage: {broken} must miss" not in missed(figures)
    rows = [row for row in figures.results[SEED].rows["sabotage"] if row.arm == broken]
    assert "no legend: memory" in missed(sabotaged(figures, "25", "product", rows))


def test_a_sabotage_that_does_no_harm_is_called_out(figures):
    rows = [
        row.model_copy(update={"right": True})
        for row in figures.results[SEED].rows["25"]
        if row.arm == "product"
    ]
    assert "sabotage: blank crops must miss" in missed(
        sabotaged(figures, "sabotage", "blank crops", rows)
    )


def test_the_figures_that_controllers_are_compared_by_are_those_of_the_tables(finished, figures):
    found = BenchResult.read((finished[0] / "bench.json").read_bytes())
    named = {measure.name: measure for measure in found.measures}
    right = figures.share("25", "product", legend=False)
    assert named["right with memory"].value == right
    over = named["memory - wrong"]
    assert over.value == pytest.approx(right - figures.share("25", "wrong", legend=False))
    assert over.low <= over.value <= over.high
    crops = [figures.crops("25", arm) for arm in ("product", "always on")]
    assert named["crops of an open gate"].value == crops[0] / crops[1]


def test_development_sees_other_seeds_and_construction_cities_only(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(experiment, "load_cities", lambda: towns(9))
    monkeypatch.setattr(experiment, "run", lambda *given, **_: seen.append(given[:3]) or 0)
    for extra in ([], ["--development"]):
        assert experiment.main(["--folder", str(tmp_path), "--seeds", "0", "3", *extra]) == 0
    (_, seeds, split), (_, tried, halved) = seen
    assert (list(seeds), list(tried)) == ([0, 3], [100, 103])
    known = {city.name for city in split.construction}
    assert {city.name for city in (*halved.construction, *halved.evaluation)} == known


def test_controllers_are_those_that_were_asked_for(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(experiment, "load_cities", lambda: towns(9))
    monkeypatch.setattr(experiment, "load_encoder", lambda _model: TableEncoder(64))
    for role in ("--memory-controller", "--tree-organizer"):
        asked = ["--folder", str(tmp_path / role), "--seeds", "0", role, "nobody:x"]
        assert experiment.main(asked) != 0
        assert "nobody" in capsys.readouterr().err


def test_the_bench_runs_with_a_model_behind_the_memory_controller(tmp_path, monkeypatch, capsys):
    lesson = {
        "polarity": "positive",
        "guidance": "Leave out the stations with the marker shown here.",
        "evidence": [{"image": "P1", "box": [0, 0, 200, 200], "note": "a marker", "turn": None}],
    }
    script = tmp_path / "script.jsonl"
    lines = (
        {"operation": "derive", "reply": {"lessons": [lesson], "nothing": ""}, "times": None},
        {"operation": "gate", "reply": {"gate": 0}, "times": None},
    )
    script.write_text("".join(json.dumps(line) + "\n" for line in lines))
    config = config_of(f"scripted:{script}")
    monkeypatch.setattr(experiment, "load_encoder", lambda _model: TableEncoder(64))
    monkeypatch.setattr(experiment, "LATER", 2)
    experiment.run(
        tmp_path / "run", [SEED], SPLIT, config, questions=10, sizes=(0, 10), deciding=10
    )
    found = SeedResults.load(tmp_path / "run" / f"seed-{SEED}.json")
    figures = Figures({SEED: found}, deciding=10, largest=10)
    # It shuts its gate, so its crops are nowhere but where the gate is held open.
    assert figures.crops("10", "product") == 0 < figures.crops("10", "always on")
    assert "memory >= 0.90" in capsys.readouterr().out
