"""The tree of one namespace: immutable nodes in persistent maps, walked iteratively.

Leaves are lessons (height 0). Categories of lessons have height 1, groups of categories height 2
and more; all children of a node have equal height. The root is a category and never becomes a rule.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import Field
from rpds import HashTrieMap

from epimem.schema import strict_json
from epimem.schema.base import Record, StrictInt
from epimem.schema.ids import sha256
from epimem.schema.lesson import Authority, Form, IndexText, Lesson, Polarity
from epimem.schema.text import LessonText, NameText, TitleText

Kind = Literal["category", "summary", "rule", "lesson"]


class ConflictSide(Record):
    """One side of a conflict: its statement, its conditions, and who stood for it.

    `items` are the lessons on that side; `later` are distinct question keys that came in after the
    conflict opened.
    """

    statement: LessonText
    applies_when: LessonText = ""
    items: tuple[str, ...] = ()
    later: tuple[str, ...] = ()


class Conflict(Record):
    """Two statements that cannot both hold: `first` the guidance as it stands, `second` the other.

    `settled` is set by review and overrides the count of later questions. `leader` is the side that
    was the last to lead by three later questions; it stays until the other leads by three. `known`
    are the question keys that the category held when the conflict opened: those are not "later".
    """

    first: ConflictSide
    second: ConflictSide
    settled: Literal["first", "second"] | None = None
    leader: Literal["first", "second"] | None = None
    known: tuple[str, ...] = ()


class Node(Record):
    """One node: `lesson` is set exactly for kind `lesson`, guidance fields only for other kinds.

    `parent_id` is None for a root and for a lesson still in the inbox. `supported_by` lists the
    lessons below whose runs yielded the guidance, and `guidance_polarity` is theirs; `level` is
    0 category, 1 summary, 2 rule. `authority` is the lowest over what the node's text was written
    from.
    """

    node_id: str
    namespace: NameText
    kind: Kind
    height: StrictInt = Field(default=0, ge=0)
    parent_id: str | None = None
    title: TitleText = ""
    index: IndexText = IndexText()
    form: Form | None = None
    audience: tuple[NameText, ...] = ()
    authority: Authority = "none"
    guidance: LessonText = ""
    guidance_polarity: Polarity = "positive"
    applies_when: LessonText = ""
    cautions: tuple[LessonText, ...] = ()
    supported_by: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    consolidated_at: StrictInt = Field(default=0, ge=0)
    lesson: Lesson | None = None

    @property
    def level(self) -> Literal[0, 1, 2]:
        """Rule abstraction: 0 category or lesson, 1 summary, 2 rule."""
        return {"summary": 1, "rule": 2}.get(self.kind, 0)  # type: ignore[return-value]

    @property
    def shelf(self) -> tuple[Form | None, tuple[str, ...]]:
        """Form and sorted audience: what never mixes in one category of lessons."""
        if self.lesson is not None:
            return lesson_shelf(self.lesson)
        return self.form, tuple(sorted(self.audience))

    @property
    def polarity(self) -> Polarity:
        """Whether the guidance says what to do, or what was judged wrong."""
        return self.lesson.polarity if self.lesson is not None else self.guidance_polarity

    def content(self) -> bytes:
        """Return the canonical content for the state digest: no ids, parents, times or usage."""
        plain = self.plain()
        for name in ("node_id", "parent_id", "namespace", "supported_by", "consolidated_at"):
            plain.pop(name, None)
        for conflict in plain.get("conflicts", ()):
            for side in ("first", "second"):
                conflict[side].pop("items", None)
        if "lesson" in plain:
            _strip_ids(plain["lesson"])
        return strict_json.dumps(plain)


def _strip_ids(lesson: dict[str, Any]) -> None:
    for name in ("run_ids", "parents"):
        lesson.pop(name, None)
    for support in lesson.get("supports", ()):
        support.pop("run_id", None)
    for part in (*lesson.get("evidence", ()), *lesson.get("statements", ())):
        part.pop("run_id", None)
        for turn in (part.get("turn"), *part.get("turns", ())):
            if turn:
                turn.pop("run_id", None)


@dataclass(frozen=True)
class Tree:
    """An immutable tree; `children` maps each inner node to its children's ids.

    Ids of children are sorted, which is their order of creation: two trees of the same nodes are
    equal, however they came about.
    """

    root_id: str
    nodes: HashTrieMap[str, Node]
    children: HashTrieMap[str, tuple[str, ...]]

    @classmethod
    def empty(cls, root: Node) -> Self:
        """Return a tree of one root."""
        return cls(root.node_id, HashTrieMap({root.node_id: root}), HashTrieMap())

    @classmethod
    def build(cls, nodes: Iterable[Node], root_id: str) -> Self:
        """Return the tree of `nodes`; children are ordered by id, which is order of creation."""
        table = {node.node_id: node for node in nodes}
        below: dict[str, list[str]] = {}
        for node_id in sorted(table):
            parent = table[node_id].parent_id
            if parent is not None:
                below.setdefault(parent, []).append(node_id)
        return cls(
            root_id,
            HashTrieMap(table),
            HashTrieMap({key: tuple(value) for key, value in below.items()}),
        )

    def __contains__(self, node_id: object) -> bool:
        return node_id in self.nodes

    def node(self, node_id: str) -> Node:
        """Return a node; KeyError when the tree has none of that id."""
        return self.nodes[node_id]

    @property
    def root(self) -> Node:
        """The root node."""
        return self.nodes[self.root_id]

    def children_of(self, node_id: str) -> tuple[str, ...]:
        """Return the ids of the children, empty for a leaf."""
        return self.children.get(node_id) or ()

    def child_nodes(self, node_id: str) -> tuple[Node, ...]:
        """Return the children themselves."""
        return tuple(self.nodes[child] for child in self.children_of(node_id))

    def siblings(self, node_id: str) -> tuple[str, ...]:
        """Return the other children of the parent."""
        parent = self.nodes[node_id].parent_id
        if parent is None:
            return ()
        return tuple(child for child in self.children_of(parent) if child != node_id)

    def walk(self, start: str | None = None) -> Iterator[Node]:
        """Yield nodes depth first, parents before children."""
        stack = [start or self.root_id]
        while stack:
            node_id = stack.pop()
            yield self.nodes[node_id]
            stack.extend(reversed(self.children_of(node_id)))

    def lessons(self, start: str | None = None) -> tuple[Node, ...]:
        """Return the lessons at or below a node, in walking order."""
        return tuple(node for node in self.walk(start) if node.kind == "lesson")

    def path(self, node_id: str) -> tuple[Node, ...]:
        """Return the nodes from the root down to this one."""
        nodes = []
        current: str | None = node_id
        while current is not None:
            nodes.append(self.nodes[current])
            current = self.nodes[current].parent_id
        return tuple(reversed(nodes))

    def put(self, *nodes: Node) -> Tree:
        """Return the tree with these nodes added or replaced, children lists following parents."""
        table, below = self.nodes, self.children
        for node in nodes:
            old = table.get(node.node_id)
            if old is not None and old.parent_id != node.parent_id:
                below = _without_child(below, old)
            if node.parent_id is not None and (old is None or old.parent_id != node.parent_id):
                siblings = below.get(node.parent_id) or ()
                at = bisect(siblings, node.node_id)
                below = below.insert(node.parent_id, (*siblings[:at], node.node_id, *siblings[at:]))
            table = table.insert(node.node_id, node)
        return Tree(self.root_id, table, below)

    def drop(self, *node_ids: str) -> Tree:
        """Return the tree without these nodes; their children must have been moved before."""
        table, below = self.nodes, self.children
        for node_id in node_ids:
            below = _without_child(below, table[node_id])
            table = table.remove(node_id)
            if node_id in below:
                below = below.remove(node_id)
        return Tree(self.root_id, table, below)

    def digest(self) -> str:
        """Return the SHA-256 of the canonical tree: content and sorted children, bottom up."""
        order = list(self.walk())
        digests: dict[str, str] = {}
        for node in reversed(order):
            below = sorted(digests[child] for child in self.children_of(node.node_id))
            digests[node.node_id] = sha256(node.content() + "".join(below).encode("ascii"))
        return digests[self.root_id]


def _without_child(
    below: HashTrieMap[str, tuple[str, ...]], node: Node
) -> HashTrieMap[str, tuple[str, ...]]:
    if node.parent_id is None or node.parent_id not in below:
        return below
    rest = tuple(child for child in below[node.parent_id] if child != node.node_id)
    return below.insert(node.parent_id, rest) if rest else below.remove(node.parent_id)


def violations(tree: Tree, *, capacity: int, min_group: int) -> tuple[str, ...]:
    """Return every broken invariant in words; empty for a sound tree.

    Checked: one root; every node reached exactly once (no cycle, no second parent, no dangling id);
    one namespace; heights of children one less than their parent's; no node over capacity; inner
    nodes above height 1 (the root excepted) hold at least `min_group` children; one form and
    audience per category of lessons; lessons are leaves.
    """
    found: list[str] = []
    seen: set[str] = set()
    stack = [tree.root_id]
    while stack:
        node_id = stack.pop()
        if node_id in seen:
            found.append(f"{node_id}: reached twice")
            continue
        seen.add(node_id)
        if node_id not in tree.nodes:
            found.append(f"{node_id}: dangling")
            continue
        node, children = tree.nodes[node_id], tree.children_of(node_id)
        found += _node_violations(tree, node, len(children), (capacity, min_group))
        for child_id in children:
            if child_id in tree.nodes:
                found += _child_violations(node, tree.nodes[child_id])
        stack.extend(children)
    found += [f"{key}: not reached from the root" for key in sorted(tree.nodes) if key not in seen]
    return tuple(found)


def _node_violations(tree: Tree, node: Node, size: int, limits: tuple[int, int]) -> list[str]:
    capacity, min_group = limits
    name, found = node.node_id, []
    if not (node.kind == "lesson") == (node.lesson is not None) == (node.height == 0):
        found.append(f"{name}: kind, lesson and height disagree")
    if node.kind == "lesson" and size:
        found.append(f"{name}: a lesson has children")
    if size > capacity:
        found.append(f"{name}: {size} children over capacity {capacity}")
    if name == tree.root_id:
        if node.kind != "category" or node.height < 2 or node.parent_id is not None:
            found.append(f"{name}: the root must be a category of height 2 or more")
    elif node.height >= 2 and size < min_group:
        found.append(f"{name}: only {size} children")
    elif node.height == 1 and not size:
        found.append(f"{name}: empty category")
    return found


def _child_violations(node: Node, child: Node) -> list[str]:
    name, found = child.node_id, []
    if child.parent_id != node.node_id:
        found.append(f"{name}: parent is {child.parent_id}, listed under {node.node_id}")
    if child.height != node.height - 1:
        found.append(f"{name}: height {child.height} under height {node.height}")
    if child.namespace != node.namespace:
        found.append(f"{name}: namespace differs from its parent's")
    if node.height == 1 and child.shelf != node.shelf:
        found.append(f"{name}: form or audience differs from its category's")
    return found


def lesson_shelf(lesson: Lesson) -> tuple[Form, tuple[str, ...]]:
    """Return form and audience of a lesson, audience sorted."""
    return lesson.form, tuple(sorted(lesson.audience))


def family_of(lessons: Sequence[Node]) -> str:
    """Return the family of a group: that of its first lesson which names one."""
    return next((node.lesson.family for node in lessons if node.lesson and node.lesson.family), "")
