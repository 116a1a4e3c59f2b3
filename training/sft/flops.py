"""Floating-point operations of training, and the share of the peak that a run reaches (MFU).

Per token of the language model 4 N_frozen + 6 N_trained: a forward pass takes 2 per weight, the gradient
of the inputs 2, that of a weight that is learnt 2 more (Kaplan et al. 2020, section 2.1). N counts the
weights that are multiplied: projections, adapter and output layer, not the look-up of embeddings. On top
come attention over the tokens that a token sees (causal, so half), linear attention by chunks, and the
vision tower: forward only where it is frozen, since nothing before it is learnt, else three times that.
Computing activations again does not count as work done, padding neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from training.sft.tuning import is_vision

PEAKS = (
    ("H100 PCIe", 756e12),
    ("H100 NVL", 835e12),
    ("H100", 989e12),
    ("H200", 989e12),
    ("A100", 312e12),
    ("L40S", 362e12),
    ("RTX 4090", 165e12),
)
"""Dense bfloat16 FLOP/s by a part of the device's name, from the data sheets; the first that fits."""
CHUNK = 64
"""Tokens that the chunked form of the gated delta rule takes together (transformers, fla)."""


@dataclass(frozen=True)
class Delta:
    """Linear attention by the gated delta rule: layers, heads, and the sizes of keys and values."""

    layers: int
    heads: int
    keys: int
    values: int

    def forward(self, length: int) -> float:
        """Return the FLOPs of all layers for one sequence; it is filled up to whole chunks."""
        tokens = -(-length // CHUNK) * CHUNK
        # Keys with keys, queries with keys, and what is read within a chunk; two triangular systems.
        within = CHUNK * (2 * self.keys + self.values) + CHUNK * (self.keys + self.values) / 2
        between = 3 * self.keys * self.values
        return 2.0 * self.layers * self.heads * tokens * (within + between)


@dataclass(frozen=True)
class Tower:
    """A vision tower: weights per patch and per merged token, layers, and the width of attention.

    `learnt` says whether training goes through it.
    """

    weights: int
    merger_weights: int
    layers: int
    width: int
    merged: int
    learnt: bool = False

    def forward(self, grids: Iterable[Sequence[int]]) -> float:
        """Return the FLOPs for images of so many patches (frames, down, across)."""
        total = 0.0
        for frames, down, across in grids:
            patches = frames * down * across
            total += 2.0 * patches * (self.weights + self.merger_weights / self.merged)
            # Each frame attends to itself.
            total += 4.0 * frames * (down * across) ** 2 * self.width * self.layers
        return total


@dataclass(frozen=True)
class Shape:
    """What of a model matters for counting.

    `frozen` and `trained` count weights of the language model that are multiplied for every token,
    `head` those of the output layer, of which `head_trained` says whether it is learnt. `layers` have
    usual attention of `width` = heads x size of a head.
    """

    frozen: int
    trained: int
    head: int
    head_trained: bool
    layers: int
    width: int
    delta: Delta | None = None
    tower: Tower | None = None

    def training(
        self, length: int, grids: Iterable[Sequence[int]] = (), *, scored: int | None = None
    ) -> float:
        """Return the FLOPs of one forward and backward pass over one row.

        Args:
            length: tokens of the row.
            grids: patches of its images.
            scored: tokens that the output layer is computed for; None: all.
        """
        head = (6 if self.head_trained else 4) * self.head * (length if scored is None else scored)
        dense = (4 * self.frozen + 6 * self.trained) * length
        passes = 3 if self.tower is not None and self.tower.learnt else 1
        return dense + head + 3 * self._mixing(length) + passes * self._seeing(grids)

    def forward(self, length: int, grids: Iterable[Sequence[int]] = ()) -> float:
        """Return the FLOPs of one forward pass over one row, the output layer for all tokens."""
        dense = 2 * (self.frozen + self.trained + self.head) * length
        return dense + self._mixing(length) + self._seeing(grids)

    def _mixing(self, length: int) -> float:
        """Return what attention takes forward: scores and values, of the tokens before and itself."""
        usual = 4.0 * self.layers * self.width * length * (length + 1) / 2
        return usual + (self.delta.forward(length) if self.delta is not None else 0.0)

    def _seeing(self, grids: Iterable[Sequence[int]]) -> float:
        return self.tower.forward(grids) if self.tower is not None else 0.0


def shape(model: Any) -> Shape:
    """Read the shape of a model, whose weights may be on the device `meta`.

    What is learnt is what requires a gradient; adapters of LoRA are found by their names.
    """
    frozen = trained = 0
    head = model.get_output_embeddings()
    for name, weight in model.named_parameters():
        if weight.ndim < 2 or is_vision(name) or weight is head.weight or "embed" in name:
            continue
        if weight.requires_grad:
            trained += weight.numel()
        else:
            frozen += weight.numel()
    text = model.config.get_text_config()
    kinds = list(getattr(text, "layer_types", None) or ["full_attention"] * text.num_hidden_layers)
    heads = text.num_attention_heads
    size = getattr(text, "head_dim", None) or text.hidden_size // heads
    return Shape(
        frozen=frozen,
        trained=trained,
        head=head.weight.numel(),
        head_trained=bool(head.weight.requires_grad),
        layers=sum(kind != "linear_attention" for kind in kinds),
        width=heads * size,
        delta=_delta(text, kinds.count("linear_attention")),
        tower=_tower(model),
    )


def peak(device: str) -> float | None:
    """Return the dense bfloat16 FLOP/s of a device by its name, None where it is not known."""
    plain = device.casefold()
    return next((value for name, value in PEAKS if name.casefold() in plain), None)


def _delta(text: Any, layers: int) -> Delta | None:
    if not layers:
        return None
    return Delta(
        layers,
        text.linear_num_value_heads,
        text.linear_key_head_dim,
        text.linear_value_head_dim,
    )


def _tower(model: Any) -> Tower | None:
    vision = getattr(model.config, "vision_config", None)
    if vision is None:
        return None
    every, merging, learnt = 0, 0, False
    for name, weight in model.named_parameters():
        if not is_vision(name) or weight.ndim < 2 or "pos_embed" in name:
            continue
        learnt = learnt or weight.requires_grad
        if "merger" in name:
            merging += weight.numel()
        else:
            every += weight.numel()
    merged = vision.spatial_merge_size**2
    return Tower(every, merging, vision.depth, vision.hidden_size, merged, learnt)
