"""A rule whose own lessons take every place of the candidates is a candidate all the same."""

from __future__ import annotations

import pytest

from epimem.bank.intake import Caller
from epimem.schema.memory_input import Selection
from epimem.schema.proposal import Consolidate
from tests.journeys.scripted_memory import lesson, new_memory, reopened

QUESTION = "how many stop at the amber bridge?"


def one_rule(request):
    """Let all lessons of a category support its guidance."""
    return Consolidate(
        node_id=request.node.node_id,
        guidance="Count the white triangles.",
        supported_by=tuple(node.node_id for node in request.lessons),
    )


@pytest.fixture
def crowd(tmp_path):
    seen = []

    def select(request):
        seen.append(request)
        rules = [c.node_id for c in request.candidates if c.kind == "rule"]
        return Selection(rule_ids=tuple(rules[:1]))

    memory = new_memory(
        tmp_path / "bank",
        consolidate=one_rule,
        select=select,
        merge=lambda _: None,
        tree={"capacity": 64},
    )
    with memory:
        for number in range(12):
            memory.contribute(lesson(number, words=f"Count the white triangles {number}"))
        memory.maintain()
        rule = next(node for node in memory.tree().walk() if node.kind == "rule")
        yield memory, rule, seen


def test_the_rule_of_crowding_lessons_is_shown_behind_them(crowd):
    memory, rule, seen = crowd
    answer = memory.retrieve(QUESTION, k=4)
    (request,) = seen
    kinds = [candidate.kind for candidate in request.candidates]
    if rule.node_id in {c.node_id for c in request.candidates[:4]}:
        pytest.fail("the lessons do not crowd their rule out: the test shows nothing")
    assert kinds == ["lesson"] * 4 + ["rule"]
    assert request.nodes[rule.node_id] == rule
    assert request.candidates[-1].dense == max(c.dense for c in request.candidates[:4])
    assert [item.node_id for item in answer.items] == [rule.node_id]
    logged = memory.explain(answer.retrieval_id)["candidates"]
    assert [c["node_id"] for c in logged if c["chosen"]] == [rule.node_id]


def test_nothing_is_added_where_nothing_was_cut_off(crowd):
    memory, _, seen = crowd
    memory.retrieve(QUESTION, k=50)
    assert len({c.node_id for c in seen[0].candidates}) == len(seen[0].candidates) <= 13


def test_an_excluded_rule_and_one_without_the_authority_stay_out(crowd):
    memory, rule, seen = crowd
    memory.retrieve(QUESTION, k=4, exclude=[rule.node_id])
    assert not seen or rule.node_id not in {c.node_id for c in seen[0].candidates}
    seen.clear()
    outsider = reopened(memory, name="outsider")
    outsider.caller = Caller("outsider", "outsider", authority="none")
    with outsider:
        for number in range(20, 40):
            outsider.contribute(lesson(number, words=f"Count the white triangles {number}"))
    memory.maintain()
    weakened = next(node for node in memory.tree().walk() if node.level)
    assert weakened.authority == "none"
    memory.retrieve(QUESTION, k=4, minimum_authority="observed")
    assert weakened.node_id not in {c.node_id for c in seen[-1].candidates}
