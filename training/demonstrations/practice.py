"""A small bank that is built from sound answers by the product's own journeys, so that its requests are.

    history ── contribute ── ingest ── maintain        derive, then place, split_lift, merge, consolidate
    queries ─────────────────────────── retrieve       select, gate

The bank is made anew for every job from the same runs with the same ids, and is thrown away afterwards:
what a job that was stopped had answered is answered again from the set.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from epimem.bank.image_header import MAX_PIXELS
from epimem.build import about_the_record
from epimem.config import Config, ControllerConfig, EncoderConfig, TreeConfig
from epimem.errors import EpimemError, ImageError
from epimem.memory import ExperienceMemory
from epimem.protocols import Encoder
from epimem.schema.ids import counting_ids, sha256
from epimem.schema.outcome import SealedOutcome
from training.demonstrations.grouping import Bundle
from training.demonstrations.intake import RunSource, SourceRun
from training.demonstrations.roles import taught_by
from training.demonstrations.teacher import Teacher

Progress = Callable[[str, int, int], None]
SHAPES = ((7, 3), (8, 4), (12, 4), (16, 4))
"""Capacity and smallest part, by bundle (ours): small trees are to split, and their sizes to vary."""
BATCH = 3
"""Lessons a step (ours): all Places of a step see the tree before it; small steps see more of it."""
MERGE_MIN = 0.6
"""Likeness of a pair to ask about (ours, below the 0.8 of a bank: pairs to leave apart are wanted)."""
PATIENCE_S = 7 * 24 * 3600.0
"""The teacher bounds its own calls; a bank around it waits."""


@dataclass
class Practised:
    """What a practice bank came to: lessons, questions asked; runs and questions refused, by code."""

    lessons: int = 0
    asked: int = 0
    refused: Counter[str] = field(default_factory=Counter)


def practise(
    folder: Path,
    bundle: Bundle,
    source: RunSource,
    teacher: Teacher,
    *,
    encoder: Encoder | None,
    progress: Progress,
) -> Practised:
    """Build a practice bank in a folder, ask it the queries of a bundle, and remove it.

    Args:
        folder: an earlier one in its place is removed.
        bundle: history and queries.
        source: has the images.
        teacher: fills both roles, and has been turned to this bundle.
        encoder: of the bank; None: recall by words, likeness by a stand-in.
        progress: called with (phase, done, total).

    Raises:
        StorageError: the set or the bank cannot be written.
    """
    report = Practised()
    shutil.rmtree(folder, ignore_errors=True)
    memory = ExperienceMemory.create(
        folder,
        _config(bundle, encoder),
        encoder=encoder,
        controllers=taught_by(teacher),
        ids=counting_ids(),
    )
    with memory:
        for run in bundle.history:
            _contribute(memory, source, run, report)
        report.lessons = memory.ingest(progress=progress).lessons
        teacher.settle()
        memory.maintain(progress=progress)
        teacher.settle()
        for number, run in enumerate(bundle.queries, 1):
            _ask(memory, source, run, teacher, report)
            progress("retrieve", number, len(bundle.queries))
    shutil.rmtree(folder, ignore_errors=True)
    return report


def _config(bundle: Bundle, encoder: Encoder | None) -> Config:
    shape = int(sha256(bundle.name.encode("utf-8"))[:8], 16) % len(SHAPES)
    capacity, min_group = SHAPES[shape]
    patient = ControllerConfig(deadline_s=PATIENCE_S)
    return Config(
        encoder=EncoderConfig(model="none" if encoder is None else encoder.name),
        tree=TreeConfig(capacity=capacity, min_group=min_group, batch=BATCH, merge_min=MERGE_MIN),
        memory_controller=patient,
        tree_organizer=patient,
    )


def _contribute(
    memory: ExperienceMemory, source: RunSource, run: SourceRun, report: Practised
) -> None:
    """Hand in a run with its verdict; the reference stays behind."""
    queued = run.queued
    outcome = SealedOutcome(
        run_id=run.run.run_id, verdict=queued.verdict, source=queued.verdict_source
    )
    try:
        _add_images(memory, source, run)
        memory.contribute(run.run, outcome=outcome)
    except EpimemError as error:
        if not about_the_record(error):
            raise
        report.refused[error.code] += 1


def _add_images(memory: ExperienceMemory, source: RunSource, run: SourceRun) -> None:
    for picture in source.images(run.run):
        png = picture.png(MAX_PIXELS)
        if png is None:
            raise ImageError("an image of the run is gone or damaged", got=picture.image_id)
        memory.add_image(png)


def _ask(
    memory: ExperienceMemory,
    source: RunSource,
    run: SourceRun,
    teacher: Teacher,
    report: Practised,
) -> None:
    task = run.run.task
    teacher.asking = run
    try:
        _add_images(memory, source, run)
        memory.retrieve(
            task.question,
            images=[page.image_id for page in task.pages],
            family=task.family,
        )
        report.asked += 1
    except EpimemError as error:
        if not about_the_record(error):
            raise
        report.refused[error.code] += 1
    finally:
        teacher.asking = None
    teacher.settle()
