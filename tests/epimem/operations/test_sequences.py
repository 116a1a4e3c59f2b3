"""Random sequences of all operations on real trees: what must hold after every one of them."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epimem.operations import registry, repair
from epimem.operations.capacity import over_full, partition
from epimem.schema.ids import counting_ids
from epimem.schema.proposal import (
    Accepted,
    Consolidate,
    Merge,
    NewCategory,
    Part,
    Place,
    Rejection,
    SplitLift,
)
from epimem.schema.tree import Conflict, ConflictSide, Tree

KINDS = ("place", "place", "place", "merge", "split_lift", "consolidate", "remove", "settle")
FORMS = ("guidance", "procedure")


def of_height(tree: Tree, height: int) -> list[str]:
    return [node.node_id for node in tree.walk() if node.height == height]


def random_place(grove: Any, rng: random.Random) -> Place:
    polarity = rng.choice(("positive", "positive", "negative"))
    lesson = grove.lesson(f"q{rng.randrange(40)}", form=rng.choice(FORMS), polarity=polarity)
    categories = of_height(grove.tree, 1)
    if categories and rng.random() < 0.6:
        busy = max(rng.sample(categories, min(3, len(categories))), key=grove.size)
        return Place(lesson_id=lesson.node_id, category_id=busy)
    parent = rng.choice([None, *of_height(grove.tree, 2), grove.tree.root_id])
    return Place(lesson_id=lesson.node_id, new=NewCategory(title="new"), parent_id=parent)


def random_merge(grove: Any, rng: random.Random) -> Merge:
    nodes = of_height(grove.tree, 1) or [grove.tree.root_id]
    kept = rng.choice(nodes)
    others = [*grove.tree.siblings(kept), rng.choice(nodes)]
    return Merge(kept_id=kept, absorbed_id=rng.choice(others))


def random_split(grove: Any, rng: random.Random) -> SplitLift:
    inner = [node.node_id for node in grove.tree.walk() if node.height]
    broad = [key for key in inner if grove.size(key) >= 2 * grove.limits.min_group]
    node_id = rng.choice(broad if broad and rng.random() < 0.8 else inner)
    children = list(grove.tree.children_of(node_id)) or [node_id]
    rng.shuffle(children)
    smallest = grove.limits.min_group
    cut = rng.randrange(1, len(children) + 1)
    if rng.random() < 0.7 and len(children) >= 2 * smallest:
        cut = rng.randrange(smallest, len(children) - smallest + 1)
    parts = [children[:cut], children[cut:] or children[:1]]
    if rng.random() < 0.1:
        parts[0] = parts[0][1:] or parts[1]
    return SplitLift(node_id=node_id, parts=tuple(Part(child_ids=tuple(ids)) for ids in parts))


def random_consolidate(grove: Any, rng: random.Random) -> Consolidate:
    node_id = rng.choice(of_height(grove.tree, 1) or [grove.tree.root_id])
    lessons = list(grove.tree.children_of(node_id)) or [node_id]
    rng.shuffle(lessons)
    half = rng.randrange(len(lessons) + 1)
    conflicts = ()
    if half < len(lessons) and rng.random() < 0.4:
        side = ConflictSide(statement=f"not so {rng.randrange(3)}", items=(lessons[-1],))
        conflicts = (Conflict(first=ConflictSide(statement="so"), second=side),)
    return Consolidate(
        node_id=node_id,
        guidance="together" if half else "",
        supported_by=tuple(lessons[:half]),
        conflicts=conflicts,
    )


def one_operation(grove: Any, kind: str, rng: random.Random) -> Any:
    """Return a function from a context to an outcome, for the tree as it now is."""
    tree = grove.tree
    if kind == "settle":
        return lambda context: registry.settle(tree, context)
    if kind == "remove":
        wanted = [node.node_id for node in tree.walk() if node.node_id != tree.root_id]
        share = rng.choice((1, 1, 3, max(1, len(wanted) // 2)))
        chosen = rng.sample(wanted, min(share, len(wanted)))
        return lambda context: repair.remove(tree, chosen, context)
    makers = {
        "place": random_place,
        "merge": random_merge,
        "split_lift": random_split,
        "consolidate": random_consolidate,
    }
    proposal = makers[kind](grove, rng)
    return lambda context: registry.apply_proposal(tree, proposal, context)


def state_of(tree: Tree) -> tuple[Any, ...]:
    """Content and identity of everything a tree refers to."""
    nodes = sorted((key, id(node)) for key, node in tree.nodes.items())
    return tree.digest(), tree.root_id, nodes, sorted(tree.children.items())


def run_step(grove: Any, kind: str, rng: random.Random) -> Any:
    operation = one_operation(grove, kind, rng)
    before = state_of(grove.tree)
    start = rng.randrange(10**6, 10**9)
    outcome = operation(grove.context(ids=counting_ids(start)))
    again = operation(grove.context(ids=counting_ids(start)))
    assert outcome == again
    assert state_of(grove.tree) == before
    if isinstance(outcome, Accepted):
        lessons_before = {node.node_id for node in grove.tree.lessons()}
        grove.accept(outcome)
        lessons_after = {node.node_id for node in grove.tree.lessons()}
        if kind == "place":
            assert len(lessons_after - lessons_before) == 1
        if kind != "remove":
            assert lessons_before <= lessons_after
    else:
        assert isinstance(outcome, Rejection)
    return outcome


def grow(grove: Any, rng: random.Random, lessons: int) -> None:
    """Place lessons quickly; refused ones stay out."""
    for _ in range(lessons):
        proposal = random_place(grove, rng)
        outcome = registry.apply_proposal(grove.tree, proposal, grove.context())
        if isinstance(outcome, Accepted):
            grove.tree = outcome.tree


@pytest.mark.parametrize(("capacity", "steps"), [(7, 50), (16, 50)])
def test_every_sequence_keeps_every_invariant(make_grove: Any, capacity: int, steps: int) -> None:
    @settings(max_examples=20, deadline=None)
    @given(
        seed=st.integers(0, 2**32),
        kinds=st.lists(st.sampled_from(KINDS), min_size=20, max_size=steps),
    )
    def run(seed: int, kinds: list[str]) -> None:
        rng = random.Random(seed)
        grove = make_grove(capacity=capacity, seed=seed)
        grow(grove, rng, rng.randrange(80))
        for kind in kinds:
            run_step(grove, kind, rng)
        grove.settle()
        assert grove.sound() == ()
        assert over_full(grove.tree, grove.limits) == ()

    run()


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32), minimum=st.integers(2, 5))
def test_a_tree_settles_after_any_removal(make_grove: Any, seed: int, minimum: int) -> None:
    rng = random.Random(seed)
    grove = make_grove(capacity=2 * minimum - 1, min_group=minimum, seed=seed)
    grow(grove, rng, 60)
    grove.settle()
    while grove.tree.children_of(grove.tree.root_id):
        inner = [node.node_id for node in grove.tree.walk() if node.node_id != grove.tree.root_id]
        grove.accept(
            repair.remove(grove.tree, rng.sample(inner, -(-len(inner) // 4)), grove.context())
        )
        assert grove.sound() == ()
    assert grove.tree.root.height == 2


def test_a_checker_sees_a_lost_child(make_grove: Any, check_accepted: Any) -> None:
    """Sabotage twin: each of these broken outcomes must be caught by the property's checker."""
    grove = make_grove()
    category = grove.category(17)
    parts = partition(grove.tree.children_of(category), grove.vectors, limits=grove.limits)
    proposal = SplitLift(node_id=category, parts=tuple(Part(child_ids=part) for part in parts))
    good = registry.apply_proposal(grove.tree, proposal, grove.context())
    assert isinstance(good, Accepted)
    check_accepted(grove.tree, good)
    lesson = good.tree.lessons()[0]
    lost = replace(good, tree=good.tree.drop(lesson.node_id))
    twice = replace(
        good,
        tree=replace(
            good.tree,
            children=good.tree.children.insert(
                category, (*good.tree.children_of(category), lesson.node_id)
            ),
        ),
    )
    changed = lesson.model_copy(update={"title": "another"})
    rewritten = replace(good, tree=good.tree.put(changed), put=(*good.put, changed))
    short = replace(good, put=good.put[:-1])
    bloated = replace(good, put=(*good.put, grove.tree.root))
    for broken in (lost, twice, rewritten, short, bloated):
        with pytest.raises((AssertionError, KeyError)):
            check_accepted(grove.tree, broken)
