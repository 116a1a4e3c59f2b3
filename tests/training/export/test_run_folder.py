"""What is refused of a run before any model is loaded."""

from __future__ import annotations

import json
import shutil

import pytest

from epimem.errors import ConfigError, NotFoundError
from tests.training.export.runs import write_run
from tests.training.export.test_fingerprint import write
from training.export.run_folder import open_run

SETTINGS = {"peft_type": "LORA", "bias": "none", "r": 4, "base_model_name_or_path": "org/model"}


@pytest.fixture
def base(tmp_path):
    return write(tmp_path / "base", "model.safetensors", {"a": ([1], [1.0])})


@pytest.fixture
def run(tmp_path, base):
    adapter = write(tmp_path / "left", "adapter_model.safetensors", {"a": ([1], [2.0])})
    (adapter / "adapter_config.json").write_text(json.dumps(SETTINGS))
    return write_run(tmp_path / "run", base, adapter=adapter)


def change(run, **changes):
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**record, **changes}))


def test_a_finished_run_says_role_prompts_and_what_it_left(run):
    found = open_run(run)
    assert (found.role, found.lora, found.weights.name) == ("tree_organizer", True, "adapter")
    assert found.prompt_version


def test_prompts_of_another_version_are_refused(run):
    change(run, prompts="0")
    with pytest.raises(ConfigError, match="prompts of another version") as caught:
        open_run(run)
    assert (caught.value.field, caught.value.got) == ("prompts", "0")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"result": None}, "not finished"),
        ({"format": "epimem-sft/9"}, "another format"),
        ({"role": "poet"}, "another format"),
    ],
)
def test_a_run_that_cannot_be_exported_says_why(run, changes, said):
    change(run, **changes)
    with pytest.raises(ConfigError, match=said):
        open_run(run)


def test_a_record_that_is_not_json_is_refused(run):
    (run / "run.json").write_text("{")
    with pytest.raises(ConfigError, match="cannot be read"):
        open_run(run)


def test_a_folder_without_a_run_or_without_weights_is_named(run, tmp_path):
    with pytest.raises(NotFoundError, match=r"run\.json is missing"):
        open_run(tmp_path)
    shutil.rmtree(run / "adapter")
    with pytest.raises(NotFoundError, match="no adapter and no weights"):
        open_run(run)


def test_a_pickled_adapter_is_refused_by_name_and_one_beside_is_not_read(run):
    (run / "adapter" / "adapter_model.bin").write_bytes(b"\x80")
    assert open_run(run).lora
    (run / "adapter" / "adapter_model.safetensors").unlink()
    with pytest.raises(ConfigError, match="pickle") as caught:
        open_run(run)
    assert caught.value.field == "adapter_model.bin"


@pytest.mark.parametrize(
    "settings", ["{", "[]", json.dumps({**SETTINGS, "bias": "all"}), '{"peft_type": "IA3"}']
)
def test_an_adapter_that_no_server_takes_is_refused(run, settings):
    (run / "adapter" / "adapter_config.json").write_text(settings)
    with pytest.raises(ConfigError) as caught:
        open_run(run)
    assert caught.value.field == "adapter_config.json"


def test_the_base_is_the_one_named_or_the_one_that_was_noted(run, base):
    found = open_run(run)
    assert found.base(None) == "org/model"
    assert found.base(str(base)) == str(base)
    assert found.base("qwen3-vl-2b") == "Qwen/Qwen3-VL-2B-Instruct"
    for gone in ("/not/there", "./not-there", "no-slash"):
        with pytest.raises(ConfigError, match="not where it was"):
            found.base(gone)


def test_a_run_of_all_weights_does_not_know_its_base(tmp_path, base):
    weights = write(tmp_path / "left", "model.safetensors", {"a": ([1], [2.0])})
    found = open_run(write_run(tmp_path / "run", base, weights=weights))
    assert not found.lora
    with pytest.raises(ConfigError, match="does not name its base"):
        found.base(None)


def test_another_base_is_refused_by_its_weights(run, base, tmp_path):
    found = open_run(run)
    assert len(found.check_base(str(base))) == 64
    other = write(tmp_path / "other", "model.safetensors", {"a": ([1], [1.5])})
    with pytest.raises(ConfigError, match="another base") as caught:
        found.check_base(str(other))
    assert (caught.value.field, caught.value.got) == ("base", "other")
    assert found.check_base("org/model") == ""
