"""Counted FLOPs against those that torch counts while the tiny models run."""

from __future__ import annotations

import pytest

from controllers.backends.local_packages import package
from tests.controllers.backends import tiny_llama, tiny_qwen3_vl
from training.sft import flops, tuning
from training.sft.config import parse

LENGTH, GRID = 192, (1, 8, 8)


@pytest.fixture(scope="module", params=["qwen3_vl", "qwen3_5", "llama"])
def path(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / request.param
    if request.param == "llama":
        return tiny_llama.write_checkpoint(folder)
    return tiny_qwen3_vl.write_checkpoint(folder, family=request.param)


def loaded(path, method, **settings):
    transformers = package("transformers")
    sees = path.name != "llama"
    kind = transformers.AutoModelForImageTextToText if sees else transformers.AutoModelForCausalLM
    model = kind.from_pretrained(path, attn_implementation="eager").train()
    adapter = tuning.prepare(model, parse({"method": method, **settings}))
    if adapter is not None:
        package("peft").get_peft_model(model, adapter)
    return model


def counted(model):
    """Return what torch counts of a forward pass, and of it and the backward pass together."""
    torch = package("torch")
    counter = package("torch.utils.flop_counter").FlopCounterMode(display=False)
    ids = torch.arange(LENGTH)[None] + 50
    inputs = {"input_ids": ids, "labels": ids, "attention_mask": torch.ones_like(ids)}
    if hasattr(model.config, "vision_config"):
        ids[0, 10:26] = model.config.image_token_id
        inputs["mm_token_type_ids"] = (ids == model.config.image_token_id).int()
        inputs |= {"pixel_values": torch.randn(64, 1536), "image_grid_thw": torch.tensor([GRID])}
    with counter:
        loss = model(**inputs).loss
        forward = counter.get_total_flops()
        loss.backward()
    return forward, counter.get_total_flops()


def not_counted(shape):
    """What torch counts otherwise, forward: the half above the diagonal, and triangular systems."""
    above = 2 * shape.layers * shape.width * LENGTH * (LENGTH - 1)
    delta = shape.delta
    if delta is None:
        return above
    solved = flops.CHUNK * (delta.keys + delta.values) * delta.layers * delta.heads * LENGTH
    return above - solved


def grids(shape):
    return [GRID] if shape.tower is not None else []


def test_a_forward_pass_is_counted_as_torch_counts_it(path):
    model = loaded(path, "full")
    shape = flops.shape(model)
    forward, _ = counted(model)
    mine = shape.forward(LENGTH, grids(shape)) + not_counted(shape)
    # The convolution of Qwen3.5 runs over some zeros before the beginning.
    assert mine == pytest.approx(forward, rel=1e-4 if shape.delta else 1e-9)


@pytest.mark.parametrize(("method", "within"), [("full", 1e-9), ("lora", 0.03)])
def test_training_is_counted_as_torch_counts_it(path, method, within):
    """With an adapter but for the gradient of the first layer's inputs, which nobody needs."""
    model = loaded(path, method)
    shape = flops.shape(model)
    assert (shape.frozen == 0) == (method == "full")
    _, both = counted(model)
    mine = shape.training(LENGTH, grids(shape)) + 3 * not_counted(shape)
    if shape.delta is not None and method == "full":
        # torch counts the gradient of a convolution by groups as that of a whole one.
        assert mine < both
        return
    assert mine == pytest.approx(both, rel=within + (0.01 if shape.delta else 0))
    assert mine >= both * (1 - 1e-9) or shape.delta is not None


def test_a_tower_that_is_learnt_is_counted_as_torch_counts_it(tmp_path):
    """But for the gradient of the patches themselves, which nobody needs."""
    path = tiny_qwen3_vl.write_checkpoint(tmp_path / "tiny")
    model = loaded(path, "full", vision_tower="learnt")
    assert all(weight.requires_grad for weight in model.parameters())
    shape = flops.shape(model)
    _, both = counted(model)
    mine = shape.training(LENGTH, [GRID]) + 3 * not_counted(shape)
    patches = 2 * 64 * 1536 * model.config.vision_config.hidden_size
    assert mine - patches == pytest.approx(both, rel=1e-9)
    frozen = flops.shape(loaded(path, "full")).training(LENGTH, [GRID])
    assert mine - 3 * not_counted(shape) - frozen == pytest.approx(2 * shape.tower.forward([GRID]))


def test_the_vision_tower_counts_by_images_and_the_output_layer_by_scored_tokens(tmp_path):
    path = tiny_qwen3_vl.write_checkpoint(tmp_path / "tiny")
    shape = flops.shape(loaded(path, "lora"))
    one = shape.training(100, [GRID]) - shape.training(100)
    assert one > 0
    assert shape.training(100, [GRID] * 3) - shape.training(100) == pytest.approx(3 * one)
    saved = shape.training(100) - shape.training(100, scored=10)
    assert saved == 4 * shape.head * 90


@pytest.mark.parametrize(
    ("device", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA H200", 989e12),
        ("cpu", None),
    ],
)
def test_the_peak_is_that_of_the_device(device, peak):
    assert flops.peak(device) == peak
