from __future__ import annotations

from typing import Any

import pytest

from epimem.operations import consolidate, place, rules
from epimem.operations.rules import Standing
from epimem.schema.lesson import IndexText
from epimem.schema.proposal import Accepted, Consolidate, Place, Rejection
from epimem.schema.tree import Conflict, ConflictSide, Node


def group(grove: Any, *questions: str, **fields: Any) -> tuple[str, list[str]]:
    """Make a category with one lesson per question; return its id and the lessons' ids."""
    category = ""
    lessons = []
    for question in questions:
        lesson = grove.lesson(question, **fields)
        category = grove.place(lesson, category or None)
        lessons.append(lesson.node_id)
    return category, lessons


def add(grove: Any, category: str, question: str, **fields: Any) -> str:
    lesson = grove.lesson(question, **fields)
    proposal = Place(lesson_id=lesson.node_id, category_id=category)
    grove.accept(place.apply(grove.tree, proposal, grove.context()))
    return str(lesson.node_id)


def propose(grove: Any, node_id: str, supported_by: list[str], **fields: Any) -> Any:
    values = {"guidance": "together" if supported_by else "", **fields}
    proposal = Consolidate(node_id=node_id, supported_by=tuple(supported_by), **values)
    return consolidate.apply(grove.tree, proposal, grove.context())


def written(grove: Any, node_id: str, supported_by: list[str], **fields: Any) -> Node:
    grove.accept(propose(grove, node_id, supported_by, **fields))
    node = grove.tree.node(node_id)
    assert isinstance(node, Node)
    return node


def reason(outcome: Any) -> str:
    assert isinstance(outcome, Rejection), outcome
    return outcome.reason


def against(*items: str, statement: str = "not so", **fields: Any) -> Conflict:
    return Conflict(
        first=ConflictSide(statement="so"),
        second=ConflictSide(statement=statement, applies_when="at night", items=items),
        **fields,
    )


def test_three_questions_make_a_summary_and_a_fourth_a_rule(grove: Any) -> None:
    category, lessons = group(grove, "a", "b", "c")
    assert written(grove, category, lessons).kind == "summary"
    lessons.append(add(grove, category, "d"))
    node = written(grove, category, lessons, applies_when="always", cautions=("mind",))
    assert node.kind == "rule"
    assert (node.guidance, node.applies_when, node.cautions) == ("together", "always", ("mind",))
    assert node.supported_by == tuple(sorted(lessons))


def test_one_question_makes_nothing(grove: Any) -> None:
    category, lessons = group(grove, "a", "a")
    node = written(grove, category, lessons, title="Named")
    assert (node.kind, node.guidance, node.supported_by) == ("category", "", ())
    assert node.title == "Named"


def test_empty_guidance_makes_a_bare_category(grove: Any) -> None:
    category, lessons = group(grove, "a", "b")
    written(grove, category, lessons)
    node = written(grove, category, [])
    assert (node.kind, node.guidance, node.supported_by) == ("category", "", ())


def test_only_the_node_changes_and_it_is_written_from_all_its_lessons(grove: Any) -> None:
    category, lessons = group(grove, "a", "b", "c")
    accepted = grove.accept(propose(grove, category, lessons[:2]))
    assert [node.node_id for node in accepted.put] == [category]
    assert accepted.written_from == {category: tuple(sorted(lessons))}


def test_title_and_index_change_only_when_given(grove: Any) -> None:
    category, lessons = group(grove, "a", "b")
    before = grove.tree.node(category)
    node = written(grove, category, lessons)
    assert (node.title, node.index) == (before.title, before.index)
    node = written(grove, category, lessons, title="New", index=IndexText(topic="new"))
    assert (node.title, node.index) == ("New", IndexText(topic="new"))


def test_authority_is_the_lowest_of_all_lessons_shown(grove: Any) -> None:
    category, lessons = group(grove, "a", "b", authority="owner")
    assert written(grove, category, lessons).authority == "owner"
    add(grove, category, "c", authority="observed")
    assert written(grove, category, lessons).authority == "observed"


