"""The scope of a lesson or node: which names it holds, and whether two scopes agree.

The public scope of a task is its family and its house (or the niche its harness names). Two
scopes agree when each one's names stand in the other: lessons about "Norden Statistik" and about
"Norden Energi" never support each other, however alike the rest is. Ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controllers.embedded.fitting import fitted
from controllers.embedded.names import name_words
from controllers.embedded.words import is_cjk, tokens
from epimem.schema.run import Task
from epimem.schema.text import TITLE_BYTES
from epimem.schema.tree import Node


@dataclass(frozen=True)
class Scope:
    """The words of a scope, and those of them that are names; all case folded."""

    words: frozenset[str]
    names: frozenset[str]

    def agrees(self, other: Scope) -> bool:
        """Tell whether each scope holds the names of the other."""
        return self.names <= other.words and other.names <= self.words


def public_scope(task: Task) -> str:
    """Return family and house of a task, else family and niche, as one line."""
    niche = task.public.get("niche")
    house = task.house or (niche if isinstance(niche, str) else "")
    parts = [fitted(part, TITLE_BYTES // 2 - 2) for part in (task.family, house)]
    return ", ".join(dict.fromkeys(part for part in parts if part))


def node_scope(node: Node, family: str = "") -> Scope:
    """Return the scope of a node.

    A word of the scope is a name when it is written as one there or elsewhere in the node's own
    text, or when it belongs to the house in a scope of the form "family, house".

    Args:
        node: a lesson or an inner node.
        family: the task family, used for inner nodes, which do not know theirs.
    """
    lesson = node.lesson
    index = node.index if node.index.scope or lesson is None else lesson.index
    text = [index.scope, index.question_anchor, node.guidance, node.applies_when]
    if lesson is not None:
        family = lesson.family or family
        text += [lesson.guidance, lesson.applies_when]
    words = frozenset(token.casefold() for token in tokens(index.scope))
    names = frozenset().union(*map(name_words, text)) & words
    head, _, house = index.scope.partition(", ")
    if house and family and head.casefold() == family.casefold():
        names |= frozenset(token.casefold() for token in tokens(house))
    return Scope(words, names)


def node_anchor(node: Node) -> str:
    """Return the question anchor of a node, an inner node's own or a lesson's."""
    if node.index.question_anchor or node.lesson is None:
        return node.index.question_anchor
    return node.lesson.index.question_anchor


def all_agree(scopes: Sequence[Scope]) -> bool:
    """Tell whether every two of the scopes agree."""
    different = list(dict.fromkeys(scopes))
    return all(
        left.agrees(right) for at, left in enumerate(different) for right in different[at + 1 :]
    )


def names_in(text: str, names: frozenset[str]) -> frozenset[str]:
    """Return those of the names that stand in a text; CJK names as pieces of it."""
    folded = text.casefold()
    words = {token.casefold() for token in tokens(text)}
    return frozenset(name for name in names if (name in folded if is_cjk(name) else name in words))
