"""History and queries apart, groups in bundles: by the runs and a seed, not by their order."""

from __future__ import annotations

import pytest

from epimem.bank.run_queue import QueuedRun
from epimem.schema.run import Run
from tests.training.demonstrations import small_runs
from training.demonstrations.grouping import bundles_of, group_of, groups_of
from training.demonstrations.intake import SourceRun


def source_run(house, number, **more):
    run = Run.read(small_runs.run_of(house, number, **more))
    queued = QueuedRun(run.run_id, run, "wrong", "oracle", "default", "us", "us", "observed", 0)
    return SourceRun(queued, "secret")


def runs(count=6):
    return [
        source_run(house, number, attempt=attempt)
        for house in small_runs.HOUSES
        for number in range(count)
        for attempt in (1, 2)
    ]


def questions(found):
    return {run.run.task.question_key for run in found}


def test_no_question_is_both_history_and_query_and_no_run_is_lost():
    for group in groups_of(runs(), seed=3):
        assert len(group.history) == 8
        assert len(group.queries) == 4
        assert not questions(group.history) & questions(group.queries)


def test_the_attempts_of_a_question_stay_together_in_order_of_time():
    group = groups_of(reversed(runs()), seed=0)[0]
    pairs = zip(group.history[::2], group.history[1::2], strict=True)
    for first, second in pairs:
        assert first.run.task.question_key == second.run.task.question_key
        assert first.run.created_at < second.run.created_at


def test_the_order_of_the_runs_changes_nothing_and_the_seed_does():
    there = groups_of(runs(), seed=1)
    assert groups_of(list(reversed(runs())), seed=1) == there
    assert groups_of(runs(), seed=2) != there
    names = [bundle.name for bundle in bundles_of(there, size=2, seed=1)]
    assert [bundle.name for bundle in bundles_of(there[::-1], size=2, seed=1)] == names


def test_a_group_with_one_question_is_history_and_one_with_two_asks_one():
    (alone,) = groups_of([source_run("Rubra", 0)], seed=0)
    assert (len(alone.history), len(alone.queries)) == (1, 0)
    (two,) = groups_of([source_run("Rubra", 0), source_run("Rubra", 1)], seed=0)
    assert (len(two.history), len(two.queries)) == (1, 1)


def test_the_group_is_that_of_the_task_else_the_house_else_the_question():
    assert group_of(source_run("Rubra", 0, group="map 7").run) == "map 7"
    assert group_of(source_run("Rubra", 0).run) == "Rubra"
    bare = source_run("", 0).run
    assert group_of(bare) == bare.task.question_key


def test_bundles_hold_every_group_once_and_none_is_smaller_than_asked():
    groups = [groups_of([source_run(f"House {n}", 0)], seed=0)[0] for n in range(7)]
    bundles = bundles_of(groups, size=3, seed=0)
    assert sorted(len(bundle.groups) for bundle in bundles) == [3, 4]
    assert sorted(g.name for b in bundles for g in b.groups) == [g.name for g in groups]
    assert [len(b.groups) for b in bundles_of(groups[:2], size=3, seed=0)] == [2]
    with pytest.raises(ValueError, match="at least one"):
        bundles_of(groups, size=0, seed=0)


def test_history_comes_in_turns_so_that_groups_are_mixed():
    (bundle,) = bundles_of(groups_of(runs(3), seed=0), size=3, seed=0)
    houses = [run.run.task.house for run in bundle.history[:3]]
    assert sorted(houses) == sorted(small_runs.HOUSES)


def test_a_long_name_becomes_a_hash_that_still_tells_bundles_apart():
    groups = [groups_of([source_run(f"{n} {'x' * 100}", 0)], seed=0)[0] for n in range(4)]
    names = {bundle.name for bundle in bundles_of(groups, size=2, seed=0)}
    assert len(names) == 2
    assert all(len(name) <= 120 for name in names)


def test_a_reference_is_not_printed():
    assert "secret" not in repr(source_run("Rubra", 0))
