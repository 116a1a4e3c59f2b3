"""A changed convention: feedback takes the rule down, and what is handed out follows the new runs."""

from __future__ import annotations

import json

import pytest

from benchmarks.metro.banks import Banks, config_of
from benchmarks.metro.change import ask, going_on
from benchmarks.metro.learner import later_episodes
from benchmarks.metro.measures import region_hits, rules_for, rules_of
from benchmarks.metro.operators import OPERATORS, changed, draw_conventions
from benchmarks.metro.questions import Oracle
from benchmarks.metro.solving import closed_marker
from epimem.bank.encoder import TableEncoder
from tests.benchmarks.metro_towns import SPLIT

OPERATOR = OPERATORS[2]
BEFORE, AFTER = 12, 20


@pytest.fixture(scope="module")
def conventions():
    old = draw_conventions(1)
    return old, changed(old, OPERATOR.name, 1)


@pytest.fixture(scope="module")
def told(conventions):
    sides = zip(conventions, (BEFORE, AFTER), strict=True)
    return [
        (later_episodes(SPLIT.construction, judge, OPERATOR, count=count, rate=0.0, seed=at), judge)
        for at, (judge, count) in enumerate((Oracle(side), count) for side, count in sides)
    ]


def gone_on(told, folder, *, tells):
    """Return the bank of before and after the change, opened, and what was written down."""
    banks = Banks(folder / "banks", config_of(), TableEncoder(64))
    written = folder / "course.json"
    make = going_on(*told, OPERATOR.name, written, rate=0.0, tells=tells)
    path = banks.built("changed", make)
    return banks.open(path), json.loads(written.read_text())


def test_contradictions_demote_the_old_rule_and_new_runs_change_what_is_shown(
    told, conventions, tmp_path
):
    memory, course = gone_on(told, tmp_path, tells=True)
    with memory:
        # One contradiction does not outweigh what so many maps support.
        assert 2 <= course["lost_after"] <= course["hurt"]
        assert closed_marker(ask(memory, told[1][0][0].question)) == conventions[1][OPERATOR.name]


def test_without_feedback_the_rule_stays_a_rule(told, tmp_path):
    memory, course = gone_on(told, tmp_path, tells=False)
    with memory:
        assert course == {"hurt": 0, "lost_after": None}
        (rule,) = rules_for(memory, OPERATOR.name)
        assert not rules_for(memory, OPERATORS[0].name)
        assert (rules_of(memory).rules, rules_of(memory).of_one) == (1, 1)
        hits = region_hits(memory, told[0][0])
        assert hits.lessons > BEFORE // 2
        assert hits.by_chance == 0.25
        assert hits.first > 2 * hits.by_chance * hits.lessons
        assert hits.decisive <= hits.regions
        assert rule.kind == "rule"
