"""Fine-tuning of one controller, from top to bottom: data, model, rows, batches, trainer, what is left.

    demonstrations ── rows ── schedule ──> SFTTrainer ──> checkpoints ──> adapter/ or weights/
                                              │  └─ accuracy on the split dev at each checkpoint
                                              └──── log.jsonl, run.json

The same command goes on after a kill: it finds the last whole checkpoint, makes the same schedule again
and skips what was done. On a processor the losses are those of a run that was never interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from controllers.backends.local_base import Base
from controllers.backends.transformers import PRESETS
from epimem.errors import ConfigError
from training.demonstrations.record import ROLE_OF
from training.sft import checkpoints, dev, flops, tuning
from training.sft.batches import Schedule, schedule
from training.sft.progress import LOG, Clock, Log, Work, accuracies, best
from training.sft.rows import RowMaker
from training.sft.run_record import RunRecord, described
from training.sft.survey import Aside, Survey, survey, write_aside
from training.sft.trainer import Parts, fit, make_trainer

if TYPE_CHECKING:
    from epimem.plugins import Role
    from training.demonstrations.record import Demonstration
    from training.sft.config import SftConfig

LEFT = {"lora": "adapter", "full": "weights"}
ASIDE = "aside.jsonl"
Tell = Callable[[str], None]


def _silent(text: str) -> None:
    del text


class Demonstrations(Protocol):
    """What a recipe reads: `training.demonstrations.store.DemonstrationSet` or alike."""

    def read(self, split: Any = None, operations: Any = None) -> Iterator[Demonstration]:
        """Yield the demonstrations of a split and of these operations."""
        ...


@dataclass(frozen=True)
class Result:
    """What a run left.

    `path` is the adapter or the weights of the best checkpoint (of the last one without a split `dev`)
    and `step` the optimizer step after which it was written; `steps` is how far the run came. `accuracy`
    is that of `path` on the split `dev`, None without one. `aside` counts what could not be learnt, by
    reason; `padding` is the share of padding of all batches.
    """

    path: Path
    step: int
    steps: int
    rows: int
    padding: float
    accuracy: float | None = None
    aside: dict[str, int] = field(default_factory=dict)


def train(
    config: SftConfig,
    demonstrations: Demonstrations,
    out: Path,
    *,
    model: str,
    role: Role,
    tell: Tell = _silent,
) -> Result:
    """Fine-tune a model for one role; go on with it where `out` holds the beginning of this run.

    Args:
        config: settings.
        demonstrations: its splits `train` and `dev` are read, of the operations of the role.
        out: folder of the run; made where there is none.
        model: folder, hub name or preset of the base.
        role: whose operations are learnt.
        tell: is told of progress in short texts.

    Raises:
        ConfigError: no model, nothing to learn from, another run in the folder, or a checkpoint that is
            not as it was written.
        PluginError: a package of the extra `train` is missing.
    """
    for name in ("trl", "peft", "datasets"):
        tuning.training_package(name)
    tuning.quiet()
    world = tuning.World()
    tell = tell if world.main else _silent
    out.mkdir(parents=True, exist_ok=True)

    # Which run this is, and whether it is done already.
    path = PRESETS.get(model, model)
    learn, unread = read(demonstrations, "train", role)
    held_out, _ = read(demonstrations, "dev", role) if config.dev.rows else ([], [])
    held_out = dev.drawn(held_out, config.dev.rows, config.seed)
    description = described(
        config,
        model=path,
        role=role,
        ranks=world.size,
        train=learn,
        dev=held_out,
        card=_card(demonstrations),
    )
    with world.main_first():
        record = RunRecord(out, description, writes=world.main)
    if record.result is not None:
        return Result(**{**record.result, "path": out / record.result["path"]})

    # A base of its own: what is learnt must not change a model that others in this process use.
    base = Base(path)

    # The rows, and the batches of the whole run.
    maker = RowMaker(base.processor, base.markers)
    most = min(config.batch.max_length, base.context)
    found = survey(maker, learn, most, rank=world.rank, ranks=world.size, gather=world.gather)
    found = replace(found, aside=(*unread, *found.aside))
    if world.main:
        write_aside(out / ASIDE, found)
    if not found.rows:
        raise ConfigError("there is nothing to learn from in the split train", field=role)
    batch = config.batch
    plan = schedule(
        found.lengths,
        tokens=batch.tokens,
        rows=batch.rows,
        epochs=config.epochs,
        accumulate=batch.accumulate,
        seed=config.seed,
        ranks=world.size,
        kinds=found.kinds,
    )
    steps = min(plan.steps, config.max_steps or plan.steps)

    # Where an earlier process came to.
    with world.main_first():
        checkpoint = checkpoints.last(out)
    done = checkpoints.step_of(checkpoint) if checkpoint else 0
    tell(_told(found, plan, steps, done))
    with closing(Log(out / LOG, done, writes=world.main)) as log:
        # The trainer.
        adapter = tuning.prepare(base.model, config)
        arguments = tuning.arguments(config, out, steps=steps, evaluates=bool(held_out))
        peak = flops.peak(world.device)
        backend = dev.Served(base)
        parts = Parts(
            maker=maker,
            found=learn,
            choice_weight=config.choice_weight * found.reply_tokens / len(found.rows),
            places=[row.place for row in found.rows],
            plan=plan,
            work=lambda step: _work(shape, found, plan, step),
            clock=Clock(peak * world.size if peak else None),
            log=log,
            measure=(lambda: _measure(world, backend, held_out)) if held_out else None,
            patience=config.dev.patience,
            tell=tell,
            wait=world.wait,
        )
        trainer = make_trainer(base.model, base.processor, arguments, adapter, parts)
        shape = flops.shape(base.model)
        if not dev.exhausted(accuracies(log.lines), config.dev.patience):
            fit(trainer, checkpoint)

    # What the run leaves.
    result = _result(config, out, found, plan, log)
    if world.main:
        checkpoints.leave(out / f"checkpoint-{result.step}", result.path)
        record.note(result={**asdict(result), "path": result.path.name})
    world.wait()
    return result


def read(
    demonstrations: Demonstrations, split: str, role: Role
) -> tuple[list[Demonstration], list[Aside]]:
    """Return the demonstrations of a split that a role learns from, and what could not be read."""
    operations = [name for name, whose in ROLE_OF.items() if whose == role]
    found = list(demonstrations.read(split, operations))
    skipped = getattr(demonstrations, "skipped", ())
    return found, [Aside(f"line {each.line}", "", each.code, each.message) for each in skipped]


def _work(shape: flops.Shape, found: Survey, plan: Schedule, step: int) -> Work:
    """Return what an optimizer step holds, over all ranks."""
    batches = plan.batches(step)
    rows = [found.rows[place] for batch in batches for place in batch]
    filled = [max(found.rows[place].length for place in batch) * len(batch) for batch in batches]
    return Work(
        rows=len(rows),
        tokens=sum(row.length for row in rows),
        padded=sum(filled),
        flops=sum(shape.training(row.length, row.grids) for row in rows),
    )


def _measure(
    world: tuning.World, backend: dev.Served, held_out: list[Demonstration]
) -> dev.Accuracy:
    """Return the accuracy on the split dev, each process measuring a share of it."""
    mine = dev.measure(backend, held_out if world.sharded else held_out[world.rank :: world.size])
    return dev.summed(held_out, dict(world.gather(list(mine.items()))))


def _result(config: SftConfig, out: Path, found: Survey, plan: Schedule, log: Log) -> Result:
    lines = [line for line in log.lines if line["event"] == "step"]
    kept = best(log.lines)
    last = lines[-1]["step"]
    return Result(
        path=out / LEFT[config.method],
        step=kept["step"] if kept else last,
        steps=last,
        rows=len(found.rows),
        padding=round(plan.waste(found.lengths), 4),
        accuracy=kept["operation_accuracy"] if kept else None,
        aside=found.reasons,
    )


def _card(demonstrations: Demonstrations) -> Path | None:
    folder = getattr(demonstrations, "path", None)
    card = folder / "card.json" if isinstance(folder, Path) else None
    return card if card is not None and card.is_file() else None


def _told(found: Survey, plan: Schedule, steps: int, done: int) -> str:
    aside = sum(found.reasons.values())
    reasons = ", ".join(f"{count} {name}" for name, count in found.reasons.items())
    beside = f" ({aside} set aside: {reasons})" if aside else ""
    goes_on = f"; going on after step {done}" if done else ""
    waste = plan.waste(found.lengths)
    return f"{len(found.rows)} rows{beside}, {steps} steps, padding {waste:.1%}{goes_on}"
