from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from controllers.embedded.memory_controller import EmbeddedMemoryController
from controllers.embedded.term_weights import class_titles, class_weights
from controllers.embedded.tree_organizer import EmbeddedTreeOrganizer
from epimem.protocols import (
    CategoryView,
    ConsolidateRequest,
    MergeRequest,
    PlaceRequest,
    SplitRequest,
    Vector,
)
from epimem.schema.tree import Node

Make = Callable[..., Node]


def view(node: Node, likeness: float, scope: float = 1.0) -> CategoryView:
    return CategoryView(node, likeness, scope, "root", 3)


def test_a_lesson_goes_to_the_nearest_category_above_the_floors(
    lesson: Make, category: Make
) -> None:
    organizer = EmbeddedTreeOrganizer()
    node = lesson("l", "Skip hatched bars.")
    one, two = (category(name, index=node.index) for name in ("one", "two"))
    request = PlaceRequest(node, (view(one, 0.7), view(two, 0.9)))
    (reply,) = organizer.place([request])
    assert reply.value is not None
    assert (reply.value.category_id, reply.value.new) == ("two", None)


@pytest.mark.parametrize(("likeness", "scope", "joins"), [(0.61, 0.9, True), (0.59, 0.9, False)])
def test_the_floor_of_likeness_decides(
    lesson: Make, category: Make, *, likeness: float, scope: float, joins: bool
) -> None:
    organizer = EmbeddedTreeOrganizer(place_min=0.6)
    node = lesson("l", "Skip hatched bars.")
    shown = view(category("c", index=node.index), likeness, scope)
    (reply,) = organizer.place([PlaceRequest(node, (shown,))])
    assert reply.value is not None
    assert (reply.value.category_id == "c") == joins


def test_the_floor_of_scopes_decides_where_no_name_does(lesson: Make, category: Make) -> None:
    more = {"scope": "bar charts", "anchor": "What is the total?"}
    node = lesson("l", "Skip hatched bars.", **more)
    shown = category("c", index=node.index)
    for scope_min, joins in ((0.8, True), (0.9, False)):
        organizer = EmbeddedTreeOrganizer(scope_min=scope_min)
        (reply,) = organizer.place([PlaceRequest(node, (view(shown, 0.9, 0.85),))])
        assert reply.value is not None
        assert (reply.value.category_id == "c") == joins


def test_another_house_is_another_category_however_alike(lesson: Make, category: Make) -> None:
    organizer = EmbeddedTreeOrganizer()
    node = lesson("l", "Skip hatched bars.")
    other = lesson("o", "Skip hatched bars.", scope="Norden Energi charts", anchor="")
    shown = view(category("c", index=other.index), 0.99, 0.99)
    (reply,) = organizer.place([PlaceRequest(node, (shown,))])
    assert reply.value is not None
    assert reply.value.new is not None


def test_a_new_category_takes_scope_and_anchor_and_is_named_by_what_is_new(
    lesson: Make, category: Make
) -> None:
    organizer = EmbeddedTreeOrganizer()
    node = lesson("l", "Leave out the hatched bars of a chart.")
    plain = lesson("p", "Add the solid bars of a chart.", scope="Kite Research charts")
    shown = view(category("c", title="Solid bars", index=plain.index), 0.2, 0.2)
    (reply,) = organizer.place([PlaceRequest(node, (shown,))])
    assert reply.value is not None
    new = reply.value.new
    assert new is not None
    assert new.index.scope == node.index.scope
    assert new.index.question_anchor == node.index.question_anchor
    assert "Statistik" in new.title
    assert "bars" not in new.title


def test_lessons_without_a_scope_are_placed_by_their_question(lesson: Make, category: Make) -> None:
    organizer = EmbeddedTreeOrganizer()
    node = lesson("l", "Skip hatched bars.", scope="")
    shown = view(category("c", index=node.index), 0.9, 0.0)
    (reply,) = organizer.place([PlaceRequest(node, (shown,))])
    assert reply.value is not None
    assert reply.value.category_id == "c"


def merge_of(lesson: Make, category: Make, other_scope: str, likeness: float) -> Any:
    organizer = EmbeddedTreeOrganizer(merge_min=0.9)
    ours = lesson("a", "Skip hatched bars.")
    theirs = lesson("b", "Skip hatched bars.", scope=other_scope)
    request = MergeRequest(
        kept=category("one", index=ours.index),
        absorbed=category("two", index=theirs.index),
        kept_lessons=(ours,),
        absorbed_lessons=(theirs,),
        likeness=likeness,
    )
    (reply,) = organizer.merge([request])
    assert reply.reason is None
    return reply.value


def test_two_categories_of_one_house_merge_when_their_least_alike_lessons_are_alike(
    lesson: Make, category: Make
) -> None:
    found = merge_of(lesson, category, "Norden Statistik bar charts", 0.9)
    assert (found.kept_id, found.absorbed_id) == ("one", "two")
    assert merge_of(lesson, category, "Norden Statistik bar charts", 0.89) is None


def test_two_houses_never_merge(lesson: Make, category: Make) -> None:
    assert merge_of(lesson, category, "Norden Energi charts", 1.0) is None


