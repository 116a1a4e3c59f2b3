"""Checkpoints as files: which are whole, and what is refused in them."""

from __future__ import annotations

import pytest

from epimem.errors import ConfigError
from training.sft import checkpoints


@pytest.fixture
def whole(tmp_path):
    """Two whole checkpoints, and the later one that a kill left half written."""
    for step in (3, 12, 20):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "adapter_model.safetensors").write_bytes(b"w" * step)
        (folder / "adapter_config.json").write_text("{}")
        (folder / "optimizer.pt").write_bytes(b"o")
        if step < 20:
            checkpoints.mark(folder)
    (tmp_path / "checkpoint-other").mkdir()
    return tmp_path


def test_the_last_whole_checkpoint_is_taken_and_a_half_one_removed(whole):
    found = checkpoints.last(whole)
    assert found == whole / "checkpoint-12"
    assert checkpoints.step_of(found) == 12
    assert not (whole / "checkpoint-20").exists()
    assert (whole / "checkpoint-other").exists()


def test_without_a_whole_one_there_is_none(tmp_path):
    assert checkpoints.last(tmp_path / "nowhere") is None
    (tmp_path / "checkpoint-1").mkdir()
    assert checkpoints.last(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("pytorch_model.bin", b"pickle", "was put there"),
        ("optimizer.pt", b"longer", "missing or changed"),
        ("adapter_config.json", None, "missing or changed"),
    ],
)
def test_a_file_that_training_did_not_write_so_is_named(whole, name, content, what):
    path = whole / "checkpoint-12" / name
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=what) as caught:
        checkpoints.last(whole)
    assert (caught.value.field, caught.value.got) == ("checkpoint-12", name)


def test_what_is_left_is_the_adapter_and_its_settings_alone(whole):
    target = whole / "adapter"
    target.mkdir()
    (target / "old").touch()
    checkpoints.leave(whole / "checkpoint-3", target)
    assert sorted(path.name for path in target.iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]


def test_a_checkpoint_without_safetensors_leaves_nothing(whole):
    (whole / "checkpoint-3" / "adapter_model.safetensors").rename(
        whole / "checkpoint-3" / "adapter_model.bin"
    )
    with pytest.raises(ConfigError, match="safetensors"):
        checkpoints.leave(whole / "checkpoint-3", whole / "adapter")
    assert not (whole / "adapter").exists()
