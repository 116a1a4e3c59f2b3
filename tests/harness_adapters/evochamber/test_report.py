"""The report: every number by hand, the index within its bounds, the picture the same twice."""

from __future__ import annotations

import re
import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epimem.errors import PluginError
from epimem.schema import strict_json
from harness_adapters.evochamber.archive import Insight
from harness_adapters.evochamber.chamber import Episode
from harness_adapters.evochamber.lifecycle import Event
from harness_adapters.evochamber.report import (
    COLOURS,
    COLUMNS,
    GREY,
    LONG,
    SHOWN,
    Signals,
    draw,
    signals,
    specialization,
)


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


def cost(calls, tokens_in, tokens_out, time_s):
    return {"calls": calls, "tokens_in": tokens_in, "tokens_out": tokens_out, "time_s": time_s}


# -- numbers -------------------------------------------------------------------------------------------


def test_the_specialization_index():  # row 52
    assert specialization([5, 5, 5, 5], 4) == pytest.approx(0.0)
    assert specialization([7], 4) == 1.0
    assert specialization([7, 0, 0, 0], 4) == 1.0
    assert specialization([1, 1], 4) == pytest.approx(0.5)
    # Shares of 3/4 and 1/4 have 0.81128 bits.
    assert specialization([3, 1], 2) == pytest.approx(0.18872, abs=1e-5)
    assert specialization([], 4) == 0.0
    assert specialization([0, 0], 1) == 0.0
    assert specialization([3], 1) == 1.0


def test_a_pool_that_has_shrunk_counts_all_that_were_an_anchor():
    assert specialization([1] * 9, 4) == pytest.approx(0.0)
    assert specialization([1, 1], 1) == pytest.approx(0.0)
    assert specialization([3, 1, 0], 1) == specialization([3, 1], 2)


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(0, 30))
def test_the_index_is_between_zero_and_one(counts, agents):
    assert 0.0 <= specialization(counts, agents) <= 1.0


@given(st.integers(2, 40), st.integers(1, 9))
def test_the_index_is_zero_where_all_are_alike_and_one_where_one_leads(agents, times):
    assert specialization([times] * agents, agents) == pytest.approx(0.0, abs=1e-12)
    assert specialization([times], agents) == 1.0


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
    assert found.cumulative == ((1, 1, 2, 3), (0, 1, 1, 1), (0, 0, 0, 0), (0, 0, 0, 0))
    assert found.rolling == ((1, 0.5, 0.5, 1), (0, 0.5, 0.5, 0), (0, 0, 0, 0), (0, 0, 0, 0))
    assert found.flow == ((0, 0, 1, 1), (0, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0))
    assert found.specialization == pytest.approx((1.0, 0.5, 0.5, 1.0))
    # Shares of 3/4 and 1/4 have 0.56234 nats; the last pool has 5 agents.
    assert found.overall == pytest.approx(1 - 0.56234 / 1.60944, abs=1e-5)
    assert found.window == 2
    assert found.unique_anchors == 2
    assert found.score == 0.75
    assert found.by_niche == {"z": 1.0, "y": 0.0}
    assert found.structures == {"debate": (1, 0.5), "voting": (3, pytest.approx(2 / 3))}
    assert found.fired == {"low": 2, "disagreement": 1}
    assert (found.abstained, found.without_recipient) == (1, 1)
    assert found.without_recipient_share == 0.5
    assert (found.insights, found.rejected) == (1, 2)
    assert found.events == {"fork": 1}
    assert found.pool == (4, 4, 4, 5)


def test_the_shares_of_a_niche_are_of_its_own_tasks():
    leading = [("a", "z"), ("b", "z"), ("a", "z"), ("a", "z"), ("b", "y")]
    found = signals([episode(number, *each) for number, each in enumerate(leading, 1)], window=2)
    assert found.shares == ((0.75, 0.0), (0.25, 1.0))


def test_who_gives_stands_in_the_row_and_who_takes_in_the_column():
    twice = [
        episode(number, "a", routes=(("c", "b"), ("c", "b"), ("b", "a")), fired="low")
        for number in (1, 2)
    ]
    found = signals(twice, window=2)
    assert found.agents == ("a", "b", "c")
    assert found.flow == ((0, 0, 0), (2, 0, 0), (0, 4, 0))


def test_costs_are_summed_by_tag_and_set_against_one_solve_call_a_task():
    found = signals(
        [
            episode(1, "a", spent={"solve": cost(3, 300, 600, 6.0), "reflect": cost(1, 50, 50, 1.0)}),
            episode(2, "a", spent={"solve": cost(1, 60, 240, 2.0)}),
        ],
        window=2,
    )  # fmt: skip
    assert found.spent == {"solve": cost(4, 360, 840, 8.0), "reflect": cost(1, 50, 50, 1.0)}
    # A solve call takes 300 tokens and 2 s: 600 and 4 for the two tasks.
    assert found.tokens_over_single == pytest.approx(1300 / 600, abs=1e-4)
    assert found.time_over_single == pytest.approx(9 / 4, abs=1e-4)


def test_what_there_was_none_of_has_no_ratio():
    found = signals([episode(1, "a", spent={"choose": cost(1, 5, 5, 1.0)})], window=2)
    assert (found.tokens_over_single, found.time_over_single) == (None, None)
    assert found.without_recipient_share is None


def test_an_empty_stream_has_no_number_but_zero():
    found = signals([], window=32)
    assert (found.agents, found.niches, found.pool) == ((), (), ())
    assert (found.score, found.overall, found.unique_anchors) == (0.0, 0.0, 0)
    assert (found.spent, found.tokens_over_single) == ({}, None)


