"""The demonstration: a bank built from real solving attempts, and what it is worth.

    python -m benchmarks.arc.demo [--folder demo-bank] [--seeds 0 1 2] [--tries 3]

All programs are tried on all 400 ARC-AGI-1 training tasks once. Then, for each seed, half of the
tasks are handed in as runs, with the program that comes first in the seed's order; a bank is built
from them; the other half is solved with few tries: without memory, with memory, and with a control
bank whose guidance was permuted over the episodes. Guidance reaches the host as text through
`retrieve`, and in no other way.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.arc.picture import Picture, draw
from benchmarks.arc.programs import all_programs, read_programs
from benchmarks.arc.run_record import FAMILY, outcome_of, run_of
from benchmarks.arc.search import search_order
from benchmarks.arc.solving import (
    Attempt,
    Explored,
    attempt,
    contributed,
    explore,
    held_out_order,
    permuted,
    solved,
    split,
    suggested_programs,
)
from benchmarks.arc.tasks import ArcTask, Oracle, describe, load_tasks
from epimem import ExperienceMemory
from epimem.bank.encoder import load_encoder
from epimem.config import CallerConfig, Config
from epimem.errors import ConfigError, EpimemError
from epimem.protocols import Encoder
from epimem.schema.ids import uuid7
from epimem.schema.memory_input import Item, MemoryInput

MARKER = "made-by-the-arc-demo"
CONFIG = Config(
    namespace=FAMILY, caller=CallerConfig(contributor="arc-demo", organisation="arc-demo")
)


@dataclass(frozen=True)
class Row:
    """One line of the table: held-out tasks solved, by arm."""

    seed: int
    tries: int
    held_out: int
    none: int
    memory: int
    shuffled: int
    unlimited: int


@dataclass(frozen=True, eq=False)
class Shown:
    """A held-out task and the retrieved lesson that solved it, kept to be shown at the end."""

    task: ArcTask
    item: Item
    crop: bytes


@dataclass(frozen=True, eq=False)
class Demo:
    """What all seeds share: tasks, pages, oracle, encoder, folder and budget."""

    explored: tuple[Explored, ...]
    pictures: Mapping[str, Picture]
    oracle: Oracle
    encoder: Encoder | None
    folder: Path
    tries: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration; return the exit status."""
    options = _options(arguments)
    try:
        _fresh_folder(options.folder)
        _run(options)
    except EpimemError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def _run(options: argparse.Namespace) -> None:
    """Print the table, one retrieved lesson and the file of its crop."""
    started = time.monotonic()
    tasks, oracle = load_tasks()
    pictures = {task.task_id: draw(task) for task in tasks}
    with _Step(f"try {len(all_programs())} programs on each of {len(tasks)} tasks"):
        explored = tuple(explore(task) for task in tasks)
    print(f"  {sum(bool(item.fitting) for item in explored)} tasks have a program that fits")
    with _Step("load the text encoder, exported at its first use"):
        encoder = load_encoder(CONFIG.encoder.model)
    demo = Demo(explored, pictures, oracle, encoder, options.folder, options.tries)
    rows: list[Row] = []
    shown: Shown | None = None
    for seed in options.seeds:
        row, example = _seed(demo, seed)
        rows.append(row)
        shown = shown or example
    _print_table(rows)
    if shown is not None:
        _print_lesson(shown, options.folder)
    print(f"\nTotal {time.monotonic() - started:.0f} s. The banks are in {options.folder}/.")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="ARC tasks solved without and with memory.")
    parser.add_argument("--folder", type=Path, default=Path("demo-bank"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tries", type=int, default=3, help="programs per held-out task")
    return parser.parse_args(arguments)


def _fresh_folder(folder: Path) -> None:
    """Make an empty folder; one of an earlier demonstration is replaced, any other refused.

    Raises:
        ConfigError: the folder exists and no demonstration made it.
    """
    if folder.exists():
        if not (folder / MARKER).exists():
            raise ConfigError(
                f"{folder} exists and was not made by this demonstration",
                field="--folder",
                hint="name another folder",
            )
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / MARKER).touch()


def _seed(demo: Demo, seed: int) -> tuple[Row, Shown | None]:
    """Build and measure with one split; return the row and a lesson that made a difference."""
    construction, reserved = split(demo.explored, seed)
    order = search_order(f"construction {seed}")
    told = contributed([attempt(item, order, demo.oracle, seed=seed) for item in construction])
    right = sum(item.right for item in told)
    print(f"seed {seed}: {len(construction)} construction tasks, {right} solved; their runs and")
    print(f"  those of {len(told) - right} failures, which become cautions, are contributed")
    unlimited = [
        attempt(item, held_out_order(item.task, seed), demo.oracle, seed=seed) for item in reserved
    ]
    held_out = [item.task for item in reserved]
    none = [solved(task, (), demo.oracle, seed=seed, tries=demo.tries) for task in held_out]
    folder = demo.folder / f"seed-{seed}"
    folder.mkdir()
    arms = {"memory": told, "shuffled": permuted(told, seed)}
    results = {
        name: _arm(demo, folder / name, attempts=runs, held_out=held_out, seed=seed, without=none)
        for name, runs in arms.items()
    }
    row = Row(
        seed=seed,
        tries=demo.tries,
        held_out=len(held_out),
        none=sum(none),
        memory=results["memory"][0],
        shuffled=results["shuffled"][0],
        unlimited=sum(item.right for item in unlimited),
    )
    return row, results["memory"][1]


def _arm(
    demo: Demo,
    path: Path,
    *,
    attempts: Sequence[Attempt],
    held_out: Sequence[ArcTask],
    seed: int,
    without: Sequence[bool],
) -> tuple[int, Shown | None]:
    """Build a bank and solve the held-out tasks with it.

    Returns:
        how many were solved, and the first lesson with a crop whose program solved what was not
        solved `without` memory.
    """
    count = 0
    shown: Shown | None = None
    with ExperienceMemory.create(path, CONFIG, encoder=demo.encoder) as memory:
        with _Step(f"seed {seed}: build {path.name} from {len(attempts)} runs"):
            _build(demo, memory, attempts)
        with _Step(f"seed {seed}: solve with {path.name}, {demo.tries} tries"):
            for task, before in zip(held_out, without, strict=True):
                answer = _ask(demo, memory, task)
                suggested = suggested_programs(answer)
                right = solved(task, suggested, demo.oracle, seed=seed, tries=demo.tries)
                count += right
                if shown is None and right and not before:
                    shown = _example(demo, memory, task, answer=answer, seed=seed)
    return count, shown


def _example(
    demo: Demo, memory: ExperienceMemory, task: ArcTask, *, answer: MemoryInput, seed: int
) -> Shown | None:
    """Return the lesson of an answer with its crop where its program alone solves the task."""
    lessons = {item.node_id: item for item in answer.items if item.kind == "lesson"}
    for crop in answer.crops:
        item = lessons.get(crop.node_id)
        programs = read_programs(item.guidance) if item else ()
        if item and solved(task, programs, demo.oracle, seed=seed, tries=len(programs)):
            return Shown(task, item, memory.crop_png(crop))
    return None


def _build(demo: Demo, memory: ExperienceMemory, attempts: Iterable[Attempt]) -> None:
    for item in attempts:
        picture = demo.pictures[item.task.task_id]
        memory.add_image(picture.png)
        run_id = uuid7()
        created_at = datetime.now(UTC).isoformat()
        run = run_of(item, picture, run_id=run_id, created_at=created_at)
        memory.contribute(run, outcome=outcome_of(item, demo.oracle, run_id=run_id))
    memory.ingest()
    memory.maintain()


def _ask(demo: Demo, memory: ExperienceMemory, task: ArcTask) -> MemoryInput:
    page = demo.pictures[task.task_id].image_id
    return memory.retrieve(describe(task), images=[page], family=FAMILY)


class _Step:
    """Prints what is being done, and its seconds when it is done."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._started = 0.0

    def __enter__(self) -> None:
        self._started = time.monotonic()
        print(f"{self._title} ...", end="", flush=True)

    def __exit__(self, *_: object) -> None:
        print(f" {time.monotonic() - self._started:.1f} s", flush=True)


def _print_table(rows: Sequence[Row]) -> None:
    names = ("seed", "tries", "held out", "no memory", "memory", "shuffled", "unlimited tries")
    lines = [
        (row.seed, row.tries, row.held_out, row.none, row.memory, row.shuffled, row.unlimited)
        for row in rows
    ]
    mean = [sum(column) / len(lines) for column in zip(*lines, strict=True)]
    print("\nHeld-out tasks solved (shuffled: guidance permuted over the episodes)")
    print("Operations and description were developed on these 400 tasks: no test on unseen ones.")
    print(" | ".join(names))
    for line in lines:
        print(" | ".join(f"{value:>{len(name)}}" for name, value in zip(names, line, strict=True)))
    if len(rows) > 1:
        cells = ["mean", *(f"{value:.1f}" for value in mean[1:])]
        print(" | ".join(f"{cell:>{len(name)}}" for name, cell in zip(names, cells, strict=True)))


def _print_lesson(shown: Shown, folder: Path) -> None:
    crop = folder / "lesson-crop.png"
    crop.write_bytes(shown.crop)
    item = shown.item
    print(f"\nTask {shown.task.task_id} was solved with memory and not without. The question was:")
    print(f"  {describe(shown.task)}")
    print(f"\nA retrieved lesson ({item.polarity}, support {item.support}):")
    print(f"  guidance: {item.guidance}")
    print(f"  applies when: {item.applies_when}")
    for caution in item.cautions:
        print(f"  caution: {caution}")
    print(f"  from run: {', '.join(item.source_runs)}")
    print(f"  crop: {crop}")


if __name__ == "__main__":
    sys.exit(main())
