"""The experiment: do lessons about markers, which only their crops show, help on other maps?

    python -m benchmarks.metro.experiment [--folder metro-experiment] [--seeds 10] [--development]
        [--memory-controller SPEC] [--tree-organizer SPEC] [--results FILE]

For each seed a learner goes through maps of 15 cities under five operators, each with a convention
that no map states; banks of its runs are asked about maps of 15 other cities, half of which print a
legend. `--development` uses other seeds and the 15 construction cities alone, split in two, and is
what everything here was developed with. Interrupted, the same command goes on where it stopped.
`--results` writes the few figures that `epimem train evaluate --bench` compares controllers by.

Fixed before the first run on the evaluation cities, together with maps, questions, learner, run record
and host: the constants below and the lines in `lines`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.metro.ablation import SHIFTS, Ablate, Ablation, removed
from benchmarks.metro.asking import BUDGET, FrequentOnce, OnceAWording, WrongOfFew, at_random
from benchmarks.metro.banks import Banks, Controllers, builder, config_of
from benchmarks.metro.change import going_on
from benchmarks.metro.figures import Figures
from benchmarks.metro.learner import Episode, episodes, later_episodes
from benchmarks.metro.measures import WithoutScopes, plain, region_hits, rules_of
from benchmarks.metro.networks import Split, development_split, load_cities, split_cities
from benchmarks.metro.operators import OPERATORS, changed, draw_conventions
from benchmarks.metro.questions import Oracle, evaluation_questions, has_legend, stream
from benchmarks.metro.report import headline, report
from benchmarks.metro.run_record import CANARY
from benchmarks.metro.seed_results import SeedResults
from benchmarks.metro.solving import solver_of
from epimem import plugins
from epimem.bank.encoder import load_encoder
from epimem.config import Config
from epimem.errors import EpimemError
from epimem.evaluation import Arm, EvalTask, Given, Retrieved, StandardArms, evaluate
from epimem.evaluation.side_banks import RememberingEncoder
from epimem.protocols import Encoder

SEEDS = 10
DEVELOPMENT_SEED = 100
QUESTIONS = 300
SIZES = (0, 5, 10, 25, 50, 150)
"""Construction episodes of a bank, the same number of each operator."""
DECIDING = 50
"""Episodes at which memory is judged; the largest bank decides on the tree."""
MISREAD = 0.05
"""Share of markers that the learner takes for another; the host reads without mistakes, and also so."""
LATER = 30
"""Maps of the operator that changed its convention."""


@dataclass(frozen=True)
class Setting:
    """What all seeds have in common."""

    folder: Path
    split: Split
    config: Config
    encoder: Encoder | None
    controllers: Controllers
    questions: int
    sizes: tuple[int, ...]
    deciding: int


class Seed:
    """One seed: its conventions, episodes and questions, and everything that is measured on them.

    Args:
        setting: of the run.
        number: of the seed.
    """

    def __init__(self, setting: Setting, number: int) -> None:
        self._setting = setting
        self.number = number
        self._folder = setting.folder / f"seed-{number}"
        self._conventions = draw_conventions(number)
        self._oracle = Oracle(self._conventions)
        self._episodes = episodes(
            setting.split.construction,
            self._oracle,
            count=max(setting.sizes),
            rate=MISREAD,
            seed=number,
        )
        self._banks = Banks(
            self._folder / "banks", setting.config, setting.encoder, setting.controllers
        )
        self._results = SeedResults()

    def run(self) -> SeedResults:
        """Return the results of the seed, from the disk where they were finished before."""
        path = self._folder.with_suffix(".json")
        if path.exists():
            return SeedResults.load(path)
        tasks = self._stream(self._oracle, self._conventions, number=self.number)
        for size in self._setting.sizes:
            self._size(size, tasks)
        self._change()
        self._results.save(path)
        shutil.rmtree(self._folder)
        return self._results

    def _stream(
        self, oracle: Oracle, conventions: Mapping[str, Any], *, number: int
    ) -> list[EvalTask]:
        questions = evaluation_questions(
            self._setting.split.evaluation,
            conventions,
            count=self._setting.questions,
            seed=number,
        )
        return stream(questions, oracle, self._setting.folder / "maps")

    def _size(self, size: int, tasks: Sequence[EvalTask]) -> None:
        told = self._episodes[:size]
        path = self._banks.built(f"bank-{size}", builder(told, self._oracle))
        with (
            self._banks.open(path) as memory,
            StandardArms(
                memory,
                self._folder / "side-banks",
                names=self._names(size),
                asking=OnceAWording(budget=BUDGET),
            ) as standard,
        ):
            arms = dict(standard(self.number))
            product = arms["product"]
            assert isinstance(product, Retrieved)
            arms["wrong"] = WrongOfFew(product)
            arms["frequency"] = FrequentOnce(memory, OnceAWording(budget=BUDGET))
            arms["text only"] = Retrieved(
                memory, OnceAWording(budget=BUDGET.model_copy(update={"images": 0}))
            )
            few = {name: arms[name] for name in ("none", "product")}
            self._measure(f"{size}, misreading", tasks, few, rate=MISREAD)
            if size == self._setting.deciding:
                self._deciding(tasks, path, told, arms, product)
            if size == max(self._setting.sizes):
                self._one_item(path, arms)
            self._measure(str(size), tasks, arms)
            self._results.measures[f"hits {size}"] = plain(region_hits(memory, told))
            self._results.measures[f"rules {size}"] = plain(rules_of(memory))
            for arm in arms.values():
                arm.close()

    def _names(self, size: int) -> tuple[str, ...]:
        """Return the standard arms at a size; two more where it is decided."""
        few = ("none", "product", "flat")
        return (*few, "shuffled", "oracle") if size == self._setting.deciding else few

    def _one_item(self, path: Path, arms: dict[str, Arm]) -> None:
        one = BUDGET.model_copy(update={"max_rules": 1})
        arms["one item"] = Retrieved(
            lambda: self._banks.open(path, strict_selection=True), OnceAWording(budget=one)
        )

    def _deciding(
        self,
        tasks: Sequence[EvalTask],
        path: Path,
        told: Sequence[Episode],
        arms: dict[str, Arm],
        product: Retrieved,
    ) -> None:
        """Add the gate that is always open; measure ablations and the sabotaged products."""
        arms["always on"] = Retrieved(
            lambda: self._banks.open(path, gate="always"), OnceAWording(budget=BUDGET)
        )
        bare = [task for task in tasks if not has_legend(task.id)]
        self._measure("ablation", bare, self._ablations(product, bare, told))
        public = [task.public for task in tasks]
        ablation = Ablation(self._folder / "blank", product, {}, public)
        scopeless = self._banks.built(
            "without-scopes",
            builder(told, self._oracle),
            (WithoutScopes(self._setting.controllers[0]), self._setting.controllers[1]),
        )
        broken: dict[str, Arm] = {
            "random retrieval": Retrieved(product.memory, at_random(public)),
            "blank crops": _ablated(product, ablation.blanked),
            "empty scopes": Retrieved(
                lambda: self._banks.open(scopeless), OnceAWording(budget=BUDGET)
            ),
        }
        self._measure("sabotage", tasks, broken)
        for arm in broken.values():
            arm.close()

    def _ablations(
        self, product: Retrieved, tasks: Sequence[EvalTask], told: Sequence[Episode]
    ) -> dict[str, Arm]:
        sources = {e.question.map.image_id: e.question.map.pixels for e in told}
        public = [task.public for task in tasks]
        ablation = Ablation(self._folder / "ablation", product, sources, public)
        made: dict[str, Ablate] = {
            "removed": removed,
            "blanked": ablation.blanked,
            "swapped": ablation.swapped,
            **{f"shifted by {pixels}": ablation.shifted(pixels) for pixels in (0, *SHIFTS)},
        }
        return {name: _ablated(product, ablate) for name, ablate in made.items()}

    def _change(self) -> None:
        """Measure what becomes of the rule of an operator that changes its convention."""
        operator = OPERATORS[self.number % len(OPERATORS)]
        conventions = changed(self._conventions, operator.name, self.number)
        oracle = Oracle(conventions)
        later = later_episodes(
            self._setting.split.construction,
            oracle,
            operator,
            count=LATER,
            rate=MISREAD,
            seed=self.number,
        )
        told = self._episodes[: self._setting.deciding], self._oracle
        arms: dict[str, Arm] = {}
        for name, tells in (("with feedback", True), ("runs only", False)):
            made = self._folder / f"{name}.json"
            make = going_on(told, (later, oracle), operator.name, made, rate=MISREAD, tells=tells)
            path = self._banks.built(f"changed-{name}", make)
            arms[name] = self._opened(path)
            self._results.measures[f"change, {name}"] = json.loads(made.read_text("utf-8"))
        arms["before"] = self._opened(self._banks.folder / f"bank-{self._setting.deciding}")
        tasks = self._stream(oracle, conventions, number=1000 + self.number)
        asked = [
            task for task in tasks if operator.name in task.question and not has_legend(task.id)
        ]
        self._measure("change", asked, arms)
        for arm in arms.values():
            arm.close()

    def _opened(self, path: Path) -> Retrieved:
        return Retrieved(lambda: self._banks.open(path), OnceAWording(budget=BUDGET))

    def _measure(
        self, name: str, tasks: Sequence[EvalTask], arms: Mapping[str, Arm], *, rate: float = 0.0
    ) -> None:
        result = evaluate(
            tasks,
            solver_of(rate),
            arms=arms,
            seeds=[self.number],
            work=self._folder / name,
            setup={"rate": rate},
            canaries=[CANARY],
        )
        self._results.add(name, result)


def _ablated(product: Retrieved, ablate: Ablate) -> Given:
    def given(task: Any, seed: int) -> Any:
        del seed
        answer = product.answer(task)
        return ablate(task, answer) if answer.crops else answer

    return Given(given)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment; exit status 0 where every line is reached and nothing leaked, else 1."""
    parser = argparse.ArgumentParser(
        description="The metro experiment; see the module's docstring."
    )
    parser.add_argument("--folder", type=Path, default=Path("metro-experiment"))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(SEEDS)))
    parser.add_argument("--memory-controller", default="embedded", metavar="SPEC")
    parser.add_argument("--tree-organizer", default="embedded", metavar="SPEC")
    parser.add_argument(
        "--development", action="store_true", help="other seeds, construction cities only"
    )
    parser.add_argument("--results", type=Path, metavar="FILE", help="takes the headline figures")
    options = parser.parse_args(arguments)
    config = config_of(options.memory_controller, options.tree_organizer)
    split = split_cities(load_cities())
    seeds = options.seeds
    if options.development:
        split, seeds = development_split(split), [DEVELOPMENT_SEED + seed for seed in seeds]
    try:
        return run(options.folder, seeds, split, config, results=options.results)
    except EpimemError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def run(
    folder: Path,
    seeds: Sequence[int],
    split: Split,
    config: Config,
    *,
    questions: int = QUESTIONS,
    sizes: tuple[int, ...] = SIZES,
    deciding: int = DECIDING,
    results: Path | None = None,
) -> int:
    """Run all seeds, print tables and lines, and write `results.json`, and `results` if given."""
    loaded = load_encoder(config.encoder.model)
    encoder = RememberingEncoder(loaded) if loaded is not None else None
    # Loaded once for all banks: a model may stand behind them.
    roles = plugins.Controllers(None)
    try:
        controllers = roles.memory_controller(config), roles.tree_organizer(config)
        setting = Setting(folder, split, config, encoder, controllers, questions, sizes, deciding)
        found = {}
        for number in seeds:
            started = time.monotonic()
            found[number] = Seed(setting, number).run()
            print(f"seed {number}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    finally:
        roles.close()
    figures = Figures(found, deciding=deciding, largest=max(sizes))
    if results is not None:
        headline(figures).write(results)
    return report(folder, figures)


if __name__ == "__main__":
    sys.exit(main())
