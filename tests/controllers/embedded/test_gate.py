from __future__ import annotations

from typing import Any

import pytest

from controllers.embedded.memory_controller import EmbeddedMemoryController
from epimem.protocols import GateRequest
from epimem.schema.memory_input import Item


def gate(**changes: Any) -> int | None:
    fields: dict[str, Any] = {
        "question": "What is the total over the years?",
        "question_images": 1,
        "items": (Item(node_id="a", kind="rule", guidance="Leave out the hatched bars."),),
        "crops": {"a": 1},
        "notes": {},
    }
    (reply,) = EmbeddedMemoryController().gate([GateRequest(**fields | changes)])
    return reply.value


def test_crops_go_along_with_a_visual_rule_for_a_question_with_images() -> None:
    assert gate() == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"crops": {}},
        {"crops": {"a": 0}},
        {"crops": {"b": 2}},
        {"items": ()},
        {"question_images": 0},
        {"items": (Item(node_id="a", kind="rule", guidance="Add the numbers carefully."),)},
    ],
)
def test_crops_stay_out_when_one_condition_fails(changes: dict[str, Any]) -> None:
    assert gate(**changes) == 0


def test_a_question_that_speaks_of_a_picture_needs_no_image_of_its_own() -> None:
    assert gate(question="Which bar of the chart is hatched?", question_images=0) == 1


def test_a_note_of_the_evidence_may_speak_of_what_is_seen() -> None:
    items = (Item(node_id="a", kind="lesson", guidance="Multiply by ten."),)
    assert gate(items=items) == 0
    assert gate(items=items, notes={"a": ("Black triangle on the axis.",)}) == 1


def test_one_item_with_a_crop_and_another_with_the_words_are_not_enough() -> None:
    items = (
        Item(node_id="a", kind="rule", guidance="Multiply by ten."),
        Item(node_id="b", kind="rule", guidance="Leave out the hatched bars."),
    )
    assert gate(items=items, crops={"a": 1}) == 0
    assert gate(items=items, crops={"b": 1}) == 1


HATCHED = "Leave out the hatched bars."


@pytest.mark.parametrize(
    ("applies_when", "without", "with_it"),
    [
        ("Bar charts without data labels.", "The chart has no data labels.", "It has data labels."),
        ("Invoices that bear no seal", "No seal is printed.", "A seal is printed on the page."),
        ("Pages with a red frame", "The page has a red frame.", "The page lacks a red frame."),
    ],
)
def test_an_items_own_conditions_may_exclude_the_question(
    applies_when: str, without: str, with_it: str
) -> None:
    item = Item(node_id="a", kind="rule", guidance=HATCHED, applies_when=applies_when)
    asked = "What is the total over the years? "
    assert gate(items=(item,), question=asked + without) == 1
    assert gate(items=(item,), question=asked + with_it) == 0
    assert gate(items=(item,), question=asked) == 1


def test_a_condition_that_opens_the_guidance_counts_as_one() -> None:
    guidance = "In charts without a legend, leave out the hatched bars."
    item = Item(node_id="a", kind="rule", guidance=guidance)
    assert gate(items=(item,), question="The chart has a legend. What is the total?") == 0
    told = Item(node_id="a", kind="rule", guidance=f"{HATCHED} There is no legend.")
    assert gate(items=(told,), question="The chart has a legend. What is the total?") == 1


def test_one_item_whose_conditions_hold_is_enough() -> None:
    items = (
        Item(node_id="a", kind="rule", guidance=HATCHED, applies_when="Charts without a legend"),
        Item(node_id="b", kind="rule", guidance=HATCHED, applies_when="Charts with a legend"),
    )
    question = "The chart has a legend. What is the total?"
    assert gate(items=items, crops={"a": 1}, question=question) == 0
    assert gate(items=items, crops={"a": 1, "b": 1}, question=question) == 1
