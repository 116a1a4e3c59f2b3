"""Collecting over all bundles: what was stopped goes on, and ends as if it had not been stopped."""

from __future__ import annotations

import json

import pytest

from tests.training.demonstrations import small_runs
from training.demonstrations.collect import collect
from training.demonstrations.intake import opened_runs
from training.demonstrations.store import DemonstrationSet
from training.demonstrations.teacher import Teacher


def pairs(count=2, houses=small_runs.HOUSES):
    return [small_runs.pair_of(house, n) for house in houses for n in range(count)]


def go_through(folder, source, teacher, progress=small_runs.nothing, mix=1):
    with (
        DemonstrationSet.create(folder) as out,
        opened_runs(source, folder / "work", progress=progress) as found,
    ):
        taught = Teacher(out, teacher, None, source="data", seed=0)
        report = collect(
            found, taught, folder / "work", encoder=None, seed=0, mix=mix, progress=progress
        )
        return report, taught.taught, out.finish()


def stored(folder):
    lines = (folder / "demonstrations.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_groups_with_banks_of_their_own_are_split_one_by_one(tmp_path):
    source = small_runs.write_runs(tmp_path / "runs.jsonl", *pairs(1))
    report, _, card = go_through(tmp_path / "apart", source, small_runs.scripted())
    assert (report.groups, report.bundles) == (3, 3)
    assert {each["group"] for each in stored(tmp_path / "apart")} == set(small_runs.HOUSES)
    assert card["groups"] == {"all": 3, "dev": 1, "test": 1, "train": 1}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A source, and the set that an uninterrupted job makes of it."""
    folder = tmp_path_factory.mktemp("whole")
    source = small_runs.write_runs(folder / "runs.jsonl", *pairs(2, small_runs.HOUSES[:2]))
    go_through(folder / "out", source, small_runs.scripted())
    return source, folder / "out"


@pytest.mark.parametrize("phase", ["ingest", "bundles"])
def test_a_job_that_was_stopped_goes_on_and_asks_nothing_twice(tmp_path, whole, phase):
    source, out = whole

    def stop(name, *_):
        if name == phase:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        go_through(tmp_path / "stopped", source, small_runs.scripted(), progress=stop)
    before = len(stored(tmp_path / "stopped"))
    assert 0 < before < len(stored(out))
    _, taught, _ = go_through(tmp_path / "stopped", source, small_runs.scripted())
    assert stored(tmp_path / "stopped") == stored(out)
    assert taught.accepted == len(stored(out)) - before


def test_a_job_that_is_through_asks_nobody(whole):
    source, out = whole
    before = stored(out)
    again = small_runs.scripted()
    report, taught, _ = go_through(out, source, again)
    assert stored(out) == before
    assert again.memory_controller.calls == again.tree_organizer.calls == []
    assert (taught.accepted, taught.known, report.asked) == (0, 0, 0)


def test_a_teacher_that_fails_at_everything_sets_everything_aside_and_ends(tmp_path):
    from epimem.testing import raises

    names = ("place", "merge", "split_lift", "consolidate", "select")
    broken = small_runs.scripted(
        derive=raises, update=raises, organizer=dict.fromkeys(names, raises)
    )
    source = small_runs.write_runs(tmp_path / "runs.jsonl", *pairs(2, small_runs.HOUSES[:2]))
    report, taught, card = go_through(tmp_path / "out", source, broken)
    assert (taught.accepted, report.lessons) == (0, 0)
    assert card["set_aside"] == {"teacher": taught.set_aside}
    assert card["set_aside_by_operation"] == {"derive": 2, "update": 4}
