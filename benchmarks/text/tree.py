"""Does the tree that maintenance grows find the tasks that its lessons come from?

    python -m benchmarks.text.tree                  the result: splits 1, 2, 3
    python -m benchmarks.text.tree --development    split 0: what was tuned on

Half of the items of each of the 27 BIG-Bench Hard tasks become ready lessons (index text: the item's
question and nothing else, no label anywhere), in random order; the bank is maintained once.

Line: the adjusted Rand index of the cut through the tree whose number of nodes is nearest to 27 is
at least 0.9 times that of k-means with k = 27 on the same vectors (best of ten runs by inertia).
The cut is a level of the tree: all its leaves have one depth, so a level is what cutting a
dendrogram at one height is. Beside it, without a line: a cut that mixes levels (`cut_nearest`),
dendrogram purity, and peers that see all vectors at once (average linkage, Ward). Controls must
fail: the same tree with its lessons dealt out at random, and a tree grown on vectors that know
nothing of the texts. Last, how many statements of consolidated guidance stand word for word in at
least two of the lessons they are said to rest on.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.text.bbh import TASKS, Item, draft, index_of, load_items, split
from benchmarks.text.clusters import (
    Hierarchy,
    adjusted_rand,
    cut_nearest,
    dendrogram_purity,
    level_nearest,
)
from benchmarks.text.vectors import ScrambledEncoder, cached_encoder
from epimem.config import Config, TreeConfig
from epimem.memory import ExperienceMemory
from epimem.protocols import Encoder
from epimem.schema.tree import Tree, violations

DEVELOPMENT, RESULT = (0,), (1, 2, 3)
LEAST_SHARE = 0.9
RESTARTS = 10
Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Agreement:
    """How well a grouping agrees with the tasks: nodes of the cut, adjusted Rand index, purity.

    `purity` is that of the dendrogram, of a flat grouping that of a root above its groups.
    """

    nodes: int
    rand: float
    purity: float


@dataclass(frozen=True)
class Statements:
    """Statements of the guidance of inner nodes, and how many stand in two of their lessons."""

    summaries: int
    rules: int
    of_summaries: int
    of_rules: int
    of_summaries_twice: int
    of_rules_twice: int


@dataclass(frozen=True)
class Outcome:
    """What one split gave; `levels` counts nodes by height, lessons first."""

    seed: int
    levels: tuple[int, ...]
    seconds: float
    level: Agreement
    mixed: Agreement
    categories: Agreement
    dealt_out: Agreement
    ignorant: Agreement | None
    k_means: Agreement
    k_means_mean_rand: float
    average_linkage: Agreement
    ward: Agreement
    statements: Statements

    @property
    def share(self) -> float:
        """The tree's adjusted Rand index over that of k-means."""
        return self.level.rand / self.k_means.rand

    @property
    def holds(self) -> bool:
        """Whether the line holds and the controls fail it."""
        controls = [self.dealt_out, *([self.ignorant] if self.ignorant is not None else [])]
        line = LEAST_SHARE * self.k_means.rand
        return self.level.rand >= line and all(control.rand < line for control in controls)


