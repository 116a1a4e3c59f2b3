"""A whole evaluation on a small set: report, table, and the command."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner

from controllers.prompts import OPERATIONS
from epimem.errors import NotFoundError
from tests.training.evaluation.small_set import write_set
from training.evaluation import asking, subjects
from training.evaluation.command import evaluate
from training.evaluation.report import Report
from training.evaluation.run import run
from training.evaluation.table import COLUMNS, drawing, markdown

FLOORS = ["constant", "constant, mean region"]
ORGANIZER = ("place", "merge", "split_lift", "consolidate", "select")


@pytest.fixture(scope="module")
def demonstrations(tmp_path_factory):
    return write_set(tmp_path_factory.mktemp("sets") / "small", groups=5)


@pytest.fixture(scope="module")
def report(demonstrations, tmp_path_factory):
    work = tmp_path_factory.mktemp("work") / "report.json"
    return run(demonstrations, ["embedded", "teacher"], work)


def test_every_operation_is_asked_on_the_held_out_groups_alone(report):
    assert [it.operation for it in report.operations] == list(OPERATIONS)
    assert {(it.items, it.groups) for it in report.operations} == {(4, 2)}
    assert [it.name for it in report.controllers] == ["embedded", "teacher", *FLOORS]


def test_the_teacher_is_the_upper_line(report):
    for result in report.operations:
        measures = result.line("teacher").measures
        assert measures["accuracy"].mean == measures["valid_first"].mean == 1.0
        for name in FLOORS:
            assert result.line(name).measures["accuracy"].mean <= 1.0
            assert result.over("teacher", name).mean >= 0.0
        assert result.over("embedded", "teacher").mean <= 0.0


def test_a_constant_decision_is_right_in_half_of_two_even_classes(report):
    for operation in ("gate", "merge"):
        measures = report.operation(operation).line("constant").measures
        assert measures["balanced_accuracy"].mean == 0.5
    assert report.operation("select").line("constant").measures["false_empty"].mean == 1.0


def test_the_mean_region_of_equal_regions_is_that_region(report):
    found = report.operation("update")
    assert found.line("constant, mean region").measures["region_iou"].mean == 1.0
    whole = found.line("constant").measures["region_iou"].mean
    assert whole == pytest.approx(0.39 * 0.48, abs=0.02)
    assert found.over("constant", "constant, mean region", "region_iou").mean < -0.5


def test_every_measure_of_the_issue_is_there(report):
    wanted = {
        "derive": {"token_f1", "region_iou", "empty_right", "false_empty"},
        "update": {"token_f1", "region_iou", "gate_balanced", "stop_balanced"},
        "gate": {"balanced_accuracy"},
        "place": {"parent_right", "new_right", "existing_right"},
        "merge": {"balanced_accuracy"},
        "split_lift": {"adjusted_rand"},
        "consolidate": {"support_precision", "support_recall", "token_f1", "empty_right"},
        "select": {"f1", "empty_right", "false_empty"},
    }
    for operation, names in wanted.items():
        measures = report.operation(operation).line("embedded").measures
        assert names | {"valid", "valid_first", "accuracy"} <= set(measures), operation


def test_the_report_is_read_back_as_it_was(report):
    assert Report.read(report.model_dump_json().encode()) == report
    assert report.prompt_version


def test_the_table_has_a_line_for_each_controller_in_each_operation(report):
    lines = markdown(report).splitlines()
    body = [line for line in lines if line.startswith("|")][2:]
    # The second constant differs in regions alone: two operations have them.
    assert len(body) == 8 * 3 + 2
    assert all(line.count("|") == len(COLUMNS) + 1 for line in body)
    assert body[0].startswith("| derive (4 of 2 groups) | embedded |")
    assert "token F1" in lines[0]


def test_a_name_cannot_break_the_table(report):
    first = report.operations[0]
    named = first.lines[0].model_copy(update={"controller": "a|b"})
    over = tuple(
        it.model_copy(update={"first": it.first.replace("embedded", "a|b")})
        for it in first.differences
    )
    changed = first.model_copy(update={"lines": (named, *first.lines[1:]), "differences": over})
    asked = (report.controllers[0].model_copy(update={"name": "a|b"}), *report.controllers[1:])
    found = report.model_copy(update={"operations": (changed,), "controllers": asked})
    body = [line for line in markdown(found).splitlines() if line.startswith("|")]
    assert {line.count("|") for line in body} == {len(COLUMNS) + 1}


def test_floors_are_fitted_to_the_training_groups_alone(demonstrations, tmp_path):
    changed = shutil.copytree(demonstrations, tmp_path / "set")
    groups = json.loads((changed / "splits.json").read_text())["groups"]
    path = changed / "demonstrations.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line["operation"] == "gate" and groups[line["group"]] == "train":
            line["value"] = 1
        elif line["operation"] == "gate":
            line["value"] = 0
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = run(changed, ["teacher"], tmp_path / "r", roles=["memory_controller"])
    assert found.operation("gate").line("constant").measures["accuracy"].mean == 0.0


def test_the_table_can_be_drawn_in_eighty_columns(report):
    from rich.console import Console

    console = Console(width=80, record=True, file=io.StringIO())
    console.print(drawing(report))
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 80
    assert "consolidate" in "".join(text.split())


def test_one_role_is_asked_about_its_own_operations(demonstrations, tmp_path):
    found = run(demonstrations, ["teacher"], tmp_path / "r", roles=["tree_organizer"])
    assert {it.operation for it in found.operations} == set(ORGANIZER)


def test_an_image_that_cannot_be_read_costs_its_own_lines_alone(demonstrations, tmp_path, report):
    broken = shutil.copytree(demonstrations, tmp_path / "set")
    groups = json.loads((broken / "splits.json").read_text())["groups"]
    held_out = next(name for name, split in groups.items() if split == "test")
    lines = (broken / "demonstrations.jsonl").read_text().splitlines()
    plain = next(
        it for it in map(json.loads, lines) if it["group"] == held_out and it["operation"] == "gate"
    )
    image = plain["request"]["pages"][0]["image_id"]
    (broken / "images" / f"{image}.png").write_bytes(b"no image")
    found = run(broken, ["teacher"], tmp_path / "r")
    # Two each of derive, update, gate and select.
    assert len(found.unread) == 8
    assert all(it.code and it.line and it.message for it in found.unread)
    assert found.operation("gate").items == report.operation("gate").items - 2
    assert found.operation("merge").items == report.operation("merge").items


def test_a_split_without_demonstrations_is_named(tmp_path):
    folder = write_set(tmp_path / "set", groups=3, operations=("merge",))
    with pytest.raises(NotFoundError, match="test holds no demonstration of memory_controller"):
        run(folder, ["teacher"], tmp_path / "r", roles=["memory_controller"])


def call(*arguments):
    return CliRunner().invoke(evaluate, [str(it) for it in arguments], catch_exceptions=False)


def test_the_command_writes_report_and_table_and_prints_one_line(demonstrations, tmp_path):
    path, table = tmp_path / "report.json", tmp_path / "table.md"
    asked = ("--controllers", "embedded", "--report", path, "--table", table, "--encoder", "none")
    found = call(demonstrations, *asked, "--role", "tree_organizer")
    assert found.exit_code == 0
    printed = json.loads(found.stdout)
    written = Report.read(path.read_bytes())
    assert printed == written.model_dump(mode="json")
    assert [it["name"] for it in printed["controllers"]] == ["embedded", *FLOORS]
    assert table.read_text() == markdown(written)
    assert "the report is in" in found.stderr


def test_the_command_says_what_failed(demonstrations, tmp_path):
    script = tmp_path / "none.jsonl"
    script.write_text("")
    asked = ("--report", tmp_path / "r.json", "--role", "memory_controller", "--encoder", "none")
    found = call(demonstrations, "--controllers", f"scripted:{script}", *asked)
    assert "12 requests to scripted/none failed and count as wrong" in found.stderr
    lines = Report.read((tmp_path / "r.json").read_bytes()).operation("derive").lines
    assert (lines[0].failed, lines[0].measures["accuracy"].mean) == (4, 0.0)


def test_refusals_and_costs_of_a_model_stand_in_its_line(demonstrations, tmp_path):
    lines = [
        {"operation": "gate", "reply": {"gate": 7}, "tokens_in": 10, "tokens_out": 3},
        {"operation": "gate", "reply": {"gate": 1}, "times": 4, "tokens_in": 20, "tokens_out": 5},
        {"operation": "update", "reply": {"gate": 7}, "times": None},
    ]
    script = tmp_path / "script.jsonl"
    script.write_text("".join(json.dumps(line) + "\n" for line in lines))
    spec, role = f"scripted:{script}", ("memory_controller",)
    found = run(demonstrations, [spec], tmp_path / "r", roles=role)
    gate = found.operation("gate").line("scripted/script")
    assert gate.measures["valid_first"].mean == 0.75
    assert gate.measures["valid"].mean == 1.0
    assert (gate.calls, gate.tokens_in, gate.tokens_out) == (5 / 4, 90 / 4, 23 / 4)
    assert gate.reasons == {}
    update = found.operation("update").line("scripted/script")
    assert update.reasons == {"schema": 4}
    assert (update.failed, update.measures["valid"].mean, update.calls) == (0, 0.0, 2.0)


def test_the_same_command_goes_on_and_finds_the_same(demonstrations, tmp_path, monkeypatch):
    asked = ("--controllers", "embedded", "--role", "tree_organizer", "--encoder", "none")
    whole = call(demonstrations, *asked, "--report", tmp_path / "whole.json")
    monkeypatch.setattr(asking, "BATCH", 3)
    real, count = subjects.Controller.answer, []

    def until_interrupted(self, operation, batch):
        if len(count) == 3:
            raise KeyboardInterrupt
        count.append(len(batch))
        return real(self, operation, batch)

    with monkeypatch.context() as patch:
        patch.setattr(subjects.Controller, "answer", until_interrupted)
        # click ends a command that is interrupted with a status of its own.
        assert call(demonstrations, *asked, "--report", tmp_path / "parts.json").exit_code != 0
    assert not (tmp_path / "parts.json").exists()

    def counting(self, operation, batch):
        count.append(len(batch))
        return real(self, operation, batch)

    monkeypatch.setattr(subjects.Controller, "answer", counting)
    again = call(demonstrations, *asked, "--report", tmp_path / "parts.json")
    assert sum(count) == 20
    assert measured(again) == measured(whole)


def measured(result):
    found = json.loads(result.stdout)["operations"]
    return [[line["measures"] for line in it["lines"]] + [it["differences"]] for it in found]


def test_texts_are_compared_by_the_encoder_that_is_named(demonstrations, tmp_path):
    asked = ("--report", tmp_path / "r.json", "--role", "tree_organizer", "--encoder", "table:32")
    found = call(demonstrations, "--controllers", "teacher", *asked)
    report = json.loads(found.stdout)
    assert report["texts"].startswith("token F1; cosine of table")
    lines = next(it for it in report["operations"] if it["operation"] == "consolidate")["lines"]
    assert lines[0]["measures"]["cosine"]["mean"] == pytest.approx(1.0)
    assert lines[1]["measures"]["cosine"]["mean"] < 1.0


def test_help_comes_without_torch():
    script = (
        "import sys\nfrom click.testing import CliRunner\n"
        "from training.evaluation.command import evaluate\n"
        "from training.export.command import export\n"
        "for command in (evaluate, export):\n"
        "    found = CliRunner().invoke(command, ['--help'])\n"
        "    assert found.exit_code == 0 and 'Examples' in found.output\n"
        "assert not {'torch', 'transformers', 'numpy'} & set(sys.modules), sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
