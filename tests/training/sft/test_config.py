"""Settings: presets that load, and mistakes that are named."""

from __future__ import annotations

import pytest

from controllers.backends.transformers import PRESETS
from epimem.errors import ConfigError, NotFoundError
from training.sft.config import load, parse, presets


def test_there_is_a_preset_for_each_base_one_device_and_eight():
    ways = ("lora-1xh100", "full-1xh100", "full-8xh100")
    assert presets() == sorted(f"{base}-{way}" for base in PRESETS for way in ways)


@pytest.mark.parametrize("name", presets())
def test_a_preset_is_what_its_name_says(name):
    config = load(name)
    assert name == f"{config.model}-{config.method}-{config.hardware.devices}xh100"
    assert config.hardware.sharded == (config.hardware.devices > 1)
    assert config.batch.max_length <= config.batch.tokens


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"learning_rate": 1.0}, "learning_rate"),
        ({"lora": {"rank": 0}}, "lora.rank"),
        ({"lora": {"ranks": 8}}, "lora.ranks"),
        ({"epochs": "2"}, "epochs"),
        ({"method": "qlora"}, "method"),
        ({"keep": 1}, "keep"),
    ],
)
def test_a_key_that_is_unknown_or_out_of_range_is_named(values, field):
    with pytest.raises(ConfigError) as caught:
        parse(values)
    assert caught.value.field == field


def test_a_vision_tower_is_learnt_only_together_with_all_other_weights():
    assert parse({"method": "full", "vision_tower": "learnt"}).vision_tower == "learnt"
    with pytest.raises(ConfigError, match="method full"):
        parse({"vision_tower": "learnt"})


def test_a_file_is_read_and_one_that_is_no_toml_or_not_there_is_told(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('method = "full"\n[optimizer]\nlearning_rate = 1e-5\n')
    assert load(str(path)).optimizer.learning_rate == 1e-5
    path.write_text("method = full")
    with pytest.raises(ConfigError, match="not TOML"):
        load(str(path))
    with pytest.raises(NotFoundError, match="preset"):
        load("qwen9")
