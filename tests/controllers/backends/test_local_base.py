"""One base in memory for several roles: adapters, sharing, and what is refused at loading."""

from __future__ import annotations

import json
import shutil
import sys
import threading

import pytest

from controllers.backends import local_base
from controllers.backends.transformers import PRESETS, TransformersBackend
from epimem.errors import ConfigError, ControllerError, PluginError
from tests.controllers.backends import tiny_qwen3_vl
from tests.controllers.backends.tiny_qwen3_vl import TARGETS

pytestmark = pytest.mark.torchvision


@pytest.fixture
def opened(checkpoint):
    """Open backends that are closed afterwards; `opened(adapter, model)`."""
    backends = []

    def make(adapter=None, model=checkpoint, **more):
        backends.append(TransformersBackend(str(model), adapter and str(adapter), **more))
        return backends[-1]

    yield make
    for backend in backends:
        backend.close()
    assert not local_base._held


@pytest.fixture(scope="module")
def merged(checkpoint, adapters, tmp_path_factory):
    """The base with each adapter merged into its weights, as folders of their own."""
    import peft
    from transformers import AutoModelForImageTextToText

    folders = {}
    for name, adapter in adapters.items():
        folders[name] = tmp_path_factory.mktemp("merged") / name
        shutil.copytree(checkpoint, folders[name])
        model = AutoModelForImageTextToText.from_pretrained(checkpoint)
        model = peft.PeftModel.from_pretrained(model, adapter).merge_and_unload()
        model.save_pretrained(folders[name])
    return folders


@pytest.fixture(scope="module")
def prompts(prompt, picture):
    return [prompt("so"), prompt("one image", picture("red")), prompt("a longer question " * 5)]


def words(backend, prompts):
    return [reply.text for reply in backend.complete(prompts)]


def test_two_roles_on_one_base_say_what_two_merged_models_say(opened, adapters, merged, prompts):
    alone = words(opened(), prompts)
    memory, organizer = opened(adapters["memory"]), opened(adapters["organizer"])
    assert memory._base is organizer._base
    said = [words(memory, prompts), words(organizer, prompts), words(memory, prompts)]
    expected = {name: words(opened(model=folder), prompts) for name, folder in merged.items()}
    assert said == [expected["memory"], expected["organizer"], expected["memory"]]
    # The adapters matter, each in its own way, and leave the base as it was.
    assert alone not in (expected["memory"], expected["organizer"])
    assert expected["memory"] != expected["organizer"]
    assert words(opened(), prompts) == alone


def test_weights_are_held_once(opened, adapters):
    first, second = opened(adapters["memory"]), opened(adapters["organizer"])
    assert first._base.model is second._base.model
    names = {name for name, _ in first._base.model.named_parameters()}
    plain = [name for name in names if "lora_" not in name]
    model = tiny_qwen3_vl.TEXT
    # 14 layers with an adapter, two adapters of two matrices each.
    assert len(names) - len(plain) == model["num_hidden_layers"] * 7 * 2 * 2


def test_the_base_is_not_frozen(opened, adapters, prompts):
    """Or torch copies the output layer for each row of a batch; see `local_adapters`."""
    first, second = opened(adapters["memory"]), opened(adapters["organizer"])
    for backend in (first, second, first):
        backend.complete(prompts[:1])
        plain = [it for name, it in first._base.model.named_parameters() if "lora_" not in name]
        assert all(weight.requires_grad for weight in plain)


def test_roles_of_one_adapter_share_it(opened, adapters, prompts):
    first, second = opened(adapters["memory"]), opened(adapters["memory"])
    assert first._adapter == second._adapter
    expected = words(first, prompts)
    first.close()
    assert words(second, prompts) == expected


