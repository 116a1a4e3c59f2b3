"""Padding, collator and MFU of fine-tuning: `python -m benchmarks.training.throughput`.

Rows come from the procedural worlds, cut into tokens by a small tokenizer, so that they are some three
times as long as with a real one. On a processor a tiny model shows that the recipe runs; MFU is not
measured there. With a GPU the shape of Qwen3-VL-2B is trained with random weights, by an adapter and as
a whole, and a profile names the largest causes of idle time. MFU is given twice: as defined, with the
output layer for every token, and with that layer for the labelled tokens alone, which is what runs.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.controllers.two_roles import TEXT, VISION
from benchmarks.training.idle import idle, spans
from tests.controllers.backends import tiny_qwen3_vl, torchvision_beside
from training.demonstrations.record import ROLE_OF, Demonstration
from training.sft.config import SftConfig, parse

BUDGETS = (8_192, 16_384)
COUNT = 6  # of each operation and world
WARM = 4  # steps that are not counted
MEASURED = 12
PROFILED = 3


class Worlds:
    """Demonstrations of all worlds as a set stores them, all of them to learn from."""

    def __init__(self, folder: Path, count: int) -> None:
        from training.demonstrations.store import DemonstrationSet
        from training.worlds import WORLDS, demonstrations

        with DemonstrationSet.create(folder) as made:
            for world in WORLDS:
                for each, _ in demonstrations(world, seed=0, count=count):
                    made.add(each)
        self.all = list(DemonstrationSet.open(folder).read())

    def read(self, split: Any = None, operations: Any = None) -> Any:
        """Yield those of some operations; none is held out."""
        if split == "train":
            yield from (each for each in self.all if each.operation in operations)


def main() -> None:
    """Print all that can be measured on this machine."""
    torchvision_beside.enable()
    import torch

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        found = Worlds(folder / "worlds", COUNT)
        tiny = tiny_qwen3_vl.write_checkpoint(folder / "tiny")
        rates = _rows(tiny, found.all)
        if torch.cuda.is_available():
            large = tiny_qwen3_vl.write_checkpoint(
                folder / "large", text=TEXT, vision=VISION, dtype="bfloat16"
            )
            for method, checkpointing in (("lora", False), ("full", True)):
                config = _config(method, checkpointing=checkpointing, tokens=BUDGETS[0])
                _train(config, found, large, folder / method, rates)
                _profile(config, found, large, folder / f"{method}-profile")
        else:
            config = _config("lora", checkpointing=False, tokens=BUDGETS[0])
            _train(config, found, tiny, folder / "run", rates)
            print("MFU: not measured, there is no GPU")


def _rows(tiny: Path, found: Sequence[Demonstration]) -> float:
    """Print padding and the collator's rate; return rows per second of one processor's time."""
    from controllers.backends.local_base import Base
    from training.sft.batches import schedule
    from training.sft.rows import RowMaker, collate
    from training.sft.survey import survey

    base = Base(str(tiny))
    maker = RowMaker(base.processor, base.markers)
    for role in dict.fromkeys(ROLE_OF.values()):
        mine = [each for each in found if ROLE_OF[each.operation] == role]
        lengths = survey(maker, mine, 10**6).lengths
        print(f"{role}: {len(mine)} rows of {min(lengths):,} to {max(lengths):,} tokens")
        for tokens in BUDGETS:
            plan = schedule(lengths, tokens=tokens, rows=64, epochs=2, accumulate=1, seed=0)
            each = len(lengths) * 2 / len(plan.rounds)
            print(
                f"  batches of {tokens:,} tokens: padding {plan.waste(lengths):.1%} "
                f"(8 rows as they come: {_as_they_come(lengths):.1%}), {each:.1f} rows each"
            )
    began = time.process_time()
    for at in range(0, len(found), 4):
        collate([maker.row(each) for each in found[at : at + 4]], maker.pad)
    rate = len(found) / (time.process_time() - began)
    print(f"collator: {rate:.0f} rows/s of one processor's time, images included")
    return rate


def _as_they_come(lengths: Sequence[int]) -> float:
    groups = [lengths[at : at + 8] for at in range(0, len(lengths), 8)]
    return 1 - sum(lengths) / sum(len(group) * max(group) for group in groups)


def _config(method: str, *, checkpointing: bool, tokens: int) -> SftConfig:
    values = {
        "method": method,
        "checkpointing": checkpointing,
        "epochs": 10,
        "max_steps": WARM + MEASURED,
        "checkpoint_every": 10_000,
        "optimizer": {"learning_rate": 1e-6},
        "batch": {"tokens": tokens, "accumulate": 1},
        "dev": {"rows": 0},
    }
    return parse(values)


def _train(config: SftConfig, found: Worlds, model: Path, out: Path, rate: float) -> None:
    """Print the rate of the recipe, and MFU where the peak of the device is known."""
    from training.sft.progress import LOG, read
    from training.sft.recipe import train

    train(config, found, out, model=str(model), role="tree_organizer")
    steps = [line for line in read(out / LOG) if line["event"] == "step"][WARM:]
    tokens = statistics.median(line["tokens_per_second"] for line in steps)
    share = statistics.median(line["rows"] / rate / line["seconds"] for line in steps)
    mfu = [line["mfu"] for line in steps if line["mfu"] is not None]
    told = ""
    if mfu:
        middle = statistics.median(mfu)
        told = f", MFU {middle:.1%} ({middle * _executed(config, found, model):.1%} as executed)"
    print(
        f"{config.method} on {model.name}: {tokens:,.0f} tokens/s{told}, "
        f"{statistics.median(line['tokens'] for line in steps):,.0f} tokens a step, "
        f"collator {share:.1%} of a step if one processor did it in between"
    )


def _executed(config: SftConfig, found: Worlds, model: Path) -> float:
    """Return the share of the counted work that is done: without the output layer for prompts."""
    from controllers.backends.local_base import control_tokens, kind_and_processor
    from controllers.backends.local_packages import package
    from training.sft import flops
    from training.sft.plan import counted
    from training.sft.rows import RowMaker
    from training.sft.survey import survey

    shape = flops.shape(counted(config, package("transformers").AutoConfig.from_pretrained(model)))
    _, processor = kind_and_processor(str(model))
    maker = RowMaker(processor, sorted(control_tokens(processor.tokenizer).values()))
    learnt = [each for each in found.all if ROLE_OF[each.operation] == "tree_organizer"]
    rows = survey(maker, learnt, config.batch.max_length).rows
    done = sum(shape.training(row.length, row.grids, scored=row.reply_tokens) for row in rows)
    return done / sum(shape.training(row.length, row.grids) for row in rows)


def _profile(config: SftConfig, found: Worlds, model: Path, out: Path) -> None:
    """Print the share of time that the GPU stood idle, and why."""
    import torch

    from training.sft.recipe import train

    short = config.model_copy(update={"max_steps": PROFILED})
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as profile:
        train(short, found, out, model=str(model), role="tree_organizer")
    kernels, calls = spans(profile.events())
    result = idle(kernels, calls)
    print(f"  idle {result.share:.1%} of the time between kernels:")
    for name, share in result.causes:
        print(f"    {share:6.1%}  {name}")


if __name__ == "__main__":
    main()