def test_feedback_counters_take_part_in_the_level(grove: Any) -> None:
    category, lessons = group(grove, "a", "b", "c", "d")
    proposal = Consolidate(node_id=category, guidance="g", supported_by=tuple(lessons))
    context = grove.context(standing={category: Standing(hurt=3)})
    outcome = consolidate.apply(grove.tree, proposal, context)
    assert isinstance(outcome, Accepted)
    assert outcome.tree.node(category).kind == "summary"


def test_polarities_never_support_each_other(grove: Any) -> None:
    category, positive = group(grove, "a", "b")
    negative = [add(grove, category, key, polarity="negative") for key in ("c", "d")]
    assert reason(propose(grove, category, [*positive, *negative])) == "contradiction"
    assert written(grove, category, negative).polarity == "negative"
    assert written(grove, category, positive).polarity == "positive"


def test_what_is_refused(grove: Any) -> None:
    category, lessons = group(grove, "a", "b")
    _, others = group(grove, "c")
    assert reason(propose(grove, "nobody", lessons)) == "unknown_id"
    assert reason(propose(grove, category, [*lessons, *others])) == "unknown_id"
    assert reason(propose(grove, grove.tree.root_id, lessons)) == "scope"
    assert reason(propose(grove, lessons[0], lessons)) == "scope"
    assert reason(propose(grove, category, lessons, guidance="")) == "schema"
    assert reason(propose(grove, category, [], guidance="alone")) == "schema"


def test_a_conflict_keeps_a_rule_down_to_a_summary(grove: Any) -> None:
    category, lessons = group(grove, "a", "b", "c", "d", "e")
    node = written(grove, category, lessons[:4], conflicts=(against(lessons[4]),))
    (conflict,) = node.conflicts
    assert node.kind == "summary"
    assert rules.conflict_state(conflict) == "open"
    assert rules.may_select(node)
    assert (conflict.first.statement, conflict.first.items) == ("together", tuple(lessons[:4]))
    assert (conflict.second.statement, conflict.second.items) == ("not so", (lessons[4],))
    assert conflict.second.applies_when == "at night"
    assert conflict.known == ("a", "b", "c", "d", "e")


def test_a_model_cannot_make_a_conflict_disappear_or_count_for_it(grove: Any) -> None:
    category, lessons = group(grove, "a", "b", "c", "d", "e")
    forged = against(lessons[4], leader="first", known=("a",)).model_copy(
        update={"first": ConflictSide(statement="so", later=("x", "y", "z"))}
    )
    node = written(grove, category, lessons[:4], conflicts=(forged,))
    assert rules.conflict_state(node.conflicts[0]) == "open"
    again = written(grove, category, lessons[:4])
    assert again.conflicts == node.conflicts
    settled = against(lessons[4], settled="first")
    refused = propose(grove, category, lessons[:4], conflicts=(settled,))
    assert reason(refused) == "authority"


def test_three_later_questions_close_a_conflict_for_the_rule(grove: Any) -> None:
    category, lessons = group(grove, "a", "b", "c", "d", "e")
    challenger = lessons.pop()
    written(grove, category, lessons, conflicts=(against(challenger),))
    for question, expected in (("f", "summary"), ("a", "summary"), ("g", "summary"), ("h", "rule")):
        lessons.append(add(grove, category, question))
        assert written(grove, category, lessons).kind == expected


def lost(grove: Any) -> tuple[str, list[str], list[str]]:
    """Make a category whose guidance lost a conflict; return also the two sides' lessons."""
    category, lessons = group(grove, "a", "b", "c", "d", "e")
    winners = [lessons.pop()]
    written(grove, category, lessons, conflicts=(against(*winners),))
    winners += [add(grove, category, key) for key in ("x", "y", "z")]
    node = written(grove, category, lessons, conflicts=(against(*winners),))
    assert rules.conflict_state(node.conflicts[0]) == "second"
    assert (node.kind, rules.may_select(node)) == ("summary", False)
    return category, lessons, winners


def test_the_loser_does_not_requalify_by_more_of_the_same(grove: Any) -> None:
    category, lessons, _ = lost(grove)
    for question, may in (("f", False), ("g", False), ("h", False), ("i", False), ("j", False)):
        lessons.append(add(grove, category, question))
        node = written(grove, category, lessons, title="once more")
        assert (node.kind, rules.may_select(node)) == ("summary", may)
    lessons.append(add(grove, category, "k"))
    assert written(grove, category, lessons).kind == "rule"


