from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings

from controllers.prompts import OPERATIONS, select
from epimem.protocols import Derived
from epimem.schema.lesson import TurnRef
from epimem.schema.memory_input import Selection
from epimem.schema.proposal import Merge, Part, Place, SplitLift
from epimem.schema.working_memory import Update
from tests.controllers.prompts import samples
from tests.controllers.prompts.strategies import STRATEGIES
from tests.training.demonstrations import made
from training.demonstrations import checks
from training.demonstrations.checks import check


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_lawful_value_passes(name: str) -> None:
    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(STRATEGIES[name])
    def holds(pair) -> None:
        assume(OPERATIONS[name].settled(pair[0]) is None)
        found = made.demonstration(name, *pair)
        assert check(found) is None
        assert checks.schema(found) is None
        assert checks.references(found) is None

    holds()


def sample(name: str, **changes):
    """Return the sample demonstration of an operation with a part of its value changed."""
    found = made.demonstration(name, samples.REQUESTS[name]())
    return replace(found, value=found.value.model_copy(update=changes))


def with_request(found, **changes):
    return replace(found, request=replace(found.request, **changes))


def refused(found, name: str, says: str) -> None:
    problem = check(found)
    assert problem is not None
    assert (problem.check, says in problem.reason) == (name, True), problem


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gate", True),
        ("gate", 2),
        ("gate", None),
        ("merge", 0),
        ("place", None),
        ("select", sample("place").value),
        ("update", {"guidance": "x"}),
    ],
)
def test_a_value_of_another_kind_is_refused(name, value) -> None:
    found = replace(made.demonstration(name, samples.REQUESTS[name]()), value=value)
    refused(found, "schema", "no value of")
    assert checks.schema(found) == check(found)


def test_a_request_of_another_operation_is_refused() -> None:
    found = made.demonstration("gate", samples.gate())
    refused(replace(found, request=samples.merge()), "schema", "no request of gate")
    refused(replace(found, operation="forget"), "schema", "no such operation")


def test_what_the_prompt_could_not_say_is_refused() -> None:
    six = tuple("abcdef")
    refused(sample("update", cautions=six), "schema", "cautions")
    refused(sample("consolidate", supported_by=()), "schema", "supported_by")
    refused(sample("place", category_id="group-0000"), "schema", "another value")
    refused(sample("update", guidance="<what to do in the next attempt>"), "schema", "copied")
    refused(sample("update", visual="retain"), "schema", "visual")
    nowhere = Place(lesson_id=samples.place().lesson.node_id)
    refused(replace(sample("place"), value=nowhere), "schema", "refused")


def test_a_wrong_run_gives_no_positive_guidance() -> None:
    found = made.demonstration("derive", samples.derive())
    refused(with_request(found, verdict="wrong"), "schema", "negative")


def test_a_schema_check_alone_finds_a_stranger_too() -> None:
    problem = checks.schema(sample("place", category_id="elsewhere", new=None, parent_id=None))
    assert problem is not None
    assert "elsewhere" in problem.reason


def draft(**changes):
    found = made.demonstration("derive", samples.derive())
    first = found.value.drafts[0].model_copy(update=changes)
    return replace(found, value=Derived((first,)))


def evidence(**changes):
    first = made.demonstration("derive", samples.derive()).value.drafts[0].evidence[0]
    return draft(evidence=(first.model_copy(update=changes),))


def conflict(side: str):
    found = sample("consolidate").value.conflicts[0]
    changed = getattr(found, side).model_copy(update={"items": ("node-0099",)})
    return sample("consolidate", conflicts=(found.model_copy(update={side: changed}),))


def parts(*groups: tuple[str, ...]):
    value = SplitLift(node_id="group-0001", parts=tuple(Part(child_ids=each) for each in groups))
    return replace(sample("split_lift"), value=value)


CHILDREN = tuple(f"node-000{at}" for at in range(8))


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (evidence(image_id="image-z"), "image image-z"),
        (evidence(turn=TurnRef(run_id="run-9", seq=0)), "run run-9"),
        (evidence(turn=TurnRef(run_id="run-1", seq=77)), "turn 77"),
        (draft(run_ids=("run-1", "run-9")), "run run-9"),
        (
            sample(
                "update",
                evidence=sample("update").value.evidence.model_copy(update={"image_id": "image-z"}),
            ),
            "image image-z",
        ),
        (sample("place", lesson_id="node-0001"), "lesson node-0001"),
        (
            sample("place", category_id="group-0007", new=None, parent_id=None),
            "category group-0007",
        ),
        (sample("place", parent_id="root-7"), "group root-7"),
        (sample("merge", kept_id="group-0009"), "category group-0009"),
        (sample("merge", absorbed_id="group-0001"), "category group-0001"),
        (sample("split_lift", node_id="group-0002"), "node group-0002"),
        (parts((*CHILDREN[:4], "node-0099"), CHILDREN[4:]), "child node-0099"),
        (sample("consolidate", node_id="group-0002"), "node group-0002"),
        (sample("consolidate", supported_by=("node-0000", "node-0099")), "lesson node-0099"),
        (conflict("first"), "lesson node-0099"),
        (conflict("second"), "lesson node-0099"),
        (sample("select", rule_ids=("group-0007",)), "candidate group-0007"),
        (sample("select", lesson_id="node-0099"), "candidate node-0099"),
    ],
)
def test_a_value_names_nothing_that_is_not_shown(found, says) -> None:
    refused(found, "references", says)