def test_a_base_named_by_two_paths_is_one(opened, checkpoint, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(checkpoint)
    assert opened()._base is opened(model=link)._base


def test_what_is_let_go_of_leaves_the_memory(opened, adapters, prompts):
    alone = words(opened(), prompts)
    memory, organizer = opened(adapters["memory"]), opened(adapters["organizer"])
    expected = words(organizer, prompts)
    base = memory._base
    memory.close()
    memory.close()
    assert not [name for name, _ in base.model.named_parameters() if "adapter1" in name]
    assert words(organizer, prompts) == expected
    organizer.close()
    assert not [name for name, _ in base.model.named_parameters() if "lora" in name]
    again = opened(adapters["organizer"])
    assert again._base is base
    assert words(again, prompts) == expected
    assert words(opened(), prompts) == alone


def test_the_last_to_leave_takes_the_base_along(checkpoint):
    first, second = (TransformersBackend(str(checkpoint)) for _ in range(2))
    first.close()
    assert len(local_base._held) == 1
    second.close()
    assert not local_base._held


def test_a_closed_backend_says_so(checkpoint, prompts):
    backend = TransformersBackend(str(checkpoint))
    backend.close()
    with pytest.raises(ControllerError, match="closed"):
        backend.complete(prompts)


def test_roles_that_speak_at_once_do_not_mix(opened, adapters, prompts):
    roles = [opened(), opened(adapters["memory"]), opened(adapters["organizer"])]
    expected = [words(role, prompts) for role in roles]
    found = [[] for _ in roles]
    start = threading.Barrier(len(roles))

    def speak(place):
        start.wait()
        for turn in range(2):
            found[place].append(words(roles[place], prompts[turn % 2 :]))

    threads = [threading.Thread(target=speak, args=(place,)) for place in range(len(roles))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for said, right in zip(found, expected, strict=True):
        assert said == [right, right[1:]]


def test_a_role_waits_while_another_speaks(opened, adapters, prompts, monkeypatch):
    """The adapter must not change between two batches of one call."""
    memory, organizer = opened(adapters["memory"], rows=1), opened(adapters["organizer"])
    base, expected = memory._base, words(memory, prompts)
    plain, other = base.model.generate, []

    def slow(**inputs):
        if not other:
            other.append(threading.Thread(target=lambda: organizer.complete(prompts)))
            other[0].start()
        other[0].join(timeout=0.3)
        return plain(**inputs)

    monkeypatch.setattr(base.model, "generate", slow)
    assert words(memory, prompts) == expected
    other[0].join()


def test_names_tell_the_model_and_not_where_it_lies(opened, checkpoint, adapters):
    assert opened().name == f"transformers/{checkpoint.name}"
    assert opened(adapters["memory"]).name == f"transformers/{checkpoint.name}+memory"
    assert str(checkpoint.parent) not in opened(adapters["memory"]).name


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_a_preset_stands_for_a_model_of_the_hub(preset, monkeypatch):
    asked = []

    def acquire(path):
        asked.append(path)
        raise ConfigError("stop here")

    monkeypatch.setattr("controllers.backends.transformers.acquire", acquire)
    with pytest.raises(ConfigError, match="stop here"):
        TransformersBackend(preset)
    assert asked == [PRESETS[preset]]
    assert asked[0].startswith("Qwen/Qwen3")


@pytest.mark.parametrize(
    ("stored", "held"), [("float32", "float32"), ("bfloat16", "bfloat16"), ("float16", "float32")]
)
def test_a_processor_holds_what_is_stored_but_half_precision(
    opened, tmp_path, prompts, stored, held
):
    model = tiny_qwen3_vl.write_checkpoint(tmp_path / stored, dtype=stored)
    backend = opened(model=model)
    kinds = {str(weight.dtype) for weight in backend._base.model.parameters()}
    assert kinds == {f"torch.{held}"}
    assert not any(reply.error for reply in backend.complete(prompts))


def test_adapters_take_the_type_of_the_base(opened, tmp_path, adapters, prompts):
    model = tiny_qwen3_vl.write_checkpoint(tmp_path / "half", dtype="bfloat16")
    backend = opened(adapters["memory"], model=model)
    kinds = {str(weight.dtype) for weight in backend._base.model.parameters()}
    assert kinds == {"torch.bfloat16"}
    assert not any(reply.error for reply in backend.complete(prompts))


def test_no_code_of_a_checkpoint_is_run(opened, checkpoint, tmp_path):
    model, mark = tmp_path / "model", tmp_path / "was-run"
    shutil.copytree(checkpoint, model)
    (model / "evil.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    settings = json.loads((model / "config.json").read_text())
    own = {
        "AutoConfig": "evil.C",
        "AutoModelForImageTextToText": "evil.M",
        "AutoProcessor": "evil.P",
    }
    settings["auto_map"] = own
    (model / "config.json").write_text(json.dumps(settings))
    opened(model=model).close()
    settings["model_type"] = "unheard-of"
    (model / "config.json").write_text(json.dumps(settings))
    with pytest.raises(ConfigError):
        opened(model=model)
    assert not mark.exists()


def test_pickled_weights_are_not_read(opened, checkpoint, adapters, tmp_path):
    import torch
    from safetensors.torch import load_file

    model, adapter = tmp_path / "model", tmp_path / "adapter"
    shutil.copytree(checkpoint, model)
    shutil.copytree(adapters["memory"], adapter)
    for folder, name, pickled in (
        (model, "model.safetensors", "pytorch_model.bin"),
        (adapter, "adapter_model.safetensors", "adapter_model.bin"),
    ):
        torch.save(load_file(folder / name), folder / pickled)
        (folder / name).unlink()
    with pytest.raises(ConfigError):
        opened(model=model)
    with pytest.raises(ConfigError):
        opened(adapter)


def test_a_place_without_a_model_is_a_fault_of_the_configuration(opened, checkpoint, tmp_path):
    with pytest.raises(ConfigError, match="no model") as fault:
        opened(model=tmp_path)
    assert str(tmp_path.parent) not in str(fault.value)
    with pytest.raises(ConfigError, match="no model"):
        opened(model="nobody/has-this")
    model = tmp_path / "mute"
    shutil.copytree(checkpoint, model, ignore=shutil.ignore_patterns("chat_template*"))
    with pytest.raises(ConfigError, match="chat template"):
        opened(model=model)


def broken(adapter, folder, **changes):
    """Copy an adapter with other settings, or with weights of other names."""
    shutil.copytree(adapter, folder)
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return folder


def laid_over(backend):
    return {name for name, _ in backend._base.model.named_parameters() if "lora_" in name}


@pytest.mark.parametrize(
    "changes",
    [
        {"r": 8},
        {"bias": "all"},
        {"peft_type": "IA3"},
        {"target_modules": ["nowhere"]},
        {"target_modules": ["q_proj"]},
        {
            "target_modules": TARGETS.replace("language_model.*", "").replace(
                "up_proj", "up_proj|linear_fc1"
            )
        },
    ],
)
def test_an_adapter_that_does_not_fit_is_refused(opened, adapters, tmp_path, prompts, changes):
    alone, memory = opened(), opened(adapters["memory"])
    expected = words(alone, prompts[:1]), words(memory, prompts[:1])
    odd = broken(adapters["organizer"], tmp_path / "odd", **changes)
    held = laid_over(alone)
    with pytest.raises(ConfigError, match="adapter"):
        opened(odd)
    assert laid_over(alone) == held
    assert (words(alone, prompts[:1]), words(memory, prompts[:1])) == expected
    memory.close()
    with pytest.raises(ConfigError, match="adapter"):
        opened(odd)
    assert words(alone, prompts[:1]) == expected[0]


def test_an_adapter_that_is_not_there_is_refused(opened, tmp_path):
    for place in (tmp_path, "nobody/has-this"):
        with pytest.raises(ConfigError, match="adapter"):
            opened(place)


@pytest.mark.parametrize("missing", ["torch", "transformers", "qwen_vl_utils", "xgrammar"])
def test_a_missing_package_is_named_with_its_extra(checkpoint, missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(PluginError, match=missing) as fault:
        TransformersBackend(str(checkpoint))
    assert "epimem[transformers]" in fault.value.hint
    assert not local_base._held


def test_a_missing_package_for_adapters_is_named(opened, adapters, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(PluginError, match="peft"):
        opened(adapters["memory"])
