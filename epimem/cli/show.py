"""`epimem show`: the tree of a bank, or one node of it in full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from epimem.cli.options import bank_argument, command, json_option, namespace_option, open_bank
from epimem.cli.output import draw, draws, emit, note, one_line, visible
from epimem.errors import NotFoundError

if TYPE_CHECKING:
    from rich.tree import Tree as Drawing

    from epimem.memory import ExperienceMemory
    from epimem.operations.rules import Standing
    from epimem.schema.tree import Node, Tree

HEADING = 100
CHILDREN, NODES, INBOX = 16, 200, 5
_SIGNS = {"category": "▸", "summary": "≡", "rule": "★", "lesson": "·"}


@dataclass(frozen=True)
class Shown:
    """A node to show: its depth under the start, the children shown, and how many are not."""

    node: Node
    depth: int
    children: tuple[str, ...]
    hidden: int


@command(
    "show",
    summary="Show the tree of a bank, or one node in full.",
    text="Draws kinds, titles, support and counts on a terminal, the upper levels first: at most "
    "16 children a node and 200 nodes, so that a large bank does not flood the screen; --depth "
    "and --children set other bounds. Elsewhere it prints one JSON line a node, and bounds only "
    "what they are asked to.\n\n"
    "With NODE_ID it shows that node with its guidance, evidence, provenance and derivation. --at "
    "shows a snapshot or sequence number.",
    examples=(
        "epimem show my-bank",
        "epimem show my-bank --depth 1 --at before-import",
        "epimem show my-bank NODE_ID",
    ),
)
@bank_argument
@click.argument("node_id", metavar="[NODE_ID]", required=False)
@click.option("--at", metavar="POINT", help="A snapshot or sequence number; now by default.")
@namespace_option
@click.option("--depth", type=click.IntRange(min=0), metavar="N", help="Levels below the start.")
@click.option(
    "--children", type=click.IntRange(min=1), metavar="N", help="Most children shown of a node."
)
@json_option
def show(
    bank: Path,
    node_id: str | None,
    at: str | None,
    namespace: str | None,
    depth: int | None,
    children: int | None,
    as_json: bool,  # noqa: FBT001 - a flag of click
) -> None:
    """Show the tree or a node."""
    drawn = draws(as_json)
    with open_bank(bank, read_only=True) as memory:
        tree = memory.tree(namespace, at)
        if node_id is not None:
            _show_node(memory, tree, node_id, at, drawn=drawn)
            return
        space = namespace or memory.config.namespace
        waiting = memory.bank.inbox(space, limit=INBOX) if at is None else ()
        size = memory.bank.waiting(space) if at is None else 0
        if tree is None and not size:
            _say_empty(memory, space)
            return
        shown = _chosen(tree, depth, children, drawn=drawn) if tree is not None else []
        facts = Facts(memory, tree, [item.node for item in shown])
        if drawn:
            _draw_tree(shown, facts, waiting, size)
        else:
            for item in shown:
                emit(facts.values(item))
            _emit_inbox(memory, space, size, facts)


def heading(node: Node) -> str:
    """Return what to call a node: its title, topic, or the start of its guidance."""
    guidance = node.lesson.guidance if node.lesson is not None else node.guidance
    text = one_line(node.title or node.index.topic or guidance or node.index.scope)
    return text if len(text) <= HEADING else text[: HEADING - 1] + "…"


def _say_empty(memory: ExperienceMemory, namespace: str) -> None:
    others = [name for name in memory.bank.namespaces() if name != namespace]
    more = f"; other namespaces: {', '.join(others)}" if others else ""
    note(f"epimem: nothing is stored in the namespace {namespace}{more}")


def _chosen(tree: Tree, depth: int | None, children: int | None, *, drawn: bool) -> list[Shown]:
    """Return the nodes to show, parents before children; upper levels come before deeper ones."""
    per_node = children or (CHILDREN if drawn else None)
    room = NODES if drawn and depth is None and children is None else None
    picked: dict[str, tuple[str, ...]] = {}
    level = [tree.root_id]
    count, below = 1, 0
    while level:
        following: list[str] = []
        for key in level:
            wanted = tree.children_of(key)[:per_node] if depth is None or below < depth else ()
            if room is not None:
                wanted = wanted[: max(0, room - count)]
            count += len(wanted)
            picked[key] = wanted
            following += wanted
        level, below = following, below + 1
    return list(_ordered(tree, picked))


def _ordered(tree: Tree, picked: Mapping[str, tuple[str, ...]]) -> Iterator[Shown]:
    stack = [(tree.root_id, 0)]
    while stack:
        key, depth = stack.pop()
        children = picked[key]
        hidden = len(tree.children_of(key)) - len(children)
        yield Shown(tree.node(key), depth, children, hidden)
        stack.extend((child, depth + 1) for child in reversed(children))


class Facts:
    """Support, sizes and usage of the nodes that are shown.

    Args:
        memory: the bank.
        tree: of the namespace, None where there is none.
        nodes: that are shown.
    """

    def __init__(self, memory: ExperienceMemory, tree: Tree | None, nodes: Sequence[Node]) -> None:
        self._tree = tree
        self._lessons = _lesson_counts(tree) if tree is not None else {}
        items = [node for node in nodes if node.kind != "category"]
        self._standing: Mapping[str, Standing] = memory.bank.standing(
            [(node.node_id, node.namespace, self._family(node)) for node in items]
        )

    def _family(self, node: Node) -> str:
        from epimem.schema.tree import family_of

        if node.lesson is not None:
            return node.lesson.family
        return family_of(self._tree.child_nodes(node.node_id)) if self._tree is not None else ""

    def support(self, node: Node) -> int:
        """Return how many distinct questions stand behind a node."""
        from epimem.operations.rules import support

        if node.lesson is not None:
            return support([node])
        below = self._tree.lessons(node.node_id) if self._tree is not None else ()
        named = [lesson for lesson in below if lesson.node_id in set(node.supported_by)]
        return support(named if node.level else below) if node.height == 1 else 0

    def values(self, item: Shown) -> dict[str, Any]:
        """Return one node as JSON data."""
        node = item.node
        values: dict[str, Any] = {
            "node_id": node.node_id,
            "parent_id": node.parent_id,
            "depth": item.depth,
            "kind": node.kind,
            "title": heading(node),
            "form": node.form,
            "polarity": node.polarity,
            "authority": node.authority,
            "support": self.support(node),
            "children": len(item.children) + item.hidden,
            "lessons": self._lessons.get(node.node_id, 0),
        }
        standing = self._standing.get(node.node_id)
        if standing is not None:
            values |= {
                name: getattr(standing, name)
                for name in ("helped", "hurt", "used_right", "used_wrong")
            }
        return values

    def words(self, item: Shown) -> str:
        """Return the counts of a node in words."""
        node, parts = item.node, []
        if node.height:
            parts.append(f"{self._lessons.get(node.node_id, 0)} lessons")
        if node.polarity == "negative" and node.kind != "category":
            parts.append("caution")
        if node.height <= 1:
            parts.append(f"support {self.support(node)}")
        if node.lesson is not None:
            parts += [f"folded {node.lesson.folded}"] if node.lesson.folded else []
            parts += [f"evidence {len(node.lesson.evidence)}"] if node.lesson.evidence else []
        parts += [f"conflicts {len(node.conflicts)}"] if node.conflicts else []
        standing = self._standing.get(node.node_id)
        if standing is not None:
            parts += _usage(standing)
        return ", ".join(parts)


def _usage(standing: Standing) -> list[str]:
    parts = []
    if standing.helped or standing.hurt:
        parts.append(f"helped {standing.helped}, hurt {standing.hurt}")
    used = standing.used_right + standing.used_wrong
    if used:
        parts.append(f"right in {standing.used_right} of {used} uses")
    return parts


def _lesson_counts(tree: Tree) -> dict[str, int]:
    counts: dict[str, int] = {}
    for node in reversed(list(tree.walk())):
        if node.kind == "lesson":
            counts[node.node_id] = 1
        else:
            counts[node.node_id] = sum(counts[child] for child in tree.children_of(node.node_id))
    return counts


def _draw_tree(shown: Sequence[Shown], facts: Facts, waiting: Sequence[Node], size: int) -> None:
    from rich.console import Group
    from rich.tree import Tree as Drawing

    parts: list[Drawing] = []
    branches: dict[str, Drawing] = {}
    for item in shown:
        label = _label(item, facts)
        parent = branches.get(item.node.parent_id or "")
        if parent is None:
            branch = Drawing(label)
            parts.append(branch)
        else:
            branch = parent.add(label)
        branches[item.node.node_id] = branch
    for item in shown:
        if item.hidden:
            branches[item.node.node_id].add(f"… {item.hidden} more")
    if size:
        inbox = Drawing(f"inbox: {size} lessons wait for `epimem maintain`")
        for node in waiting:
            inbox.add(_label(Shown(node, 0, (), 0), facts))
        if size > len(waiting):
            inbox.add(f"… {size - len(waiting)} more")
        parts.append(inbox)
    draw(Group(*parts))


def _label(item: Shown, facts: Facts) -> Any:
    from rich.text import Text

    node = item.node
    name = heading(node) or (node.namespace if node.parent_id is None else "(no name)")
    label = Text(f"{_SIGNS[node.kind]} ")
    if node.kind in {"summary", "rule"}:
        label.append(f"{node.kind}: ", style="bold")
    label.append(visible(name))
    label.append(f"  {facts.words(item)}", style="cyan")
    label.append(f"  {node.node_id}", style="dim")
    return label


def _emit_inbox(memory: ExperienceMemory, namespace: str, size: int, facts: Facts) -> None:
    for node in memory.bank.inbox(namespace, limit=size) if size else ():
        emit({**facts.values(Shown(node, 0, (), 0)), "inbox": True})


def _show_node(
    memory: ExperienceMemory, tree: Tree | None, node_id: str, at: str | None, *, drawn: bool
) -> None:
    if at is None:
        node = memory.bank.node(node_id)
        if node.namespace != memory.config.namespace or tree is None or node_id not in tree:
            tree = memory.tree(node.namespace)
    elif tree is not None and node_id in tree:
        node = tree.node(node_id)
    else:
        raise NotFoundError("no such node in this tree", field="NODE_ID", got=node_id)
    values = node_values(memory, tree, node)
    if drawn:
        _draw_node(values)
    else:
        emit(values)


def node_values(memory: ExperienceMemory, tree: Tree | None, node: Node) -> dict[str, Any]:
    """Return a node in full: the record, its place, its children, and what it was made from."""
    placed = tree is not None and node.node_id in tree
    facts = Facts(memory, tree if placed else None, [node])
    children = tree.child_nodes(node.node_id) if tree is not None and placed else ()
    lesson = node.lesson
    sources = list(lesson.run_ids) if lesson is not None else []
    states = memory.bank.run_states(sources) if sources else {}
    values = facts.values(Shown(node, 0, tuple(child.node_id for child in children), 0))
    values["depth"] = len(tree.path(node.node_id)) - 1 if tree is not None and placed else None
    return values | {
        "namespace": node.namespace,
        "path": _path(tree, node) if placed else [],
        "record": node.plain(),
        "child_nodes": [
            {"node_id": child.node_id, "kind": child.kind, "title": heading(child)}
            for child in children
        ],
        "derived_from": {
            "runs": {key: states[key][0] if key in states else "gone" for key in sources},
            "items": list(lesson.parents if lesson is not None else node.supported_by),
            "images": sorted({item.image_id for item in lesson.evidence}) if lesson else [],
        },
    }


def _path(tree: Tree | None, node: Node) -> list[dict[str, str]]:
    above = tree.path(node.node_id)[:-1] if tree is not None else ()
    return [{"node_id": each.node_id, "title": heading(each)} for each in above]


def _draw_node(values: Mapping[str, Any]) -> None:
    from rich.text import Text
    from rich.tree import Tree as Drawing

    title = f"{_SIGNS[values['kind']]} {values['kind']}: {values['title']}"
    drawing = Drawing(Text(visible(title), style="bold"))
    counts = ("support", "lessons", "helped", "hurt", "used_right", "used_wrong")
    _add(drawing, "node", values["node_id"])
    _add(drawing, "place", " / ".join(step["title"] or "root" for step in values["path"]))
    _add(drawing, "counts", ", ".join(f"{key} {values[key]}" for key in counts if key in values))
    _add(drawing, "record", values["record"], skip=frozenset({"node_id", "parent_id"}))
    _add(drawing, "derived from", values["derived_from"])
    _add(
        drawing,
        "children",
        [f"{c['kind']}: {c['title']}  {c['node_id']}" for c in values["child_nodes"]],
    )
    draw(drawing)


def _add(branch: Drawing, name: str, value: Any, *, skip: frozenset[str] = frozenset()) -> None:
    """Add JSON data to a drawing; what is empty is left out."""
    from rich.text import Text

    if value is None or value in ("", [], {}):
        return
    if isinstance(value, Mapping):
        inner = branch.add(Text(name, style="cyan"))
        for key, item in value.items():
            if key not in skip:
                _add(inner, visible(str(key)), item)
    elif isinstance(value, list):
        inner = branch.add(Text(f"{name} ({len(value)})", style="cyan"))
        for number, item in enumerate(value, 1):
            _add(inner, str(number), item)
    else:
        label = Text(f"{name}: ", style="cyan")
        label.append(visible(str(value), keep="\n"), style="default")
        branch.add(label)
