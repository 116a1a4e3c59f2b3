from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epimem.schema.ids import counting_ids
from epimem.schema.lesson import IndexText, Lesson, Statement, Support, TurnRef
from epimem.schema.tree import Conflict, ConflictSide, Node, Tree, violations

LIMITS = {"capacity": 16, "min_group": 4}


def lesson_node(node_id: str, parent_id: str, **fields: Any) -> Node:
    values = {"guidance": f"do {node_id[:8]}", "contributor": "c", "organisation": "o"}
    lesson = Lesson(**{**values, **fields})
    return Node(
        node_id=node_id,
        namespace="tests",
        kind="lesson",
        parent_id=parent_id,
        form=lesson.form,
        audience=lesson.audience,
        lesson=lesson,
    )


def category(node_id: str, parent_id: str | None, height: int = 1, **fields: Any) -> Node:
    values: dict[str, Any] = {"form": "guidance"} if height == 1 else {}
    return Node(
        node_id=node_id,
        namespace="tests",
        kind="category",
        height=height,
        parent_id=parent_id,
        **{**values, **fields},
    )


def nodes_of(texts: list[list[str]], start: int = 0) -> list[Node]:
    """Make a root, one category per list and one lesson per text; ids count from `start`."""
    ids = counting_ids(start)
    root = category(ids(), None, 2)
    nodes = [root]
    for number, group in enumerate(texts):
        inner = category(ids(), root.node_id, title=f"group {number}")
        nodes.append(inner)
        nodes += [lesson_node(ids(), inner.node_id, guidance=text) for text in group]
    return nodes


def tree_of(texts: list[list[str]], start: int = 0) -> Tree:
    nodes = nodes_of(texts, start)
    return Tree.build(nodes, nodes[0].node_id)


TEXTS = [["one", "two"], ["three"], ["four", "five", "six"]]


def test_a_built_tree_is_sound_and_walks_parents_first() -> None:
    tree = tree_of(TEXTS)
    assert violations(tree, **LIMITS) == ()
    order = [node.node_id for node in tree.walk()]
    assert order == sorted(tree.nodes)
    assert [node.lesson.guidance for node in tree.lessons() if node.lesson] == [
        *TEXTS[0],
        *TEXTS[1],
        *TEXTS[2],
    ]
    last = tree.lessons()[-1]
    assert [node.height for node in tree.path(last.node_id)] == [2, 1, 0]
    assert len(tree.siblings(last.node_id)) == 2
    assert tree.siblings(tree.root_id) == ()
    assert last.node_id in tree
    assert "nobody" not in tree


@settings(max_examples=40, deadline=None)
@given(
    texts=st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4), max_size=5),
    seed=st.integers(0, 999),
)
def test_trees_of_the_same_nodes_are_equal_however_they_came_about(
    texts: list[list[str]], seed: int
) -> None:
    nodes = nodes_of(texts)
    built = Tree.build(nodes, nodes[0].node_id)
    rest = nodes[1:]
    random.Random(seed).shuffle(rest)
    grown = Tree.empty(nodes[0])
    for node in rest:
        grown = grown.put(node)
    assert grown == built
    assert grown.digest() == built.digest()
    assert built.put(*rest) == built


@settings(max_examples=40, deadline=None)
@given(
    texts=st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4), max_size=5),
    seed=st.integers(0, 999),
)
def test_the_digest_ignores_ids_and_order(texts: list[list[str]], seed: int) -> None:
    titled = tree_of(texts)
    other = tree_of(texts, start=10**9)
    assert other.digest() == titled.digest()
    shuffled = [random.Random(seed).sample(group, len(group)) for group in texts]
    assert tree_of(shuffled).digest() == titled.digest()


def changed(field: str, value: Any) -> Tree:
    tree = tree_of(TEXTS)
    node = tree.child_nodes(tree.root_id)[0]
    return tree.put(node.model_copy(update={field: value}))


CONFLICT = Conflict(first=ConflictSide(statement="a"), second=ConflictSide(statement="b"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("title", "other"),
        ("kind", "rule"),
        ("guidance", "do"),
        ("guidance_polarity", "negative"),
        ("applies_when", "always"),
        ("cautions", ("mind",)),
        ("index", IndexText(scope="s")),
        ("authority", "owner"),
        ("audience", ("ann",)),
        ("conflicts", (CONFLICT,)),
        ("conflicts", (CONFLICT.model_copy(update={"leader": "first"}),)),
    ],
)
def test_the_digest_sees_content(field: str, value: Any) -> None:
    assert changed(field, value).digest() != tree_of(TEXTS).digest()


def test_every_change_of_content_has_its_own_digest() -> None:
    whole = tree_of(TEXTS)
    moved = whole.lessons()[0].model_copy(update={"parent_id": whole.children_of(whole.root_id)[1]})
    trees = [
        whole,
        tree_of([["one", "two"], ["three"], ["four", "five", "six!"]]),
        tree_of([["one", "two"], ["three"], ["four", "five"]]),
        whole.put(moved),
        changed("conflicts", (CONFLICT,)),
        changed("conflicts", (CONFLICT.model_copy(update={"leader": "second"}),)),
    ]
    assert len({tree.digest() for tree in trees}) == len(trees)


