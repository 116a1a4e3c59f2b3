from __future__ import annotations

from controllers.prompts.items import CAUTION_ROOM, disputes, entry, index_entry
from epimem.schema.lesson import IndexText
from tests.controllers.prompts import samples


def test_a_node_without_names_of_its_own_shows_those_of_its_lesson() -> None:
    node = samples.lesson()
    bare = node.model_copy(update={"title": "", "index": IndexText()})
    assert index_entry(bare, 3000) == index_entry(node, 3000)
    assert index_entry(bare, 3000)["title"] == "markers"
    other = node.model_copy(update={"title": "own", "index": IndexText(topic="own")})
    assert index_entry(other, 3000) == {
        "title": "own",
        "topic": "own",
        "scope": "",
        "question_anchor": "",
    }


def test_open_conflicts_are_shown_and_settled_ones_are_not() -> None:
    node = samples.category()
    assert disputes(node, 3000) == [{"one": "count all ", "other": "count filled "}]
    settled = [conflict.model_copy(update={"settled": "first"}) for conflict in node.conflicts]
    assert disputes(node.model_copy(update={"conflicts": tuple(settled)}), 3000) == []


def test_the_texts_of_an_item_keep_to_their_room() -> None:
    node = samples.lesson(1, "x" * 9000)
    for chars in (240, CAUTION_ROOM, 3000):
        shown = entry("L1", node, chars)
        cautions = shown.pop("cautions")
        assert sum(map(len, shown.values())) + sum(map(len, cautions)) <= chars
        assert bool(cautions) == (chars >= CAUTION_ROOM)
    assert entry("L1", samples.lesson(), 3000)["guidance"] == "Count filled markers only 1 "
