"""Does fine-tuning change what a real model does on families of questions that it was not trained on?

    make train-proof          seed 0
    make train-proof-long     seeds 0, 1, 2, and the control of random labels
    python -m benchmarks.training.proof --report OUT

SmolLM2-135M-Instruct (`weights`) learns place, merge and select by the recipe of `epimem train sft`,
from requests about 13 groups of BIG-Bench Hard families, and is asked about 10 other groups
(`families`, `requests`), before and after. The prompts are the product's, whole. A run that was
interrupted goes on where it was. What counts as a success was laid down beforehand (`proof_plan`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.text.vectors import cached_encoder
from benchmarks.training import controls
from benchmarks.training.answers import Answer, Tell, Written, answered, scored, wrote
from benchmarks.training.choices import Scorer
from benchmarks.training.families import load
from benchmarks.training.learnt import Learnt, scoring_replies_only
from benchmarks.training.proof_plan import (
    DEVELOPMENT_SEED,
    PLAN,
    SEEDS,
    Plan,
    Requests,
    requests,
    settings,
)
from benchmarks.training.proof_result import compared, table
from benchmarks.training.weights import checkpoint
from controllers.backends.local_base import acquire, release
from controllers.backends.transformers import TransformersBackend
from training.demonstrations.record import Demonstration

FOLDER = Path("train-proof")
RESULT = "result.json"


class Run:
    """One seed: before, training, after; each part keeps what it has in the folder."""

    def __init__(
        self, folder: Path, model: Path, found: Requests, plan: Plan, seed: int, tell: Tell
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._model = model
        self._found = found
        self._plan = plan
        self._seed = seed
        self._tell = tell

    def measure(self, name: str, adapter: Path | None = None) -> tuple[list[Answer], list[Written]]:
        """Return what the model chooses and writes, alone or under an adapter."""
        base = acquire(str(self._model))
        backend = TransformersBackend(str(self._model), str(adapter) if adapter else None)
        try:
            held = base.adapt(str(adapter)) if adapter else None
            scorer = Scorer(base, held)
            chosen = scored(self._folder / f"{name}.jsonl", self._found.asked, scorer, self._tell)
            said = wrote(
                self._folder / f"{name}-written.jsonl", self._found.written, backend, self._tell
            )
            if held:
                base.forget(held)
        finally:
            backend.close()
            release(base)
        return chosen, said

    def train(self, name: str, demonstrations: Sequence[Demonstration]) -> Path:
        """Return the adapter that the recipe makes of demonstrations."""
        from training.sft.recipe import train

        with scoring_replies_only():
            result = train(
                settings(self._plan, self._seed),
                Learnt(demonstrations),
                self._folder / name,
                model=str(self._model),
                role="tree_organizer",
                tell=self._tell,
            )
        return result.path

    def result(self, *, with_control: bool) -> dict[str, Any]:
        """Return the result of this seed, computing what is not in the folder yet."""
        learnt, asked = self._found.learnt, self._found.asked
        answers = {
            "first candidate": answered(asked, controls.first),
            "nothing": answered(asked, controls.nothing),
            "embedded": answered(asked, controls.embedded),
            "threshold on likeness": answered(asked, controls.threshold(learnt)),
        }
        said: dict[str, list[Written]] = {}
        answers["untrained"], said["untrained"] = self.measure("untrained")
        answers["trained"], said["trained"] = self.measure(
            "trained", self.train("training", learnt)
        )
        if with_control:
            shuffled = controls.with_random_labels(learnt, self._seed)
            adapter = self.train("training-random", shuffled)
            answers["random labels"], said["random labels"] = self.measure("random", adapter)
        return compared(answers, said)


def run(seed: int, folder: Path, *, with_control: bool, development: bool) -> dict[str, Any]:
    """Return the result of a seed, from the folder as far as it is there."""
    began = time.monotonic()
    encoder = cached_encoder()
    found = requests(load(), encoder, PLAN, seed, development=development)
    encoder.save()
    one = Run(folder / f"seed-{seed}", checkpoint(folder), found, PLAN, seed, _tell)
    result = one.result(with_control=with_control)
    result |= {"seed": seed, "plan": asdict(PLAN), "minutes": (time.monotonic() - began) / 60}
    (folder / f"seed-{seed}" / RESULT).write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    return result


def stored(folder: Path) -> dict[int, dict[str, Any]]:
    """Return the results in a folder by seed."""
    found = [json.loads(path.read_text("utf-8")) for path in folder.glob(f"seed-*/{RESULT}")]
    return {result["seed"]: result for result in found}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the seeds asked for and print the table; 1 where a line is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where a run is kept")
    parser.add_argument("--long", action="store_true", help="three seeds, and random labels")
    parser.add_argument("--development", action="store_true", help="practice groups alone")
    parser.add_argument("--report", action="store_true", help="print what is there, and no more")
    asked = parser.parse_args(arguments)
    if not asked.report:
        seeds = (DEVELOPMENT_SEED,) if asked.development else SEEDS if asked.long else SEEDS[:1]
        for seed in seeds:
            run(seed, asked.folder, with_control=asked.long, development=asked.development)
    results = stored(asked.folder)
    print(table(results))
    return 0 if results and all(result["passed"] for result in results.values()) else 1


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
