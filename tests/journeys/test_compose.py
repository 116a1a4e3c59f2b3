"""What a selected rule shows: the newest of its lessons first, none twice before all once."""

from __future__ import annotations

from epimem import compose
from epimem.schema.lesson import Evidence, Lesson
from epimem.schema.region import Region
from epimem.schema.tree import Node


def evidence(name, **more):
    return Evidence(image_id=name, region=Region.whole(10, 10), **more)


def lesson(number, *found, **more):
    stored = Lesson(guidance="g", evidence=found, contributor="c", organisation="o", **more)
    return Node(node_id=f"n-{number}", namespace="default", kind="lesson", lesson=stored)


def rule(*lessons):
    ids = tuple(node.node_id for node in lessons)
    return Node(node_id="r", namespace="default", kind="rule", height=1, supported_by=ids)


def shown(node, *lessons):
    sources = {source.node_id: source for source in lessons}
    return [item.image_id for item in compose.evidence([node], sources)[node.node_id]]


def test_a_rule_shows_one_region_of_each_lesson_newest_first_before_a_second_of_any():
    old, middle, new = (
        lesson(1, evidence("old-1"), evidence("old-2")),
        lesson(2, evidence("middle-1")),
        lesson(3, evidence("new-1"), evidence("new-2"), evidence("new-3")),
    )
    assert shown(rule(old, middle, new), old, middle, new) == [
        "new-1",
        "middle-1",
        "old-1",
        "new-2",
        "old-2",
        "new-3",
    ]


def test_what_cannot_be_shown_and_what_is_gone_is_left_out():
    one = lesson(1, evidence("a", state="missing"), evidence("b"))
    two = lesson(2, evidence("c"))
    assert shown(rule(one, two), one) == ["b"]
    assert shown(rule(two)) == []


def test_a_lesson_shows_its_own_in_order():
    one = lesson(1, evidence("a"), evidence("b"))
    assert shown(one) == ["a", "b"]


def test_an_item_names_the_agents_that_its_lessons_came_from():
    lessons = [lesson(1, agent="pool/b"), lesson(2), lesson(3, agent="pool/a")]
    sources = {node.node_id: node for node in lessons}
    own, unknown, of_rule = compose.items([lessons[0], lessons[1], rule(*lessons)], sources)
    assert (own.agents, unknown.agents) == (("pool/b",), ())
    assert of_rule.agents == ("pool/a", "pool/b")
