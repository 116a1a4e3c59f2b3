from __future__ import annotations

from typing import Any

from epimem.operations import merge, split_lift
from epimem.schema.proposal import Merge, Part, Rejection, SplitLift


def apply(grove: Any, kept: str, absorbed: str, **fields: Any) -> Any:
    proposal = Merge(kept_id=kept, absorbed_id=absorbed, **fields)
    return merge.apply(grove.tree, proposal, grove.context())


def reason(outcome: Any) -> str:
    assert isinstance(outcome, Rejection), outcome
    return outcome.reason


def test_merge_keeps_every_lesson(grove: Any) -> None:
    kept, absorbed = grove.category(3), grove.category(2)
    lessons = {*grove.tree.children_of(kept), *grove.tree.children_of(absorbed)}
    accepted = grove.accept(apply(grove, kept, absorbed, title="Both"))
    assert set(grove.tree.children_of(kept)) == lessons
    assert accepted.dropped == (absorbed,)
    assert set(accepted.written_from[kept]) == lessons
    assert grove.tree.node(kept).title == "Both"


def test_merge_touches_only_the_kept_category_and_what_moves(grove: Any) -> None:
    kept, absorbed = grove.category(3), grove.category(2)
    moving = grove.tree.children_of(absorbed)
    accepted = grove.accept(apply(grove, kept, absorbed, title="Both"))
    assert {node.node_id for node in accepted.put} == {kept, *moving}
    assert [node.height for node in accepted.put] == [1, 0, 0]


def test_merge_takes_guidance_back_and_keeps_the_lower_authority(grove: Any) -> None:
    kept, absorbed = grove.category(2, authority="owner"), grove.category(2)
    rule = grove.tree.node(kept).model_copy(
        update={
            "kind": "rule",
            "guidance": "together",
            "supported_by": grove.tree.children_of(kept),
            "guidance_polarity": "negative",
        }
    )
    grove.tree = grove.tree.put(rule)
    grove.accept(apply(grove, kept, absorbed))
    merged = grove.tree.node(kept)
    assert (merged.kind, merged.guidance, merged.supported_by) == ("category", "", ())
    assert (merged.polarity, merged.authority) == ("positive", "observed")
    assert merged.title == rule.title


def test_merge_up_to_capacity_and_not_over(grove: Any) -> None:
    kept, fits, over = grove.category(10), grove.category(6), grove.category(7)
    assert reason(apply(grove, kept, over)) == "limit"
    grove.accept(apply(grove, kept, fits))
    assert grove.size(kept) == 16


def test_what_does_not_merge(grove: Any) -> None:
    one, profile = grove.category(1), grove.category(1, form="profile")
    lesson = grove.tree.children_of(one)[0]
    assert reason(apply(grove, one, one)) == "cycle"
    assert reason(apply(grove, one, "nobody")) == "unknown_id"
    assert reason(apply(grove, "nobody", one)) == "unknown_id"
    assert reason(apply(grove, one, profile)) == "scope"
    assert reason(apply(grove, grove.tree.root_id, one)) == "scope"
    assert reason(apply(grove, one, lesson)) == "scope"


def test_only_siblings_merge(grove: Any) -> None:
    for _ in range(17):
        grove.category(1)
    grove.settle()
    first, second = grove.tree.children_of(grove.tree.root_id)[:2]
    cousins = grove.tree.children_of(first)[0], grove.tree.children_of(second)[0]
    assert reason(apply(grove, *cousins)) == "scope"
    assert reason(apply(grove, first, second)) == "scope"


def test_a_group_left_too_small_is_joined_and_the_tree_loses_a_level(grove: Any) -> None:
    for _ in range(17):
        grove.category(1)
    grove.settle()
    assert grove.tree.root.height == 3
    while grove.tree.root.height == 3:
        group = grove.tree.children_of(grove.tree.root_id)[0]
        grove.accept(apply(grove, *grove.tree.children_of(group)[:2]))
        assert grove.sound() == ()
    assert len(grove.tree.lessons()) == 17


def test_merge_then_split_then_merge_many_times(grove: Any) -> None:
    kept, absorbed = grove.category(8), grove.category(8)
    for _ in range(100):
        outcome = apply(grove, kept, absorbed)
        children = outcome.tree.children_of(kept)
        halves = tuple(Part(child_ids=ids) for ids in (children[:8], children[8:]))
        split = split_lift.apply(
            outcome.tree, SplitLift(node_id=kept, parts=halves), grove.context()
        )
        grove.tree = split.tree
        (absorbed,) = set(grove.tree.children_of(grove.tree.root_id)) - {kept}
    assert len(grove.tree.lessons()) == 16
    assert grove.sound() == ()
