"""Rows 35 to 56 of the brief: formulas with values and boundaries, in both profiles if they differ."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epimem.bank.encoder import TableEncoder
from epimem.errors import ConfigError, RecordError
from harness_adapters.evochamber.agent import Agent
from harness_adapters.evochamber.archive import Insight
from harness_adapters.evochamber.codream import Result, deficient, fires, recipients, verified
from harness_adapters.evochamber.lifecycle import Population
from harness_adapters.evochamber.problem import Mark
from harness_adapters.evochamber.settings import PAPER, settings_of
from harness_adapters.evochamber.structures import unanimous
from harness_adapters.evochamber.team import Pairs, Team, overlap, select

DEFAULT, PAPERS = settings_of(), settings_of("paper")
ENCODER = TableEncoder(64)


def agent(name, *, rewards=(), **q):
    made = Agent(name=name, q=dict(q), n=dict.fromkeys(q, 1))
    made.rewards.extend(rewards)
    return made


def team(*agents):
    return Team(agents[0], tuple(agents[1:]))


def chosen(agents, niche="z", given=DEFAULT, pairs=None, seed=0):
    return select(agents, niche, pairs or Pairs(), given, seed=seed, task=1).names


# -- settings -------------------------------------------------------------------------------------


def test_the_numbers_of_table_9():
    for each in (DEFAULT, PAPERS):
        assert (each.agents, each.team, each.period) == (20, 3, 10)
        assert (each.alpha, each.theta) == (0.3, 0.6)
        assert (each.by_competence, each.by_synergy, each.by_distance) == (1.0, 0.3, 0.5)
        assert (each.by_exposure, each.by_novelty) == (0.3, 0.5)


def test_the_profiles_differ_in_the_listed_fields_and_no_other():
    default, paper = DEFAULT.model_dump(), PAPERS.model_dump()
    assert {key for key in default if default[key] != paper[key]} == {"profile", *PAPER}


def test_the_documentation_lists_every_setting_with_both_values():
    text = (Path(__file__).parents[3] / "docs" / "evochamber.md").read_text("utf-8")
    rows = {cells[1].strip(" `"): cells for cells in map(_cells, text.splitlines()) if cells}
    for name, field in type(DEFAULT).model_fields.items():
        if name in {"profile", "without"}:
            continue
        paper = _said(PAPER[name]) if name in PAPER else ""
        assert [rows[name][2].strip(), rows[name][3].strip()] == [_said(field.default), paper], name


def _cells(line):
    return line.split("|") if line.startswith("| `") else []


def _said(value):
    return "none" if value is None else str(value)


def test_an_unknown_profile_or_setting_is_refused():
    with pytest.raises(ConfigError):
        settings_of("best")
    for change in ({"alpha": 0.0}, {"alpha": 1.5}, {"tau": 3}, {"without": ("team",)}):
        with pytest.raises(RecordError):
            settings_of(**change)


# -- individual -----------------------------------------------------------------------------------


def test_competence_is_a_moving_average_from_zero():  # row 35
    one, seen = Agent(name="a"), []
    for reward in (1.0, 0.0, 1.0):
        one.learn("z", reward, DEFAULT.alpha)
        seen.append(one.competence("z"))
    assert seen == pytest.approx([0.3, 0.21, 0.447])
    assert one.competence("other") == 0.0
    assert (one.n, one.n_total) == ({"z": 3}, 3)


@given(st.lists(st.floats(0, 1), max_size=40))
def test_competence_stays_within_the_rewards(rewards):
    one = Agent(name="a")
    for reward in rewards:
        one.learn("z", reward, 0.3)
    assert 0.0 <= one.competence("z") <= max(rewards, default=0.0)


def test_the_rolling_mean_forgets_what_is_older_than_its_window():
    one = Population(settings_of(window=2, agents=1), ENCODER).agents[0]
    assert one.rolling is None
    for reward in (1.0, 0.0, 0.5):
        one.learn("z", reward, 0.3)
    assert one.rolling == 0.25


def test_an_agent_is_read_back_as_it_was():
    one = agent("a", rewards=[0.5, 1.0], z=0.4)
    one.lead("z")
    one.archive.add(Insight(text="t", niche="z", giver="b"), ENCODER, 0.9)
    assert Agent.read(one.plain()) == one


# -- the archive ----------------------------------------------------------------------------------


def insight(text, reach="subdomain", niche="z", question="how long", giver="g"):
    return Insight(text=text, reach=reach, niche=niche, question=question, giver=giver)


def test_near_duplicates_are_dropped_within_a_shelf():  # row 47
    archive = Agent(name="a").archive
    assert archive.add(insight("count the white triangles twice"), ENCODER, 0.9)
    assert not archive.add(insight("count the white triangles twice."), ENCODER, 0.9)
    assert archive.add(insight("count the white triangles twice", niche="y"), ENCODER, 0.9)
    assert archive.add(insight("count the white triangles twice", "cross_domain"), ENCODER, 0.9)
    assert not archive.add(insight("count the white triangles twice", "cross_domain"), ENCODER, 0.9)
    assert len(archive) == 3


def test_lessons_are_found_by_their_tasks_and_insights_by_their_text():
    archive = Agent(name="a").archive
    for each in (
        insight("first", question="rivers of France by length"),
        insight("second", question="stations of a metro line"),
        insight("third", niche="other", question="stations of a metro line"),
        insight("metro lines have stations", "cross_domain", question="unlike"),
    ):
        archive.add(each, ENCODER, 0.9)
    found = archive.find("z", "stations of a metro line", 2, ENCODER)
    assert [each.text for each in found] == ["second", "metro lines have stations"]
    assert archive.find("z", "stations", 0, ENCODER) == []
    assert [each.text for each in archive.find("unknown", "x", 9, ENCODER)] == [
        "metro lines have stations"
    ]


# -- the team -------------------------------------------------------------------------------------


def test_the_anchor_is_the_best_in_the_niche():  # row 37
    pool = [agent("a", z=0.2), agent("b", z=0.9, y=0.1), agent("c", y=1.0)]
    assert chosen(pool)[0] == "b"
    assert chosen(pool, "y")[0] == "c"


def test_equal_anchors_fewest_tasks_first_then_by_a_draw():
    pool = [agent("a", z=0.5), agent("b", z=0.5, y=0.0), agent("c", z=0.5)]
    anchors = {chosen(pool, seed=seed)[0] for seed in range(40)}
    assert anchors == {"a", "c"}
    assert chosen(pool, seed=3) == chosen(pool, seed=3)


def test_the_complement_weighs_competence_synergy_and_distance():  # row 38
    anchor = agent("a", z=0.9, y=0.0)
    known = Agent(name="b", q={"z": 0.5, "y": 0.5})
    pairs = Pairs()
    for _ in range(5):
        pairs.record(team(anchor, known), "z", 0.2, DEFAULT)
    omega = overlap(anchor.q, known.q)
    assert omega == pytest.approx(math.sqrt(0.5))
    score = 0.5 + 0.3 * 0.2 + 0.5 * (1 - omega)
    for rival, wins in ((score - 0.01, "b"), (score + 0.01, "c")):
        # One whose competence vector is zero but for the niche: alike to the anchor, no synergy.
        pool = [anchor, known, Agent(name="c", q={"z": rival})]
        assert chosen(pool, pairs=pairs)[1] == wins


def test_the_scout_is_who_met_the_niche_least_and_is_least_like_the_others():  # row 39
    anchor, complement = agent("a", z=1.0), agent("b", z=0.9)
    old = Agent(name="c", q={"y": 1.0}, n={"z": 9})
    new = Agent(name="d", q={"z": 0.1}, n={})
    # The old one scores 0.03 + 0.5, the new one 0.3.
    assert chosen([anchor, complement, old, new])[2] == "c"
    # Alike to the others too, the one that met it nine times stays behind.
    assert chosen([anchor, complement, Agent(name="c", q={"z": 0.1}, n={"z": 9}), new])[2] == "d"


def test_competence_vectors_overlap_by_their_cosine():  # row 40
    assert overlap({"a": 1}, {"b": 1}) == 0.0
    assert overlap({}, {"b": 1}) == overlap({}, {}) == 0.0
    assert overlap({"a": 1, "b": 1}, {"a": 1}) == pytest.approx(math.sqrt(0.5))


VECTORS = st.dictionaries(st.sampled_from("abcd"), st.floats(0, 1), max_size=4)


@given(VECTORS, VECTORS)
def test_overlap_is_symmetric_and_between_zero_and_one(first, second):
    assert 0.0 <= overlap(first, second) <= 1.0
    assert overlap(first, second) == pytest.approx(overlap(second, first))


@pytest.mark.parametrize(("kind", "value"), [("mean", 0.6), ("ewma", 0.0)])
def test_synergy_counts_from_the_fifth_shared_task(kind, value):  # row 41, E3
    given = settings_of(synergy=kind)
    pairs, two = Pairs(), team(agent("b"), agent("a"))
    rewards = (1.0, 0.0, 1.0, 0.0, 1.0)
    for count, reward in enumerate(rewards, 1):
        assert pairs.synergy("a", "b", "z", given.synergy_from) == 0.0, count
        pairs.record(two, "z", reward, given)
    if kind == "ewma":
        for reward in rewards:
            value += 0.3 * (reward - value)
    assert (
        pairs.synergy("a", "b", "z", 5) == pairs.synergy("b", "a", "z", 5) == pytest.approx(value)
    )
    assert pairs.synergy("a", "b", "other", 5) == 0.0
    assert Pairs.read(pairs.plain()) == pairs
    pairs.forget("a")
    assert pairs.synergy("a", "b", "z", 5) == 0.0


def test_a_pool_smaller_than_a_team_gives_a_smaller_team():  # E14
    assert chosen([agent("a")]) == ("a",)
    assert set(chosen([agent("a"), agent("b")])) == {"a", "b"}


@settings(max_examples=60)
@given(st.lists(VECTORS, min_size=1, max_size=9), st.integers(1, 5), st.integers(0, 99))
def test_members_are_different_agents_of_the_pool(vectors, size, seed):
    pool = [Agent(name=f"n{at}", q=dict(each)) for at, each in enumerate(vectors)]
    for each in (settings_of(team=size), settings_of(team=size, without=("selector",))):
        names = select(pool, "a", Pairs(), each, seed=seed, task=1).names
        assert len(set(names)) == len(names) == min(size, len(pool))


# -- CODREAM --------------------------------------------------------------------------------------


def result(reward, *marks):
    return Result(reward, {f"m{at}": Mark(*mark) for at, mark in enumerate(marks)})


@pytest.mark.parametrize(
    ("given", "seen", "expected"),
    [
        (PAPERS, result(0.59, (0.0, "x"), (1.0, "x")), "low"),
        (PAPERS, result(0.6, (0.6, "x"), (0.6, "x")), ""),
        (PAPERS, result(0.6, (1.0, "x"), (0.0, "y")), "disagreement"),
        (PAPERS, result(1.0, (0.0, "x"), (0.0, "x")), ""),
        (DEFAULT, result(1.0, (0.0, "x"), (0.0, "x")), "low"),
        (DEFAULT, result(0.0, (0.6, "x"), (0.6, "x")), ""),
        (DEFAULT, result(0.59), "low"),
        (DEFAULT, result(1.0, (1.0, "x")), ""),
        (DEFAULT, result(0.9, (1.0, "x"), (1.0, "")), ""),
    ],
)
def test_codream_fires_below_theta_or_when_members_disagree(
    given, seen, expected
):  # row 43, E4, E12
    assert fires(seen, given) == expected


def test_members_without_an_answer_do_not_disagree():
    assert unanimous(["a", "", "a"])
    assert unanimous([])
    assert not unanimous(["a", "b"])


def names(agents):
    return [each.name for each in agents]


def routed(pool, given, givers=(), seed=0):
    return names(recipients(pool, "z", given, givers=givers, seed=seed, task=1))


def test_only_those_below_the_median_receive():  # row 45
    pool = [agent("a", z=0.1), agent("b", z=0.2), agent("c", z=0.3), agent("d", z=0.4)]
    assert routed(pool, PAPERS) == ["a", "b"]
    assert routed(pool[:3], PAPERS) == ["a"]
    assert routed(pool, PAPERS, givers=["a"]) == ["b"]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.integers(0, 9))
def test_nobody_at_or_above_the_median_receives(values, seed):
    pool = [agent(f"n{at}", z=value) for at, value in enumerate(values)]
    middle = sorted(values)[len(values) // 2]
    if len(values) % 2 == 0:
        middle = (middle + sorted(values)[len(values) // 2 - 1]) / 2
    for profile in (DEFAULT, PAPERS):
        assert all(
            each.competence("z") < middle
            for each in recipients(pool, "z", profile, givers=(), seed=seed, task=1)
        )


def test_early_in_a_stream_a_literal_median_reaches_nobody():  # E11
    pool = [agent("a", z=0.3), *(Agent(name=f"n{at}") for at in range(19))]
    assert routed(pool, PAPERS) == []
    assert len(routed(pool, DEFAULT)) == 5
    assert "a" not in routed(pool, DEFAULT)
    assert len({tuple(routed(pool, DEFAULT, seed=seed)) for seed in range(9)}) > 1
    assert len(deficient([Agent(name="a"), Agent(name="b")], "z", DEFAULT)) == 2


def test_symmetric_transfer_reaches_all_but_the_giver():
    pool = [agent(f"n{at}", z=at / 10) for at in range(9)]
    assert set(routed(pool, settings_of(transfer="symmetric"), ["n8"])) == set(names(pool[:8]))


def test_an_insight_holds_when_a_second_attempt_reaches_theta():  # row 47, E12
    offered = [insight("good"), insight("bad"), insight("edge")]
    worth = {"good": 1.0, "bad": 0.59, "edge": 0.6}
    tester = agent("t")
    tried = []

    def retry(who, what):
        tried.append((who.name, what.text))
        return Mark(worth[what.text], "x")

    kept, rejected = verified(offered, tester, retry, DEFAULT.theta)
    assert [each.text for each in kept] == ["good", "edge"]
    assert all(each.verified for each in kept)
    assert (rejected, tried) == (1, [("t", "good"), ("t", "bad"), ("t", "edge")])


# -- arithmetic of the documents ------------------------------------------------------------------


def test_what_the_documents_compute():  # rows 53 to 56
    assert pytest.approx(0.271) == 1 - 0.9**3
    majority = sum(math.comb(5, k) * 0.2**k * 0.8 ** (5 - k) for k in (3, 4, 5))
    assert majority == pytest.approx(0.05792)
    assert round(0.639 / 0.484, 2) == 1.32
    assert round(72 / 93, 2) == 0.77
