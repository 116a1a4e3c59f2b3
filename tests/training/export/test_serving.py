"""The commands that serve an export are those that the backends understand."""

from __future__ import annotations

import json
import shlex

import pytest

from controllers.backends.specs import read_model, read_openai
from controllers.backends.vllm import command
from epimem.errors import ConfigError
from training.export.serving import PORT, serving


@pytest.fixture
def models(tmp_path):
    base, adapter = tmp_path / "the base", tmp_path / "adapter"
    base.mkdir()
    adapter.mkdir()
    (base / "config.json").write_text('{"text_config": {"max_position_embeddings": 4096}}')
    (adapter / "adapter_config.json").write_text(json.dumps({"r": 24}))
    return str(base), adapter


def spec(line):
    return shlex.split(line)[-1].partition(":")


def test_specs_name_base_and_adapter(models):
    base, adapter = models
    found = serving("tree_organizer", base, adapter)
    for kind in ("transformers", "vllm"):
        name, _, argument = spec(getattr(found, kind))
        assert name == kind
        read = read_model(kind, argument)
        assert (read.base, read.adapter) == (base, str(adapter))
    assert "--tree-organizer" in found.vllm
    assert "--memory-controller" in serving("memory_controller", base, adapter).vllm


def test_the_server_gets_the_flags_of_the_backend(models):
    base, adapter = models
    found = serving("memory_controller", base, adapter)
    line = shlex.split(found.server)
    assert line == command("python", base, {"memory_controller": adapter}, PORT, ())
    assert line[line.index("--max-lora-rank") + 1] == "32"
    assert line[line.index("--max-model-len") + 1] == "4096"
    address, model = read_openai(spec(found.openai)[2])
    assert address.endswith(f":{PORT}/v1")
    assert model == "memory_controller"


def test_merged_weights_are_served_without_an_adapter(models):
    base, _ = models
    found = serving("tree_organizer", base, None)
    line = shlex.split(found.server)
    assert "--enable-lora" not in line
    assert line[line.index("--model") + 1] == base
    model = read_openai(spec(found.openai)[2])[1]
    assert model == line[line.index("--served-model-name") + 1]


def test_places_can_be_told_by_other_names(models):
    base, adapter = models
    found = serving("tree_organizer", base, adapter).told({f"{adapter.parent}/adapter": "adapter"})
    assert all(str(adapter) not in line for line in found.plain().values())
    assert spec(found.transformers)[2].endswith("+adapter")


def test_an_adapter_that_cannot_be_served_is_refused(models):
    base, adapter = models
    (adapter / "adapter_config.json").write_text(json.dumps({"r": 1024}))
    with pytest.raises(ConfigError):
        serving("tree_organizer", base, adapter)
