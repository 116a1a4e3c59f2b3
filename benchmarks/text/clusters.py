"""How well groups agree with labels: adjusted Rand index, dendrogram purity, and the cut of a tree.

Sources: Hubert and Arabie (1985), "Comparing partitions"; Heller and Ghahramani (2005), "Bayesian
hierarchical clustering", for the purity of a dendrogram.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

K = TypeVar("K", bound=Hashable)


def adjusted_rand(first: Sequence[Hashable], second: Sequence[Hashable]) -> float:
    """Return the agreement of two partitions of the same items: 1 for equal, about 0 by chance.

    Args:
        first: the group of each item in one partition.
        second: the same in the other.

    Raises:
        ValueError: the lengths differ.
    """
    both = sum(map(_pairs, Counter(zip(first, second, strict=True)).values()))
    rows = sum(map(_pairs, Counter(first).values()))
    columns = sum(map(_pairs, Counter(second).values()))
    expected = rows * columns / max(_pairs(len(first)), 1)
    most = (rows + columns) / 2
    return 1.0 if most == expected else (both - expected) / (most - expected)


def _pairs(size: int) -> int:
    return size * (size - 1) // 2


@dataclass(frozen=True)
class Hierarchy(Generic[K]):
    """A rooted tree: `children` by inner node; what has no entry is a leaf."""

    root: K
    children: Mapping[K, Sequence[K]]

    def bottom_up(self) -> list[K]:
        """Return all nodes, children before their parents."""
        order, stack = [], [self.root]
        while stack:
            node = stack.pop()
            order.append(node)
            stack.extend(self.children.get(node, ()))
        return order[::-1]

    def leaves_below(self) -> dict[K, int]:
        """Return the number of leaves below each node; 1 for a leaf."""
        sizes: dict[K, int] = {}
        for node in self.bottom_up():
            sizes[node] = sum(sizes[child] for child in self.children.get(node, ())) or 1
        return sizes

    def groups(self, cut: Sequence[K]) -> dict[K, int]:
        """Return, by leaf, which node of a cut it lies under, as a place in the cut."""
        found: dict[K, int] = {}
        for place, top in enumerate(cut):
            stack = [top]
            while stack:
                node = stack.pop()
                below = self.children.get(node)
                if below:
                    stack.extend(below)
                else:
                    found[node] = place
        return found


def cut_nearest(tree: Hierarchy[K], count: int) -> list[K]:
    """Return the cut whose number of nodes is nearest to `count`, chosen without any label.

    Starting from the root, the node with most leaves below is replaced by its children, again and
    again; of the cuts passed through, the one nearest in number is taken, the smaller on a tie.
    Of nodes with equally many leaves the first in the cut goes first.
    """
    sizes = tree.leaves_below()
    cut, best = [tree.root], [tree.root]
    while len(cut) < count:
        inner = [place for place, node in enumerate(cut) if tree.children.get(node)]
        if not inner:
            break
        largest = max(inner, key=lambda place: sizes[cut[place]])
        cut = [*cut[:largest], *tree.children[cut[largest]], *cut[largest + 1 :]]
        if abs(len(cut) - count) < abs(len(best) - count):
            best = cut
    return best


def level_nearest(tree: Hierarchy[K], count: int) -> list[K]:
    """Return the level of the tree whose number of nodes is nearest to `count`, the upper on a tie."""
    level, best = [tree.root], [tree.root]
    while any(tree.children.get(node) for node in level):
        level = [below for node in level for below in (tree.children.get(node) or (node,))]
        if abs(len(level) - count) < abs(len(best) - count):
            best = level
    return best


def dendrogram_purity(tree: Hierarchy[K], labels: Mapping[K, str]) -> float:
    """Return the mean, over all pairs of leaves with one label, of their lowest common node's purity.

    Exact. The purity of a node is the share of the leaves below it that carry the pair's label.
    """
    names = {name: column for column, name in enumerate(sorted(set(labels.values())))}
    counts: dict[K, NDArray[np.int64]] = {}
    total, pairs = 0.0, 0
    for node in tree.bottom_up():
        below = tree.children.get(node)
        own = np.zeros(len(names), dtype=np.int64)
        if not below:
            own[names[labels[node]]] = 1
        else:
            parts = np.stack([counts.pop(child) for child in below])
            own = parts.sum(axis=0)
            met = own * (own - 1) // 2 - (parts * (parts - 1) // 2).sum(axis=0)
            total += float((met * own).sum() / own.sum())
            pairs += int(met.sum())
        counts[node] = own
    return total / pairs if pairs else 1.0