# -- the picture ---------------------------------------------------------------------------------------


STREAMS = {
    "none": [],
    "one agent and task": [episode(1, "a", routes=(("a", "b"),))],
    "60 agents and 30 niches": [
        episode(
            number,
            f"agent-{number % 60:03d}",
            f"niche $x_1$ with a long name\nand a line {number % 30:02d}",
            routes=((f"agent-{number % 60:03d}", f"agent-{number % 7:03d}"),),
        )
        for number in range(1, 200)
    ],
    "odd names": [
        episode(number, name, name, routes=((name, "hidden"),))
        for number, name in enumerate(["_x", "$a_", "\x1b[31m", "<b>&--", "几何", "\u202e"], 1)
    ],
    "50 niches": [episode(number, "a", f"n{number % 50}") for number in range(1, 131)],
}

AGAIN = """
import sys
from pathlib import Path
import matplotlib as mpl
from harness_adapters.evochamber.report import Signals, draw

mpl.rcParams["axes.grid"] = True
for folder in map(Path, sys.argv[1:]):
    draw(Signals.read((folder / "report.json").read_bytes()), folder / "again")
assert mpl.rcParams["axes.grid"]
"""


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Draw every stream once; return the pictures by the streams' names."""
    pytest.importorskip("matplotlib")
    drawn = {}
    for name, episodes in STREAMS.items():
        folder = tmp_path_factory.mktemp("report")
        drawn[name] = draw(signals(episodes, window=32), folder)
    return drawn


def texts(path):
    """Return the letters of a picture, one entry a piece of text."""
    root = ET.fromstring(path.read_bytes())
    return ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("name", STREAMS)
def test_the_numbers_stand_beside_the_picture(pictures, name):
    path = pictures[name]
    assert path.name == "signals.svg"
    assert any(each.startswith(f"tasks: {len(STREAMS[name])};") for each in texts(path))
    read = Signals.read(strict_json.loads((path.parent / "report.json").read_bytes()))
    assert read == signals(STREAMS[name], window=32)


def test_another_process_with_another_style_draws_the_same_bytes(pictures):
    paths = [pictures[name] for name in ("one agent and task", "60 agents and 30 niches")]
    folders = [str(path.parent) for path in paths]
    subprocess.run([sys.executable, "-c", AGAIN, *folders], check=True)
    for path in paths:
        assert (path.parent / "again" / "signals.svg").read_bytes() == path.read_bytes()


def test_an_empty_run_says_so(pictures):
    said = texts(pictures["none"])
    assert said.count("no task") == 4
    assert said.count("no insight was given") == 1


def test_agents_beyond_the_first_ones_are_drawn_together(pictures):
    said = texts(pictures["60 agents and 30 niches"])
    # Rows of two tables, columns of one, and the legend.
    assert said.count("others") == 4
    named = {each for each in said if re.fullmatch(r"agent-\d{3}", each)}
    assert len(named) == SHOWN == len(set(COLOURS) - {GREY})
    assert "(b) times as anchor; others: mean of 50" in said


def test_the_numbers_in_the_tables_are_those_of_the_named_and_of_the_others(tmp_path):
    pytest.importorskip("matplotlib")
    anchors = [f"a{place}" for place in range(12) for _ in range(100 + 12 - place)]
    episodes = [episode(number, name) for number, name in enumerate(anchors, 1)]
    said = texts(draw(signals(episodes, window=32), tmp_path))
    for count in [*range(103, 113), 102 + 101]:
        assert said.count(str(count)) == 1
    assert "101" not in said


def test_niches_beyond_the_most_frequent_ones_are_drawn_together(pictures):
    said = texts(pictures["50 niches"])
    named = [each for each in said if re.fullmatch(r"n\d+", each)]
    # 1 to 30 have three tasks each, the others two.
    assert named == [f"n{number}" for number in range(1, COLUMNS + 1)]
    assert said.count("others") == 1


def test_long_names_lose_their_middle_and_stay_apart(pictures):
    said = texts(pictures["60 agents and 30 niches"])
    niches = [each for each in said if each.startswith("niche")]
    assert "niche $x_1$ …d a line 07" in niches
    assert len(set(niches)) == 30
    assert max(map(len, niches)) == LONG


def test_odd_names_are_shown_as_they_are_or_escaped(pictures):
    said = texts(pictures["odd names"])
    for name in ("_x", "$a_", "\\x1b[31m", "<b>&--", "几何", "\\u202e"):
        # Rows of two tables, column of one, niche, and the legend.
        assert said.count(name) == 5, name


def test_an_agent_has_one_colour_in_all_panels(tmp_path):
    pytest.importorskip("matplotlib")
    episodes = [episode(number, "ab"[number % 2], routes=(("a", "b"),)) for number in range(1, 9)]
    text = draw(signals(episodes, window=3), tmp_path).read_text()
    for colour in COLOURS[:2]:
        # Spots of two rows and a column, an area; their edges, a line and that of the legend.
        found = [len(re.findall(f"{kind}: {colour.lower()}", text)) for kind in ("fill", "stroke")]
        assert found == [4, 5], colour
    assert COLOURS[2].lower() not in text


def test_without_the_library_the_numbers_are_written_and_the_error_says_what_to_install(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(PluginError) as caught:
        draw(signals(STREAMS["one agent and task"], window=32), tmp_path)
    assert "epimem[report]" in str(caught.value)
    assert [each.name for each in tmp_path.iterdir()] == ["report.json"]
