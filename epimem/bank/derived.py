"""Derived data on disk: named arrays in one file that is verified before a byte of it is used.

Layout: the line ``epimem-derived 1``, the SHA-256 (hexadecimal) of all that follows as a line, one
line of JSON (header and array table), then the raw little-endian arrays one after the other. FAISS
reads back flipped bits without noticing and pickle executes code, so neither is used here.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAGIC = b"epimem-derived 1\n"
_TYPES = frozenset({"uint8", "uint16", "uint64", "int8", "int32", "int64", "float32"})

Header = Mapping[str, str | int]


@dataclass(frozen=True)
class DerivedFile:
    """What a file held: its header, and arrays that cannot be written to."""

    header: dict[str, str | int]
    arrays: dict[str, NDArray[Any]]


def write_derived(path: Path, header: Header, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write `header` and `arrays` to `path` so that a reader sees the old file or the new one.

    Raises:
        OSError: the folder cannot be written to.
    """
    table = [[name, array.dtype.name, list(array.shape)] for name, array in arrays.items()]
    line = json.dumps({"header": dict(header), "arrays": table}, sort_keys=True).encode("ascii")
    parts = [line + b"\n"]
    parts += [_little_endian(array).tobytes() for array in arrays.values()]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    write_whole(path, [_MAGIC, digest.hexdigest().encode("ascii") + b"\n", *parts])


def read_derived(path: Path, expected: Header) -> DerivedFile | None:
    """Return what `path` holds, or None where it is absent, damaged or made for something else.

    Args:
        path: a file that `write_derived` made.
        expected: header fields that must have these values; others may be there.
    """
    try:
        data = path.read_bytes()
    except OSError:
        return None
    start = len(_MAGIC) + 65
    if data[: len(_MAGIC)] != _MAGIC or len(data) <= start:
        return None
    if (
        hashlib.sha256(memoryview(data)[start:]).hexdigest().encode() + b"\n"
        != data[start - 65 : start]
    ):
        return None
    return _parse(data, start, expected)


def _parse(data: bytes, start: int, expected: Header) -> DerivedFile | None:
    """Read verified bytes; the hash proves that they are as written, not who wrote them."""
    end = data.find(b"\n", start)
    try:
        content = json.loads(data[start:end])
        header = dict(content["header"])
        table = [
            (str(name), str(kind), [int(n) for n in shape])
            for name, kind, shape in content["arrays"]
        ]
    except (ValueError, KeyError, TypeError):
        return None
    if any(header.get(name) != value for name, value in expected.items()):
        return None
    arrays: dict[str, NDArray[Any]] = {}
    offset = end + 1
    for name, kind, shape in table:
        count = math.prod(shape)
        if kind not in _TYPES or min(shape, default=0) < 0:
            return None
        dtype = np.dtype(kind).newbyteorder("<")
        if offset + count * dtype.itemsize > len(data):
            return None
        arrays[name] = np.frombuffer(data, dtype, count, offset).reshape(shape)
        offset += count * dtype.itemsize
    return DerivedFile(header, arrays) if offset == len(data) else None


def _little_endian(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.name not in _TYPES:
        raise TypeError(f"no derived file holds {array.dtype}")
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


def write_whole(path: Path, parts: list[bytes]) -> None:
    """Write a file under a name of its own, flush it to the disk, then rename it to `path`.

    Raises:
        OSError: the folder cannot be written to; nothing is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except OSError:
        with suppress(OSError):
            Path(name).unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
