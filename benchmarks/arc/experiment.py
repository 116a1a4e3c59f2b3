"""The experiment: does a bank of 400 tasks help with 400 others, when few programs may be tried?

    python -m benchmarks.arc.experiment [--folder arc-experiment] [--seeds 10] [--development]
        [--memory-controller SPEC] [--tree-organizer SPEC] [--results FILE]

For each seed a bank is built from the runs of the 400 ARC-AGI-1 training tasks, with the programs that
come first in the seed's order, and asked about the 400 evaluation tasks. `--development` takes halves
of the training tasks instead, and is what everything here was developed with. Interrupted, the same
command goes on where it stopped. `--results` writes the few figures that `epimem train evaluate
--bench` compares controllers by.

Fixed before the first run on the evaluation tasks, together with the operations (`grid_operations`,
`cell_operations`), the words (`description`) and the record of a run (`run_record`): the constants
below. The line: with `LINE_TRIES` tries, product - shuffled is at least `LINE_MEAN` tasks on average
and above zero in at least `LINE_SEEDS` of `SEEDS` seeds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.arc.picture import Picture, draw
from benchmarks.arc.programs import all_programs
from benchmarks.arc.run_record import FAMILY, outcome_of, run_of
from benchmarks.arc.search import search_order
from benchmarks.arc.solving import (
    Attempt,
    Explored,
    answer_text,
    attempt,
    best_within,
    contributed,
    explore,
    held_out_order,
    permuted,
    split,
    suggested_programs,
)
from benchmarks.arc.tasks import ArcTask, Oracle, describe, load_tasks
from epimem import ExperienceMemory, plugins
from epimem.bank.encoder import load_encoder
from epimem.config import CallerConfig, Config, ControllerConfig
from epimem.errors import EpimemError
from epimem.evaluation import (
    Arm,
    Asking,
    Best,
    EvalResult,
    EvalTask,
    Frequent,
    Handout,
    Nothing,
    PublicTask,
    Retrieved,
    Wrong,
    evaluate,
)
from epimem.protocols import Encoder, MemoryController, TreeOrganizer
from epimem.schema.ids import uuid7
from epimem.schema.memory_input import Budget, MemoryInput
from training.evaluation.ends import BenchMeasure, BenchResult

SEEDS = 10
TRIES = (1, 3, 5, 10, 20, 60, 1981)
LINE_TRIES = 3
LINE_MEAN = 3.0
LINE_SEEDS = 9
ASKS = 5
"""How often the host asks about one task, each time naming the items it has had."""
CONFIG = Config(
    namespace=FAMILY, caller=CallerConfig(contributor="arc", organisation="arc-experiment")
)


# The host reads text; no crop is cut for it.
BUDGET = Budget(images=0)


@dataclass(frozen=True, eq=False)
class Material:
    """Construction and question tasks of one seed, each with all programs that fit it."""

    construction: tuple[Explored, ...]
    questions: tuple[Explored, ...]


@dataclass(frozen=True)
class Persistent(Asking):
    """Asks again and again for what it has not had yet: one memory input of several answers."""

    def ask(self, memory: ExperienceMemory, task: PublicTask) -> MemoryInput:
        """Return the items of up to `ASKS` answers, in the order in which they came."""
        answers: list[MemoryInput] = []
        had: list[str] = []
        for _ in range(ASKS):
            answer = memory.retrieve(task.question, family=FAMILY, budget=self.budget, exclude=had)
            if not answer.items:
                break
            answers.append(answer)
            had += [item.node_id for item in answer.items]
        if not answers:
            return answer
        return answers[0].model_copy(
            update={
                "items": tuple(item for answer in answers for item in answer.items),
                "crops": tuple(crop for answer in answers for crop in answer.crops),
                "text": "\n".join(answer.text for answer in answers),
            }
        )


class Banks:
    """Builds the banks of one seed, or opens them where they were finished before.

    Args:
        folder: takes one folder a bank.
        encoder: of all of them.
        oracle: judges the construction attempts.
        pictures: the page of each task.
        config: settings of all of them.
        controllers: of all of them; None: each loads its own by the settings.
    """

    def __init__(
        self,
        folder: Path,
        encoder: Encoder | None,
        oracle: Oracle,
        pictures: Mapping[str, Picture],
        config: Config = CONFIG,
        controllers: tuple[MemoryController, TreeOrganizer] | None = None,
    ) -> None:
        self._folder = folder
        self._encoder = encoder
        self._oracle = oracle
        self._pictures = pictures
        self._config = config
        self._controllers = controllers

    def open(self, name: str, attempts: Sequence[Attempt], *, tree: bool) -> ExperienceMemory:
        """Return the frozen bank of these attempts; without `tree` its lessons stay in the inbox."""
        path = self._folder / name
        done = path.with_suffix(".done")
        if not done.exists():
            _remove(path)
            with ExperienceMemory.create(
                path, self._config, encoder=self._encoder, controllers=self._controllers
            ) as memory:
                self._contribute(memory, attempts)
                memory.ingest()
                if tree:
                    memory.maintain()
                memory.freeze()
            done.touch()
        return ExperienceMemory.open(
            path,
            read_only=True,
            phase="evaluation",
            encoder=self._encoder,
            controllers=self._controllers,
        )

    def _contribute(self, memory: ExperienceMemory, attempts: Sequence[Attempt]) -> None:
        for item in attempts:
            picture = self._pictures[item.task.task_id]
            memory.add_image(picture.png)
            run_id = uuid7()
            run = run_of(item, picture, run_id=run_id, created_at="2026-01-01T00:00:00Z")
            memory.contribute(run, outcome=outcome_of(item, self._oracle, run_id=run_id))


def _remove(path: Path) -> None:
    import shutil

    from epimem.bank.side import side_folder

    for folder in (path, side_folder(path)):
        shutil.rmtree(folder, ignore_errors=True)


def arms_of(banks: Banks, attempts: Sequence[Attempt], seed: int) -> dict[str, Arm]:
    """Return the arms of a seed; they keep what they looked up, for all numbers of tries."""
    memory = banks.open("product", attempts, tree=True)
    product = Retrieved(memory, Persistent(budget=BUDGET))
    return {
        "none": Nothing(),
        "product": product,
        "flat": Retrieved(banks.open("flat", attempts, tree=False), Persistent(budget=BUDGET)),
        "shuffled": Retrieved(
            banks.open("shuffled", permuted(attempts, seed), tree=True), Persistent(budget=BUDGET)
        ),
        "wrong": Wrong(product),
        "frequency": Frequent(memory, Asking(budget=BUDGET)),
        "oracle": Best(product),
    }


def solver_of(
    questions: Mapping[str, Explored], tries: int
) -> Callable[[PublicTask, Handout | None, int], str]:
    """Return the host: it tries what memory suggests first, then its own programs, `tries` in all."""

    def solve(task: PublicTask, memory: Handout | None, seed: int) -> str:
        explored = questions[task.id]
        suggested = suggested_programs(memory.input) if memory is not None else ()
        order = held_out_order(explored.task, seed)
        return answer_text(best_within(explored, suggested, order, tries=tries))

    return solve


def same_grids(task: PublicTask, answer: str, reference: str) -> bool:
    """Tell whether all test grids were submitted exactly."""
    del task
    return answer == reference


def stream(questions: Sequence[Explored], oracle: Oracle) -> list[EvalTask]:
    """Return the tasks as a stream; the test outputs are sealed in it."""
    return [
        EvalTask(
            id=item.task.task_id,
            question=describe(item.task),
            family=FAMILY,
            group=item.task.task_id,
            reference=oracle.reference(item.task.task_id),
        )
        for item in questions
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment; exit status 0 where the line is reached and nothing leaked, else 1."""
    parser = argparse.ArgumentParser(description="The ARC experiment; see the module's docstring.")
    parser.add_argument("--folder", type=Path, default=Path("arc-experiment"))
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many, from 0")
    parser.add_argument("--tries", type=int, nargs="+", default=list(TRIES))
    parser.add_argument(
        "--development", action="store_true", help="halves of the training tasks, no line"
    )
    parser.add_argument("--memory-controller", default="embedded", metavar="SPEC")
    parser.add_argument("--tree-organizer", default="embedded", metavar="SPEC")
    parser.add_argument("--results", type=Path, metavar="FILE", help="takes the headline figures")
    options = parser.parse_args(arguments)
    try:
        return run(
            options.folder,
            options.seeds,
            options.tries,
            development=options.development,
            config=config_of(options.memory_controller, options.tree_organizer),
            results=options.results,
        )
    except EpimemError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def config_of(memory_controller: str, tree_organizer: str) -> Config:
    """Return the settings of the banks with these controllers."""
    return CONFIG.model_copy(
        update={
            "memory_controller": ControllerConfig(spec=memory_controller),
            "tree_organizer": ControllerConfig(spec=tree_organizer),
        }
    )


