"""Demonstrations with exact targets from the ARC bench: derive, place, consolidate, select.

    python -m benchmarks.arc.demonstrations OUT [--seed 0] [--episodes 100]

Only the training tasks come up, and of these only such as some short program fits, but for a few; the
evaluation tasks decide the experiment. Tasks are dealt into banks of 30; a task stands in one bank only,
and a bank is a group of the splits. Interrupted, the same command goes on.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.arc.practice import OF_A_BANK, ArcBank
from benchmarks.arc.solving import Explored, explore
from benchmarks.arc.tasks import ArcTask, Oracle, load_tasks
from benchmarks.demonstration_sets import write
from epimem.errors import EpimemError

WITHOUT = 0.1
"""Share of tasks (ours) that no program fits: their runs teach nothing."""


def chosen(tasks: Sequence[ArcTask], *, seed: int, count: int) -> Iterator[Explored]:
    """Yield `count` tasks at most in an order of the seed, a tenth of them without a program."""
    order = list(tasks)
    random.Random(f"arc demonstrations {seed}").shuffle(order)
    given = failed = 0
    for task in order:
        if given == count:
            return
        found = explore(task)
        if not found.fitting:
            if failed >= WITHOUT * (given + 1):
                continue
            failed += 1
        given += 1
        yield found


def banks(tasks: Sequence[ArcTask], oracle: Oracle, *, seed: int, count: int) -> Iterator[ArcBank]:
    """Yield banks of these tasks with this many in all, the tasks of each apart."""
    explored: list[Explored] = []
    number = 0
    for found in chosen(tasks, seed=seed, count=count):
        explored.append(found)
        if len(explored) == OF_A_BANK:
            yield ArcBank(explored, oracle, seed=seed, number=number)
            explored, number = [], number + 1
    if explored:
        yield ArcBank(explored, oracle, seed=seed, number=number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the set; return the exit status."""
    options = _options(arguments)
    tasks, oracle = load_tasks("training")
    found = (
        each
        for bank in banks(tasks, oracle, seed=options.seed, count=options.episodes)
        for each in bank.demonstrations()
    )
    try:
        counts = write(options.out, found, seed=options.seed)
    except EpimemError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(json.dumps(counts))
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.arc.demonstrations")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--episodes", type=int, default=100)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
