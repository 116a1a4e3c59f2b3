from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controllers.embedded.consolidate import consolidate
from controllers.embedded.select import select
from epimem.protocols import ConsolidateRequest, SelectRequest
from epimem.schema.memory_input import Candidate, Selection
from epimem.schema.tree import Conflict, ConflictSide, Node

Make = Callable[..., Node]
QUESTION = "What is the total in the Norden Statistik chart over the years 2014 to 2019?"


def choose(nodes: list[Node], question: str = QUESTION, **more: Any) -> Selection:
    failing = more.pop("failing", ())
    candidates = tuple(
        Candidate(node_id=node.node_id, kind=node.kind, passes=node.node_id not in failing)
        for node in nodes
    )
    fields = {"family": "", "max_rules": 3, "max_lessons": 1, **more}
    table = {node.node_id: node for node in nodes}
    found = select(SelectRequest(question=question, candidates=candidates, nodes=table, **fields))
    assert [verdict.node_id for verdict in found.verdicts] == [node.node_id for node in nodes]
    assert {v.node_id for v in found.verdicts if v.chosen} == set(found.item_ids)
    assert all(verdict.reason for verdict in found.verdicts)
    return found


@pytest.fixture
def rule(category: Make, lesson: Make) -> Make:
    def make(node_id: str, kind: str = "summary", **more: Any) -> Node:
        index = lesson("x", "Leave out the hatched bars.").index
        fields = {"guidance": "Leave out the hatched bars.", "supported_by": ("a", "b"), **more}
        return category(node_id, kind=kind, index=index, **fields)

    return make


def test_rules_come_before_summaries_and_a_lesson_goes_along(rule: Make, lesson: Make) -> None:
    nodes = [
        rule("s", guidance="Leave out the hatched bars."),
        lesson("l", "Add the values that are printed."),
        rule("r", "rule", guidance="Start at the left axis."),
        rule("t", guidance="Round to two decimals."),
    ]
    found = choose(nodes)
    assert found.rule_ids == ("r", "s", "t")
    assert found.lesson_id == "l"
    limited = choose(nodes, max_rules=2)
    assert limited.rule_ids == ("r", "s")
    assert limited.verdicts[3].reason == "applies, but 2 rules are the limit"


def test_what_a_chosen_item_says_is_not_said_again(rule: Make, lesson: Make) -> None:
    nodes = [
        rule("s", guidance="Leave out the hatched bars."),
        rule("t", guidance="Leave the hatched bars out."),
        lesson("l", "Skip the hatched bars."),
        lesson("m", "Count the hatched bars."),
    ]
    found = choose(nodes)
    assert (found.rule_ids, found.lesson_id) == (("s",), "m")
    assert [v.reason for v in found.verdicts[1:3]] == ["a chosen rule says it"] * 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Round to 2 decimals.", "Round to 3 decimals."),
        ("Count the hatched bars.", "Do not count the hatched bars."),
        ("Call `left` first.", "Call `right` first."),
        ("Count the hatched bars.", "Count the hatched bars and the grey dots of the legend."),
    ],
)
def test_advice_that_differs_in_a_number_a_denial_code_or_more_is_said_too(
    rule: Make, lesson: Make, one: str, other: str
) -> None:
    found = choose([rule("s", guidance=one), lesson("l", other)])
    assert (found.rule_ids, found.lesson_id) == (("s",), "l")


def test_a_rule_is_as_near_as_the_best_of_its_lessons(rule: Make, lesson: Make) -> None:
    said = ("Add printed values.", "Start left.", "Read the legend.", "Use the axis.", "Mind zero.")
    nodes = [lesson(f"l{place}", text) for place, text in enumerate(said)]
    far = rule("far", "rule", guidance="Turn the page.")
    near = rule("near", guidance="Leave out the hatched bars.", supported_by=("l4", "b"))
    found = choose([*nodes, far, near])
    assert (found.rule_ids, found.lesson_id) == (("near",), "l0")
    assert "among the 5 nearest" in found.verdicts[5].reason
    assert choose([*nodes[1:], far, near]).rule_ids == ("far", "near")


def test_strict_selection_takes_no_lesson_beside_a_rule(rule: Make, lesson: Make) -> None:
    below = lesson("l", "Skip hatched bars.", parent_id="s")
    found = choose([below, rule("s")], strict=True)
    assert (found.rule_ids, found.lesson_id) == (("s",), None)
    assert found.verdicts[0].reason == "a rule was chosen instead"


def test_a_lesson_that_a_chosen_rule_rests_on_is_not_shown_beside_it(
    rule: Make, lesson: Make
) -> None:
    below, other = lesson("l", "Skip hatched bars."), lesson("m", "Read the printed values.")
    above = rule("s").model_copy(update={"supported_by": ("l",)})
    found = choose([below, other, above])
    assert (found.rule_ids, found.lesson_id) == (("s",), "m")
    reasons = {verdict.node_id: verdict.reason for verdict in found.verdicts}
    assert reasons["l"] == "a chosen rule says it"
    assert choose([below, rule("s", guidance="Start left.")]).lesson_id == "l"
    assert choose([below], strict=True).lesson_id == "l"


