"""Which runs belong together, which of them are history and which are asked, and who shares a bank.

    group     house, document, map: the task's own group, else its house, else the question
    history   runs that lessons are derived from
    queries   runs whose questions are asked of the bank that those lessons make; never the same question
    bundle    a few groups whose lessons share a practice bank, so that place and select see wrong ones

All of it follows from the runs and a seed, not from their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from epimem.schema.ids import sha256
from epimem.schema.run import Run
from training.demonstrations.intake import SourceRun

QUERY_SHARE = 1 / 3
"""Share of a group's questions that are asked (ours); at least one is history, and one asked of two."""
NAME_CHARS = 120


@dataclass(frozen=True)
class Group:
    """The runs of one group, apart by what they are for; each in a fixed order."""

    name: str
    history: tuple[SourceRun, ...]
    queries: tuple[SourceRun, ...]

    @property
    def runs(self) -> tuple[SourceRun, ...]:
        """All of them."""
        return (*self.history, *self.queries)


@dataclass(frozen=True)
class Bundle:
    """Groups that share a practice bank, and so must not be in different splits."""

    groups: tuple[Group, ...]

    @property
    def name(self) -> str:
        """The names of its groups, or a hash of them where that is too long."""
        joined = " + ".join(group.name for group in self.groups)
        return joined if len(joined) <= NAME_CHARS else f"bundle {sha256(joined.encode())[:16]}"

    @property
    def history(self) -> tuple[SourceRun, ...]:
        """What lessons are derived from: the groups in turns, so that the tree meets them mixed."""
        longest = max(len(group.history) for group in self.groups)
        turns = range(longest)
        return tuple(
            run for at in turns for group in self.groups for run in group.history[at : at + 1]
        )

    @property
    def queries(self) -> tuple[SourceRun, ...]:
        """What is asked."""
        return tuple(run for group in self.groups for run in group.queries)


def group_of(run: Run) -> str:
    """Return the group of a run."""
    task = run.task
    return task.group or task.house or task.question_key


def groups_of(
    runs: Iterable[SourceRun], *, seed: int, share: float = QUERY_SHARE
) -> tuple[Group, ...]:
    """Return the groups of runs, sorted by name.

    Questions, not runs, are dealt: runs of one question are all history or all queries.

    Args:
        runs: in any order.
        seed: another seed deals otherwise.
        share: of the questions that are asked, 0..1.
    """
    found: dict[str, dict[str, list[SourceRun]]] = {}
    for run in runs:
        questions = found.setdefault(group_of(run.run), {})
        questions.setdefault(run.run.task.question_key, []).append(run)
    return tuple(_divided(name, found[name], seed, share) for name in sorted(found))


def bundles_of(groups: Sequence[Group], *, size: int, seed: int) -> tuple[Bundle, ...]:
    """Return groups dealt into bundles of `size`; a last one that is smaller goes to the others.

    Raises:
        ValueError: the size is below 1.
    """
    if size < 1:
        raise ValueError("a bundle has at least one group")
    dealt = sorted(groups, key=lambda group: _rank(seed, group.name))
    count = max(1, len(dealt) // size)
    return tuple(Bundle(tuple(dealt[at::count])) for at in range(count) if dealt[at::count])


def _divided(name: str, questions: dict[str, list[SourceRun]], seed: int, share: float) -> Group:
    keys = sorted(questions, key=lambda key: _rank(seed, key))
    count = min(max(round(share * len(keys)), int(share > 0)), len(keys) - 1)
    asked, kept = keys[:count], keys[count:]
    return Group(
        name,
        history=tuple(run for key in kept for run in _in_order(questions[key])),
        queries=tuple(run for key in asked for run in _in_order(questions[key])),
    )


def _in_order(runs: Sequence[SourceRun]) -> list[SourceRun]:
    """Return the runs of one question as its attempts: by time of creation, then id."""
    return sorted(runs, key=lambda run: (run.run.created_at, run.run.run_id))


def _rank(seed: int, name: str) -> str:
    return sha256(f"{seed}\0{name}".encode("utf-8", "backslashreplace"))
