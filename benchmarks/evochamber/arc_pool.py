"""A pool whose insights act as text: agents that search ARC programs, each with operations of its own.

    python -m benchmarks.evochamber.arc_pool                        ten seeds, three arms, some minutes
    python -m benchmarks.evochamber.arc_pool --seeds 2 --first 100 --tasks 60

An agent knows three grid operations and may try three programs on a task: first those that its
prompt names in words, then its own; so what it is told takes the place of what it knows. Its prompt
holds what the bank gave it for this task and nothing else (no private archive). An insight is a
program in words, found by the likeness of the tasks' descriptions.

The stream are the tasks of ARC-AGI-1, both parts, that some single operation fits, each in three
colorings drawn by seed (the program stays the same, the words about it nearly), in an order drawn by
seed. The niche of a task is how its sizes change. Arms: insights to agents below the median, to all,
and none.

Fixed before the first run of the deciding seeds 0 to 9: what is below, and the line: asymmetric above
symmetric above off, in solved tasks and in the specialization index, each difference with a 95 %
interval (paired over seeds) above zero. Developed on seeds from 100 on: the first form, with both
operations of every program, eight operations an agent and no colorings, solved 12 % and dreamt nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arc.grid_operations import OPERATIONS
from benchmarks.arc.programs import Program, read_programs
from benchmarks.arc.search import Found, first_in, search
from benchmarks.arc.solving import answer_text
from benchmarks.arc.tasks import ArcTask, Oracle, Part, describe, house, load_tasks
from benchmarks.evochamber.pools import Player, on_bank
from harness_adapters.evochamber import report
from harness_adapters.evochamber.chamber import Episode
from harness_adapters.evochamber.problem import Mark, Problem
from harness_adapters.evochamber.settings import settings_of

SEEDS = 10
OWN = 3
"""Grid operations that an agent knows, of those that fit some task alone."""
COLORINGS = 3
WINDOW = 32
TRIES = 3
ARMS: dict[str, dict[str, Any]] = {
    "asymmetric": {},
    "symmetric": {"transfer": "symmetric"},
    "off": {"without": ("structures", "codream")},
}
COMMON = {"recalled": 0, "without": ("structures",)}
ENCODER = "all-MiniLM-L6-v2"
SINGLE = tuple(Program((name,)) for name in OPERATIONS)
PARTS: tuple[Part, ...] = ("training", "evaluation")
SENTENCE = "On tasks like this one, {program}."


@dataclass(frozen=True, eq=False)
class Shown:
    """A task in one coloring: what is asked, which operations fit it alone, and what is right."""

    task: ArcTask
    question: str
    fitting: tuple[Found, ...]
    reference: str


@lru_cache(maxsize=1)
def originals() -> tuple[tuple[ArcTask, Oracle], ...]:
    """Return the tasks of both parts that some operation fits alone, with their judges."""
    found = []
    for part in PARTS:
        tasks, oracle = load_tasks(part)
        found += [(task, oracle) for task in tasks if fitting(task)]
    return tuple(found)


def fitting(task: ArcTask) -> tuple[Found, ...]:
    """Return the operations that reproduce every demonstration of a task."""
    results = (search(task.demonstrations, [program], budget=1) for program in SINGLE)
    return tuple(result.found for result in results if result.found is not None)


@lru_cache(maxsize=1)
def operations() -> tuple[str, ...]:
    """Return the operations that fit some task alone."""
    names = {found.program.operations[0] for task, _ in originals() for found in fitting(task)}
    return tuple(sorted(names))


def recolored(task: ArcTask, oracle: Oracle, number: int, chance: random.Random) -> Shown:
    """Return a task with its colors permuted, black staying black."""
    colors = [0, *chance.sample(range(1, 10), 9)]
    table = np.array(colors, dtype=np.uint8)
    changed = ArcTask(
        task_id=f"{task.task_id}-{number}",
        demonstrations=tuple((table[a], table[b]) for a, b in task.demonstrations),
        test_inputs=tuple(table[grid] for grid in task.test_inputs),
    )
    digits = str.maketrans("0123456789", "".join(map(str, colors)))
    return Shown(
        task=changed,
        question=f"{describe(changed)}\nTask {changed.task_id}.",
        fitting=fitting(changed),
        reference=oracle.reference(task.task_id).translate(digits),
    )


def own_programs(name: str, seed: int) -> list[Program]:
    """Return the programs of an agent, in the order in which it tries them."""
    chosen = random.Random(f"{seed}/{name}").sample(operations(), OWN)
    return [Program((name,)) for name in chosen]


class Searcher(Player):
    """A model that searches programs; it speaks the formats of the pool's phases.

    Args:
        shown: the tasks.
        seed: for what each agent knows.
    """

    name = "arc-search"

    def __init__(self, shown: Sequence[Shown], seed: int) -> None:
        self._shown = {each.question: each for each in shown}
        self._seed = seed

    def said(self, tag: str, system: str, user: str) -> str:
        """Return what it says."""
        if tag in {"solve", "retry"}:
            return self._searched(system, user)
        # What was right is said again in words, and what was not is no insight.
        told = [SENTENCE.format(program=program.text) for program in read_programs(user)]
        if tag in {"reflect", "contrast"}:
            return told[-1] if told else "No program was found."
        if tag in {"imagine", "crystallize"}:
            name = "strategies" if tag == "imagine" else "insights"
            listed = [{"text": text, "reach": "subdomain"} for text in told]
            return json.dumps({name: listed})
        return "{}"

    def _searched(self, system: str, user: str) -> str:
        shown = self._shown[user]
        suggested = read_programs(system)
        name = system.rpartition("You are ")[2].partition(".")[0]
        own = own_programs(name, self._seed) if name.startswith("agent-") else []
        tried = list(dict.fromkeys((*suggested, *own)))[:TRIES]
        found = first_in(tried, shown.fitting).found
        if found is None:
            return "No program was found."
        answer = answer_text(found.answer(shown.task.test_inputs))
        return f"I {found.program.text}.\nGrids:\n{answer}"


def problem_of(shown: Shown) -> Problem:
    """Return a task as the pool sees it."""

    def mark(reply: str) -> Mark:
        grids = reply.partition("\nGrids:\n")[2]
        answer = hashlib.sha256(grids.encode()).hexdigest()[:16] if grids else ""
        return Mark(float(bool(grids) and grids == shown.reference), answer)

    return Problem(shown.task.task_id, house(shown.task), shown.question, mark)


def stream(seed: int, tasks: int | None) -> list[Shown]:
    """Return the stream of a seed, or its beginning."""
    chance = random.Random(f"{seed}/stream")
    every = [
        recolored(task, oracle, number, chance)
        for task, oracle in originals()
        for number in range(COLORINGS)
    ]
    chance.shuffle(every)
    return every[:tasks]


def one(arm: str, seed: int, tasks: int | None, folder: Path) -> list[Episode]:
    """Run one arm under one seed; goes on where it stopped."""
    shown = stream(seed, tasks)
    return on_bank(
        folder,
        {"arm": arm, "seed": seed, "tasks": tasks or 0},
        settings_of(**{**COMMON, **ARMS[arm]}),
        Searcher(shown, seed),
        [problem_of(each) for each in shown],
        seed=seed,
        encoder=ENCODER,
    )


def measured(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return what an arm under a seed came to."""
    found = report.signals(episodes, window=WINDOW)
    rolling = found.specialization[WINDOW - 1 :]
    return {
        "solved": sum(each.score for each in episodes),
        "tasks": len(episodes),
        # As the paper's mean: over the stream, of the index of the last tasks' anchors.
        "specialization": sum(rolling) / len(rolling) if rolling else 0.0,
        "insights": found.insights,
        "fired": sum(found.fired.values()),
        "abstained": found.abstained,
        "shown": sum(map(len, (ids for each in episodes for ids in each.retrieved.values()))),
        "unique anchors": found.unique_anchors,
    }


