"""What a run will take, from the configuration of a model and the sizes of rows: no weights, no GPU.

Numbers of weights are exact: the model is built without memory and counted. FLOPs follow `flops`. Memory
is an estimate: weights, gradients and AdamW's two moments exactly, activations by the tensors that one
decoder layer keeps for its backward pass. What the allocator and libraries take on top is not in it:
leave 10 GB (ours).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from controllers.backends.local_packages import package
from training.sft import flops, tuning
from training.sft.batches import schedule
from training.sft.config import SftConfig

GIB = 2**30
MEMORY = {"h100-80gb": 80e9, "h200-141gb": 141e9, "a100-80gb": 80e9}
"""Bytes of a device, as its maker counts them."""
NAMES = {"h100-80gb": "H100", "h200-141gb": "H200", "a100-80gb": "A100"}
HEAD_ROWS, HEAD_COLUMNS = 4_096, 32_768
"""The tile in which TRL 1.16 computes the output layer: labelled tokens by entries of the vocabulary."""
Grids = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Size:
    """The size of a row: its tokens, those of them that are learnt, and the patches of its images."""

    length: int
    reply_tokens: int
    grids: Grids = ()


REFERENCE = tuple(
    Size(800 + 3_200 * at // 9_999, 12 + 300 * at // 9_999, ((1, 32, 32),) * (at % 3))
    for at in range(10_000)
)
"""What the comments of the presets are computed for (ours): 10,000 rows of 800 to 4,000 tokens, 12 to
312 of them learnt, with none to two images of 512 x 512 pixels."""


@dataclass(frozen=True)
class Memory:
    """Bytes on each device."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    head: float

    @property
    def total(self) -> float:
        """All of it together."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.head


@dataclass(frozen=True)
class Plan:
    """What a run takes. `tokens` and `work` (FLOPs) are those of the whole run; `hours` at `mfu`."""

    total: int
    learnt: int
    memory: Memory
    device: str
    devices: int
    rows: int
    tokens: int
    step_tokens: int
    steps: int
    padding: float
    work: float
    mfu: float

    @property
    def hours(self) -> float:
        """Time of training at the assumed MFU; measuring and saving come on top."""
        peak = flops.peak(NAMES[self.device])
        assert peak is not None
        return self.work / (self.devices * peak * self.mfu) / 3600

    def lines(self) -> list[str]:
        """Return the plan as lines of text."""
        memory, peak = self.memory, flops.peak(NAMES[self.device])
        assert peak is not None
        parts = (
            f"weights {memory.weights / GIB:.1f}, gradients {memory.gradients / GIB:.1f}, "
            f"optimizer {memory.optimizer / GIB:.1f}, activations {memory.activations / GIB:.1f}, "
            f"output layer {memory.head / GIB:.1f}"
        )
        room = MEMORY[self.device] / GIB
        told = f"padding {self.padding:.1%}"
        each = f"each of {self.devices} {self.device}"
        work = f"{self.work / 1e15:,.0f} PFLOP, {self.hours:.2f} h"
        at = f"{self.mfu:.0%} of {self.devices} x {peak / 1e12:.0f} TFLOP/s"
        return [
            f"weights    {self.total:,}, of which {self.learnt:,} are learnt",
            f"memory     {memory.total / GIB:.1f} of {room:.1f} GiB on {each}",
            f"           {parts}",
            f"tokens     {self.step_tokens:,} a step, {self.tokens:,} in all; {told}",
            f"steps      {self.steps:,}",
            f"work       {work} at {at}",
        ]

    def plain(self) -> dict[str, Any]:
        """Return the plan as plain data; memory in bytes."""
        return {
            "weights": self.total,
            "learnt": self.learnt,
            "memory": {**vars(self.memory), "total": self.memory.total},
            "device": self.device,
            "devices": self.devices,
            "rows": self.rows,
            "tokens": self.tokens,
            "tokens_per_step": self.step_tokens,
            "steps": self.steps,
            "padding": round(self.padding, 4),
            "flops": self.work,
            "mfu": self.mfu,
            "hours": round(self.hours, 3),
        }


def plan(config: SftConfig, configuration: Any, sizes: Sequence[Size]) -> Plan:
    """Return what a run takes.

    Args:
        config: settings; `hardware` says for what.
        configuration: of the model, as transformers has it.
        sizes: of the rows to learn from; at least one.
    """
    hardware, batch = config.hardware, config.batch
    model = counted(config, configuration)
    shape = flops.shape(model)
    lengths = [size.length for size in sizes]
    order = schedule(
        lengths,
        tokens=batch.tokens,
        rows=batch.rows,
        epochs=config.epochs,
        accumulate=batch.accumulate,
        seed=config.seed,
        ranks=hardware.devices,
    )
    steps = min(order.steps, config.max_steps or order.steps)
    share = steps / order.steps
    tokens = round(config.epochs * sum(lengths) * share)
    each = {size: shape.training(size.length, size.grids) for size in set(sizes)}
    return Plan(
        total=sum(weight.numel() for weight in base_weights(model)),
        learnt=sum(weight.numel() for weight in model.parameters() if weight.requires_grad),
        memory=memory(config, model, sizes),
        device=hardware.device,
        devices=hardware.devices,
        rows=len(sizes),
        tokens=tokens,
        step_tokens=round(tokens / steps),
        steps=steps,
        padding=order.waste(lengths),
        work=config.epochs * share * sum(each[size] for size in sizes),
        mfu=hardware.mfu,
    )


def counted(config: SftConfig, configuration: Any) -> Any:
    """Return the model as it would be trained, adapter included, without memory for its weights."""
    torch, transformers = package("torch"), package("transformers")
    sees = type(configuration) in transformers.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
    kind = transformers.AutoModelForImageTextToText if sees else transformers.AutoModelForCausalLM
    with torch.device("meta"):
        model = kind.from_config(configuration, dtype=torch.bfloat16)
        adapter = tuning.prepare(model, config)
        if adapter is not None:
            package("peft").get_peft_model(model, adapter)
    return model


def base_weights(model: Any) -> list[Any]:
    """Return the weights of a model without those of an adapter."""
    return [weight for name, weight in model.named_parameters() if ".lora_" not in name]


def memory(config: SftConfig, model: Any, sizes: Sequence[Size]) -> Memory:
    """Estimate the bytes on each device at the largest batch."""
    learnt = [weight for weight in model.parameters() if weight.requires_grad]
    frozen = [weight for weight in model.parameters() if not weight.requires_grad]
    count = sum(weight.numel() for weight in learnt)
    held = sum(weight.numel() * weight.element_size() for weight in (*learnt, *frozen))
    # Autocast keeps a copy in bfloat16 of float32 weights for one pass; sharded, one layer's at a time.
    copies = 0 if config.hardware.sharded or config.method == "lora" else 2 * count
    ways = config.hardware.devices if config.hardware.sharded else 1
    filled = max(config.batch.tokens, *(size.length for size in sizes))
    wide = config.method == "full"
    layers = layer_bytes(model.config.get_text_config(), wide=wide)
    if config.checkpointing:
        # Of each layer the input is kept, and one layer at a time is computed again.
        hidden = model.config.get_text_config().hidden_size
        kept = (4 if wide else 2) * hidden * len(layers) + max(layers)
    else:
        kept = sum(layers)
    return Memory(
        weights=held / ways + copies,
        gradients=4 * count / ways,
        optimizer=8 * count / ways,
        activations=float(filled * kept) + tower_bytes(config, model, filled, sizes),
        head=head_bytes(config, model, filled, sizes),
    )


def layer_bytes(text: Any, *, wide: bool) -> list[int]:
    """Return the bytes per token that each decoder layer keeps for its backward pass.

    What adapters keep besides is not counted.

    Args:
        text: configuration of the language model.
        wide: whether the weights are float32 and computed with in bfloat16, so that what runs from layer
            to layer is float32.
    """
    hidden, inner = text.hidden_size, text.intermediate_size
    # Two norms with their input in float32 and their output; the two halves of the gated product, its
    # activation, and the product itself.
    common = (30 if wide else 20) * hidden + 8 * inner
    kinds = list(getattr(text, "layer_types", None) or ["full_attention"] * text.num_hidden_layers)
    mixing = {"full_attention": _attention_bytes(text)}
    if "linear_attention" in kinds:
        mixing["linear_attention"] = _delta_bytes(text)
    return [common + mixing[kind] for kind in kinds]


def tower_bytes(config: SftConfig, model: Any, filled: int, sizes: Sequence[Size]) -> float:
    """Return the bytes that a learnt vision tower keeps for the largest batch; none where it is frozen.

    Per patch and layer: two norms, queries, keys and values before and after rotation, the output of
    attention, and both sides of the activation; once, what a patch shows. What merges patches is not
    counted.
    """
    vision = getattr(model.config, "vision_config", None)
    if vision is None or config.vision_tower == "frozen":
        return 0.0
    share = max(sum(map(prod, size.grids)) / size.length for size in sizes)
    layer = (30 + 2 * 6) * vision.hidden_size + 4 * vision.intermediate_size
    kept = vision.depth * layer
    if config.checkpointing:
        kept = 4 * vision.depth * vision.hidden_size + layer
    shown = 2 * vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
    return float(filled * share * (kept + shown))


def _attention_bytes(text: Any) -> int:
    """Count queries, keys and values before and after norm and rotation, and the output."""
    size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    heads = (text.num_attention_heads + 2 * text.num_key_value_heads) * size
    return int(2 * (4 * heads + text.num_attention_heads * size))


def _delta_bytes(text: Any) -> int:
    """Count what the gated delta rule keeps with the kernels of flash-linear-attention (not measured).

    Queries, keys and values before and after convolution and norm; its output and gate; per head the
    solved system of a chunk. Without these kernels it is more than twice as much.
    """
    keys = text.linear_num_key_heads * text.linear_key_head_dim
    values = text.linear_num_value_heads * text.linear_value_head_dim
    return int(
        6 * (2 * keys + values) + 10 * values + 2 * flops.CHUNK * text.linear_num_value_heads
    )


def head_bytes(config: SftConfig, model: Any, filled: int, sizes: Sequence[Size]) -> float:
    """Return the bytes of the output layer: a tile of scores, and gradients summed in float32."""
    text = model.config.get_text_config()
    share = max(size.reply_tokens / size.length for size in sizes)
    scored = min(filled, round(filled * share) + 1)
    tile = min(scored, HEAD_ROWS) * min(text.vocab_size, HEAD_COLUMNS) * 2
    summed = 4 * scored * text.hidden_size
    learnt = 4 * text.vocab_size * text.hidden_size if config.method == "full" else 0
    return float(2 * tile + summed + learnt)