def test_the_digest_ignores_ids_inside_a_node() -> None:
    def variant(run_id: str) -> Tree:
        root = category("root", None, 2)
        side = ConflictSide(statement="s", items=(run_id,))
        inner = category(
            "inner",
            "root",
            supported_by=(run_id,),
            conflicts=(Conflict(first=side, second=side),),
        )
        leaf = lesson_node(
            "leaf",
            "inner",
            run_ids=(run_id,),
            parents=(run_id,),
            supports=(Support(question_key="q", run_id=run_id),),
            statements=(Statement(text="t", turns=(TurnRef(run_id=run_id, seq=1),)),),
        )
        return Tree.build([root, inner, leaf], "root")

    assert variant("a").digest() == variant("b").digest()


def test_a_move_changes_both_lists_of_children() -> None:
    tree = tree_of(TEXTS)
    first, second, _ = tree.children_of(tree.root_id)
    moved = tree.children_of(second)[0]
    after = tree.put(tree.node(moved).model_copy(update={"parent_id": first}))
    assert after.children_of(second) == ()
    assert moved in after.children_of(first)
    assert moved in tree.children_of(second)


def test_a_dropped_node_leaves_no_trace() -> None:
    nodes = nodes_of(TEXTS)
    tree = Tree.build(nodes, nodes[0].node_id)
    first = tree.children_of(tree.root_id)[0]
    after = tree.drop(*tree.children_of(first), first)
    assert after == Tree.build([node for node in nodes if node.node_id in after], nodes[0].node_id)
    assert violations(after, **LIMITS) == ()
    with pytest.raises(KeyError):
        after.node(first)


def test_a_shelf_is_form_and_sorted_audience() -> None:
    leaf = lesson_node("leaf", "inner", form="profile", audience=("zoe", "ann"))
    inner = category("inner", None, form="profile", audience=("zoe", "ann"))
    assert leaf.shelf == inner.shelf == ("profile", ("ann", "zoe"))
    assert category("x", None, 2).shelf == (None, ())


def test_a_node_speaks_with_the_polarity_of_its_guidance() -> None:
    assert lesson_node("leaf", "inner", polarity="negative").polarity == "negative"
    assert category("x", None, guidance_polarity="negative").polarity == "negative"
    assert category("x", None).polarity == "positive"


def test_levels_follow_kinds() -> None:
    kinds = {"category": 0, "summary": 1, "rule": 2}
    for kind, level in kinds.items():
        assert category("x", None).model_copy(update={"kind": kind}).level == level
    assert lesson_node("leaf", "x").level == 0


def broken(**changes: Any) -> Tree:
    """Return a sound tree with fields of its first category changed."""
    tree = tree_of(TEXTS)
    node = tree.child_nodes(tree.root_id)[0].model_copy(update=changes)
    return Tree(tree.root_id, tree.nodes.insert(node.node_id, node), tree.children)


def relinked(parent: int, *children: int) -> Tree:
    """Return a sound tree where the node at one place of the walk lists other children."""
    tree = tree_of(TEXTS)
    order = [node.node_id for node in tree.walk()]
    listed = tuple(order[at] if at < len(order) else "nobody" for at in children)
    return Tree(tree.root_id, tree.nodes, tree.children.insert(order[parent], listed))


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (broken(height=2), "height 2 under height 2"),
        (broken(namespace="other"), "namespace differs"),
        (broken(form="note"), "form or audience differs"),
        (broken(kind="lesson"), "kind, lesson and height disagree"),
        (broken(parent_id="nobody"), "parent is nobody"),
        (relinked(0, 1, 4), "not reached"),
        (relinked(0, 1, 4, 6, 99), "dangling"),
        (relinked(1, 2, 3, 0), "reached twice"),
        (relinked(1, 2, 3, 1), "reached twice"),
        (relinked(2, 5), "a lesson has children"),
        (relinked(4, 5, 2), "reached twice"),
    ],
    ids=lambda value: value if isinstance(value, str) else "tree",
)
def test_every_broken_invariant_is_named(tree: Tree, words: str) -> None:
    assert any(words in line for line in violations(tree, **LIMITS))


def test_sizes_and_roots_are_checked() -> None:
    wide = tree_of([["a"]] * 17)
    assert any("over capacity" in line for line in violations(wide, **LIMITS))
    root = category("root", None, 3)
    middle = category("middle", "root", 2)
    inner = category("inner", "middle")
    small = Tree.build([root, middle, inner], "root")
    found = violations(small, **LIMITS)
    assert any("only 1 children" in line for line in found)
    assert any("empty category" in line for line in found)
    for bad in ({"height": 1}, {"kind": "rule"}, {"parent_id": "root"}):
        tree = Tree.empty(root.model_copy(update=bad))
        assert any("the root must be" in line for line in violations(tree, **LIMITS))
