"""The arithmetic of presets: weights counted exactly, comments that agree, memory by tensors."""

from __future__ import annotations

from contextlib import contextmanager
from math import prod

import pytest

from controllers.backends.local_packages import package
from tests.controllers.backends import tiny_qwen3_vl
from training.sft import flops, tuning
from training.sft.config import load, parse, presets, text
from training.sft.plan import (
    GIB,
    REFERENCE,
    Size,
    base_weights,
    counted,
    layer_bytes,
    plan,
    tower_bytes,
)
from training.sft.published import configuration


def test_the_published_configuration_of_qwen3_vl_2b_has_its_weights():
    model = counted(parse({}), configuration("qwen3-vl-2b"))
    assert sum(weight.numel() for weight in base_weights(model)) == 2_127_532_032
    rank, alike = 16, 28 * (2048 + 2048 + 2 * (2048 + 1024) + 2048 + 2048 + 3 * (2048 + 6144))
    learnt = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    assert learnt == rank * alike


def test_qwen3_5_2b_is_adapted_in_all_layers_that_mix_tokens():
    model = counted(parse({}), configuration("qwen3.5-2b"))
    adapted = {
        name.split(".")[-4]
        for name, weight in model.named_parameters()
        if weight.requires_grad and ".lora_A" in name
    }
    assert adapted == set(tuning.PROJECTIONS)
    learnt = [name for name, weight in model.named_parameters() if weight.requires_grad]
    assert not any(tuning.is_vision(name) for name in learnt)
    assert 2.1e9 < sum(weight.numel() for weight in base_weights(model)) < 2.3e9


@pytest.mark.parametrize("name", presets())
def test_the_comments_of_a_preset_are_what_is_computed(name):
    config = load(name)
    found = plan(config, configuration(config.model), REFERENCE)
    comments = [
        line.removeprefix("#").strip() for line in text(name).splitlines() if line[:1] == "#"
    ]
    for line in found.lines():
        assert line.strip() in comments
    assert found.memory.total / GIB < 0.8 * 74.5
    assert found.padding <= 0.1


def test_hours_follow_work_devices_and_mfu():
    config = load("qwen3-vl-2b-full-1xh100")
    one = plan(config, configuration("qwen3-vl-2b"), REFERENCE[:64])
    assert one.hours == pytest.approx(one.work / (989e12 * 0.45) / 3600)
    eight = config.model_copy(
        update={"hardware": config.hardware.model_copy(update={"devices": 8, "sharded": True})}
    )
    other = plan(eight, configuration("qwen3-vl-2b"), REFERENCE[:64])
    assert other.hours == pytest.approx(one.hours / 8)
    assert other.memory.optimizer == one.memory.optimizer / 8
    assert one.memory.optimizer == 8 * one.learnt
    assert one.memory.gradients == 4 * one.learnt


def test_work_is_that_of_every_row_and_epoch():
    config = parse({"epochs": 3, "dev": {"rows": 0}})
    sizes = [Size(500, 50), Size(700, 20, ((1, 32, 32),))]
    found = plan(config, configuration("qwen3-vl-2b"), sizes)
    shape = flops.shape(counted(config, configuration("qwen3-vl-2b")))
    assert found.work == pytest.approx(
        3 * sum(shape.training(size.length, size.grids) for size in sizes)
    )
    assert found.tokens == 3 * 1_200


@contextmanager
def kept_for_backward(model):
    """Collect the bytes of what a pass keeps besides weights, by storage."""
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept, held = {}, []

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
            held.append(tensor)  # so that no address is used twice
        return tensor

    torch = package("torch")
    hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    with hooks, torch.autocast("cpu", torch.bfloat16):
        yield kept


def small(folder, **values):
    torch = package("torch")
    path = tiny_qwen3_vl.write_checkpoint(folder / "tiny")
    model = package("transformers").AutoModelForImageTextToText.from_pretrained(
        path, dtype=torch.bfloat16, attn_implementation="sdpa"
    )
    adapter = tuning.prepare(model.train(), parse(values))
    if adapter is not None:
        package("peft").get_peft_model(model, adapter)
    return model


@pytest.mark.parametrize("method", ["lora", "full"])
def test_a_layer_keeps_about_as_many_bytes_as_are_planned(method, tmp_path):
    torch = package("torch")
    model, length = small(tmp_path, method=method), 512
    words = model.get_input_embeddings()(torch.arange(length)[None] % 300)
    with kept_for_backward(model) as kept:
        model.model.language_model(inputs_embeds=words.detach().requires_grad_(True))
    planned = sum(layer_bytes(model.config.get_text_config(), wide=method == "full"))
    assert sum(kept.values()) / length == pytest.approx(planned, rel=0.1)


def test_a_learnt_tower_keeps_about_as_many_bytes_as_are_planned_and_a_frozen_one_none(tmp_path):
    torch = package("torch")
    values = {"method": "full", "vision_tower": "learnt", "checkpointing": False}
    model, grid = small(tmp_path, **values), (1, 32, 32)
    with kept_for_backward(model) as kept:
        model.model.visual(torch.randn(prod(grid), 1536), grid_thw=torch.tensor([grid]))
    size = Size(2 * prod(grid), 10, (grid,))
    planned = tower_bytes(parse(values), model, size.length, [size])
    shown = 2 * 1536 * prod(grid)  # the patches themselves, half of all here
    assert sum(kept.values()) - shown == pytest.approx(planned - shown, rel=0.1)
    frozen = parse({"method": "full"})
    assert tower_bytes(frozen, model, size.length, [size]) == 0
    learnt = parse(values)
    about = configuration("qwen3-vl-2b")
    assert (
        plan(learnt, about, [size]).memory.activations
        > plan(frozen.model_copy(update={"checkpointing": False}), about, [size]).memory.activations
    )