def run(
    folder: Path,
    seeds: int,
    tries: Sequence[int],
    *,
    development: bool,
    config: Config = CONFIG,
    results: Path | None = None,
) -> int:
    """Run all seeds and numbers of tries, print the tables, and write `results.json`, and `results`."""
    # Loaded once for all banks: a model may stand behind them.
    roles = plugins.Controllers(None)
    try:
        controllers = roles.memory_controller(config), roles.tree_organizer(config)
        found = _run(folder, seeds, tries, config, controllers, development=development)
    finally:
        roles.close()
    if results is not None:
        headline(found).write(results)
    return _report(folder, found, line=not development)


def _run(
    folder: Path,
    seeds: int,
    tries: Sequence[int],
    config: Config,
    controllers: tuple[MemoryController, TreeOrganizer],
    *,
    development: bool,
) -> dict[int, EvalResult]:
    training, training_oracle = load_tasks()
    known = _explored(training)
    if development:
        material = {seed: Material(*map(tuple, split(known, seed))) for seed in range(seeds)}
        oracle = training_oracle
    else:
        tasks, oracle = load_tasks("evaluation")
        questions = _explored(tasks)
        material = {seed: Material(known, questions) for seed in range(seeds)}
    _print_ceiling(material, oracle)
    pictures = {item.task.task_id: draw(item.task) for item in known}
    encoder = load_encoder(CONFIG.encoder.model)
    arms: dict[int, dict[str, Arm]] = {}
    for seed, item in material.items():
        order = search_order(f"construction {seed}")
        told = contributed(
            [attempt(e, order, training_oracle, seed=seed) for e in item.construction]
        )
        banks = Banks(
            folder / f"seed-{seed}", encoder, training_oracle, pictures, config, controllers
        )
        arms[seed] = arms_of(banks, told, seed)
        _note(f"seed {seed}: banks of {len(told)} runs are ready")
    results = {count: _evaluate(folder, material, oracle, arms, tries=count) for count in tries}
    for made in arms.values():
        for arm in made.values():
            for bank in arm.banks():
                bank.close()
    return results


