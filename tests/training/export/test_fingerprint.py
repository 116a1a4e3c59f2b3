"""Fingerprints of weights: the same for the same tensors, another for any other; never a pickle."""

from __future__ import annotations

import json
import struct

import pytest

from epimem.errors import ConfigError, NotFoundError
from training.export.fingerprint import SAMPLE_BYTES, fingerprint, shapes


def write(folder, name, tensors):
    """Write float32 tensors, name -> (shape, values), as a safetensors file."""
    folder.mkdir(exist_ok=True)
    about, data = {"__metadata__": {"format": "pt"}}, b""
    for key, (shape, values) in tensors.items():
        packed = struct.pack(f"<{len(values)}f", *values)
        offsets = [len(data), len(data) + len(packed)]
        about[key] = {"dtype": "F32", "shape": shape, "data_offsets": offsets}
        data += packed
    head = json.dumps(about).encode()
    (folder / name).write_bytes(struct.pack("<Q", len(head)) + head + data)
    return folder


WHOLE = {"a": ([2, 2], [1.0, 2.0, 3.0, 4.0]), "b": ([1], [5.0])}


@pytest.fixture
def whole(tmp_path):
    return write(tmp_path / "whole", "model.safetensors", WHOLE)


def test_a_model_in_parts_is_the_same_model(whole, tmp_path):
    parts = tmp_path / "parts"
    write(parts, "model-00001.safetensors", {"b": WHOLE["b"]})
    write(parts, "model-00002.safetensors", {"a": WHOLE["a"]})
    assert fingerprint(parts) == fingerprint(whole)
    assert len(fingerprint(whole)) == 64


@pytest.mark.parametrize(
    "changed",
    [
        {"a": ([2, 2], [1.0, 2.0, 3.0, 4.5])},
        {"a": ([4], [1.0, 2.0, 3.0, 4.0])},
        {"c": ([1], [5.0])},
        {"b": ([1], [-5.0])},
    ],
)
def test_another_value_shape_or_name_is_another_model(whole, tmp_path, changed):
    other = write(tmp_path / "other", "model.safetensors", {**WHOLE, **changed})
    assert fingerprint(other) != fingerprint(whole)


def test_the_name_of_a_tensor_counts(whole, tmp_path):
    other = write(tmp_path / "other", "model.safetensors", {"a": WHOLE["a"], "c": WHOLE["b"]})
    assert fingerprint(other) != fingerprint(whole)


def test_only_the_beginning_of_a_tensor_is_read(tmp_path):
    many = [float(at) for at in range(SAMPLE_BYTES // 4 + 1)]
    first = write(tmp_path / "first", "model.safetensors", {"a": ([len(many)], many)})
    later = write(tmp_path / "later", "model.safetensors", {"a": ([len(many)], [*many[:-1], -1.0])})
    early = write(tmp_path / "early", "model.safetensors", {"a": ([len(many)], [-1.0, *many[1:]])})
    assert fingerprint(first) == fingerprint(later) != fingerprint(early)


def test_shapes_are_those_of_all_files(whole):
    assert shapes(whole) == {"a": (2, 2), "b": (1,)}


@pytest.mark.parametrize("name", ["pytorch_model.bin", "adapter_model.bin", "model.pt", "a.pkl"])
def test_a_pickle_is_refused_by_name(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(ConfigError, match="pickle") as caught:
        fingerprint(tmp_path)
    assert caught.value.field == name


def test_a_folder_without_weights_is_named(tmp_path):
    with pytest.raises(NotFoundError, match="no weights"):
        fingerprint(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x02}q",
        struct.pack("<Q", 2**62) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 9) + b'{"a": {}}',
        struct.pack("<Q", 11) + b'{"a": "bc"}',
    ],
)
def test_a_file_that_is_no_safetensors_is_refused_by_name(tmp_path, content):
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(ConfigError, match="not a file of safetensors") as caught:
        fingerprint(tmp_path)
    assert caught.value.field == "model.safetensors"