class Grown:
    """The tree that a bank grew over items, and the task of each of its lessons.

    Args:
        items: become lessons, in this order.
        encoder: the text encoder.
        config: of the bank.
    """

    def __init__(
        self, items: Sequence[Item], encoder: Encoder, config: Config | None = None
    ) -> None:
        start = time.process_time()
        with (
            tempfile.TemporaryDirectory(prefix="epimem-tree-") as folder,
            ExperienceMemory.create(Path(folder) / "bank", config, encoder=encoder) as memory,
        ):
            # Equal lessons of two items are one: it counts once, for the task that came first.
            self.tasks: dict[str, str] = {}
            for item in items:
                receipt = memory.contribute(draft(item))
                assert receipt.id is not None
                self.tasks.setdefault(receipt.id, item.task)
            memory.maintain()
            tree, limits = memory.tree(), memory.limits
        assert tree is not None
        broken = violations(tree, capacity=limits.capacity, min_group=limits.min_group)
        assert not broken, broken
        self.tree: Tree = tree
        self.seconds = time.process_time() - start
        self.hierarchy = Hierarchy(
            tree.root_id,
            {key: tree.children_of(key) for key in tree.nodes if tree.children_of(key)},
        )

    @property
    def levels(self) -> tuple[int, ...]:
        """The number of nodes of each height, lessons first."""
        heights = [node.height for node in self.tree.walk()]
        return tuple(heights.count(height) for height in range(max(heights) + 1))

    def agreement(self, cut: Sequence[str], tasks: Mapping[str, str] | None = None) -> Agreement:
        """Compare a cut, and the whole tree, with the tasks."""
        tasks = tasks or self.tasks
        groups = self.hierarchy.groups(cut)
        keys = sorted(groups)
        rand = adjusted_rand([tasks[key] for key in keys], [groups[key] for key in keys])
        return Agreement(len(cut), rand, dendrogram_purity(self.hierarchy, tasks))

    def dealt_out(self, seed: int) -> dict[str, str]:
        """Return the tasks dealt out to the lessons at random."""
        keys = sorted(self.tasks)
        names = [self.tasks[key] for key in keys]
        random.Random(seed).shuffle(names)
        return dict(zip(keys, names, strict=True))

    def statements(self) -> Statements:
        """Look every statement of consolidated guidance up in the lessons it rests on.

        A statement is a line of the guidance; it stands in a lesson whose guidance holds it, letter
        case and white space aside.
        """
        nodes = dict.fromkeys(("summary", "rule"), 0)
        said, twice = dict(nodes), dict(nodes)
        for node in self.tree.walk():
            if node.kind not in nodes:
                continue
            nodes[node.kind] += 1
            sources = [self.tree.node(key).lesson for key in node.supported_by]
            texts = [_folded(source.guidance) for source in sources if source is not None]
            for line in node.guidance.splitlines():
                said[node.kind] += 1
                twice[node.kind] += sum(_folded(line) in text for text in texts) >= 2
        return Statements(
            summaries=nodes["summary"],
            rules=nodes["rule"],
            of_summaries=said["summary"],
            of_rules=said["rule"],
            of_summaries_twice=twice["summary"],
            of_rules_twice=twice["rule"],
        )


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def run(
    items: Sequence[Item],
    seed: int,
    *,
    encoder: Encoder,
    groups: int = TASKS,
    controls: bool = True,
) -> Outcome:
    """Grow a tree over the construction half of a split and judge it beside its peers.

    Args:
        items: of all tasks.
        seed: of the split and of all peers.
        encoder: the text encoder.
        groups: the number of tasks among `items`.
        controls: whether a tree is grown on ignorant vectors too.
    """
    construction, _ = split(items, seed=seed)
    vectors = encoder.encode([index_of(item).text for item in construction])
    tasks = [item.task for item in construction]
    grown = Grown(construction, encoder)
    level = level_nearest(grown.hierarchy, groups)
    k_means, mean = _k_means(vectors, tasks, groups, seed)
    return Outcome(
        seed=seed,
        levels=grown.levels,
        seconds=grown.seconds,
        level=grown.agreement(level),
        mixed=grown.agreement(cut_nearest(grown.hierarchy, groups)),
        categories=grown.agreement([n.node_id for n in grown.tree.walk() if n.height == 1]),
        dealt_out=grown.agreement(level, grown.dealt_out(seed)),
        ignorant=_ignorant(construction, encoder, groups) if controls else None,
        k_means=k_means,
        k_means_mean_rand=mean,
        average_linkage=_linkage(vectors, tasks, groups, "average"),
        ward=_linkage(vectors, tasks, groups, "ward"),
        statements=grown.statements(),
    )


def _ignorant(items: Sequence[Item], encoder: Encoder, groups: int) -> Agreement:
    """Grow a tree on vectors that know nothing; every lesson goes where chance says."""
    config = Config(tree=TreeConfig(place_min=0.0, scope_min=0.0))
    grown = Grown(items, ScrambledEncoder(encoder), config)
    return grown.agreement(level_nearest(grown.hierarchy, groups))