def compared(results: dict[str, list[dict[str, float]]]) -> list[dict[str, Any]]:
    """Return the differences that the line is about, with their intervals over seeds."""
    lines = []
    for better, worse in (("asymmetric", "symmetric"), ("symmetric", "off"), ("asymmetric", "off")):
        for what in ("solved", "specialization"):
            differences = [
                one[what] - two[what]
                for one, two in zip(results[better], results[worse], strict=True)
            ]
            mean, low, high = interval(differences)
            lines.append(
                {
                    "what": f"{what}: {better} - {worse}",
                    "mean": round(mean, 3),
                    "interval": [round(low, 3), round(high, 3)],
                    "holds": low > 0,
                }
            )
    return lines


def interval(differences: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of paired differences and the ends of its 95 % interval (Student's t)."""
    from scipy import stats

    mean = sum(differences) / len(differences)
    if len(set(differences)) < 2:
        return mean, mean, mean
    low, high = stats.t.interval(0.95, len(differences) - 1, loc=mean, scale=stats.sem(differences))
    return mean, float(low), float(high)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--tasks", type=int, help="only the beginning of the stream")
    parser.add_argument("--folder", type=Path, default=Path("evochamber-arc"))
    given = parser.parse_args()
    results: dict[str, list[dict[str, float]]] = {arm: [] for arm in ARMS}
    for seed in range(given.first, given.first + given.seeds):
        for arm in ARMS:
            episodes = one(arm, seed, given.tasks, given.folder / f"{arm}-{seed}")
            results[arm].append(measured(episodes))
            print(json.dumps({"arm": arm, "seed": seed, **results[arm][-1]}), file=sys.stderr)
    for arm, found in results.items():
        means = {name: round(sum(r[name] for r in found) / len(found), 3) for name in found[0]}
        print(json.dumps({"arm": arm, **means}))
    for line in compared(results):
        print(json.dumps(line))


if __name__ == "__main__":
    main()
