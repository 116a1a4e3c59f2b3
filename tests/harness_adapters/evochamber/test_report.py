"""The report: every number by hand, the index within its bounds, the picture the same twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epimem.schema import strict_json
from harness_adapters.evochamber.archive import Insight
from harness_adapters.evochamber.chamber import Episode
from harness_adapters.evochamber.lifecycle import Event
from harness_adapters.evochamber.report import SHOWN, Signals, draw, signals, specialization


def episode(number, anchor, niche="z", **more):
    values = {
        "number": number,
        "task_id": f"t-{number}",
        "niche": niche,
        "team": (anchor, "x", "y"),
        "structure": "voting",
        "reward": 1.0,
        "score": 1.0,
        "pool": 4,
    }
    return Episode(**{**values, **more})


def test_the_specialization_index():  # row 52
    assert specialization([5, 5, 5, 5], 4) == pytest.approx(0.0)
    assert specialization([7], 4) == 1.0
    assert specialization([7, 0, 0, 0], 4) == 1.0
    assert specialization([1, 1], 4) == pytest.approx(0.5)
    assert specialization([], 4) == 0.0
    assert specialization([3], 1) == 1.0
    assert specialization([1] * 9, 4) == 0.0


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(0, 30))
def test_the_index_is_between_zero_and_one(counts, agents):
    assert 0.0 <= specialization(counts, agents) <= 1.0


def test_every_number_of_a_small_run():
    insight = Insight(text="t", niche="z", giver="a")
    found = signals(
        [
            episode(1, "a", fired="low", routes=(("a", "c"), ("a", "d")), insights=(insight,),
                    recipients=("c", "d"), givers=("a",)),
            episode(2, "b", "y", score=0.0, reward=0.0, fired="low", abstained=True),
            episode(3, "a", fired="disagreement", rejected=2, structure="debate", reward=0.5),
            episode(4, "a", events=(Event(kind="fork", agent="e", others=("a",)),), pool=5),
        ],
        window=2,
    )  # fmt: skip
    assert found.agents == ("a", "b", "c", "d")
    assert found.niches == ("z", "y")
    assert found.anchors == ((3, 0), (0, 1), (0, 0), (0, 0))
    assert found.cumulative[:2] == ((1, 1, 2, 3), (0, 1, 1, 1))
    assert found.flow[0] == (0, 0, 1, 1)
    assert sum(map(sum, found.flow)) == 2
    assert found.specialization == pytest.approx((1.0, 0.5, 0.5, 1.0))
    assert found.unique_anchors == 2
    assert found.score == 0.75
    assert found.by_niche == {"z": 1.0, "y": 0.0}
    assert found.structures == {"debate": (1, 0.5), "voting": (3, pytest.approx(2 / 3))}
    assert found.fired == {"low": 2, "disagreement": 1}
    assert (found.abstained, found.without_recipient) == (1, 1)
    assert (found.insights, found.rejected) == (1, 2)
    assert found.events == {"fork": 1}
    assert found.pool == (4, 4, 4, 5)


STREAMS = {
    "none": [],
    "one agent": [episode(number, "a") for number in range(1, 4)],
    "many": [
        episode(
            number,
            f"agent-{number % 60:03d}",
            f"niche {number % 30} $x_1$ with a long name\nand a second line",
            routes=((f"agent-{number % 60:03d}", f"agent-{number % 7:03d}"),),
        )
        for number in range(1, 200)
    ],
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_picture_is_drawn_and_is_the_same_twice(tmp_path, name):
    pytest.importorskip("matplotlib")
    found = signals(STREAMS[name], window=32)
    first, second = (draw(found, tmp_path / each).read_bytes() for each in ("a", "b"))
    assert first == second
    assert first.startswith(b"<?xml")
    read = Signals.read(strict_json.loads((tmp_path / "a" / "report.json").read_bytes()))
    assert read == found


def test_agents_beyond_the_first_ones_are_drawn_together(tmp_path):
    pytest.importorskip("matplotlib")
    text = draw(signals(STREAMS["many"], window=32), tmp_path).read_text()
    assert "<!-- others -->" in text
    assert sum(f"<!-- agent-{number:03d} -->" in text for number in range(60)) == SHOWN
