"""Real nodes, trees and a checker of everything an applied operation must keep."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from epimem.operations import place, registry
from epimem.operations.base import Context, Limits
from epimem.schema.ids import counting_ids
from epimem.schema.lesson import IndexText, Lesson, Support
from epimem.schema.proposal import Accepted, NewCategory, Place
from epimem.schema.tree import Node, Tree, violations

NAMESPACE = "tests"
DIMENSION = 8


class Grove:
    """Makes lessons, vectors and trees from one id generator; keeps what it made."""

    def __init__(self, *, capacity: int = 16, min_group: int = 4, seed: int = 0) -> None:
        self.limits = Limits(capacity, min_group)
        self.ids = counting_ids()
        self.random = random.Random(seed)
        self.vectors: dict[str, Any] = {}
        self.inbox: dict[str, Node] = {}
        root = Node(node_id=self.ids(), namespace=NAMESPACE, kind="category", height=2)
        self.tree = Tree.empty(root)

    def context(self, **changes: Any) -> Context:
        fields = {
            "ids": self.ids,
            "limits": self.limits,
            "vectors": self.vectors,
            "inbox": self.inbox,
        }
        return Context(**{**fields, **changes})

    def vector(self, node_id: str) -> None:
        raw = [self.random.gauss(0, 1) for _ in range(DIMENSION)]
        self.vectors[node_id] = np.array(raw, dtype=np.float32) / np.float32(math.hypot(*raw))

    def lesson(self, question: str = "", **fields: Any) -> Node:
        """Make a lesson in the inbox; `fields` go to the lesson, `question` becomes its support."""
        node_id = self.ids()
        source = fields.pop("verdict_source", "oracle")
        organisation = fields.pop("organisation", "one")
        supports = (
            Support(
                question_key=question or node_id,
                verdict_source=source,
                organisation=organisation,
            ),
        )
        values = {
            "guidance": f"do {node_id}",
            "title": f"lesson {node_id[-4:]}",
            "index": IndexText(topic="topic", scope="scope", question_anchor=node_id),
            "contributor": "somebody",
            "organisation": organisation,
            "supports": supports,
        }
        lesson = Lesson(**{**values, **fields})
        node = Node(
            node_id=node_id,
            namespace=NAMESPACE,
            kind="lesson",
            form=lesson.form,
            audience=tuple(sorted(lesson.audience)),
            authority=lesson.authority,
            index=lesson.index,
            title=lesson.title,
            lesson=lesson,
        )
        self.inbox[node_id] = node
        self.vector(node_id)
        return node

    def accept(self, outcome: Any) -> Accepted:
        """Check an outcome that must have been accepted and go on from its tree."""
        assert isinstance(outcome, Accepted), outcome
        check(self.tree, outcome, self.limits.min_group)
        self.tree = outcome.tree
        for node in outcome.put:
            if node.node_id not in self.vectors and self.random.random() < 0.8:
                self.vector(node.node_id)
        return outcome

    def place(self, lesson: Node, category_id: str | None = None) -> str:
        """Place a lesson (in a new category by default) and return its category."""
        new = NewCategory(title="a category") if category_id is None else None
        proposal = Place(lesson_id=lesson.node_id, category_id=category_id, new=new)
        self.accept(place.apply(self.tree, proposal, self.context()))
        parent = self.tree.node(lesson.node_id).parent_id
        assert parent is not None
        return parent

    def category(self, size: int, **fields: Any) -> str:
        """Make a category of new lessons and return its id."""
        category_id = self.place(self.lesson(**fields))
        for _ in range(size - 1):
            self.place(self.lesson(**fields), category_id)
        return category_id

    def size(self, node_id: str) -> int:
        return len(self.tree.children_of(node_id))

    def settle(self) -> Accepted:
        return self.accept(registry.settle(self.tree, self.context()))

    def sound(self) -> tuple[str, ...]:
        limits = self.limits
        return violations(self.tree, capacity=limits.capacity, min_group=limits.min_group)


def check(before: Tree, accepted: Accepted, min_group: int = 4) -> None:
    """Everything that holds after any accepted operation, over capacity or not."""
    after = accepted.tree
    assert violations(after, capacity=10**6, min_group=1) == ()
    _check_delta(before, accepted)
    gone = set(accepted.dropped)
    for old in before.lessons():
        if old.node_id in gone:
            continue
        new = after.node(old.node_id)
        assert new.lesson is old.lesson
        assert new.model_copy(update={"parent_id": old.parent_id}) == old
    reached = Counter(node.node_id for node in after.walk())
    assert set(reached) == set(after.nodes)
    assert set(reached.values()) == {1}
    check_depth(after, min_group)


def _check_delta(before: Tree, accepted: Accepted) -> None:
    after = accepted.tree
    assert before.put(*accepted.put).drop(*accepted.dropped) == after
    assert Tree.build([node for _, node in after.nodes.items()], after.root_id) == after
    for node in accepted.put:
        assert node.node_id not in before or before.node(node.node_id) != node
    assert all(node_id in before and node_id not in after for node_id in accepted.dropped)
    for node_id, sources in accepted.written_from.items():
        assert node_id in after
        assert sources
        assert all(source in before or source in after for source in sources)


def check_depth(tree: Tree, min_group: int) -> None:
    """Levels <= 3 + log(categories) to the base of the smallest group."""
    categories = sum(node.height == 1 for node in tree.walk())
    assert tree.root.height + 1 <= 3 + math.log(max(1, categories), min_group) + 1e-9


def ids_of(nodes: Iterable[Node]) -> set[str]:
    return {node.node_id for node in nodes}


@pytest.fixture(scope="session")
def make_grove() -> type[Grove]:
    return Grove


@pytest.fixture(scope="session")
def check_accepted() -> Any:
    return check


@pytest.fixture
def grove() -> Grove:
    return Grove()
