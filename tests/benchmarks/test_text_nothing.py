"""A small run of the experiment on real text: six tasks, thirty items each, a hundred questions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.text.bbh import FOLDER, draft, load_items
from benchmarks.text.nothing import (
    UNKNOWN_TASKS,
    Outcome,
    Precision,
    gsm8k,
    rows,
    run,
)
from benchmarks.text.vectors import cached_encoder

OUTCOME = Outcome(
    seed=0,
    lessons=10,
    asked=(100, 20),
    unknown={"fused": 0.95, "dense": 0.5},
    own=0.10,
    own_by_task={"snarks": 0.1},
    precision={"fused": Precision(asked=20, answered=16, first=12, all_items=8)},
    zero_floor=0.0,
    unreachable_floor=1.0,
)


def test_the_line_has_two_halves_and_is_about_the_first_mode() -> None:
    assert OUTCOME.holds
    assert not replace(OUTCOME, unknown={"fused": 0.949, "dense": 1.0}).holds
    assert not replace(OUTCOME, own=0.101).holds


def test_a_control_that_passes_is_noticed() -> None:
    assert OUTCOME.controls_fail
    assert not replace(OUTCOME, zero_floor=0.95).controls_fail
    assert not replace(OUTCOME, unreachable_floor=0.1).controls_fail
    assert not replace(OUTCOME, zero_floor=None).controls_fail


def test_the_table_shows_every_split_and_the_line() -> None:
    table = rows([OUTCOME, replace(OUTCOME, seed=1, own=0.05, zero_floor=None)])
    found = {what: (shares, line) for what, shares, line in table}
    assert found["nothing for 100 GSM8K questions, fused"] == ("95.0% / 95.0%", ">= 95%")
    assert found["nothing for 100 GSM8K questions, dense"] == ("50.0% / 50.0%", "-")
    assert found["nothing for 20 held-out items"] == ("10.0% / 5.0%", "<= 10%")
    assert found["control, floor of zero: nothing for GSM8K"] == ("0.0%", "must fail")
    assert found["27 tasks: first item of the same task, fused"][0] == "75.0% / 75.0%"
    assert found["27 tasks: all items of the same task, fused"][0] == "50.0% / 50.0%"
    assert found["27 tasks: answered, fused"][0] == "80.0% / 80.0%"


needs_data = pytest.mark.skipif(not FOLDER.is_dir(), reason="the shared data folder is absent")


@needs_data
@pytest.mark.long
def test_no_lesson_names_its_task() -> None:
    items = load_items()
    for item in items[::50]:
        lesson = draft(item)
        assert lesson.index.text == lesson.index.question_anchor
        assert (lesson.family, lesson.tags, lesson.title, lesson.group_key) == ("", (), "", "")
        assert item.task not in lesson.canonical().decode("utf-8")


@needs_data
@pytest.mark.long
def test_a_small_bank_keeps_the_line_and_both_controls_break_it() -> None:
    items = load_items()
    tasks = sorted({item.task for item in items} - set(UNKNOWN_TASKS))[::4]
    chosen = [item for item in items if item.task in tasks and item.number < 30]
    outcome = run(chosen, gsm8k(range(100)), 0, encoder=cached_encoder(), modes=("fused",))
    assert len(tasks) == 6
    assert outcome.lessons == 90
    assert outcome.holds, outcome
    assert outcome.controls_fail, outcome
    assert outcome.precision["fused"].all_items >= 0.9 * outcome.precision["fused"].answered