def test_a_category_beyond_those_shown_is_a_stranger() -> None:
    request = samples.place(categories=9)
    ninth = Place(lesson_id=request.lesson.node_id, category_id="group-0008")
    refused(made.demonstration("place", request, ninth), "references", "group-0008")
    eighth = Place(lesson_id=request.lesson.node_id, category_id="group-0007")
    assert check(made.demonstration("place", request, eighth)) is None


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        ([CHILDREN[:4], CHILDREN[3:]], "in two parts: node-0003"),
        ([(*CHILDREN[:4], "node-0000"), CHILDREN[4:]], "in two parts: node-0000"),
        ([CHILDREN[:4], CHILDREN[4:7]], "1 children in no part, node-0007"),
        ([CHILDREN], "[8]"),
        ([CHILDREN[:3], CHILDREN[3:]], "[3, 5]"),
    ],
)
def test_a_split_deals_each_child_into_one_part_of_lawful_size(groups, says) -> None:
    assert check(parts(CHILDREN[:4], CHILDREN[4:])) is None
    refused(parts(*groups), "coverage", says)


def test_one_part_is_no_split_however_large_it_may_be() -> None:
    refused(with_request(parts(CHILDREN), capacity=16), "coverage", "[8]")


def test_a_part_over_capacity_is_refused() -> None:
    children = tuple(samples.lesson(at) for at in range(9))
    names = tuple(child.node_id for child in children)
    found = with_request(parts(names[:4], names[4:]), children=children, capacity=5)
    assert check(found) is None
    refused(with_request(found, capacity=4), "coverage", "4 to 4")


def selected(request, rules=(), lesson=None):
    return made.demonstration("select", request, select.selection(request, tuple(rules), lesson))


def not_passing(request, name):
    candidates = tuple(
        each.model_copy(update={"passes": each.node_id != name}) for each in request.candidates
    )
    return replace(request, candidates=candidates)


RULE, SUMMARY, LESSON = "group-0001", "group-0002", "node-0000"
ASKED = samples.select()
LOST = samples.category(1, kind="summary").model_copy(
    update={
        "conflicts": tuple(
            each.model_copy(update={"settled": "second"}) for each in samples.category(1).conflicts
        )
    }
)


@pytest.mark.parametrize(
    ("request_", "rules", "lesson", "says"),
    [
        (replace(ASKED, max_rules=1), (RULE, SUMMARY), None, "more than 1 rules"),
        (replace(ASKED, max_lessons=0), (RULE,), LESSON, "none is allowed"),
        (replace(ASKED, strict=True), (RULE,), LESSON, "rules beside a lesson"),
        (ASKED, (RULE, RULE), None, "chosen twice"),
        (ASKED, (LESSON,), None, "a lesson stands among the rules"),
        (ASKED, (), RULE, "a rule stands for the lesson"),
        (not_passing(ASKED, RULE), (RULE,), None, f"may not be chosen: {RULE}"),
        (not_passing(ASKED, LESSON), (), LESSON, f"may not be chosen: {LESSON}"),
        (replace(ASKED, nodes={**ASKED.nodes, RULE: LOST}), (RULE,), None, "may not be chosen"),
    ],
)
def test_a_selection_keeps_to_its_bounds(request_, rules, lesson, says) -> None:
    refused(selected(request_, rules, lesson), "constraints", says)


def test_rules_and_a_lesson_go_together_where_they_may() -> None:
    assert check(selected(ASKED, (SUMMARY, RULE), LESSON)) is None
    assert check(selected(replace(ASKED, strict=True), (SUMMARY, RULE), None)) is None
    assert check(selected(replace(ASKED, max_rules=2), (SUMMARY, RULE))) is None


def test_values_that_say_nothing_are_as_good_as_others() -> None:
    assert check(selected(ASKED)) is None
    assert check(made.demonstration("merge", samples.merge(), None)) is None
    assert check(made.demonstration("derive", samples.derive(), Derived((), "too short"))) is None


def test_verdicts_on_the_candidates_must_be_those_that_code_makes() -> None:
    refused(made.demonstration("select", ASKED, Selection()), "schema", "another value")


def test_what_a_model_is_never_asked_is_no_demonstration() -> None:
    nothing = replace(ASKED, candidates=())
    refused(selected(nothing), "constraints", "never asked")
    found = made.demonstration("gate", samples.gate())
    for crops in ({}, {"node-0001": 0}):
        refused(with_request(found, crops=crops), "constraints", "never asked")


@pytest.mark.parametrize("name", ["teacher", "source", "prompt_version"])
def test_where_it_comes_from_must_be_said(name) -> None:
    found = sample("merge")
    found = replace(found, provenance=replace(found.provenance, **{name: ""}))
    refused(found, "provenance", f"{name} is not named")


def test_every_run_it_rests_on_must_be_named() -> None:
    for name in ("derive", "update"):
        found = made.demonstration(name, samples.REQUESTS[name]())
        assert found.provenance.run_ids == ("run-1",)
        refused(
            replace(found, provenance=replace(found.provenance, run_ids=("run-2",))),
            "provenance",
            "run-1",
        )
    lesson = samples.lesson(1)
    lesson = lesson.model_copy(
        update={"lesson": lesson.lesson.model_copy(update={"run_ids": ("run-7",)})}
    )
    found = with_request(sample("merge"), kept_lessons=(lesson,))
    refused(found, "provenance", "run-7")


def test_the_first_of_several_problems_is_the_one_that_tells_most() -> None:
    """A stranger in a part of wrong size, said by nobody: the stranger is named."""
    found = parts(("node-0099",))
    found = replace(found, provenance=replace(found.provenance, teacher=""))
    refused(found, "references", "node-0099")


def test_an_update_that_says_all_that_it_may_passes() -> None:
    value = Update(guidance="look again", gate=1, stop=True)
    assert check(made.demonstration("update", samples.update(), value)) is None
    assert (
        check(
            made.demonstration(
                "merge", samples.merge(), Merge(kept_id="group-0001", absorbed_id="group-0002")
            )
        )
        is None
    )
