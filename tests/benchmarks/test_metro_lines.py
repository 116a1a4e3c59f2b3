"""The lines of the metro experiment, each on results that reach it and on results that just do not."""

from __future__ import annotations

import pytest

from benchmarks.metro.figures import Figures
from benchmarks.metro.lines import lines_of
from benchmarks.metro.questions import has_legend
from benchmarks.metro.seed_results import SeedResults
from epimem.evaluation.rows import Row

SEEDS = range(10)
TASKS = [f"e{number}" for number in range(40)]
BARE = [task for task in TASKS if not has_legend(task)]
ALWAYS = {"none": 0, "wrong": 0, "shuffled": 0, "frequency": 0, "text only": 0, "product": 20}


def rows(seed, arm, right, *, crops=0, tasks=TASKS):
    """Return rows of which the first `right` without a legend are right, and all with one."""
    bare = [task for task in tasks if not has_legend(task)]
    return [
        Row(
            seed=seed,
            arm=arm,
            task=task,
            group=f"town {int(task[1:]) % 4}",
            right=has_legend(task) or bare.index(task) < right,
            crops=crops if not has_legend(task) or arm == "always on" else 0,
        )
        for task in tasks
    ]


def results(seed, changes=None):
    """Return results that reach every line, with the numbers of right answers changed."""
    right = {
        "50": {**ALWAYS, "always on": 20},
        "0": {"none": 3, "product": 3},
        "150": {"flat": 12, "one item": 18},
        "ablation": {"removed": 3, "blanked": 3, "swapped": 5, "shifted by 0": 20},
        "sabotage": {"random retrieval": 6, "blank crops": 3, "empty scopes": 10},
        "change": {"before": 4, "with feedback": 18},
    }
    for evaluation, arms in (changes or {}).items():
        right[evaluation] = {**right[evaluation], **arms}
    return SeedResults(
        {
            evaluation: [
                row
                for arm, count in arms.items()
                for row in rows(seed, arm, count, crops=2 if evaluation == "50" else 0)
            ]
            for evaluation, arms in right.items()
        },
        {
            "rules 150": {"rules": 5, "of_one": 5, "operators": 5},
            "hits 150": {"lessons": 100, "first": 80, "by_chance": 0.25},
            "change, with feedback": {"hurt": 3, "lost_after": 2},
        },
    )


def missed(found):
    figures = Figures(dict(enumerate(found)), deciding=50, largest=150)
    return {line.name for line in lines_of(figures) if not line.reached}


def test_good_results_reach_every_line():
    assert missed([results(seed) for seed in SEEDS]) == set()


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"50": {"product": 17, "always on": 17}}, "no legend: memory >= 0.90"),
        ({"50": {"wrong": 15}}, "no legend: memory - wrong lesson >= 0.30"),
        ({"0": {"product": 4}}, "no episode: |memory - none| <= 0.02"),
        ({"50": {"shuffled": 20}}, "product - shuffled, interval above 0"),
        ({"50": {"frequency": 20}}, "product - frequency, interval above 0"),
        ({"50": {"text only": 13}}, "adaptive gate - text only >= 0.20"),
        ({"ablation": {"blanked": 20}}, "shifted by 0 - blanked, interval above 0"),
        ({"ablation": {"removed": 20}}, "shifted by 0 - removed, interval above 0"),
        ({"ablation": {"swapped": 20}}, "shifted by 0 - swapped, interval above 0"),
        ({"sabotage": {"blank crops": 20}}, "sabotage: blank crops must miss"),
        ({"sabotage": {"random retrieval": 19}}, "sabotage: random retrieval must miss"),
        ({"sabotage": {"empty scopes": 19}}, "sabotage: empty scopes must miss"),
    ],
)
def test_each_line_can_be_missed(changes, line):
    assert missed([results(seed, changes) for seed in SEEDS]) == {line}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"150": {"one item": 12}}, "one item, largest bank: tree beats flat, in 9 of 10 seeds"),
        (
            {"change": {"with feedback": 4}},
            "a changed convention: more right than with the old bank, in 9 of 10 seeds",
        ),
    ],
)
def test_a_line_of_seeds_allows_one_and_not_two(changes, line):
    one = [results(seed, changes if seed < 1 else None) for seed in SEEDS]
    two = [results(seed, changes if seed < 2 else None) for seed in SEEDS]
    assert missed(one) == set()
    assert missed(two) == {line}


@pytest.mark.parametrize(
    ("name", "bad", "line"),
    [
        ("rules 150", {"rules": 6, "of_one": 6, "operators": 5}, "five operators end"),
        ("rules 150", {"rules": 5, "of_one": 4, "operators": 5}, "five operators end"),
        ("rules 150", {"rules": 5, "of_one": 5, "operators": 4}, "five operators end"),
        ("hits 150", {"lessons": 100, "first": 25, "by_chance": 0.25}, "the first region"),
        ("change, with feedback", {"hurt": 9, "lost_after": None}, "a changed convention: the old"),
    ],
)
def test_a_line_on_banks_can_be_missed(name, bad, line):
    found = [results(seed) for seed in SEEDS]
    for one in found[:2]:
        one.measures[name] = bad
    (name,) = missed(found)
    assert name.startswith(line)


def test_an_adaptive_gate_that_shows_as_much_or_is_less_right_misses():
    found = [results(seed) for seed in SEEDS]
    for one in found:
        one.rows["50"] = [
            row.model_copy(update={"crops": 2}) if row.arm == "product" else row
            for row in one.rows["50"]
        ]
    (name,) = missed(found)
    assert name.startswith("images of the adaptive gate")
    worse = missed([results(seed, {"50": {"product": 18, "always on": 20}}) for seed in SEEDS])
    assert worse == {"accuracy lost by the adaptive gate <= 0.02"}


def test_a_leak_misses():
    found = [results(seed) for seed in SEEDS]
    found[3].leaks.append("reference of e1 in bank-50")
    assert missed(found) == {"nothing leaked"}