def _k_means(
    vectors: Vectors, tasks: Sequence[str], groups: int, seed: int
) -> tuple[Agreement, float]:
    """Return scikit-learn's k-means, best of `RESTARTS` by inertia, and the mean index of all."""
    from sklearn.cluster import KMeans

    runs = []
    for restart in range(RESTARTS):
        fitted = KMeans(groups, n_init=1, random_state=RESTARTS * seed + restart).fit(vectors)
        labels = fitted.labels_.tolist()
        runs.append((float(fitted.inertia_), adjusted_rand(tasks, labels), labels))
    _, rand, labels = min(runs, key=lambda found: found[0])
    flat = _flat(labels)
    purity = dendrogram_purity(flat, dict(enumerate(tasks)))
    mean = float(np.mean([found[1] for found in runs]))
    return Agreement(len(set(labels)), rand, purity), mean


def _flat(labels: Sequence[int]) -> Hierarchy[int]:
    """Return groups as a tree: a root above them, numbered below zero."""
    members: dict[int, list[int]] = {}
    for leaf, label in enumerate(labels):
        members.setdefault(-1 - label, []).append(leaf)
    root = min(members) - 1
    return Hierarchy(root, {**members, root: sorted(members)})


def _linkage(vectors: Vectors, tasks: Sequence[str], groups: int, method: str) -> Agreement:
    from scipy.cluster.hierarchy import fcluster, linkage

    merges = linkage(vectors, method)
    labels = fcluster(merges, groups, "maxclust").tolist()
    leaves = len(vectors)
    pairs = {leaves + at: (int(row[0]), int(row[1])) for at, row in enumerate(merges)}
    tree = Hierarchy(2 * leaves - 2, pairs)
    purity = dendrogram_purity(tree, dict(enumerate(tasks)))
    return Agreement(len(set(labels)), adjusted_rand(tasks, labels), purity)


def rows(outcome: Outcome) -> list[tuple[str, str, str]]:
    """Return the table of one split: what, found, line."""
    table = [
        ("nodes of each height, lessons first", " ".join(map(str, outcome.levels)), "-"),
        ("growing the bank", f"{outcome.seconds:.0f} s CPU", "-"),
        ("tree, nearest level", _shown(outcome.level), f">= {LEAST_SHARE} x k-means"),
        ("  over k-means", f"{outcome.share:.2f}", f">= {LEAST_SHARE}"),
        ("tree, nearest cut of mixed levels", _shown(outcome.mixed), "-"),
        ("tree, categories of lessons", _shown(outcome.categories), "-"),
        ("control, lessons dealt out at random", _shown(outcome.dealt_out), "must fail"),
        ("k-means, best of ten by inertia", _shown(outcome.k_means), "-"),
        ("k-means, mean of ten", f"{outcome.k_means_mean_rand:.3f}", "-"),
        ("average linkage", _shown(outcome.average_linkage), "-"),
        ("Ward linkage", _shown(outcome.ward), "-"),
    ]
    if outcome.ignorant is not None:
        shown = ("control, vectors that know nothing", _shown(outcome.ignorant), "must fail")
        table.insert(7, shown)
    said = outcome.statements
    for what, nodes, lines, twice in (
        ("rules", said.rules, said.of_rules, said.of_rules_twice),
        ("summaries", said.summaries, said.of_summaries, said.of_summaries_twice),
    ):
        found = f"{twice} of {lines} ({nodes} {what})"
        table.append((f"statements of {what} word for word in two lessons", found, "all"))
    return table


def _shown(found: Agreement) -> str:
    return f"{found.nodes} nodes, ARI {found.rand:.3f}, purity {found.purity:.3f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print; 0 when the line holds for every split."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--development", action="store_true", help="what was tuned on")
    parser.add_argument("--json", type=Path, help="write everything to this file")
    given = parser.parse_args(arguments)
    encoder, items = cached_encoder(), load_items()
    outcomes = []
    for place, seed in enumerate(DEVELOPMENT if given.development else RESULT):
        # The tree of ignorant vectors costs as much again: once is enough to see it fail.
        outcome = run(items, seed, encoder=encoder, controls=place == 0)
        encoder.save()
        outcomes.append(outcome)
        print(f"split {seed}")
        for what, found, line in rows(outcome):
            print(f"{what:<50} {found:<36} {line}")
        sys.stdout.flush()
    holds = all(outcome.holds for outcome in outcomes)
    print("the line holds" if holds else "the line does NOT hold")
    if given.json is not None:
        content = {"holds": holds, "splits": [asdict(outcome) for outcome in outcomes]}
        given.json.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
