from __future__ import annotations

from typing import Any

import pytest

from epimem.errors import ConfigError
from epimem.operations.base import Edit, Limits, authority_of, name, refusal


@pytest.mark.parametrize(("capacity", "min_group"), [(6, 4), (4, 3), (16, 1), (16, 9)])
def test_limits_that_could_not_be_kept_are_refused(capacity: int, min_group: int) -> None:
    with pytest.raises(ConfigError) as caught:
        Limits(capacity, min_group)
    assert caught.value.code == "bad_config"


def test_a_refusal_keeps_what_can_be_stored_of_a_reply() -> None:
    long = refusal("merge", "schema", "d", raw="é" * 20_000)
    assert len(long.raw.encode()) <= 16 * 1024
    assert refusal("merge", "schema", "\u202e", raw=" \u200d").raw == ""
    assert refusal("merge", "schema", "d", raw="a\x00b\ud800c").raw == "abc"


def test_an_id_in_a_message_is_short_and_ascii() -> None:
    assert name("plain") == "plain"
    assert name("\u202e\n") == "\\u202e\\n"
    assert len(name("x" * 1000)) == 60


def test_a_delta_holds_only_what_differs(grove: Any) -> None:
    first, second = grove.category(2), grove.category(1)
    moving = grove.tree.children_of(first)[0]
    edit = Edit(grove.tree)
    edit.put(grove.tree.node(first), grove.tree.root)
    edit.move([moving], to=second)
    edit.put(grove.tree.root.model_copy(update={"node_id": "made", "height": 1}))
    edit.drop("made")
    accepted = grove.accept(edit.accepted("repair"))
    assert [node.node_id for node in accepted.put] == [moving]
    assert accepted.dropped == ()


def test_sources_lead_back_through_nodes_made_on_the_way(grove: Any) -> None:
    category = grove.category(2)
    lessons = grove.tree.children_of(category)
    made = grove.tree.node(category).model_copy(update={"node_id": "made"})
    edit = Edit(grove.tree)
    edit.put(made)
    edit.note_sources("made", lessons)
    edit.note_sources(category, ["made"])
    edit.drop("made")
    assert edit.accepted("repair").written_from == {category: lessons}


def test_authority_is_the_lowest_and_none_where_there_is_nothing(grove: Any) -> None:
    nodes = [grove.lesson(authority=authority) for authority in ("owner", "reviewed")]
    assert authority_of(nodes) == "reviewed"
    assert authority_of([]) == "none"
    assert authority_of([*nodes, grove.tree.root]) == "none"
