"""Collecting demonstrations from runs: bundle by bundle, each by the product's own journeys.

    runs ─ groups ─ bundles ─┬─ updates after each attempt
                             └─ practice bank: derive, organize, ask

A bundle that is through leaves a mark in the work folder; one that was stopped is gone through again,
and what the set holds of it is not asked again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from epimem.protocols import Encoder
from epimem.schema.ids import sha256
from training.demonstrations.grouping import Bundle, bundles_of, groups_of
from training.demonstrations.intake import RunSource
from training.demonstrations.practice import practise
from training.demonstrations.teacher import Teacher
from training.demonstrations.updates import revise_memories

Progress = Callable[[str, int, int], None]
MIX = 4
"""Groups that share a practice bank (ours): enough wrong candidates, and still many units to split."""


@dataclass
class Collected:
    """What a job went through: bundles, groups, lessons, questions asked, refusals by code."""

    bundles: int = 0
    groups: int = 0
    lessons: int = 0
    asked: int = 0
    refused: Counter[str] = field(default_factory=Counter)


def collect(
    source: RunSource,
    teacher: Teacher,
    work: Path,
    *,
    encoder: Encoder | None,
    seed: int,
    mix: int = MIX,
    progress: Progress,
) -> Collected:
    """Let a teacher go through all bundles of a source.

    Args:
        source: runs and images.
        teacher: stores what is sound.
        work: folder for practice banks and marks.
        encoder: of the practice banks; None: recall by words.
        seed: deals groups into bundles and questions into history and queries.
        mix: groups to a bundle, at least 1.
        progress: called with (phase, done, total).

    Raises:
        StorageError: the set or a bank cannot be written.
    """
    groups = groups_of(source.runs, seed=seed)
    bundles = bundles_of(groups, size=mix, seed=seed)
    report = Collected(bundles=len(bundles), groups=len(groups))
    for number, bundle in enumerate(bundles, 1):
        mark = work / "done" / _digest(bundle)
        if not mark.exists():
            teacher.turn_to(bundle.name, [run for group in bundle.groups for run in group.runs])
            revise_memories(bundle, source, teacher, progress)
            practised = practise(
                work / "bank", bundle, source, teacher, encoder=encoder, progress=progress
            )
            report.lessons += practised.lessons
            report.asked += practised.asked
            report.refused += practised.refused
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
        progress("bundles", number, len(bundles))
    return report


def _digest(bundle: Bundle) -> str:
    """Return what a bundle is: its name and what its runs are for."""
    parts = [bundle.name]
    for group in bundle.groups:
        for kind, runs in (("history", group.history), ("queries", group.queries)):
            parts += [f"{kind} {run.run.run_id} {run.queued.verdict}" for run in runs]
    return sha256("\n".join(parts).encode("utf-8", "backslashreplace"))