def split_request(
    lesson: Make, category: Make, count: int, vectors: dict[str, Vector]
) -> SplitRequest:
    words = ("red", "green", "blue")
    children = tuple(
        lesson(f"l{at:02d}", f"Count the {words[at % 3]} {words[at % 3]} bars.", scope="")
        for at in range(count)
    )
    return SplitRequest(category(), children, vectors, capacity=8, min_group=3)


@pytest.mark.parametrize("with_vectors", [True, False])
def test_a_split_covers_the_children_in_named_parts(
    lesson: Make, category: Make, *, with_vectors: bool
) -> None:
    organizer = EmbeddedTreeOrganizer()
    axes = np.eye(3, dtype=np.float32)
    vectors = {f"l{at:02d}": axes[at % 3] for at in range(18)} if with_vectors else {}
    request = split_request(lesson, category, 18, vectors)
    (reply,) = organizer.split_lift([request])
    assert reply.value is not None
    parts = reply.value.parts
    assert sorted(key for part in parts for key in part.child_ids) == [
        child.node_id for child in request.children
    ]
    assert [{int(key[1:]) % 3 for key in part.child_ids} for part in parts] == [{0}, {1}, {2}]
    for part, word in zip(parts, ("red", "green", "blue"), strict=True):
        assert word in part.title
        assert part.index is not None
        assert part.index.question_anchor
    backwards = SplitRequest(request.node, request.children[::-1], vectors, 8, 3)
    assert organizer.split_lift([backwards])[0].value == reply.value


def test_children_that_nothing_tells_apart_are_dealt_out_evenly(
    lesson: Make, category: Make
) -> None:
    organizer = EmbeddedTreeOrganizer()
    same = np.eye(3, dtype=np.float32)[0]
    children = tuple(lesson(f"l{at:02d}", "Count the red bars.") for at in range(17))
    vectors = {child.node_id: same for child in children}
    request = SplitRequest(category(), children, vectors, capacity=16, min_group=4)
    (reply,) = organizer.split_lift([request])
    assert reply.value is not None
    assert [len(part.child_ids) for part in reply.value.parts] == [8, 9]


def test_one_child_unlike_all_others_does_not_decide_the_cut(lesson: Make, category: Make) -> None:
    """Two groups that are rather alike, and a stranger: the groups are told apart, not the stranger."""
    organizer = EmbeddedTreeOrganizer()
    axes = np.eye(24)
    centers = [0.9 * axes[0] + 0.43 * axes[1]] * 8 + [0.9 * axes[0] - 0.43 * axes[1]] * 8
    raw = np.stack([*centers, axes[5]])
    raw[:16] += np.random.default_rng(1).normal(scale=0.05, size=(16, 24))
    rows = (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)
    children = tuple(lesson(f"l{at:02d}", "Count the red bars.") for at in range(17))
    vectors = dict(zip((child.node_id for child in children), rows, strict=True))
    request = SplitRequest(category(), children, vectors, capacity=16, min_group=4)
    (reply,) = organizer.split_lift([request])
    assert reply.value is not None
    groups = [{key for key in part.child_ids if key != "l16"} for part in reply.value.parts]
    assert groups == [{f"l{at:02d}" for at in range(8)}, {f"l{at:02d}" for at in range(8, 16)}]


def test_too_few_children_make_no_split(lesson: Make, category: Make) -> None:
    organizer = EmbeddedTreeOrganizer()
    (reply,) = organizer.split_lift([split_request(lesson, category, 5, {})])
    assert reply.value is None
    assert reply.reason == "limit"


def test_every_method_answers_each_request_in_order(lesson: Make, category: Make) -> None:
    controller, organizer = EmbeddedMemoryController(), EmbeddedTreeOrganizer()
    assert organizer.name == controller.name == "embedded"
    requests = [
        ConsolidateRequest(category(name), (lesson(f"l-{name}", "Skip hatched bars."),))
        for name in ("one", "two")
    ]
    replies = organizer.consolidate(requests)
    assert [reply.value.node_id for reply in replies if reply.value] == ["one", "two"]
    assert all(reply.usage.calls == 1 for reply in replies)
    nothing: tuple[object, ...] = (
        organizer.place([]),
        organizer.merge([]),
        organizer.split_lift([]),
        organizer.select([]),
        controller.derive([]),
        controller.gate([]),
    )
    assert nothing == ([],) * 6


def test_class_weights_follow_their_formula() -> None:
    first, second = class_weights(["hatch hatch bar", "solid bar bar"])
    mean = 3.0
    assert first["hatch"] == pytest.approx(2 * np.log(1 + mean / 2))
    assert first["bar"] == pytest.approx(np.log(1 + mean / 3))
    assert second["solid"] == pytest.approx(np.log(1 + mean / 1))


def test_titles_hold_each_form_once_and_none_for_empty_text() -> None:
    assert class_titles(["换乘站 换乘站", ""]) == ["换乘站", ""]
    assert class_titles([]) == []


def test_importing_the_controllers_loads_no_model_library() -> None:
    program = (
        "import sys; from epimem.config import Config; from epimem.plugins import Controllers; "
        "Controllers(None).tree_organizer(Config()); "
        "print([m for m in ('torch', 'faiss', 'onnxruntime', 'PIL', 'rich') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
