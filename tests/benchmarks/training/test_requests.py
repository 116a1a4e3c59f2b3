"""Requests made of families: who stands in them, in which order, and what is right."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from benchmarks.text.bbh import Item
from benchmarks.training.families import DECIDING, divided, group_of
from benchmarks.training.proof_plan import requests
from benchmarks.training.requests import RequestMaker
from controllers.prompts import OPERATIONS
from tests.benchmarks.training.small_families import ENCODER, PLAN, families, items
from training.demonstrations.checks import check

OPERATIONS_MADE = ("place", "merge", "select")


def maker(seed=0, groups=6):
    found = families()
    return RequestMaker(
        {group: found.items[group] for group in sorted(found.items)[:groups]}, ENCODER, seed=seed
    )


def tasks_shown(request):
    """The tasks of all that a request shows, from ids that no prompt shows."""
    if hasattr(request, "lesson"):
        return [request.lesson.node_id, *(view.node.node_id for view in request.candidates)]
    if hasattr(request, "kept"):
        return [request.kept.node_id, request.absorbed.node_id]
    return [candidate.node_id for candidate in request.candidates]


def task_of(node_id):
    return node_id.removeprefix("category-").removeprefix("lesson-").rsplit("-", 1)[0]


@pytest.mark.parametrize("operation", OPERATIONS_MADE)
def test_a_value_is_one_that_its_prompt_allows(operation):
    for each in maker().demonstrations(operation, 12):
        assert check(each) is None
        made = OPERATIONS[operation]
        target = json.loads(json.dumps(made.target(each.request, each.value)))
        assert made.parse(each.request, target) == each.value


@pytest.mark.parametrize("operation", OPERATIONS_MADE)
def test_no_prompt_names_a_family(operation):
    for each in maker().demonstrations(operation, 12):
        prompt = OPERATIONS[operation].render(each.request)
        assert "task_" not in "".join(message.text for message in prompt.messages)


@pytest.mark.parametrize("operation", OPERATIONS_MADE)
def test_groups_take_turns_and_half_of_the_requests_have_nothing_to_join(operation):
    found = list(maker().demonstrations(operation, 24))
    assert set(Counter(each.group for each in found).values()) == {4}
    for group in {each.group for each in found}:
        joins = [_joins(each) for each in found if each.group == group]
        assert joins == [True, False, True, False]


def _joins(each):
    if each.operation == "place":
        return each.value.category_id is not None
    return each.value is not None if each.operation == "merge" else bool(each.value.lesson_id)


def test_what_belongs_together_is_of_one_family_and_nothing_else_is():
    for each in maker().demonstrations("place", 24):
        lesson, *shown = map(task_of, tasks_shown(each.request))
        same = [task == lesson for task in shown]
        assert sum(same) == _joins(each)
        if _joins(each):
            right = [view.node.node_id for view in each.request.candidates][same.index(True)]
            assert each.value.category_id == right
    for each in maker().demonstrations("merge", 24):
        kept, absorbed = map(task_of, tasks_shown(each.request))
        assert (kept == absorbed) == _joins(each)
        ours, theirs = each.request.kept_lessons, each.request.absorbed_lessons
        assert {task_of(node.node_id) for node in ours} == {kept}
        assert {task_of(node.node_id) for node in theirs} == {absorbed}
    for each in maker().demonstrations("select", 24):
        same = [task_of(key) == each.group for key in tasks_shown(each.request)]
        assert sum(same) == _joins(each)
        if _joins(each):
            assert task_of(each.value.lesson_id) == each.group


def test_a_lesson_is_never_shown_to_itself():
    for operation in OPERATIONS_MADE:
        for each in maker().demonstrations(operation, 24):
            request = each.request
            if operation == "place":
                shown = [
                    request.lesson,
                    *(it for view in request.candidates for it in view.examples),
                ]
            elif operation == "merge":
                shown = [*request.kept_lessons, *request.absorbed_lessons]
            else:
                shown = list(request.nodes.values())
                questions = [node.lesson.index.question_anchor for node in shown]
                assert request.question not in questions
            assert len({node.node_id for node in shown}) == len(shown)


def test_candidates_stand_in_the_order_of_likeness(monkeypatch):
    """Also where more are shown than the proof shows."""
    monkeypatch.setattr("benchmarks.training.requests.CATEGORIES", 3)
    monkeypatch.setattr("benchmarks.training.requests.CANDIDATES", 3)
    for each in maker().demonstrations("place", 12):
        alike = [view.likeness for view in each.request.candidates]
        assert alike == sorted(alike, reverse=True)
        assert len(alike) == 3
    for each in maker().demonstrations("select", 12):
        alike = [candidate.dense for candidate in each.request.candidates]
        assert alike == sorted(alike, reverse=True)
        assert len(alike) == 3


def test_others_than_the_nearest_are_left_out():
    """With more families there are nearer strangers."""
    few = [it.request.candidates[0].likeness for it in maker(groups=3).demonstrations("place", 6)]
    many = [
        it.request.candidates[0].likeness for it in maker(groups=13).demonstrations("place", 26)
    ]
    assert sum(many[13:]) / 13 > sum(few[3:]) / 3


def test_the_same_seed_makes_the_same_requests_and_another_seed_others():
    first, again, other = (list(maker(seed).demonstrations("place", 6)) for seed in (0, 0, 1))
    assert first == again
    assert not {each.id for each in first} & {each.id for each in other}
    assert first[0].request != other[0].request


def test_no_group_is_both_learnt_and_asked():
    for development in (False, True):
        found = requests(families(), ENCODER, PLAN, 0, development=development)
        learnt = {each.group for each in found.learnt}
        asked = {each.group for each in found.asked}
        assert learnt
        assert asked
        assert not learnt & asked
    # What development looks at is not what decides.
    assert not asked & set(families().deciding)


def test_what_is_written_is_among_what_is_asked():
    found = requests(families(), ENCODER, PLAN, 0)
    assert [each.operation for each in found.written] == ["place", "place", "merge", "select"]
    assert {each.id for each in found.written} < {each.id for each in found.asked}


def test_variants_of_a_task_are_one_group():
    names = [f"logical_deduction_{size}_objects" for size in ("three", "five", "seven")]
    assert {group_of(name) for name in names} == {"logical_deduction"}
    found = divided([*items(), *(Item(name, 0, "which?", "this") for name in names)])
    assert len(found.items["logical_deduction"]) == 3
    assert len(found.deciding) == DECIDING
    assert not set(found.deciding) & set(found.practice)
    assert set(found.deciding) | set(found.practice) == set(found.items)
