"""What is learnt of a model, and how: parameters, adapter, and the settings of the trainer."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controllers.backends.local_packages import package
from epimem.errors import PluginError

if TYPE_CHECKING:
    from training.sft.config import SftConfig

EXTRA = 'pip install "epimem[train]"'
PROJECTIONS = (
    *("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
    # Linear attention (Qwen3.5): three layers of four have no other mixing of tokens.
    *("in_proj_qkv", "in_proj_z", "out_proj"),
)
"""Layers of the language model that an adapter is laid over (ours)."""
BEST = "eval_operation_accuracy"


def training_package(name: str) -> Any:
    """Import a package of the extra `train`.

    Raises:
        PluginError: it is missing.
    """
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError) as error:
        missing = getattr(error, "name", None) or name
        raise PluginError(f"training needs {missing}", got=name, hint=EXTRA) from error


def prepare(model: Any, config: SftConfig) -> Any:
    """Make ready what is learnt and return the settings of the adapter, None for all weights.

    Weights that are learnt are held in float32, because steps of bfloat16 are too coarse for small
    updates; what is frozen stays in the type of the checkpoint.
    """
    # The whole model is on one device; with this mark the trainer takes it for one spread over several.
    vars(model).pop("hf_device_map", None)
    if config.method == "lora":
        for weight in model.parameters():
            weight.requires_grad_(False)
        return package("peft").LoraConfig(
            r=config.lora.rank,
            lora_alpha=config.lora.alpha,
            lora_dropout=config.lora.dropout,
            target_modules=targets(model),
            task_type="CAUSAL_LM",
        )
    model.float()
    for name, weight in model.named_parameters():
        weight.requires_grad_(config.vision_tower == "learnt" or not is_vision(name))
    return None


def targets(model: Any) -> str:
    """Return the pattern of the layers that an adapter is laid over: never those of a vision tower."""
    inside = r"language_model\." if any(map(is_vision, _names(model))) else ""
    return (
        rf".*{inside}.*\.({'|'.join(PROJECTIONS)})" if inside else rf".*\.({'|'.join(PROJECTIONS)})"
    )


def is_vision(name: str) -> bool:
    """Say whether a parameter or module belongs to what looks at images, its projection included."""
    return any(part in {"visual", "vision_tower", "vision_model"} for part in name.split("."))


def _names(model: Any) -> list[str]:
    return [name for name, _ in model.named_modules()]


def arguments(config: SftConfig, out: Path, *, steps: int, evaluates: bool) -> Any:
    """Return the settings of TRL's trainer.

    Args:
        config: ours.
        out: folder of the checkpoints.
        steps: optimizer steps of the run.
        evaluates: whether there is a split `dev` to measure on at each checkpoint.
    """
    cuda = package("torch").cuda.is_available()
    every: dict[str, Any] = {"save_strategy": "steps", "save_steps": config.checkpoint_every}
    if evaluates:
        every |= {
            "eval_strategy": "steps",
            "eval_steps": config.checkpoint_every,
            "metric_for_best_model": BEST,
            "greater_is_better": True,
        }
    return training_package("trl").SFTConfig(
        output_dir=str(out),
        max_steps=steps,
        per_device_train_batch_size=1,  # batches come ready from the schedule
        gradient_accumulation_steps=config.batch.accumulate,
        learning_rate=config.optimizer.learning_rate,
        weight_decay=config.optimizer.weight_decay,
        max_grad_norm=config.optimizer.max_grad_norm,
        warmup_steps=round(config.optimizer.warmup * steps),
        lr_scheduler_type="cosine",
        optim="adamw_torch_fused" if cuda else "adamw_torch",
        bf16=cuda,
        use_cpu=not cuda,
        activation_checkpointing=config.checkpointing,
        activation_checkpointing_kwargs={"use_reentrant": False} if config.checkpointing else None,
        seed=config.seed,
        data_seed=config.seed,
        logging_steps=1,
        logging_nan_inf_filter=False,  # a loss that is no number has to be seen
        save_total_limit=config.keep,
        report_to=["tensorboard"] if _has("tensorboard") else [],
        disable_tqdm=True,
        remove_unused_columns=False,
        dataset_kwargs={"skip_prepare_dataset": True},
        max_length=None,
        dataloader_num_workers=config.workers,
        dataloader_pin_memory=cuda,
        **every,
    )


def quiet() -> None:
    """Silence what the libraries say about choices that are made here on purpose."""
    logging.getLogger("transformers.trainer").setLevel(logging.ERROR)
    package("transformers").utils.logging.disable_progress_bar()
    # peft reads an attribute that transformers calls by another name since 5.20.
    warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)


def _has(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


class World:
    """The processes that train together, as `accelerate launch` or torchrun started them."""

    def __init__(self) -> None:
        cpu = not package("torch").cuda.is_available()
        self._state = training_package("accelerate").PartialState(cpu=cpu)
        self.rank: int = self._state.process_index
        self.size: int = self._state.num_processes
        self.main: bool = self._state.is_main_process
        self.device = "cpu" if cpu else str(package("torch").cuda.get_device_name())
        # With the weights divided among the processes, all of them must generate the same batches.
        self.sharded = "FSDP" in str(self._state.distributed_type)

    def gather(self, mine: list[Any]) -> list[Any]:
        """Return what all processes have, one after the other."""
        if self.size == 1:
            return mine
        training_package("accelerate")
        found: list[Any] = importlib.import_module("accelerate.utils").gather_object(mine)
        return found

    def main_first(self) -> Any:
        """Return a context that the first process passes through before all others enter it."""
        return self._state.main_process_first()

    def wait(self) -> None:
        """Wait until all processes have come here."""
        self._state.wait_for_everyone()
