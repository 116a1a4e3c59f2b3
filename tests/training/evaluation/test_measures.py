"""What values are worth, operation by operation, on values made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controllers.prompts import OPERATIONS
from epimem.protocols import Derived, Reply
from epimem.schema.lesson import LessonDraft
from epimem.schema.memory_input import Selection
from epimem.schema.proposal import Consolidate, Merge, NewCategory, Part, Place, SplitLift
from epimem.schema.region import Region
from tests.controllers.prompts import samples
from training.evaluation.measures import BALANCED, NO_VALUE, score, value_of
from training.evaluation.partitions import adjusted_rand


def value(operation, **changes):
    request = samples.REQUESTS[operation]()
    return request, OPERATIONS[operation].parse(request, {**samples.REPLIES[operation], **changes})


NOTHING = {
    "derive": Derived((), nothing="nothing new"),
    "consolidate": Consolidate(node_id="group-0001"),
    "select": Selection(),
    "merge": None,
    "gate": 0,
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_was_wanted_is_worth_one_and_no_value_nothing(operation):
    request, wanted = value(operation)
    for each in (wanted, NOTHING.get(operation, wanted)):
        assert score(operation, request, each, each).accuracy == 1.0
        assert score(operation, request, each, NO_VALUE).accuracy == 0.0


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_numbers_of_a_demonstration_do_not_depend_on_what_came(operation):
    request, wanted = value(operation)
    for each in {id(it): it for it in (wanted, NOTHING.get(operation, wanted))}.values():
        names = [
            set(score(operation, request, each, came).numbers)
            for came in (wanted, NOTHING.get(operation, wanted), NO_VALUE)
        ]
        assert names[0] == names[1] == names[2] != set()


@pytest.mark.parametrize("operation", ["derive", "consolidate", "select"])
def test_nothing_is_measured_apart(operation):
    request, wanted = value(operation)
    nothing = NOTHING[operation]
    assert score(operation, request, nothing, nothing).numbers == {"empty_right": 1.0}
    assert score(operation, request, nothing, wanted).numbers == {"empty_right": 0.0}
    assert score(operation, request, nothing, NO_VALUE).numbers == {"empty_right": 0.0}
    missed = score(operation, request, wanted, nothing)
    assert (missed.accuracy, missed.numbers["false_empty"]) == (0.0, 1.0)
    assert score(operation, request, wanted, wanted).numbers["false_empty"] == 0.0


def test_a_decision_counts_for_its_own_class():
    assert BALANCED["balanced_accuracy"] == ("right_of_0", "right_of_1")
    request = samples.gate()
    for wanted in (0, 1):
        for got in (0, 1):
            found = score("gate", request, wanted, got)
            assert found.numbers == {f"right_of_{wanted}": float(wanted == got)}
            assert found.accuracy == float(wanted == got)
    request, joined = value("merge")
    assert score("merge", request, joined, None).numbers == {"right_of_1": 0.0}
    assert score("merge", request, None, joined).numbers == {"right_of_0": 0.0}
    assert score("merge", request, None, None).numbers == {"right_of_0": 1.0}
    other = Merge(kept_id=joined.kept_id, absorbed_id=joined.absorbed_id, title="another name")
    assert score("merge", request, joined, other).accuracy == 1.0


def test_the_parent_of_a_lesson_is_the_category_or_that_it_is_new():
    request, new = value("place")
    first, second = (view.node.node_id for view in request.candidates)
    old = Place(lesson_id=new.lesson_id, category_id=first)
    assert score("place", request, old, old).numbers == {"parent_right": 1.0, "existing_right": 1.0}
    elsewhere = old.model_copy(update={"category_id": second})
    assert score("place", request, old, elsewhere).accuracy == 0.0
    assert score("place", request, old, new).accuracy == 0.0
    assert score("place", request, new, old).accuracy == 0.0
    # A bank refuses one that names both; here it must not pass for the wanted category either.
    both = new.model_copy(update={"category_id": first})
    assert score("place", request, old, both).accuracy == 0.0
    renamed = new.model_copy(update={"new": NewCategory(title="other"), "parent_id": "root-0"})
    assert new.parent_id == "root-1"
    assert score("place", request, new, renamed).numbers == {
        "parent_right": 1.0,
        "new_right": 1.0,
        "group_right": 0.0,
    }
    known = old.model_copy(update={"parent_id": "root-1"})
    assert score("place", request, new, known).numbers["group_right"] == 0.0
    anywhere = new.model_copy(update={"parent_id": None})
    assert "group_right" not in score("place", request, anywhere, new).numbers


def test_a_split_is_its_partition():
    request, wanted = value("split_lift")
    turned = wanted.model_copy(update={"parts": wanted.parts[::-1]})
    assert score("split_lift", request, wanted, turned).accuracy == 1.0
    ids = sorted(child.node_id for child in request.children)
    crossed = SplitLift(
        node_id=wanted.node_id,
        parts=(
            Part(child_ids=(*ids[0:2], *ids[4:6])),
            Part(child_ids=(*ids[2:4], *ids[6:8])),
        ),
    )
    found = score("split_lift", request, wanted, crossed)
    assert found.numbers["adjusted_rand"] < 0.0
    assert found.accuracy == 0.0
    # Children in no part stand alone, each by itself.
    short = SplitLift(node_id=wanted.node_id, parts=wanted.parts[:1])
    assert wanted.parts[0].child_ids == tuple(ids[::2])
    apart = adjusted_rand([0, 1] * 4, [0, 1, 0, 2, 0, 3, 0, 4])
    assert score("split_lift", request, wanted, short).accuracy == pytest.approx(apart)


def test_support_is_measured_both_ways():
    request, wanted = value("consolidate")
    assert wanted.supported_by == ("node-0000", "node-0001")
    came = wanted.model_copy(
        update={"supported_by": ("node-0001", "node-0002"), "guidance": "Count markers."}
    )
    found = score("consolidate", request, wanted, came)
    assert found.numbers["support_precision"] == 0.5
    assert found.numbers["support_recall"] == 0.5
    assert found.accuracy == 0.5
    assert found.numbers["token_f1"] == pytest.approx(4 / 5)
    more = wanted.model_copy(update={"supported_by": ("node-0000", "node-0001", "node-0002")})
    found = score("consolidate", request, wanted, more).numbers
    assert (found["support_precision"], found["support_recall"]) == (pytest.approx(2 / 3), 1.0)


def test_a_selection_is_its_ids_whatever_their_order():
    request, wanted = value("select")
    turned = wanted.model_copy(update={"rule_ids": wanted.rule_ids[::-1]})
    assert score("select", request, wanted, turned).numbers["f1"] == 1.0
    one = Selection(rule_ids=wanted.rule_ids[:1])
    assert score("select", request, wanted, one).accuracy == pytest.approx(2 / 4)


def test_an_update_is_its_decisions_and_its_region():
    request, wanted = value("update")
    other = wanted.model_copy(update={"gate": 0})
    found = score("update", request, wanted, other)
    assert found.accuracy == pytest.approx(3 / 4)
    assert found.numbers["gate_right_of_1"] == 0.0
    assert found.numbers["stop_right_of_0"] == found.numbers["visual_right"] == 1.0
    wide = wanted.evidence.model_copy(update={"region": Region.whole(800, 600)})
    found = score("update", request, wanted, wanted.model_copy(update={"evidence": wide}))
    box = wanted.evidence.region
    share = (box.x1 - box.x0) * (box.y1 - box.y0) / (800 * 600)
    assert found.numbers["region_iou"] == pytest.approx(share)
    assert found.accuracy == pytest.approx((3 + share) / 4)
    elsewhere = wanted.evidence.model_copy(update={"image_id": "image-b"})
    moved = wanted.model_copy(update={"evidence": elsewhere})
    assert score("update", request, wanted, moved).numbers["region_iou"] == 0.0


def test_an_update_without_pictures_is_judged_by_its_stop_alone():
    request = samples.update(visual="none")
    said = {key: samples.REPLIES["update"][key] for key in ("guidance", "cautions", "stop")}
    wanted = OPERATIONS["update"].parse(request, said)
    found = score("update", request, wanted, wanted.model_copy(update={"gate": 1}))
    assert found.accuracy == 1.0
    assert not any(name.startswith(("gate", "visual")) for name in found.numbers)


def test_lessons_are_matched_by_text_and_regions_by_the_nearest():
    request, wanted = value("derive")
    (draft,) = wanted.drafts
    seen = draft.evidence[0]
    half = seen.model_copy(update={"image_id": "image-a"})
    several = draft.model_copy(update={"evidence": (half, seen)})
    found = score("derive", request, wanted, replace(wanted, drafts=(several,)))
    assert found.numbers["region_iou"] == 1.0
    unseen = draft.model_copy(update={"evidence": ()})
    found = score("derive", request, wanted, replace(wanted, drafts=(unseen,)))
    assert (found.numbers["region_iou"], found.accuracy) == (0.0, 0.5)
    chatty = replace(wanted, drafts=(draft, LessonDraft(guidance="something else entirely")))
    assert score("derive", request, wanted, chatty).numbers["token_f1"] == pytest.approx(2 / 3)
    bare = replace(wanted, drafts=(unseen,))
    assert "region_iou" not in score("derive", request, bare, wanted).numbers


def test_texts_are_compared_by_an_encoder_too_where_there_is_one():
    request, wanted = value("consolidate")
    plain = score("consolidate", request, wanted, wanted).numbers
    assert "cosine" not in plain
    found = score("consolidate", request, wanted, wanted, cosine=lambda *_: 0.25).numbers
    assert (found["cosine"], found["token_f1"]) == (0.25, 1.0)


def test_a_merge_of_nothing_is_a_value_and_a_refused_reply_is_none():
    assert value_of(Reply(None)) is None
    assert value_of(Reply(None, reason="schema")) is NO_VALUE
    assert value_of(Reply(1)) == 1
