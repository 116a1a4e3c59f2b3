"""Which model a folder holds: a fingerprint of its weights, in milliseconds."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epimem.errors import ConfigError, NotFoundError

# Of each tensor (ours): any training moves nearly all weights, so the first ones tell.
SAMPLE_BYTES = 4096
MOST_HEADER_BYTES = 100_000_000  # as the format has it
_LENGTH = struct.Struct("<Q")
PICKLES = frozenset({".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt"})


def fingerprint(folder: Path) -> str:
    """Return the fingerprint of the model, or of the adapter, in a folder: 64 hexadecimal digits.

    Of every tensor of the `*.safetensors` files its name, type, shape and first `SAMPLE_BYTES`
    count. Names of files and their order do not, so that a model stored in other parts is the same.

    Raises:
        NotFoundError: there are no weights in the folder.
        ConfigError: there are only pickled weights, or a file is no safetensors.
    """
    tensors: dict[str, bytes] = {}
    for path in weight_files(folder):
        tensors.update(_samples(path))
    digest = hashlib.sha256()
    for name, sample in sorted(tensors.items()):
        digest.update(json.dumps(name).encode("utf-8") + sample)
    return digest.hexdigest()


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files of a folder, sorted by name.

    Raises:
        NotFoundError: there are none.
        ConfigError: there are none, but pickled weights; those are never read.
    """
    found = sorted(folder.glob("*.safetensors"))
    if found:
        return found
    refuse_pickles(folder)
    raise NotFoundError(
        "no weights in this folder", got=folder.name, hint="a folder with *.safetensors"
    )


def refuse_pickles(folder: Path) -> None:
    """Refuse a folder that holds pickled weights, which run code when they are read.

    Raises:
        ConfigError: names the file.
    """
    for path in sorted(folder.glob("*")):
        if path.suffix in PICKLES:
            raise ConfigError(
                "a pickle is never read: it may run code",
                field=path.name,
                got=folder.name,
                hint="save the weights as safetensors",
            )


def header(path: Path) -> tuple[dict[str, Any], int]:
    """Return what a safetensors file says of its tensors, by name, and where their data begin.

    Raises:
        ConfigError: it is no safetensors file; names it.
    """
    try:
        with path.open("rb") as file:
            (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
            text = file.read(min(length, MOST_HEADER_BYTES))
        return _tensors(text, length), _LENGTH.size + length
    except (OSError, struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            "not a file of safetensors", field=path.name, hint="it may be cut off, or a pickle"
        ) from error


def _tensors(text: bytes, length: int) -> dict[str, Any]:
    if len(text) != length:
        raise ValueError("the header is cut off, or too long")
    return {
        name: {
            "dtype": str(about["dtype"]),
            "shape": [int(size) for size in about["shape"]],
            "data_offsets": [int(place) for place in about["data_offsets"]],
        }
        for name, about in json.loads(text).items()
        if name != "__metadata__"
    }


def shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor in a folder, by name.

    Raises:
        NotFoundError: there are no weights in it.
        ConfigError: as for `fingerprint`.
    """
    found: dict[str, tuple[int, ...]] = {}
    for path in weight_files(folder):
        found.update({name: tuple(about["shape"]) for name, about in header(path)[0].items()})
    return found


def _samples(path: Path) -> Mapping[str, bytes]:
    tensors, data = header(path)
    found = {}
    with path.open("rb") as file:
        for name, about in tensors.items():
            start, end = about["data_offsets"]
            file.seek(data + start)
            sample = file.read(max(0, min(end - start, SAMPLE_BYTES)))
            told = json.dumps([about["dtype"], about["shape"]]).encode("ascii")
            found[name] = told + hashlib.sha256(sample).digest()
    return found
