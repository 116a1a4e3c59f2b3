from __future__ import annotations

from typing import Any

import pytest

from epimem.operations import place
from epimem.schema.lesson import IndexText
from epimem.schema.proposal import Accepted, NewCategory, Place, Rejection

INDEX = IndexText(topic="houses", scope="one house")


def reason(outcome: Any) -> str:
    assert isinstance(outcome, Rejection), outcome
    assert outcome.op == "place"
    return outcome.reason


def test_a_lesson_goes_under_an_existing_category(grove: Any) -> None:
    category = grove.category(2)
    lesson = grove.lesson()
    outcome = place.apply(
        grove.tree, Place(lesson_id=lesson.node_id, category_id=category), grove.context()
    )
    accepted = grove.accept(outcome)
    assert accepted.put == (lesson.model_copy(update={"parent_id": category}),)
    assert (accepted.dropped, accepted.written_from) == ((), {})


def test_a_new_category_takes_form_audience_and_authority_from_its_lesson(grove: Any) -> None:
    lesson = grove.lesson(form="profile", audience=("zoe", "ann"), authority="reviewed")
    proposal = Place(lesson_id=lesson.node_id, new=NewCategory(title="Houses", index=INDEX))
    accepted = grove.accept(place.apply(grove.tree, proposal, grove.context()))
    category = grove.tree.node(grove.tree.node(lesson.node_id).parent_id)
    assert category.parent_id == grove.tree.root_id
    assert category.shelf == ("profile", ("ann", "zoe")) == lesson.shelf
    assert (category.kind, category.height, category.authority) == ("category", 1, "reviewed")
    assert (category.title, category.index) == ("Houses", INDEX)
    assert accepted.written_from == {category.node_id: (lesson.node_id,)}


def test_a_nameless_new_category_is_named_after_its_lesson(grove: Any) -> None:
    lesson = grove.lesson()
    proposal = Place(lesson_id=lesson.node_id, new=NewCategory())
    grove.accept(place.apply(grove.tree, proposal, grove.context()))
    category = grove.tree.node(grove.tree.node(lesson.node_id).parent_id)
    assert (category.title, category.index) == (lesson.title, lesson.index)


@pytest.fixture
def tall(grove: Any) -> Any:
    """A tree of height 3: seventeen categories under two groups or more."""
    for _ in range(17):
        grove.category(1)
    grove.settle()
    assert grove.tree.root.height == 3
    return grove


def test_the_parent_is_the_proposed_one_else_the_hint_else_the_first(tall: Any) -> None:
    groups = tall.tree.children_of(tall.tree.root_id)
    for proposed, hint, expected in (
        (groups[1], groups[0], groups[1]),
        (None, groups[1], groups[1]),
        (None, None, groups[0]),
    ):
        lesson = tall.lesson()
        proposal = Place(lesson_id=lesson.node_id, new=NewCategory(), parent_id=proposed)
        outcome = place.apply(tall.tree, proposal, tall.context(parent_hint=hint))
        assert isinstance(outcome, Accepted)
        category = outcome.tree.node(lesson.node_id).parent_id
        assert outcome.tree.node(category).parent_id == expected


def test_a_new_category_never_stands_beside_a_taller_one(tall: Any) -> None:
    lesson = tall.lesson()
    category = tall.tree.lessons()[0].parent_id
    for parent_id in (tall.tree.root_id, category, tall.tree.lessons()[0].node_id):
        proposal = Place(lesson_id=lesson.node_id, new=NewCategory(), parent_id=parent_id)
        assert reason(place.apply(tall.tree, proposal, tall.context())) == "scope"


def test_form_and_audience_do_not_mix(grove: Any) -> None:
    category = grove.category(1, audience=("ann",))
    for fields in ({}, {"audience": ("ann", "zoe")}, {"audience": ("ann",), "form": "note"}):
        lesson = grove.lesson(**fields)
        proposal = Place(lesson_id=lesson.node_id, category_id=category)
        assert reason(place.apply(grove.tree, proposal, grove.context())) == "scope"


def test_namespaces_do_not_mix(grove: Any) -> None:
    lesson = grove.lesson().model_copy(update={"namespace": "elsewhere"})
    proposal = Place(lesson_id=lesson.node_id, new=NewCategory())
    context = grove.context(inbox={lesson.node_id: lesson})
    assert reason(place.apply(grove.tree, proposal, context)) == "scope"


def test_unknown_ids_are_named(grove: Any) -> None:
    lesson = grove.lesson()
    lost = Place(lesson_id="nobody", new=NewCategory())
    assert reason(place.apply(grove.tree, lost, grove.context())) == "unknown_id"
    nowhere = Place(lesson_id=lesson.node_id, category_id="no\u202ewhere")
    refused = place.apply(grove.tree, nowhere, grove.context())
    assert reason(refused) == "unknown_id"
    assert refused.detail == "category no\\u202ewhere"
    assert refused.proposal == {
        "op": "place",
        "lesson_id": lesson.node_id,
        "category_id": "no\u202ewhere",
    }
    orphan = Place(lesson_id=lesson.node_id, new=NewCategory(), parent_id="nobody")
    assert reason(place.apply(grove.tree, orphan, grove.context())) == "unknown_id"


def test_a_lesson_is_placed_once(grove: Any) -> None:
    lesson = grove.lesson()
    grove.place(lesson)
    again = Place(lesson_id=lesson.node_id, new=NewCategory())
    assert reason(place.apply(grove.tree, again, grove.context())) == "stale"


def test_a_proposal_names_a_category_or_a_new_one(grove: Any) -> None:
    category = grove.category(1)
    lesson = grove.lesson()
    neither = Place(lesson_id=lesson.node_id)
    both = Place(lesson_id=lesson.node_id, category_id=category, new=NewCategory())
    elsewhere = Place(lesson_id=lesson.node_id, category_id=category, parent_id=category)
    for proposal in (neither, both, elsewhere):
        assert reason(place.apply(grove.tree, proposal, grove.context())) == "schema"


def test_only_categories_of_lessons_hold_lessons(grove: Any) -> None:
    grove.category(1)
    lesson, placed = grove.lesson(), grove.tree.lessons()[0].node_id
    for target in (grove.tree.root_id, placed):
        proposal = Place(lesson_id=lesson.node_id, category_id=target)
        assert reason(place.apply(grove.tree, proposal, grove.context())) == "scope"


def test_only_lessons_are_placed(grove: Any) -> None:
    grove.category(1)
    stray = grove.tree.root.model_copy(update={"node_id": "stray", "height": 1})
    proposal = Place(lesson_id="stray", new=NewCategory())
    context = grove.context(inbox={"stray": stray})
    assert reason(place.apply(grove.tree, proposal, context)) == "scope"
