from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epimem.operations import registry
from epimem.operations.base import Limits
from epimem.schema import strict_json
from epimem.schema.lesson import IndexText
from epimem.schema.proposal import (
    Accepted,
    Consolidate,
    Merge,
    NewCategory,
    OpName,
    Part,
    Place,
    Rejection,
    SplitLift,
)
from epimem.schema.tree import Conflict, ConflictSide

PROPOSALS = [
    Place(lesson_id="l", new=NewCategory(title="t", index=IndexText(scope="s"))),
    Place(lesson_id="l", category_id="c"),
    Merge(kept_id="a", absorbed_id="b", title="t"),
    SplitLift(node_id="n", parts=(Part(child_ids=("a", "b")), Part(child_ids=("c",), title="t"))),
    Consolidate(
        node_id="n",
        guidance="g",
        supported_by=("a",),
        conflicts=(
            Conflict(first=ConflictSide(statement="x"), second=ConflictSide(statement="y")),
        ),
    ),
]


def test_every_operation_of_the_tree_but_repair_is_registered() -> None:
    # An update is of question-level memory, which no tree holds.
    assert {*registry.OPERATIONS, "repair", "update"} == set(get_args(OpName))
    for name, operation in registry.OPERATIONS.items():
        assert operation.name == name
        assert operation.record.model_fields["op"].default == name


@pytest.mark.parametrize("proposal", PROPOSALS, ids=lambda proposal: proposal.op)
def test_a_proposal_is_decoded_from_plain_data_text_and_bytes(proposal: Any) -> None:
    plain = {"op": proposal.op, **proposal.plain()}
    text = strict_json.dumps(plain)
    for value in (plain, text, text.decode(), proposal.plain()):
        assert registry.decode(value, expected=proposal.op) == proposal


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", "not_json"),
        ("{", "not_json"),
        (b"\xff", "not_json"),
        ('{"op": "merge", "op": "merge"}', "not_json"),
        ("[]", "schema"),
        (None, "schema"),
        (7, "schema"),
        ({}, "schema"),
        ({"kept_id": "a", "absorbed_id": "b", "force": True}, "schema"),
        ({"kept_id": 1, "absorbed_id": "b"}, "schema"),
        ({"op": "delete"}, "unknown_op"),
        ({"op": "place", "lesson_id": "l"}, "unknown_op"),
        ({"op": ["merge"]}, "unknown_op"),
        ({"kept_id": "a", "absorbed_id": "b", "title": "a\u202eb"}, "text"),
        ({"kept_id": "a", "absorbed_id": "b", "title": "x" * 300}, "limit"),
    ],
)
def test_rubbish_is_a_rejection(value: object, expected: str) -> None:
    decoded = registry.decode(value, expected="merge")
    assert isinstance(decoded, Rejection)
    assert (decoded.op, decoded.reason) == ("merge", expected)
    assert Rejection.read(decoded.canonical()) == decoded


def test_repair_is_no_proposal() -> None:
    decoded = registry.decode({"op": "repair"}, expected="repair")
    assert isinstance(decoded, Rejection)
    assert decoded.reason == "unknown_op"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(value=JSON | st.text(max_size=40) | st.binary(max_size=40))
def test_nothing_a_model_writes_raises(value: object) -> None:
    for op in registry.OPERATIONS.values():
        decoded = registry.decode(value, expected=op.name)
        if isinstance(decoded, Rejection):
            assert Rejection.read(decoded.canonical()) == decoded


def test_unknown_ids_are_refused_by_every_operation(grove: Any) -> None:
    for proposal in PROPOSALS:
        outcome = registry.apply_proposal(grove.tree, proposal, grove.context())
        assert isinstance(outcome, Rejection)
        assert (outcome.op, outcome.reason) == (proposal.op, "unknown_id")
        assert outcome.proposal is not None
        assert registry.decode(outcome.proposal, expected=proposal.op) == proposal


def test_settle_changes_nothing_where_nothing_is_over_capacity(grove: Any) -> None:
    grove.category(16)
    settled = registry.settle(grove.tree, grove.context())
    assert (settled.tree, settled.put, settled.dropped) == (grove.tree, (), ())


def test_settle_splits_upwards_and_only_the_root_grows(make_grove: Any) -> None:
    grove = make_grove(capacity=7)
    for _ in range(7):
        grove.category(7)
    category = grove.tree.lessons()[0].parent_id
    grove.place(grove.lesson(), category)
    before = grove.tree
    accepted = grove.settle()
    assert isinstance(accepted, Accepted)
    assert accepted.op == "split_lift"
    assert (before.root.height, grove.tree.root.height) == (2, 3)
    assert grove.tree.root_id == before.root_id
    assert grove.sound() == ()


def test_settle_takes_a_whole_batch_in_one_category(grove: Any) -> None:
    grove.category(80)
    grove.settle()
    assert grove.sound() == ()
    sizes = [grove.size(key) for key in grove.tree.children_of(grove.tree.root_id)]
    assert (len(sizes), sum(sizes)) == (7, 80)


def test_settle_deals_with_another_capacity_than_before(grove: Any) -> None:
    for _ in range(16):
        grove.category(16)
    small = Limits(7, 4)
    outcome = registry.settle(grove.tree, grove.context(limits=small))
    grove.limits = small
    grove.accept(outcome)
    assert grove.sound() == ()
