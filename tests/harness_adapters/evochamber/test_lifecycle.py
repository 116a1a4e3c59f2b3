"""Rows 48 to 51 and E6 to E10, E14: genesis, fork, merge, prune at their boundaries."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epimem.bank.encoder import TableEncoder
from harness_adapters.evochamber.agent import PERSONA, Agent
from harness_adapters.evochamber.archive import Insight
from harness_adapters.evochamber.lifecycle import Population, specialized
from harness_adapters.evochamber.settings import settings_of
from harness_adapters.evochamber.team import Pairs

ENCODER = TableEncoder(64)
STILL = {"seed_below": 0, "seed_affinity": 0.0, "prune_after": 99, "merge_from": 10**6}


def pool(count, profile="paper", **changes):
    made = Population(settings_of(profile, agents=count, **changes), ENCODER)
    for at, each in enumerate(made.agents):
        each.rewards.append(at / 100)
    return made


def ticked(made, niches=("z",)):
    events = made.tick(Pairs(), niches, task=10, seed=0)
    return [(each.kind, each.agent, each.others) for each in events if each.kind != "specialize"]


def kinds(made, niches=("z",)):
    return [event[0] for event in ticked(made, niches)]


# -- genesis --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "grown"), [(14, 1), (15, 0)])
def test_a_small_pool_is_seeded_one_agent_a_tick(size, grown):  # row 51, E8
    made = pool(size, **{**STILL, "seed_below": 15}, fork_after=99)
    assert kinds(made) == ["genesis"] * grown
    assert len(made.agents) == size + grown
    if grown:
        assert made.agents[-1].persona == PERSONA
        assert not made.agents[-1].q


@pytest.mark.parametrize(("best", "grown"), [(0.39, 1), (0.4, 0)])
def test_a_niche_that_nobody_covers_seeds_an_agent(best, grown):  # row 51
    made = pool(16, **{**STILL, "seed_affinity": 0.4}, fork_after=99)
    made.agents[3].q.update(z=best, y=0.9)
    assert kinds(made, ["z", "y", "z"]) == ["genesis"] * grown


# -- fork -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "forks"), [(20, 2), (10, 1), (3, 1), (29, 2)])
def test_the_top_tenth_by_rolling_reward_forks(size, forks):  # row 48
    made = pool(size, **STILL)
    best = [each.name for each in reversed(made.agents)][:forks]
    assert [others[0] for _, _, others in ticked(made)] == best


def test_a_clone_knows_what_its_parent_knows_and_concentrates_on_its_niche():  # E7
    made = pool(10, **STILL)
    parent = made.agents[-1]
    parent.q.update(y=0.2, z=0.8)
    parent.n.update(y=2, z=3)
    parent.archive.add(Insight(text="t", niche="z", giver="g"), ENCODER, 0.9)
    events = made.tick(Pairs(), ["z"], task=10, seed=0)
    clone = made.agents[-1]
    assert [event.kind for event in events] == ["fork", "specialize"]
    assert events[1].niche == "z"
    assert (clone.q, clone.n, clone.parents) == (parent.q, parent.n, (parent.name,))
    assert clone.persona == f"{PERSONA} You concentrate on tasks of the kind 'z'."
    assert specialized(clone.persona, "y") == f"{PERSONA} You concentrate on tasks of the kind 'y'."
    assert clone.rolling is None
    clone.learn("z", 0.0, 0.3)
    clone.archive.add(Insight(text="other", niche="z", giver="g"), ENCODER, 0.9)
    assert parent.q["z"] == 0.8
    assert len(parent.archive) == 1


def test_without_a_bound_a_pool_grows_for_ever_and_by_default_it_does_not():  # E9
    sizes = {}
    for profile in ("paper", "default"):
        made = pool(20, profile, **STILL)
        for _ in range(38):
            for each in made.agents:
                each.since_fork += 1
                each.rewards.append(0.5)
            made.tick(Pairs(), ["z"], task=10, seed=0)
        sizes[profile] = len(made.agents)
    assert sizes["default"] == 40
    assert sizes["paper"] > 300


@pytest.mark.parametrize(("anchored", "forks"), [(2, []), (3, ["fork"])])
def test_by_default_a_parent_was_anchor_three_times_since_its_last_fork(anchored, forks):  # E9
    made = pool(10, "default", **STILL)
    made.agents[-1].since_fork = anchored
    assert kinds(made) == forks
    assert kinds(made) == []


# -- merge ----------------------------------------------------------------------------------------


def pair(first, second, *, counts=(10, 10), profile="paper", niches=("y", "z"), **changes):
    made = pool(
        4, profile, **{**STILL, "merge_from": 10, **changes}, fork_after=99, fork_share=0.01
    )
    for each, q, count in zip(made.agents, (first, second), counts, strict=False):
        each.q.update(q)
        each.n.update(dict.fromkeys(niches, count // len(niches)))
    return made


ALIKE = {"y": 0.5, "z": 0.5}


def angle(cosine):
    return {"y": cosine, "z": (1 - cosine**2) ** 0.5}


@pytest.mark.parametrize(("cosine", "merged"), [(0.95, False), (0.951, True), (0.8, False)])
def test_pairs_merge_above_a_cosine_of_095(cosine, merged):  # row 49
    made = pair({"y": 1.0}, angle(cosine))
    assert ("merge" in kinds(made)) is merged


@pytest.mark.parametrize(("counts", "merged"), [((10, 10), True), ((10, 8), False)])
def test_both_have_ten_tasks(counts, merged):  # row 49
    assert ("merge" in kinds(pair(ALIKE, ALIKE, counts=counts))) is merged


@pytest.mark.parametrize(("profile", "merged"), [("paper", True), ("default", False)])
def test_in_one_niche_all_are_alike_and_by_default_nobody_merges(profile, merged):  # E10
    made = pair({"z": 0.2}, {"z": 0.9}, niches=("z",), profile=profile)
    assert ("merge" in kinds(made)) is merged


def test_a_zero_vector_is_like_nothing():  # E10
    assert "merge" not in kinds(pair({"y": 0.0, "z": 0.0}, {"y": 0.0, "z": 0.0}))


def test_the_one_with_more_reward_stays_and_learns_what_the_other_knew():
    made = pair({"y": 0.6, "z": 0.6}, {"y": 0.3, "z": 0.3}, counts=(10, 30))
    low, high = made.agents[:2]
    low.archive.add(Insight(text="count twice", niche="z", giver="g"), ENCODER, 0.9)
    high.archive.add(Insight(text="count twice.", niche="z", giver="g"), ENCODER, 0.9)
    low.archive.add(Insight(text="look again", niche="z", giver="g"), ENCODER, 0.9)
    assert ("merge", high.name, (low.name,)) in ticked(made)
    assert low not in made.agents
    assert high.q["z"] == pytest.approx((0.6 * 5 + 0.3 * 15) / 20)
    assert high.n == {"y": 20, "z": 20}
    assert [each.text for each in high.archive.all()] == ["count twice.", "look again"]


def test_merging_stops_at_the_size_of_a_team():  # E14
    made = pool(4, **{**STILL, "merge_from": 1}, fork_after=99)
    for each in made.agents:
        each.q.update(ALIKE)
        each.n.update(y=1, z=1)
    for _ in range(3):
        ticked(made)
    assert len(made.agents) == 3


# -- prune ----------------------------------------------------------------------------------------


def worked(made, rewards, times):
    for _ in range(times):
        for each, reward in zip(made.agents, rewards, strict=True):
            each.learn("z", reward, 0.3)
        made.note(made.agents)


@pytest.mark.parametrize(("times", "pruned"), [(9, 0), (10, 1)])
def test_ten_tasks_in_a_row_below_four_fifths_of_the_mean_prune(times, pruned):  # row 50, E6
    made = pool(4, **{**STILL, "prune_after": 10}, fork_after=99)
    for each in made.agents:
        each.rewards.clear()
    worked(made, [0.5, 1.0, 1.0, 1.0], times)
    worst = made.agents[0].name
    assert ticked(made) == [("prune", worst, ())] * pruned


def test_a_recovery_begins_the_count_anew():  # row 50
    made = pool(4, **{**STILL, "prune_after": 10}, fork_after=99, window=1)
    for each in made.agents:
        each.rewards.clear()
    worked(made, [0.5, 1.0, 1.0, 1.0], 9)
    worked(made, [1.0, 1.0, 1.0, 1.0], 1)
    worked(made, [0.5, 1.0, 1.0, 1.0], 9)
    assert ticked(made) == []


def test_only_tasks_that_an_agent_took_part_in_count():  # E6
    made = pool(4, **{**STILL, "prune_after": 10}, fork_after=99)
    made.agents[0].rewards.extend([0.0] * 5)
    for _ in range(30):
        made.note(made.agents[1:])
    assert made.agents[0].below == 0


def test_pruning_stops_at_the_size_of_a_team():  # E14
    made = pool(5, **{**STILL, "prune_after": 1}, fork_after=99)
    for each in made.agents:
        each.below = 5
    assert len(ticked(made)) == 2
    assert len(made.agents) == 3


# -- all together ---------------------------------------------------------------------------------


def test_switched_off_nothing_happens():
    made = pool(3, without=("lifecycle",))
    assert ticked(made) == []


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=60, max_size=60), st.integers(3, 8))
def test_whatever_happens_the_default_pool_stays_between_a_team_and_its_bound(rewards, size):
    made = Population(settings_of(agents=size, period=1), ENCODER)
    pairs = Pairs()
    for task, reward in enumerate(rewards, 1):
        for each in made.agents[: 1 + task % 4]:
            each.learn("yz"[task % 2], reward, 0.3)
            each.lead("yz"[task % 2])
        made.note(made.agents[: 1 + task % 4])
        made.tick(pairs, ["y", "z"], task=task, seed=0)
        assert 3 <= len(made.agents) <= 2 * size
        assert len({each.name for each in made.agents}) == len(made.agents)


def test_what_a_pool_forgets_of_who_is_gone():
    made = pool(5, **{**STILL, "prune_after": 1}, fork_after=99)
    gone = made.agents[0]
    gone.below = 1
    pairs = Pairs({(gone.name, "x", "z"): (5, 1.0), ("x", "y", "z"): (5, 1.0)})
    made.tick(pairs, ["z"], task=10, seed=0)
    assert made.named(gone.name) is None
    assert list(pairs.shared) == [("x", "y", "z")]
    assert isinstance(made.named(made.agents[0].name), Agent)
