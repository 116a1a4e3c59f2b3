"""Controls, intervals and lines of the proof."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from benchmarks.training import controls
from benchmarks.training.answers import Answer, Written, answered
from benchmarks.training.choices import NOTHING, chosen
from benchmarks.training.intervals import over_groups
from benchmarks.training.proof_plan import requests
from benchmarks.training.proof_result import compared
from tests.benchmarks.training.small_families import ENCODER, PLAN, families

MORE = replace(PLAN, learnt={"place": 24, "merge": 24, "select": 24})
GROUPS = [f"g{number}" for number in range(10)]


@pytest.fixture(scope="module")
def found():
    return requests(families(), ENCODER, MORE, 0)


def accuracy(answers):
    return sum(each.right for each in answers) / len(answers)


def test_constants_choose_the_same_whatever_is_shown(found):
    for each in found.asked:
        assert controls.nothing(each) == NOTHING
    place = next(each for each in found.asked if each.operation == "place")
    assert controls.first(place) == place.request.candidates[0].node.node_id
    assert accuracy(answered(found.asked, controls.nothing)) <= 0.5


def test_the_embedded_organizer_is_asked_as_in_a_new_bank(found):
    for each in found.asked:
        if each.operation == "place":
            near = [view for view in each.request.candidates if view.likeness >= 0.6]
            assert (controls.embedded(each) == NOTHING) == (not near)
        if each.operation == "merge":
            assert (controls.embedded(each) == NOTHING) == (each.request.likeness < 0.8)
    assert {controls.embedded(each) == NOTHING for each in found.asked} == {True, False}


def test_a_threshold_is_as_good_as_any_bound_in_training(found):
    place = [each for each in found.learnt if each.operation == "place"]
    ours = accuracy(answered(place, controls.threshold(place)))
    for bound in [controls.likeness_of(each) for each in place]:
        taken = [
            controls.first(it) if controls.likeness_of(it) >= bound else NOTHING for it in place
        ]
        wanted = [chosen("place", it.value) for it in place]
        assert sum(map(str.__eq__, taken, wanted)) / len(place) <= ours
    assert ours > max(accuracy(answered(place, who)) for who in (controls.first, controls.nothing))


def test_random_labels_say_nothing_of_the_request(found):
    place = [each for each in found.learnt if each.operation == "place"] * 10
    shuffled = controls.with_random_labels(place, 0)
    assert [each.request for each in shuffled] == [each.request for each in place]
    right = [
        chosen("place", it.value) == chosen("place", that.value)
        for it, that in zip(shuffled, place, strict=True)
    ]
    assert 0.25 < sum(right) / len(right) < 0.5
    drawn = Counter(chosen("place", each.value) == NOTHING for each in shuffled)
    assert 0.4 < drawn[True] / len(shuffled) < 0.6
    assert (
        controls.with_random_labels(place, 0) == shuffled != controls.with_random_labels(place, 1)
    )


def test_an_interval_draws_whole_groups():
    values = {"a": [1.0] * 50, "b": [0.0] * 2}
    interval = over_groups(values)
    # Groups count equally, and both may be drawn alone.
    assert (interval.mean, interval.low, interval.high) == (0.5, 0.0, 1.0)
    many = over_groups({str(number): [float(number % 2)] for number in range(100)})
    assert many.mean == 0.5
    assert 0.38 < many.low < 0.42
    assert 0.58 < many.high < 0.62
    for empty in ({}, {"a": []}):
        with pytest.raises(ValueError, match="groups"):
            over_groups(empty)


def answers_with(rights):
    """Answers to four places a group, of which so many are right."""
    return [
        Answer(f"{group}-{at}", "place", group, "a", "a" if at < count else NOTHING)
        for group, count in zip(GROUPS, rights, strict=True)
        for at in range(4)
    ]


def said(lawful):
    return [Written(str(at), "place", "g0", "", lawful=at < lawful) for at in range(10)]


@pytest.mark.parametrize(
    ("trained", "untrained", "constant", "lawful", "before", "passed"),
    [
        (3, 2, 2, 9, 0, True),
        (3, 3, 2, 9, 0, False),
        (3, 2, 3, 9, 0, False),
        (3, 2, 2, 8, 0, False),
        (3, 2, 2, 9, 9, False),
    ],
)
def test_each_line_has_to_be_met(trained, untrained, constant, lawful, before, passed):
    answers = {
        "first candidate": answers_with([constant] * 10),
        "nothing": answers_with([0] * 10),
        "threshold on likeness": answers_with([4] * 10),
        "untrained": answers_with([untrained] * 10),
        "trained": answers_with([trained] * 10),
    }
    result = compared(answers, {"untrained": said(before), "trained": said(lawful)})
    assert result["passed"] is passed
    assert result["operations"]["place"]["gain"]["mean"] == (trained - untrained) / 4


def test_a_gain_in_few_groups_is_no_gain():
    answers = {
        "first candidate": answers_with([0] * 10),
        "nothing": answers_with([0] * 10),
        "threshold on likeness": answers_with([0] * 10),
        "untrained": answers_with([1] * 10),
        "trained": answers_with([4, 4, *[1] * 8]),
    }
    result = compared(answers, {"untrained": said(0), "trained": said(10)})
    assert result["operations"]["place"]["gain"]["mean"] == pytest.approx(0.15)
    assert not result["passed"]