def _evaluate(
    folder: Path,
    material: Mapping[int, Material],
    oracle: Oracle,
    arms: Mapping[int, Mapping[str, Arm]],
    *,
    tries: int,
) -> EvalResult:
    questions = {e.task.task_id: e for item in material.values() for e in item.questions}
    started = time.monotonic()
    result = evaluate(
        lambda seed: stream(material[seed].questions, oracle),
        solver_of(questions, tries),
        arms=lambda seed: arms[seed],
        scorer=same_grids,
        seeds=material,
        work=folder / f"tries-{tries}",
        setup={"tries": tries, "asks": ASKS},
    )
    _note(f"{tries} tries: {time.monotonic() - started:.0f} s")
    return result


def _explored(tasks: Sequence[ArcTask]) -> tuple[Explored, ...]:
    _note(f"try {len(all_programs())} programs on each of {len(tasks)} tasks")
    return tuple(explore(task) for task in tasks)


def _print_ceiling(material: Mapping[int, Material], oracle: Oracle) -> None:
    ceilings = [
        sum(
            any(
                oracle.right(item.task.task_id, found.answer(item.task.test_inputs))
                for found in item.fitting
            )
            for item in one.questions
        )
        for one in material.values()
    ]
    asked = {len(one.questions) for one in material.values()}
    print(f"Solvable by some program, with unlimited tries: {sorted(set(ceilings))} of {asked}")