def test_the_winner_takes_the_place_and_the_loser_stays_lost(grove: Any) -> None:
    category, lessons, winners = lost(grove)
    node = written(grove, category, winners, guidance="not so")
    assert (node.kind, rules.may_select(node)) == ("rule", True)
    assert node.conflicts[0].first.statement == "not so"
    again = written(grove, category, lessons)
    assert (again.kind, rules.may_select(again)) == ("summary", False)


def test_the_loser_does_not_come_back_on_other_lessons_with_its_text(grove: Any) -> None:
    category, _, winners = lost(grove)
    written(grove, category, winners, guidance="not so")
    fresh = [add(grove, category, key) for key in ("p", "q")]
    node = written(grove, category, fresh, guidance="Together")
    assert not rules.may_select(node)


def test_a_lesson_stands_on_one_side_only(grove: Any) -> None:
    category, lessons, winners = lost(grove)
    assert reason(propose(grove, category, [*lessons, winners[0]])) == "contradiction"
    torn = against(lessons[0], winners[0]).model_copy(
        update={"first": ConflictSide(statement="so", items=(lessons[1],))}
    )
    assert reason(propose(grove, category, lessons, conflicts=(torn,))) == "contradiction"
    both = Conflict(
        first=ConflictSide(statement="so", items=(winners[0],)),
        second=ConflictSide(statement="other", items=(winners[0],)),
    )
    assert reason(propose(grove, category, lessons, conflicts=(both,))) == "contradiction"


def test_a_conflict_opens_only_from_enough_authority(grove: Any) -> None:
    category, lessons = group(grove, "a", "b", "c", "d", authority="reviewed")
    assert written(grove, category, lessons).kind == "rule"
    weak = add(grove, category, "e", authority="observed")
    node = written(grove, category, lessons, conflicts=(against(weak),))
    assert (node.kind, node.conflicts) == ("rule", ())
    # The rule's own authority fell with the lesson that was shown; the bar for a conflict did not.
    assert node.authority == "observed"
    assert written(grove, category, lessons, conflicts=(against(weak),)).kind == "rule"
    strong = add(grove, category, "f", authority="reviewed")
    node = written(grove, category, lessons, conflicts=(against(weak, strong),))
    assert (node.kind, len(node.conflicts)) == ("summary", 1)


def test_lower_authority_does_not_take_the_place_of_higher(grove: Any) -> None:
    category, lessons = group(grove, "a", "b", authority="reviewed")
    written(grove, category, lessons)
    weak = [add(grove, category, key, authority="observed") for key in ("c", "d")]
    assert reason(propose(grove, category, weak, guidance="mine")) == "authority"
    assert isinstance(propose(grove, category, [*weak, lessons[0]]), Accepted)
    strong = [add(grove, category, key, authority="owner") for key in ("e", "f")]
    assert isinstance(propose(grove, category, strong, guidance="ours"), Accepted)


@pytest.mark.parametrize("missing", ["items", "statement", "stranger"])
def test_a_conflict_needs_a_statement_and_a_lesson_of_the_category(
    grove: Any, missing: str
) -> None:
    category, lessons = group(grove, "a", "b", "c")
    conflict = {
        "items": against(),
        "statement": against(lessons[2], statement=""),
        "stranger": against("nobody"),
    }[missing]
    expected = "unknown_id" if missing == "stranger" else "schema"
    refused = propose(grove, category, lessons[:2], conflicts=(conflict,))
    assert reason(refused) == expected


def test_lessons_may_conflict_without_any_guidance(grove: Any) -> None:
    category, lessons = group(grove, "a", "b")
    half = against(lessons[1])
    assert reason(propose(grove, category, [], conflicts=(half,))) == "schema"
    whole = half.model_copy(update={"first": ConflictSide(statement="so", items=(lessons[0],))})
    node = written(grove, category, [], conflicts=(whole,))
    assert (node.kind, len(node.conflicts)) == ("category", 1)


def test_the_order_of_lessons_named_does_not_matter(grove: Any) -> None:
    category, lessons = group(grove, "a", "b", "c", "d")
    forward = propose(grove, category, lessons)
    backward = propose(grove, category, [*reversed(lessons), lessons[0]])
    assert forward == backward
