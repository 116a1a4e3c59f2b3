"""Does the recipe teach a small model of the Qwen3-VL architecture, from nothing, where to look?

    make train-vision
    python -m benchmarks.training.vision --report

A model of two million random weights (`vision_model`) first learns where the key of a drawn page stands
(`vision_start`). Then it learns `gate` and `update` from the procedural world of charts by the recipe of
`epimem train sft`: all weights, those of the vision tower too. It is asked about houses that it has not
seen, through the backend that serves, under the product's prompts; pictures are shown in
`vision_data.PIXELS`.

Measures: accuracy of the gate over the more frequent answer; IoU of the region that an update points to,
where it has to point to one, over the mean box of training, and over the mean box of pages of that
size, which is all that words tell of a page. The same model is asked once more with blank pictures: what
is lost then is what it has seen. Intervals draw whole banks of houses again (`intervals`).
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.training.intervals import over_groups
from benchmarks.training.learnt import Learnt
from benchmarks.training.vision_data import Counts, blank, drawn, texts, with_pictures
from benchmarks.training.vision_model import write
from benchmarks.training.vision_start import learn_to_see
from controllers.backends.transformers import TransformersBackend
from controllers.model.memory_controller import ModelMemoryController
from epimem.protocols import Reply
from epimem.schema.region import SCALE, Region
from epimem.schema.working_memory import Update
from tests.controllers.backends import torchvision_beside
from training.demonstrations.record import Demonstration
from training.evaluation.likeness import overlap
from training.export.export import MERGED, export
from training.sft.config import BatchSettings, DevSettings, OptimizerSettings, SftConfig

FOLDER = Path("train-vision")
RESULT = "result.json"
HELD_OUT_SEED = 5000
TOGETHER = 24
Box = tuple[int, int, int, int]
Boxes = Mapping[tuple[int, int] | None, Box]


@dataclass(frozen=True)
class Plan:
    """What is learnt and asked, how often, and how many steps a model learns to see before."""

    learnt: Counts
    asked: Counts
    epochs: int
    start: int
    learning_rate: float = 1e-3


PLAN = Plan(
    learnt=Counts(gates=10_000, regions=4000, others=200),
    asked=Counts(gates=320, regions=160, others=0),
    epochs=1,
    start=1500,
)


def settings(plan: Plan, seed: int) -> SftConfig:
    """Return the settings of training: eight rows a step, all weights."""
    return SftConfig(
        method="full",
        vision_tower="learnt",
        epochs=plan.epochs,
        seed=seed,
        checkpointing=False,
        checkpoint_every=50,
        optimizer=OptimizerSettings(learning_rate=plan.learning_rate, warmup=0.05),
        batch=BatchSettings(tokens=8192, rows=8, accumulate=1, max_length=4096),
        dev=DevSettings(rows=0, patience=0),
    )


def trained(folder: Path, learnt: Sequence[Demonstration], plan: Plan, seed: int) -> Path:
    """Return the checkpoint that recipe and export make, from nothing, of demonstrations."""
    from training.sft.recipe import train

    start, out = folder / "start", folder / "exported"
    if not start.is_dir():
        part = folder / "start.part"
        shutil.rmtree(part, ignore_errors=True)
        write(part, texts(learnt), seed=seed)
        learn_to_see(part, plan.start, seed=seed, tell=_tell)
        part.rename(start)
    train(
        settings(plan, seed),
        Learnt(learnt),
        folder / "training",
        model=str(start),
        role="memory_controller",
        tell=_tell,
    )
    if not out.is_dir():
        export(folder / "training", out, model=str(start))
    return out / MERGED


def values(model: Path, asked: Sequence[Demonstration]) -> dict[str, Any]:
    """Return the values that a served model gives, by id; None where its reply is refused."""
    controller = ModelMemoryController(TransformersBackend(str(model)))
    found: dict[str, Any] = {}
    try:
        ways: dict[str, Callable[[Any], Sequence[Reply[Any]]]] = {
            "gate": controller.gate,
            "update": controller.update,
        }
        for operation, ask in ways.items():
            alike = [each for each in asked if each.operation == operation]
            for start in range(0, len(alike), TOGETHER):
                part = alike[start : start + TOGETHER]
                replies = ask([each.request for each in part])
                for each, reply in zip(part, replies, strict=True):
                    found[each.id] = reply.value if reply.reason is None else None
                _tell(f"{operation}: {start + len(part)} of {len(alike)} asked")
    finally:
        controller.close()
    return found


def boxes(demonstrations: Sequence[Demonstration]) -> Boxes:
    """Return the mean box in training, in 0..1000, by size of the page, and under None over all."""
    by_size: dict[tuple[int, int] | None, list[Box]] = {}
    for each in demonstrations:
        region = _wanted(each)
        if region is not None:
            for key in (None, (region.width, region.height)):
                by_size.setdefault(key, []).append(region.to_scaled())
    return {key: _mean(found) for key, found in by_size.items()}


def measured(
    asked: Sequence[Demonstration], answers: Mapping[str, Callable[[Demonstration], Any]]
) -> dict[str, Any]:
    """Return accuracy of gate and IoU of update by who answers.

    Args:
        asked: demonstrations of held-out houses.
        answers: by who; a decision for a gate, a region or None for an update.
    """
    found: dict[str, Any] = {"n": {"gate": 0, "update": 0}}
    for who, answer in answers.items():
        gates: dict[str, list[float]] = {}
        regions: dict[str, list[float]] = {}
        for each in _counted(asked):
            into = gates if each.operation == "gate" else regions
            into.setdefault(each.group, []).append(_score(each, answer(each)))
        found["n"] = {
            "gate": sum(map(len, gates.values())),
            "update": sum(map(len, regions.values())),
        }
        found[who] = {
            "gate accuracy": asdict(over_groups(gates)),
            "region IoU": asdict(over_groups(regions)),
        }
    return found


def gained(
    asked: Sequence[Demonstration],
    trained: Callable[[Demonstration], Any],
    other: Callable[[Demonstration], Any],
) -> dict[str, Any]:
    """Return by how much a model is better than another answer, question by question."""
    gates: dict[str, list[float]] = {}
    regions: dict[str, list[float]] = {}
    for each in _counted(asked):
        into = gates if each.operation == "gate" else regions
        difference = _score(each, trained(each)) - _score(each, other(each))
        into.setdefault(each.group, []).append(difference)
    return {
        "gate accuracy": asdict(over_groups(gates)),
        "region IoU": asdict(over_groups(regions)),
    }


def run(folder: Path, plan: Plan, seed: int) -> dict[str, Any]:
    """Return the result of a seed; training goes on where it was interrupted."""
    began = time.monotonic()
    learnt, asked = drawn(plan.learnt, seed), drawn(plan.asked, HELD_OUT_SEED + seed)
    weights = trained(folder, learnt, plan, seed)
    sighted = values(weights, asked)
    blind = values(weights, [with_pictures(each, blank) for each in asked])
    mean = boxes(learnt)
    often = round(sum(it.value for it in learnt if it.operation == "gate") / plan.learnt.gates)
    answers: dict[str, Callable[[Demonstration], Any]] = {
        "constant": lambda it: _constant(it, often, mean, by_size=False),
        "constant by page size": lambda it: _constant(it, often, mean, by_size=True),
        "trained": lambda it: _said(sighted[it.id]),
        "trained, blank pictures": lambda it: _said(blind[it.id]),
    }
    result = measured(asked, answers)
    for other in ("constant", "trained, blank pictures"):
        result[f"trained less {other}"] = gained(asked, answers["trained"], answers[other])
    result |= {
        "refused": sum(value is None for value in sighted.values()),
        "plan": asdict(plan),
        "minutes": (time.monotonic() - began) / 60,
    }
    (folder / RESULT).write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    return result


def table(result: Mapping[str, Any]) -> str:
    """Return a result as a table in Markdown."""
    count = result["n"]
    lines = [
        f"| | gate accuracy (n {count['gate']}) | region IoU (n {count['update']}) |",
        "| --- | --- | --- |",
    ]
    for who, found in result.items():
        if isinstance(found, dict) and "region IoU" in found:
            cells = [
                f"{part['mean']:.2f} [{part['low']:.2f}, {part['high']:.2f}]"
                for part in (found["gate accuracy"], found["region IoU"])
            ]
            lines.append(f"| {who} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, or print what is there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where a run is kept")
    parser.add_argument("--report", action="store_true", help="print what is there, and no more")
    asked = parser.parse_args(arguments)
    asked.folder.mkdir(parents=True, exist_ok=True)
    if not asked.report:
        run(asked.folder, PLAN, seed=0)
    print(table(json.loads((asked.folder / RESULT).read_text("utf-8"))))
    return 0


def _wanted(demonstration: Demonstration) -> Region | None:
    """Return the region that an update has to point to."""
    value = demonstration.value
    return value.evidence.region if isinstance(value, Update) and value.evidence else None


def _counted(asked: Sequence[Demonstration]) -> list[Demonstration]:
    """Return gates, and updates that have to point somewhere."""
    return [it for it in asked if it.operation == "gate" or _wanted(it) is not None]


def _score(demonstration: Demonstration, got: Any) -> float:
    """Return 1 or 0 for a gate, the overlap of the region that was wanted and the one that came."""
    if demonstration.operation == "gate":
        return float(got == demonstration.value)
    wanted = _wanted(demonstration)
    return overlap(wanted, got) if wanted is not None and got is not None else 0.0


def _size(demonstration: Demonstration) -> tuple[int, int]:
    page = demonstration.request.pages[0]
    return page.width, page.height


def _constant(demonstration: Demonstration, often: int, mean: Boxes, *, by_size: bool) -> Any:
    if demonstration.operation == "gate":
        return often
    size = _size(demonstration)
    return Region.from_scaled(mean.get(size if by_size else None, mean[None]), *size)


def _said(value: Any) -> Any:
    """Return the decision or region of a value."""
    if isinstance(value, Update):
        return value.evidence.region if value.evidence else None
    return value


def _mean(found: Sequence[Box]) -> Box:
    left, top, right, bottom = (
        min(SCALE, round(sum(edge) / len(found))) for edge in zip(*found, strict=True)
    )
    return left, top, right, bottom


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    torchvision_beside.enable()
    sys.exit(main())
