"""Who is evaluated: names that tell nothing of the machine, fingerprints that tell answers apart."""

from __future__ import annotations

import json
import shutil
import struct

import pytest

from epimem.errors import ConfigError, EpimemError, PluginError
from training.evaluation.constants import Habits
from training.evaluation.subjects import identity, subjects_of


def weights(folder, name, *values):
    """Write a safetensors file of one row of float32 into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    data = struct.pack(f"<{len(values)}f", *values)
    about = {"w": {"dtype": "F32", "shape": [len(values)], "data_offsets": [0, len(data)]}}
    head = json.dumps(about).encode()
    (folder / name).write_bytes(struct.pack("<Q", len(head)) + head + data)
    return folder


@pytest.fixture
def models(tmp_path):
    base = weights(tmp_path / "base", "model.safetensors", 1.0, 2.0)
    adapter = weights(tmp_path / "adapter", "adapter_model.safetensors", 3.0)
    return base, adapter


def test_a_model_is_known_by_its_weights_wherever_they_lie(models, tmp_path):
    base, adapter = models
    name, found = identity(f"transformers:{base}+{adapter}")
    assert name == "transformers/base+adapter"
    moved = shutil.copytree(adapter, tmp_path / "moved" / "adapter")
    assert identity(f"transformers:{base}+{moved}") == (name, found)
    weights(adapter, "adapter_model.safetensors", 3.5)
    assert identity(f"transformers:{base}+{adapter}") != (name, found)
    assert identity(f"transformers:{base}")[1] != found
    assert identity(f"vllm:{base}+{moved}")[1] != found


def test_a_server_is_known_by_address_and_model_and_named_by_the_model_alone():
    name, found = identity("openai:http://somewhere:8000/v1#qwen")
    assert name == "openai/qwen"
    assert identity("openai:http://elsewhere:8000/v1#qwen")[1] != found


def test_a_script_is_known_by_its_content(tmp_path):
    script = tmp_path / "replies.jsonl"
    script.write_text("one")
    name, found = identity(f"scripted:{script}")
    assert name == "scripted/replies"
    script.write_text("two")
    assert identity(f"scripted:{script}")[1] != found


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ("nobody:x", PluginError),
        ("transformers:./not-there", ConfigError),
        ("openai:#", ConfigError),
        ("scripted:./not-there", ConfigError),
    ],
)
def test_a_wrong_spec_is_refused_before_anything_is_asked(spec, error):
    with pytest.raises(error):
        subjects_of(["embedded", spec], Habits([]), deadline_s=1.0)


def test_a_model_in_pickles_is_refused_by_name(tmp_path):
    base = tmp_path / "base"
    base.mkdir()
    (base / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(EpimemError, match="pickle") as caught:
        identity(f"transformers:{base}")
    assert caught.value.field == "pytorch_model.bin"


def test_each_is_asked_once_and_alike_names_are_told_apart(models, tmp_path):
    base, adapter = models
    other = weights(tmp_path / "other" / "adapter", "adapter_model.safetensors", 9.0)
    specs = [f"transformers:{base}+{adapter}", f"transformers:{base}+{other}"]
    found = subjects_of([*specs, specs[0], "teacher"], Habits([]), deadline_s=1.0)
    assert [it.name for it in found] == [
        "transformers/base+adapter",
        "transformers/base+adapter (2)",
        "teacher",
        "constant",
        "constant, mean region",
    ]
    assert len({it.fingerprint for it in found}) == 5
