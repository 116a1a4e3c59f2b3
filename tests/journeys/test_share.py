"""No organisation crowds out the others: at most two of five candidates where three or more have one."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from epimem.bank.intake import Caller
from epimem.config import Config, EncoderConfig
from epimem.memory import ExperienceMemory
from epimem.retrieve import SHARE, shared_out

NAMES = st.sampled_from(["a", "b", "c", "d", ""])


def made(owners, passes=None):
    """Return candidates and nodes, each supported by one organisation ("": by two)."""
    passes = [True] * len(owners) if passes is None else passes
    candidates = tuple(
        SimpleNamespace(node_id=str(at), passes=ok)
        for at, ok in zip(range(len(owners)), passes, strict=True)
    )
    nodes = {}
    for at, owner in enumerate(owners):
        supports = [
            SimpleNamespace(organisation=name) for name in ([owner] if owner else ["x", "y"])
        ]
        nodes[str(at)] = SimpleNamespace(lesson=SimpleNamespace(supports=supports), supported_by=())
    return candidates, nodes


def kept(owners, passes=None):
    candidates, nodes = made(owners, passes)
    return [int(it.node_id) for it in shared_out(candidates, nodes, {})]


def test_the_last_of_a_crowd_are_left_out():
    assert kept(["a"] * 8 + ["b", "c"]) == [0, 1, 2, 3, 8, 9]


def test_two_organisations_or_one_lose_nothing():
    assert kept(["a"] * 9) == [*range(9)]
    assert kept(["a"] * 8 + ["b"]) == [*range(9)]
    assert kept(["a"] * 8 + ["b"] + [""] * 3) == [*range(12)]


def test_what_does_not_pass_the_floor_makes_no_organisation_and_is_not_counted():
    assert kept(["a"] * 4 + ["b", "c"], [True] * 5 + [False]) == [*range(6)]


def test_a_rule_belongs_to_whoever_alone_stands_behind_its_lessons():
    _, sources = made(["a", "a", "b"])
    candidates, nodes = made(["a", "a", "b", "c", ""])
    nodes["4"] = SimpleNamespace(lesson=None, supported_by=("0", "1"))
    assert [it.node_id for it in shared_out(candidates, nodes, sources)] == ["0", "1", "2", "3"]
    nodes["4"] = SimpleNamespace(lesson=None, supported_by=("0", "2"))
    assert len(shared_out(candidates, nodes, sources)) == 5


@given(st.lists(st.tuples(NAMES, st.booleans()), max_size=40))
def test_order_is_kept_and_every_organisation_keeps_its_best(given_):
    owners, passes = [each[0] for each in given_], [each[1] for each in given_]
    left = kept(owners, passes)
    assert left == sorted(left)
    passing = [owner for owner, ok in given_ if ok]
    distinct = {owner for owner in passing if owner}
    if len(distinct) < 3:
        assert left == [*range(len(owners))]
        return
    most = max(1, int(len(passing) * SHARE))
    for owner in distinct:
        own = [at for at, name in enumerate(owners) if name == owner and passes[at]]
        assert [at for at in left if at in own] == own[:most]
    assert {at for at, name in enumerate(owners) if not name or not passes[at]} <= {*left}


def test_a_bank_that_one_organisation_floods_still_answers_with_the_others(tmp_path):
    config = Config(encoder=EncoderConfig(model="none"))
    asked = "How many stations has the Zintha line diagram?"

    def draft(number, word):
        index = {"topic": "stations", "scope": "Zintha diagrams", "question_anchor": asked}
        return {"guidance": f"On Zintha diagrams count {word} {number}.", "index": index}

    with ExperienceMemory.create(tmp_path / "bank", config) as memory:
        for number in range(19):
            with memory.acting_as(Caller("flooder", "flood")):
                memory.contribute(draft(number, "stations of Zintha diagrams"))
        for name in ("one", "two"):
            with memory.acting_as(Caller(name, name)):
                memory.contribute(draft(0, f"stations {name}"))
        found = memory.retrieve(asked, k=50)
        told = memory.explain(found.retrieval_id)["candidates"]
        owners = {it["node_id"]: memory.bank.node(it["node_id"]).lesson.organisation for it in told}
    assert {"flood", "one", "two"} == set(owners.values())
    assert sum(owner == "flood" for owner in owners.values()) <= SHARE * 21
