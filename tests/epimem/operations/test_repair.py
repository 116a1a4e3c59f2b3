from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from epimem.operations import place, repair
from epimem.schema.proposal import NewCategory, Place, Rejection
from epimem.schema.tree import Conflict, ConflictSide


def remove(grove: Any, *node_ids: str) -> Any:
    return grove.accept(repair.remove(grove.tree, node_ids, grove.context()))


@pytest.fixture
def tall(make_grove: Any) -> Any:
    """Height 3: forty categories of one lesson."""
    grove = make_grove()
    for _ in range(40):
        grove.category(1)
    grove.settle()
    assert grove.tree.root.height == 3
    return grove


def test_an_emptied_category_goes(grove: Any) -> None:
    category, other = grove.category(1), grove.category(2)
    (lesson,) = grove.tree.children_of(category)
    accepted = remove(grove, lesson)
    assert accepted.dropped == tuple(sorted((category, lesson)))
    assert grove.tree.children_of(grove.tree.root_id) == (other,)


def test_an_emptied_tree_is_an_empty_root_of_height_two(tall: Any) -> None:
    remove(tall, *(node.node_id for node in tall.tree.lessons()))
    assert tall.tree.children_of(tall.tree.root_id) == ()
    assert tall.tree.root.height == 2
    assert tall.sound() == ()


def test_a_small_group_joins_the_nearest_one(tall: Any) -> None:
    groups = tall.tree.children_of(tall.tree.root_id)
    small, near = groups[0], max(groups[1:], key=lambda key: (-tall.size(key), key))
    for number, key in enumerate(groups):
        tall.vectors[key] = np.eye(8, dtype=np.float32)[number]
    tall.vectors[near] = tall.vectors[small]
    staying = tall.tree.children_of(small)[-3:]
    leaving = tall.tree.children_of(small)[:-3]
    accepted = remove(tall, *leaving, *(tall.tree.children_of(key)[0] for key in leaving))
    assert small in accepted.dropped
    assert {tall.tree.node(key).parent_id for key in staying} == {near}
    assert tall.sound() == ()


def test_a_union_over_capacity_is_dealt_out_anew(make_grove: Any) -> None:
    grove = make_grove(capacity=7)
    for _ in range(8):
        grove.category(1)
    grove.settle()
    first, second = grove.tree.children_of(grove.tree.root_id)
    for _ in range(3):
        lesson = grove.lesson()
        proposal = Place(lesson_id=lesson.node_id, new=NewCategory(), parent_id=first)
        grove.accept(place.apply(grove.tree, proposal, grove.context()))
    assert (grove.size(first), grove.size(second)) == (7, 4)
    lessons = [grove.tree.children_of(key)[0] for key in grove.tree.children_of(second)]
    accepted = remove(grove, lessons[0])
    assert {grove.size(first), grove.size(second)} in ({4, 6}, {5})
    assert grove.sound() == ()
    assert second in accepted.written_from


def test_without_vectors_the_smallest_sibling_is_nearest(make_grove: Any) -> None:
    grove = make_grove(capacity=7)
    for _ in range(24):
        grove.category(1)
    grove.settle()
    grove.vectors.clear()
    groups = sorted(
        grove.tree.children_of(grove.tree.root_id), key=lambda key: (grove.size(key), key)
    )
    lessons = [grove.tree.children_of(key)[0] for key in grove.tree.children_of(groups[-1])]
    accepted = remove(grove, *lessons[: len(lessons) - 1])
    assert groups[-1] in accepted.dropped or grove.size(groups[-1]) >= 4
    assert grove.sound() == ()
    joined = [node.parent_id for node in accepted.put if node.height == 1]
    assert set(joined) <= {groups[0], groups[-1]}


def test_lessons_of_a_removed_category_stay_under_a_fresh_one(grove: Any) -> None:
    category = grove.category(3)
    lessons = grove.tree.children_of(category)
    rule = grove.tree.node(category).model_copy(
        update={"kind": "summary", "guidance": "secret", "title": "secret", "supported_by": lessons}
    )
    grove.tree = grove.tree.put(rule)
    accepted = remove(grove, category, lessons[0])
    assert category in accepted.dropped
    (fresh,) = grove.tree.child_nodes(grove.tree.root_id)
    assert fresh.node_id != category
    assert grove.tree.children_of(fresh.node_id) == lessons[1:]
    assert (fresh.kind, fresh.guidance, fresh.supported_by) == ("category", "", ())
    assert "secret" not in fresh.canonical().decode()
    assert accepted.written_from[fresh.node_id][0] in lessons[1:]


def test_a_removed_group_is_replaced_too(tall: Any) -> None:
    groups = tall.tree.children_of(tall.tree.root_id)
    lessons = {node.node_id for node in tall.tree.lessons()}
    remove(tall, *groups, *(key for group in groups for key in tall.tree.children_of(group)))
    assert {node.node_id for node in tall.tree.lessons()} == lessons
    assert not any(key in tall.tree for key in groups)
    assert tall.sound() == ()


def test_guidance_on_a_removed_lesson_is_taken_back_and_other_guidance_stays(grove: Any) -> None:
    category = grove.category(4)
    lessons = grove.tree.children_of(category)
    conflict = Conflict(
        first=ConflictSide(statement="so", items=lessons[:1]),
        second=ConflictSide(statement="not so", items=lessons[2:3]),
    )
    rule = grove.tree.node(category).model_copy(
        update={
            "kind": "summary",
            "guidance": "together",
            "supported_by": lessons[:2],
            "conflicts": (conflict,),
        }
    )
    start = grove.tree = grove.tree.put(rule)
    remove(grove, lessons[3])
    assert grove.tree.node(category) == rule
    remove(grove, lessons[1])
    assert grove.tree.node(category).guidance == ""
    assert grove.tree.node(category).conflicts == (conflict,)
    grove.tree = start
    remove(grove, lessons[2])
    assert (grove.tree.node(category).guidance, grove.tree.node(category).conflicts) == ("", ())


def test_the_root_and_strangers_are_not_removed(grove: Any) -> None:
    category = grove.category(2)
    lesson = grove.tree.children_of(category)[0]
    for wanted, expected in ((grove.tree.root_id, "scope"), ("nobody", "unknown_id")):
        refused = repair.remove(grove.tree, [lesson, wanted], grove.context())
        assert isinstance(refused, Rejection)
        assert (refused.op, refused.reason) == ("repair", expected)
    assert repair.remove(grove.tree, [], grove.context()).put == ()


def test_a_chain_of_only_children_is_mended_from_the_top(grove: Any) -> None:
    """A tree of other limits: every inner node has one child."""
    category = grove.category(1)
    (lesson,) = grove.tree.children_of(category)
    root = grove.tree.root
    tree = grove.tree.put(root.model_copy(update={"height": 5}))
    above = root.node_id
    for height in (4, 3, 2):
        node = root.model_copy(
            update={"node_id": f"level-{height}", "height": height, "parent_id": above}
        )
        tree, above = tree.put(node), node.node_id
    tree = tree.put(tree.node(category).model_copy(update={"parent_id": above}))
    edit = repair.Edit(tree)
    repair.repair(edit, [above], grove.context())
    grove.tree = edit.tree
    assert grove.sound() == ()
    assert [node.node_id for node in grove.tree.walk()] == [root.node_id, category, lesson]
    assert grove.tree.root.height == 2
