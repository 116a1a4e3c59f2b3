"""The learner and its runs: what it hands in, and what no text of it says."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from benchmarks.metro.learner import LOOKS, episodes, later_episodes
from benchmarks.metro.operators import OPERATORS, draw_conventions
from benchmarks.metro.questions import Oracle
from benchmarks.metro.run_record import CANARY, outcome_of, region_of, run_of
from benchmarks.metro.shapes import SHAPES
from epimem.schema.run import Run, check_semantics, find_leaks
from tests.benchmarks.metro_towns import SPLIT

COUNT = 100


@pytest.fixture(scope="module")
def oracle():
    return Oracle(draw_conventions(3))


@pytest.fixture(scope="module")
def told(oracle):
    return episodes(SPLIT.construction, oracle, count=COUNT, rate=0.05, seed=3)


@pytest.fixture(scope="module")
def runs(told):
    return [
        run_of(e, run_id=f"run-{n}", created_at="2026-01-01T00:00:00Z") for n, e in enumerate(told)
    ]


def test_any_first_episodes_hold_as_many_of_each_operator(told):
    for end in (5, 10, 25, COUNT):
        seen = Counter(episode.question.map.operator.name for episode in told[:end])
        assert set(seen.values()) == {end // 5}


def test_right_is_what_the_oracle_says_and_often_by_the_wrong_marker(told, oracle):
    conventions = draw_conventions(3)
    right = [episode for episode in told if episode.right]
    assert all(
        episode.right == oracle.right(episode.question.map, episode.answer) for episode in told
    )
    known = sum(e.assumed == conventions[e.question.map.operator.name] for e in right)
    assert 0.6 * COUNT < len(right) < COUNT
    assert 0.4 * len(right) < known < 0.9 * len(right)


def test_no_construction_map_prints_a_legend(told):
    assert not any(episode.question.map.legend for episode in told)


def test_one_of_at_least_four_looks_is_decisive_in_any_place(told):
    places = Counter()
    for episode in told:
        decisive = [look.decisive for look in episode.looks]
        assert len(decisive) >= LOOKS
        assert sum(decisive) == 1
        places[decisive.index(True)] += 1
        regions = [region_of(episode, look).box for look in episode.looks]
        assert len(set(regions)) == len(regions)
    assert len(places) == LOOKS
    assert min(places.values()) > COUNT // 10


def test_an_episode_is_told_the_same_way_again(told, runs):
    again = run_of(told[0], run_id="run-0", created_at="2026-01-01T00:00:00Z")
    assert again == runs[0]


def test_runs_are_sound_and_come_back_from_json(runs):
    for run in runs:
        assert not check_semantics(run, lambda _: True)
        assert Run.read(run.canonical()) == run


def test_no_text_of_a_run_names_a_shape_or_the_reference(runs, told, oracle):
    for run, episode in zip(runs, told, strict=True):
        text = json.dumps(run.plain()).casefold()
        assert not any(shape in text for shape in SHAPES)
        assert CANARY not in text
        outcome = outcome_of(episode, oracle, run_id=run.run_id)
        assert outcome.reference is not None
        assert CANARY in outcome.reference
        assert not find_leaks(run, [outcome.reference])
        assert outcome.verdict == ("right" if episode.right else "wrong")


def test_texts_of_one_operator_do_not_depend_on_its_marker(oracle):
    """Under two conventions the same words are said; only the regions differ."""
    others = Oracle(dict.fromkeys(draw_conventions(3), SHAPES[0]))
    said = []
    for judge in (oracle, others):
        made = later_episodes(SPLIT.construction, judge, OPERATORS[1], count=30, rate=0.0, seed=1)
        lines = [run_of(e, run_id="r", created_at="2026-01-01T00:00:00Z") for e in made]
        texts = {
            turn.message for run in lines for turn in run.trajectory.subagent_trajectories[0].steps
        }
        said.append({text for text in texts if "closed" in text})
    assert said[0] == said[1]
    assert len(said[0]) == 3
