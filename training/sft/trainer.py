"""TRL's SFTTrainer with three parts of ours: the order of batches, the measure, and the log."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

from controllers.backends.local_packages import package
from epimem.errors import ConfigError
from training.sft import checkpoints, dev
from training.sft.progress import Clock, Log, Work, accuracies
from training.sft.rows import RowMaker, chosen, collate
from training.sft.tuning import training_package

if TYPE_CHECKING:
    from training.demonstrations.record import Demonstration
    from training.sft.batches import Schedule

CHOSEN = "chosen"
Measure = Callable[[], dev.Accuracy]
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Parts:
    """What a trainer is made of beside the model.

    `found` and `places` say which demonstration a row of the schedule is; `work` says what an
    optimizer step holds, which counts from 1; `choice_weight` is what the weight 1 of a token by which a
    reply chooses is raised by; `measure` is None without a split `dev`; `wait`
    waits until all processes have come there.
    """

    maker: RowMaker
    found: Sequence[Demonstration]
    choice_weight: float
    places: Sequence[int]
    plan: Schedule
    work: Callable[[int], Work]
    clock: Clock
    log: Log
    measure: Measure | None
    patience: int
    tell: Tell
    wait: Callable[[], None]


def make_trainer(model: Any, processor: Any, arguments: Any, adapter: Any, parts: Parts) -> Any:
    """Return a trainer.

    Args:
        model: whose parameters say by `requires_grad` whether they are learnt.
        processor: of the model.
        arguments: from `tuning.arguments`.
        adapter: settings of PEFT, None to learn the weights themselves.
        parts: see there.
    """
    trl, datasets = training_package("trl"), training_package("datasets")

    class Trainer(trl.SFTTrainer):  # type: ignore[misc, name-defined]
        """Batches from the schedule, and accuracy of whole replies instead of a loss on dev."""

        def get_train_dataloader(self) -> Any:
            return package("torch").utils.data.DataLoader(
                self.train_dataset,
                batch_sampler=parts.plan.of_rank(self.args.process_index),
                collate_fn=self.data_collator,
                num_workers=self.args.dataloader_num_workers,
                pin_memory=self.args.dataloader_pin_memory,
                persistent_workers=self.args.dataloader_num_workers > 0,
            )

        def compute_loss(self, model: Any, inputs: Any, *rest: Any, **named: Any) -> Any:
            """Weigh what TRL sums up, which leaves its measures as they are."""
            marks = inputs.pop(CHOSEN)[:, 1:]

            def weighed(**given: Any) -> Any:
                outputs = model(**given)
                outputs.log_probs = outputs.log_probs * (1 + parts.choice_weight * marks)
                return outputs

            return super().compute_loss(weighed, inputs, *rest, **named)

        def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
            assert parts.measure is not None
            began = time.monotonic()
            self.model.eval()
            with self.compute_loss_context_manager():
                accuracy = parts.measure()
            self.model.train()
            metrics = {"eval_operation_accuracy": accuracy.mean}
            line = dev.log_line(self.state.global_step, accuracy, time.monotonic() - began)
            parts.log.write(line)
            parts.tell(f"step {self.state.global_step}: held-out accuracy {accuracy.mean:.3f}")
            told = (self.args, self.state, self.control, metrics)
            self.control: Any = self.callback_handler.on_evaluate(*told)
            return metrics

        def create_model_card(self, *_: Any, **__: Any) -> None:
            """Write none: the export does."""

    rows = datasets.Dataset.from_dict({"place": list(parts.places)})
    trainer = Trainer(
        model=model,
        args=arguments,
        processing_class=processor
        if processor.image_processor is not None
        else processor.tokenizer,
        train_dataset=rows,
        eval_dataset=rows if parts.measure else None,  # asked for, and not read: see `evaluate`
        data_collator=_Collator(parts.maker, parts.found),
        peft_config=adapter,
        callbacks=[_watcher(parts)],
    )
    trainer.remove_callback(
        package("transformers").PrinterCallback
    )  # standard output is the caller's
    if adapter is not None and arguments.activation_checkpointing:
        # Needed for the reentrant kind only; it would send gradients through the frozen vision tower.
        trainer.model.disable_input_require_grads()
    return trainer


def fit(trainer: Any, checkpoint: Path | None) -> None:
    """Train, from a checkpoint on where there is one.

    Raises:
        ConfigError: a file of the checkpoint is a pickle with more in it than tensors and plain values.
    """
    try:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    except UnpicklingError as error:
        raise ConfigError(
            "a file of the checkpoint is a pickle that is not loaded: it may run code",
            got=checkpoint.name if checkpoint else None,
            hint="remove the folder of this checkpoint to go on from the one before it",
        ) from error


class _Collator:
    """Makes the rows of a batch anew from their demonstrations, so that no pixels are held in memory."""

    def __init__(self, maker: RowMaker, found: Sequence[Demonstration]) -> None:
        self._maker = maker
        self._found = found

    def __call__(self, batch: Sequence[dict[str, int]]) -> dict[str, Any]:
        rows = [self._maker.row(self._found[each["place"]]) for each in batch]
        return {**collate(rows, self._maker.pad), CHOSEN: chosen(rows)}


def _watcher(parts: Parts) -> Any:
    transformers = package("transformers")

    class Watcher(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
        """Writes the log, marks checkpoints as whole, and stops when accuracy no longer gets better."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            del args, state, control
            parts.clock.begin()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any, **_: Any) -> None:
            del args, control
            if "loss" in logs:
                line = _line(state, logs, parts)
                parts.log.write(line)
                parts.tell(_told(state.max_steps, line))

        def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            del args, state
            if dev.exhausted(accuracies(parts.log.lines), parts.patience):
                control.should_training_stop = control.should_save = True
            parts.clock.begin()

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            del control
            parts.wait()  # each process has written its part
            if state.is_world_process_zero:
                checkpoints.mark(Path(args.output_dir) / f"checkpoint-{state.global_step}")
            parts.clock.begin()

    return Watcher()


def _line(state: Any, logs: dict[str, Any], parts: Parts) -> dict[str, Any]:
    work = parts.work(state.global_step)
    return {
        "event": "step",
        "step": state.global_step,
        "loss": logs["loss"],
        "grad_norm": logs.get("grad_norm"),
        "learning_rate": logs["learning_rate"],
        "token_accuracy": logs.get("mean_token_accuracy"),
        "rows": work.rows,
        "tokens": work.tokens,
        "padding": round(1 - work.tokens / work.padded, 4),
        **parts.clock.end(work),
    }


def _told(steps: int, line: dict[str, Any]) -> str:
    mfu = "" if line["mfu"] is None else f", MFU {line['mfu']:.1%}"
    rate = line["tokens_per_second"]
    return f"step {line['step']} of {steps}: loss {line['loss']:.4f}, {rate:,.0f} tokens/s{mfu}"
