from __future__ import annotations

from typing import Any

import pytest

from epimem.operations import split_lift
from epimem.schema.lesson import IndexText
from epimem.schema.proposal import Part, Rejection, SplitLift


def parts(*groups: Any) -> tuple[Part, ...]:
    return tuple(Part(child_ids=tuple(group)) for group in groups)


def apply(grove: Any, node_id: str, chosen: tuple[Part, ...]) -> Any:
    proposal = SplitLift(node_id=node_id, parts=chosen)
    return split_lift.apply(grove.tree, proposal, grove.context())


def reason(outcome: Any) -> str:
    assert isinstance(outcome, Rejection), outcome
    return outcome.reason


def test_a_split_covers_its_group_exactly_once(grove: Any) -> None:
    category = grove.category(17)
    children = grove.tree.children_of(category)
    groups = children[:4], children[4:11], children[11:]
    accepted = grove.accept(apply(grove, category, parts(*groups)))
    siblings = grove.tree.children_of(grove.tree.root_id)
    assert {grove.tree.children_of(key) for key in siblings} == set(groups)
    assert grove.tree.children_of(category) == groups[1]
    assert accepted.dropped == ()
    moved = {node.node_id for node in accepted.put if node.height == 0}
    assert moved == {*groups[0], *groups[2]}


def test_the_parts_keep_the_shelf_and_lose_the_guidance(grove: Any) -> None:
    category = grove.category(8, form="profile", audience=("ann",))
    children = grove.tree.children_of(category)
    rule = grove.tree.node(category).model_copy(
        update={"kind": "rule", "guidance": "together", "supported_by": children}
    )
    grove.tree = grove.tree.put(rule)
    grove.accept(apply(grove, category, parts(children[:4], children[4:])))
    for node in grove.tree.child_nodes(grove.tree.root_id):
        assert node.shelf == ("profile", ("ann",))
        assert (node.kind, node.guidance, node.supported_by) == ("category", "", ())


def test_a_part_without_text_takes_that_of_its_medoid(grove: Any) -> None:
    category = grove.category(8)
    children = grove.tree.children_of(category)
    for key in children[4:7]:
        grove.vectors[key] = grove.vectors[children[5]]
    named = Part(child_ids=children[:4], title="Told", index=IndexText(topic="told"))
    accepted = grove.accept(apply(grove, category, (named, *parts(children[4:]))))
    told, copied = sorted(
        grove.tree.child_nodes(grove.tree.root_id), key=lambda node: node.title != "Told"
    )
    typical = grove.tree.node(children[4])
    assert (told.title, told.index) == ("Told", IndexText(topic="told"))
    assert (copied.title, copied.index) == (typical.title, typical.index)
    assert accepted.written_from[told.node_id] == children
    assert accepted.written_from[copied.node_id] == (typical.node_id,)


def test_without_vectors_the_first_child_names_a_part(grove: Any) -> None:
    category = grove.category(8)
    children = grove.tree.children_of(category)
    grove.vectors.clear()
    outcome = apply(grove, category, parts(children[:4], children[4:]))
    named = {outcome.tree.children_of(node.node_id): node for node in outcome.put if node.height}
    assert named[children[4:]].index == grove.tree.node(children[4]).index


def test_authority_of_a_part_is_the_lowest_of_what_was_shown(grove: Any) -> None:
    category = grove.category(7, authority="owner")
    grove.place(grove.lesson(authority="observed"), category)
    children = grove.tree.children_of(category)
    grove.accept(apply(grove, category, parts(children[:4], children[4:])))
    assert {n.authority for n in grove.tree.child_nodes(grove.tree.root_id)} == {"observed"}


def test_splitting_the_root_grows_the_tree_by_a_level(grove: Any) -> None:
    for _ in range(17):
        grove.category(1)
    root = grove.tree.root_id
    children = grove.tree.children_of(root)
    grove.accept(apply(grove, root, parts(children[:8], children[8:])))
    assert (grove.tree.root_id, grove.tree.root.height) == (root, 3)
    assert {grove.tree.children_of(key) for key in grove.tree.children_of(root)} == {
        children[:8],
        children[8:],
    }
    assert root not in {node.node_id for node in grove.tree.child_nodes(root)}
    assert grove.sound() == ()


def test_the_root_within_capacity_is_not_split(grove: Any) -> None:
    for _ in range(16):
        grove.category(1)
    children = grove.tree.children_of(grove.tree.root_id)
    chosen = parts(children[:8], children[8:])
    assert reason(apply(grove, grove.tree.root_id, chosen)) == "limit"


@pytest.mark.parametrize(
    ("cut", "expected"),
    [
        (lambda c: parts(c[:4], c[4:7]), "schema"),
        (lambda c: parts(c[:4], c[3:]), "duplicate"),
        (lambda c: parts(c[:4], (*c[4:], c[4])), "duplicate"),
        (lambda c: parts(c[:4], (*c[4:], "nobody")), "unknown_id"),
        (lambda c: parts(c[:3], c[3:]), "limit"),
        (parts, "limit"),
        (lambda c: parts(*((key,) for key in c)), "limit"),
    ],
    ids=["missing", "overlap", "repeat", "stranger", "small", "single", "crumbs"],
)
def test_a_faulty_partition_is_refused(grove: Any, cut: Any, expected: str) -> None:
    category = grove.category(9)
    children = grove.tree.children_of(category)
    assert reason(apply(grove, category, cut(children))) == expected


def test_a_part_over_capacity_is_refused(grove: Any) -> None:
    category = grove.category(21)
    children = grove.tree.children_of(category)
    assert reason(apply(grove, category, parts(children[:4], children[4:]))) == "limit"


def test_what_cannot_be_split(grove: Any) -> None:
    category = grove.category(7)
    children = grove.tree.children_of(category)
    assert reason(apply(grove, category, parts(children[:4], children[4:]))) == "limit"
    assert reason(apply(grove, children[0], parts(children[:1]))) == "scope"
    assert reason(apply(grove, "nobody", parts(children[:1]))) == "unknown_id"
