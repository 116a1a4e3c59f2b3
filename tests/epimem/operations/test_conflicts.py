"""What becomes of a conflict when its group is split or merged."""

from __future__ import annotations

from typing import Any

import pytest

from epimem.operations import consolidate, merge, rules, split_lift
from epimem.operations.conflicts import concerning, joined
from epimem.schema.proposal import Accepted, Consolidate, Merge, Part, SplitLift
from epimem.schema.tree import Conflict, ConflictSide, Node
from tests.wordings import DIFFERENT


def conflict(first: str, second: str, **fields: Any) -> Conflict:
    return Conflict(
        first=ConflictSide(statement="so", items=(first,)),
        second=ConflictSide(statement="not so", items=(second,)),
        **fields,
    )


def with_conflicts(grove: Any, category: str, *conflicts: Conflict) -> Node:
    node: Node = grove.tree.node(category).model_copy(update={"conflicts": conflicts})
    grove.tree = grove.tree.put(node)
    return node


def test_a_part_inherits_the_conflicts_its_lessons_take_part_in() -> None:
    one, other = conflict("a", "b"), conflict("c", "d")
    assert concerning([one, other], ["b", "x"]) == (one,)
    assert concerning([one, other], ["a", "d"]) == (one, other)
    assert concerning([one, other], ["x"]) == ()


def test_a_loser_stays_lost_through_a_split(grove: Any) -> None:
    category = grove.category(8)
    lessons = grove.tree.children_of(category)
    known = tuple(sorted(lessons))
    stored = conflict(lessons[0], lessons[7], leader="second", known=known)
    with_conflicts(grove, category, stored)
    halves = tuple(Part(child_ids=ids) for ids in (lessons[:4], lessons[4:]))
    proposal = SplitLift(node_id=category, parts=halves)
    grove.accept(split_lift.apply(grove.tree, proposal, grove.context()))
    part = grove.tree.node(lessons[0]).parent_id
    assert set(grove.tree.children_of(part)) == set(lessons[:4])
    again = Consolidate(node_id=part, guidance="so", supported_by=lessons[:4])
    outcome = consolidate.apply(grove.tree, again, grove.context())
    assert isinstance(outcome, Accepted)
    node = outcome.tree.node(part)
    assert (node.kind, rules.may_select(node)) == ("summary", False)


def test_split_and_merge_do_not_multiply_a_conflict(grove: Any) -> None:
    category = grove.category(8)
    lessons = grove.tree.children_of(category)
    with_conflicts(grove, category, conflict(lessons[0], lessons[7], known=("old",)))
    for _ in range(5):
        halves = tuple(Part(child_ids=ids) for ids in (lessons[:4], lessons[4:]))
        proposal = SplitLift(node_id=category, parts=halves)
        grove.accept(split_lift.apply(grove.tree, proposal, grove.context()))
        (other,) = grove.tree.siblings(category)
        assert len(grove.tree.node(other).conflicts) == 1
        joining = Merge(kept_id=category, absorbed_id=other)
        grove.accept(merge.apply(grove.tree, joining, grove.context()))
        assert len(grove.tree.node(category).conflicts) == 1


def test_questions_of_the_absorbed_category_are_no_news(grove: Any) -> None:
    kept, absorbed = grove.category(1), grove.category(1)
    ours, theirs = (grove.tree.children_of(key)[0] for key in (kept, absorbed))
    started = conflict(ours, "gone", known=()).model_copy(
        update={"second": ConflictSide(statement="not so", later=("news",))}
    )
    with_conflicts(grove, kept, started)
    nodes = [grove.tree.node(key) for key in (kept, absorbed)]
    lessons = [grove.tree.node(key) for key in (ours, theirs)]
    (merged,) = joined(*nodes, lessons)
    assert merged.known == tuple(sorted((ours, theirs)))
    listed = merged.model_copy(update={"first": ConflictSide(statement="so", items=(theirs,))})
    assert rules.advance(listed, lessons).first.later == ()
    assert rules.advance(listed, lessons).second.later == ("news",)


def test_merged_records_of_one_conflict_agree_or_are_open(grove: Any) -> None:
    kept, absorbed = grove.category(1), grove.category(1)
    cases: list[tuple[Any, Any, str]] = [
        (None, None, "open"),
        ("second", None, "second"),
        (None, "first", "first"),
        ("second", "second", "second"),
        ("first", "second", "open"),
    ]
    for one, other, expected in cases:
        nodes = [
            with_conflicts(grove, key, conflict("a", "b", leader=leader))
            for key, leader in ((kept, one), (absorbed, other))
        ]
        (merged,) = joined(*nodes, [])
        assert rules.conflict_state(merged) == expected


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_records_are_of_one_conflict_only_where_their_statements_have_one_wording(
    grove: Any, one: str, other: str
) -> None:
    def against(statement: str) -> Conflict:
        side = ConflictSide(statement=statement, items=("b",))
        return conflict("a", "b").model_copy(update={"second": side})

    keys = grove.category(1), grove.category(1)
    kept, absorbed = (grove.tree.node(key) for key in keys)
    for first, second, expected in ((one, other, 2), (one, f" {one}".replace(" ", "  "), 1)):
        nodes = [
            node.model_copy(update={"conflicts": (against(statement),)})
            for node, statement in ((kept, first), (absorbed, second))
        ]
        assert len(joined(*nodes, [])) == expected
