"""A pool of small real solvers on BIG-Bench Hard, whole and without each of its parts.

    python -m benchmarks.evochamber.bbh                      five arms, three seeds, 200 tasks each
    python -m benchmarks.evochamber.bbh --arm full --seed 0  one run, which goes on where it stopped

The tasks are read beside the checkout. An agent begins with two of nine skills and guesses otherwise;
what it learns is a sentence that names a skill. Niches are the tasks' kinds, mixed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.evochamber.pools import on_bank
from benchmarks.evochamber.skills import SkilledModel
from harness_adapters.evochamber import report
from harness_adapters.evochamber.chamber import Episode
from harness_adapters.evochamber.problem import Problem
from harness_adapters.evochamber.running import summary
from harness_adapters.evochamber.settings import PARTS, settings_of
from harness_adapters.evochamber.start import problem_of
from harness_adapters.streams import bbh
from harness_adapters.streams.sampling import per_niche, sampled, shuffled

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "bbh"
NICHES = (
    "boolean_expressions",
    "dyck_languages",
    "multistep_arithmetic_two",
    "navigate",
    "object_counting",
    "temporal_sequences",
    "tracking_shuffled_objects_three_objects",
    "web_of_lies",
    "word_sorting",
)
ARMS: dict[str, dict[str, Any]] = {
    "full": {},
    **{f"no {part}": {"without": (part,)} for part in PARTS},
}
ENCODER = "table:128"


def stream(items: int, seed: int) -> list[Problem]:
    """Return so many tasks, as many of each niche as can be, mixed."""
    every = [task for task in bbh.tasks(DATA) if task.niche in NICHES]
    drawn = per_niche(every, items // len(NICHES) + 1, seed)
    chosen = shuffled(sampled(drawn, items, seed, "items"), seed)
    return [problem_of(task, DATA, "checker") for task in chosen]


def one(arm: str, seed: int, items: int, folder: Path) -> list[Episode]:
    """Run one arm under one seed; goes on where it stopped."""
    return on_bank(
        folder,
        {"arm": arm, "seed": seed, "items": items},
        settings_of(**ARMS[arm]),
        SkilledModel(),
        stream(items, seed),
        seed=seed,
        encoder=ENCODER,
    )


def told(arm: str, seed: int, episodes: Sequence[Episode]) -> dict[str, Any]:
    """Return what is printed of a run."""
    found, signals = summary(episodes), report.signals(episodes, window=32)
    return {
        "arm": arm,
        "seed": seed,
        "score": found["score"],
        "insights": found["insights"],
        "agents": found["agents"],
        "specialization": round(signals.overall, 3),
        "unique anchors": signals.unique_anchors,
        "tokens over single": found["tokens_over_single"],
        "own ms a task": found["own_ms_a_task"],
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--arm", choices=ARMS, action="append")
    parser.add_argument("--seed", type=int, action="append")
    parser.add_argument("--folder", type=Path, default=Path("evochamber-bbh"))
    given = parser.parse_args()
    if not DATA.is_dir():
        sys.exit("the tasks are read from ../shared/data/bbh, which is not there")
    for seed in given.seed or range(3):
        for arm in given.arm or ARMS:
            folder = given.folder / f"{arm.replace(' ', '-')}-{seed}"
            episodes = one(arm, seed, given.items, folder)
            report.draw(report.signals(episodes, window=32), folder / "report")
            print(json.dumps(told(arm, seed, episodes)), flush=True)


if __name__ == "__main__":
    main()
