"""Demonstrations from the ARC bench: what applies is what reproduces the demonstrations of the task."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from benchmarks.arc.demonstrations import banks, chosen, main
from benchmarks.arc.picture import draw
from benchmarks.arc.practice import ArcBank
from benchmarks.arc.programs import read_programs
from benchmarks.arc.search import search
from benchmarks.arc.tasks import describe, load_tasks
from training.demonstrations.checks import check
from training.demonstrations.store import DemonstrationSet

COUNT, SEED = 14, 8


def cells(task):
    return max(grid.size for pair in task.demonstrations for grid in pair)


@pytest.fixture(scope="module")
def training():
    """The tasks with small grids, on which all programs are tried quickly."""
    tasks, oracle = load_tasks("training")
    return [task for task in tasks if cells(task) <= 100], oracle


@pytest.fixture(scope="module")
def bank(training):
    tasks, oracle = training
    explored = list(chosen(tasks, seed=SEED, count=COUNT))
    return ArcBank(explored, oracle, seed=SEED, number=0)


@pytest.fixture(scope="module")
def found(bank):
    return list(bank.demonstrations())


def of(found, operation):
    return [item for item in found if item.operation == operation]


def fits(task, text):
    programs = read_programs(text)
    return search(task.demonstrations, programs, budget=len(programs)).found is not None


def test_every_demonstration_passes_the_checks(found):
    assert all(check(item) is None for item in found)
    assert {item.operation for item in found} == {"derive", "place", "consolidate", "select"}
    assert len({item.id for item in found}) == len(found)


def test_a_lesson_names_the_program_and_points_to_the_first_output(bank, found):
    kinds = set()
    for done, item in zip(bank.attempts, of(found, "derive"), strict=True):
        kinds.add(item.request.verdict if item.value.drafts else "nothing")
        for draft in item.value.drafts:
            assert draft.polarity == ("positive" if done.right else "negative")
            assert done.stated.text in draft.guidance
            region = draft.evidence[0].region
            wanted = draw(done.task).outputs[0]
            assert region.x0 <= wanted.x0 < wanted.x1 <= region.x1
            assert abs(region.x1 - wanted.x1) + abs(region.x0 - wanted.x0) <= 2
            assert abs(region.y1 - wanted.y1) + abs(region.y0 - wanted.y0) <= 2
            with Image.open(io.BytesIO(item.request.pages[0].png(10**9))) as opened:
                assert np.array_equal(np.asarray(opened), draw(done.task).pixels)
    assert {"right", "nothing"} <= kinds


def test_what_is_selected_reproduces_the_demonstrations_and_what_is_passed_over_does_not(
    bank, found
):
    tasks = {describe(each.task): each.task for each in bank.explored}
    some = 0
    for item in of(found, "select"):
        request = item.request
        task = tasks[request.question]
        fitting = [
            each.node_id
            for each in request.candidates
            if each.passes
            and request.nodes[each.node_id].polarity == "positive"
            and fits(task, said(request.nodes[each.node_id]))
        ]
        rules = [key for key in fitting if request.nodes[key].kind != "lesson"]
        lessons = [key for key in fitting if request.nodes[key].kind == "lesson"]
        assert list(item.value.rule_ids) == rules[:3]
        assert item.value.lesson_id == (None if rules or not lessons else lessons[0])
        some += bool(fitting)
    assert some > 0


def said(node):
    return node.lesson.guidance if node.lesson is not None else node.guidance


def test_lessons_on_one_program_and_class_share_a_category(found):
    for item in of(found, "place"):
        lesson = item.request.lesson
        same = [
            view.node.node_id
            for view in item.request.candidates
            if (view.node.title, view.node.index.scope) == (lesson.title, lesson.index.scope)
        ]
        assert ([item.value.category_id] if item.value.category_id else []) == same


def test_categories_are_of_one_class_of_tasks(bank):
    assert len({kind for kind, _ in bank.categories}) > 1
    for (kind, _), category_id in bank.categories.items():
        for node in bank.growth.tree.child_nodes(category_id):
            assert node.index.scope == f"arc, {kind}"


def test_a_task_stands_in_one_bank_and_evaluation_tasks_in_none(training, monkeypatch):
    tasks, oracle = training
    monkeypatch.setattr("benchmarks.arc.demonstrations.OF_A_BANK", 2)
    made = list(banks(tasks[:60], oracle, seed=2, count=4))
    assert [len(bank.explored) for bank in made] == [2, 2]
    names = [each.task.task_id for bank in made for each in bank.explored]
    assert len(set(names)) == len(names)
    assert len({bank.group for bank in made}) == 2


def test_the_command_takes_training_tasks_only(tmp_path, capsys):
    assert main([str(tmp_path / "set"), "--seed", "3", "--episodes", "2"]) == 0
    assert '"derive": 2' in capsys.readouterr().out
    runs = [
        item.request.run
        for item in DemonstrationSet.open(tmp_path / "set").read(operations=["derive"])
    ]
    ours = {f"arc-{task.task_id}" for task in load_tasks("training")[0]}
    assert {run.task.task_id for run in runs} <= ours
