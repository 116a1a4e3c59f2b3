from __future__ import annotations

from dataclasses import replace

from controllers.prompts import OPERATIONS
from controllers.prompts.select import APPLIES, PASSED_OVER
from epimem.schema.memory_input import Candidate, Selection
from tests.controllers.prompts import samples
from tests.controllers.prompts.test_refusals import refusal


def test_only_candidates_that_may_be_handed_out_are_shown() -> None:
    request = samples.select()
    bare = samples.category(7)
    low = Candidate(node_id="node-0000", kind="lesson", passes=False)
    listed = [item for item in request.candidates if item.node_id != "node-0000"]
    unknown = Candidate(node_id="gone", kind="lesson", passes=True)
    category = Candidate(node_id=bare.node_id, kind="category", passes=True)
    request = replace(
        request,
        candidates=(low, unknown, category, *listed),
        nodes={**request.nodes, bare.node_id: bare},
    )
    prompt = OPERATIONS["select"].render(request)
    properties = prompt.schema["properties"]
    assert properties["lesson"]["anyOf"][0]["enum"] == ["L1"]
    assert properties["rules"]["items"]["enum"] == ["R1", "R2"]
    value = OPERATIONS["select"].parse(request, {"rules": ["R1"], "lesson": "L1"})
    assert value.rule_ids == ("group-0001",)
    assert value.lesson_id == "node-0001"
    reasons = {item.node_id: item.reason for item in value.verdicts}
    assert [item.node_id for item in value.verdicts] == [c.node_id for c in request.candidates]
    assert reasons["group-0001"] == reasons["node-0001"] == APPLIES
    assert reasons["group-0002"] == PASSED_OVER
    assert reasons["gone"] == "not shown"
    assert reasons[bare.node_id] == "a bare category"
    assert "floor" in reasons["node-0000"]
    assert {item.node_id for item in value.verdicts if item.chosen} == {"group-0001", "node-0001"}


def test_with_no_candidate_to_choose_there_is_nothing_to_ask() -> None:
    settled = OPERATIONS["select"].settled
    request = samples.select()
    assert settled(request) is None
    low = tuple(item.model_copy(update={"passes": False}) for item in request.candidates)
    value = settled(replace(request, candidates=low))
    assert isinstance(value, Selection)
    assert value.item_ids == ()
    assert len(value.verdicts) == len(low)
    assert settled(replace(request, max_rules=0, max_lessons=0)) is not None
    assert all(OPERATIONS[name].settled(None) is None for name in OPERATIONS if name != "select")


def test_what_finds_no_room_is_said_to_be_beyond_it() -> None:
    request = samples.select(lessons=20)
    value = OPERATIONS["select"].parse(request, {"rules": [], "lesson": "L14"})
    reasons = [item.reason for item in value.verdicts]
    assert reasons == [PASSED_OVER] * 15 + [APPLIES] + ["beyond the 16 that are shown"] * 6
    assert refusal("select", {"rules": [], "lesson": "L15"}, request).reason == "not_shown"


def test_strict_selection_takes_rules_or_a_lesson() -> None:
    request = samples.select(strict=True)
    assert refusal("select", samples.REPLIES["select"], request).reason == "limit"
    for reply in ({"rules": ["R1"], "lesson": None}, {"rules": [], "lesson": "L1"}):
        OPERATIONS["select"].parse(request, reply)