def _report(folder: Path, results: Mapping[int, EvalResult], *, line: bool) -> int:
    names = [found.arm for found in next(iter(results.values())).arms]
    print("\nTasks solved, mean over seeds")
    print(
        "tries | " + " | ".join(f"{name:>9}" for name in names) + " | product - shuffled, by seed"
    )
    table: dict[int, dict[str, Any]] = {}
    for tries, result in results.items():
        means = {name: result.arm(name).mean for name in names}
        shuffled = result.over("shuffled")
        table[tries] = {
            "mean": means,
            "sd": {name: result.arm(name).sd for name in names},
            "over": {
                name: {
                    "mean": found.mean_count,
                    "low": found.low * found.pairs / len(found.by_seed),
                    "high": found.high * found.pairs / len(found.by_seed),
                    "by_seed": list(found.by_seed.values()),
                }
                for name in names
                if name != "product"
                for found in [result.over(name)]
            },
            "leaks": len(result.leaks),
        }
        cells = " | ".join(f"{means[name]:>9.1f}" for name in names)
        print(f"{tries:>5} | {cells} | {list(shuffled.by_seed.values())}")
    print("\nproduct minus another arm, tasks: mean [95 % interval]")
    for tries, row in table.items():
        compared = [
            f"{name} {found['mean']:+.1f} [{found['low']:+.1f}, {found['high']:+.1f}]"
            for name, found in row["over"].items()
        ]
        print(f"{tries:>5} | " + " | ".join(compared))
    (folder / "results.json").write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    leaks = sum(len(result.leaks) for result in results.values())
    if leaks:
        print(f"\nCONTAMINATED: {leaks} tasks or references are known to a bank")
    reached = _judge(results[LINE_TRIES]) if line else True
    return 0 if reached and not leaks else 1


def headline(results: Mapping[int, EvalResult]) -> BenchResult:
    """Return what controllers are compared by: tasks solved with `LINE_TRIES` tries, or the fewest."""
    tries = LINE_TRIES if LINE_TRIES in results else min(results)
    result = results[tries]
    over = [
        BenchMeasure(
            name=f"memory - {arm}",
            value=it.mean_count,
            low=it.low * it.pairs / len(it.by_seed),
            high=it.high * it.pairs / len(it.by_seed),
        )
        for arm in ("none", "shuffled")
        for it in [result.over(arm)]
    ]
    solved = BenchMeasure(name="solved with memory", value=result.arm("product").mean)
    return BenchResult(bench=f"arc, tasks solved in {tries} tries", measures=(solved, *over))


def _judge(result: EvalResult) -> bool:
    found = result.over("shuffled")
    reached = found.mean_count >= LINE_MEAN and found.above >= LINE_SEEDS
    print(
        f"\nThe line, with {LINE_TRIES} tries: product - shuffled {found.mean_count:+.1f} on average "
        f"(at least {LINE_MEAN:+.0f}), above zero in {found.above} of {len(found.by_seed)} seeds "
        f"(at least {LINE_SEEDS}): {'reached' if reached else 'NOT reached'}"
    )
    return reached


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