def test_nothing_is_chosen_below_the_floor(rule: Make, lesson: Make) -> None:
    found = choose([rule("s"), lesson("l", "Skip hatched bars.")], failing={"s", "l"})
    assert found.item_ids == ()


def test_a_positive_lesson_goes_before_a_negative_one(lesson: Make) -> None:
    wrong = lesson("w", "Judged wrong: “All bars count.”", polarity="negative")
    right = lesson("r", "Skip hatched bars.")
    assert choose([wrong, right]).lesson_id == "r"
    assert choose([wrong]).lesson_id == "w"
    assert choose([wrong]).verdicts[0].reason.endswith("a caution")


def test_no_lesson_when_none_is_wanted(lesson: Make) -> None:
    assert choose([lesson("l", "Skip hatched bars.")], max_lessons=0).item_ids == ()


def test_a_loser_of_a_conflict_and_a_bare_category_are_refused(rule: Make, category: Make) -> None:
    lost = Conflict(
        first=ConflictSide(statement="Leave them out.", items=("a",)),
        second=ConflictSide(statement="Count them.", items=("b",)),
        settled="second",
    )
    found = choose([rule("s", conflicts=(lost,)), category("c")])
    assert found.item_ids == ()
    assert [v.reason for v in found.verdicts] == ["lost a conflict", "a bare category"]


def test_another_task_family_is_refused_and_an_unknown_one_is_not(lesson: Make) -> None:
    ledger = lesson("l", "Skip hatched bars.", family="ledger")
    assert choose([ledger], family="chart").item_ids == ()
    assert choose([ledger], family="Ledger").lesson_id == "l"
    assert choose([ledger]).lesson_id == "l"
    assert choose([lesson("l", "Skip hatched bars.")], family="chart").lesson_id == "l"


def test_another_house_is_refused_by_name(lesson: Make) -> None:
    node = lesson("l", "Skip hatched bars.")
    found = choose([node], "What is the total in the Norden Energi chart of Wind power?")
    assert found.item_ids == ()
    assert "statistik" in found.verdicts[0].reason


def test_a_question_that_names_nothing_contradicts_nothing(lesson: Make) -> None:
    assert choose([lesson("l", "Skip hatched bars.")], "what is the total?").lesson_id == "l"


def test_a_house_of_which_the_question_need_not_speak_is_refused_beside_a_named_one(
    lesson: Make,
) -> None:
    silent = {"anchor": "What is the total?"}
    other = lesson("o", "Add all bars.", scope="Kite Research charts", **silent)
    assert choose([other]).lesson_id == "o"
    found = choose([other, lesson("l", "Skip hatched bars.")])
    assert found.lesson_id == "l"
    assert "kite" in found.verdicts[0].reason


def test_a_cjk_house_is_looked_for_as_a_piece_of_the_question(lesson: Make) -> None:
    more = {"family": "地铁", "scope": "地铁, 红线", "anchor": "红线地铁图上有几站？"}  # noqa: RUF001
    red = lesson("r", "不数白色标记。", **more)
    more = {"family": "地铁", "scope": "地铁, 蓝线", "anchor": "蓝线地铁图上有几站？"}  # noqa: RUF001
    blue = lesson("b", "不数黑色标记。", **more)
    assert choose([red, blue], "这张蓝线地铁图上一共停几站？").lesson_id == "b"  # noqa: RUF001


def test_the_recorded_selections_name_the_right_rules_and_nothing_where_nothing_applies(
    shared_data: Path, houses: dict[str, list[Node]], category: Make
) -> None:
    rules = {}
    for house, lessons in houses.items():
        found = consolidate(ConsolidateRequest(category(house), tuple(lessons)))
        fields = {"guidance": found.guidance, "supported_by": found.supported_by}
        rules[house] = category(house, kind="summary", index=lessons[0].index, **fields)
    table = {node.node_id: node for group in houses.values() for node in group} | rules
    by_name = {house.rpartition("-")[2]: house for house in houses}
    seen = 0
    for line in (shared_data / "vlm_runs/organizer.jsonl").read_text("utf-8").splitlines():
        example = json.loads(line)
        if example["op"] != "select":
            continue
        seen += 1
        keys = [
            shown["lesson"].removeprefix("cons-")
            if "lesson" in shown
            else by_name[shown["rule"].split()[0].lower()]
            for shown in example["input"]["candidates"]
        ]
        chosen = choose([table[key] for key in keys], example["input"]["question"])
        target = example["target"]
        wanted = tuple(by_name[name.split()[0].lower()] for name in target["rules"])
        assert chosen.rule_ids == wanted, example["input"]["question"]
        if not wanted and target["lesson"] is None:
            assert chosen.item_ids == ()
        if not wanted and target["lesson"] is not None:
            # Which round is nearest was judged from the picture, which recall does not see.
            assert chosen.lesson_id is not None
            house = target["lesson"].removeprefix("cons-").rpartition("-")[0]
            assert chosen.lesson_id.rpartition("-")[0] == house
    assert seen == 30
