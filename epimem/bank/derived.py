"""Derived data on disk: named arrays in one file that is verified before a byte of it is used.

Layout: the line ``epimem-derived 2``; the SHA-256 (hexadecimal) of the next line; that line, JSON with
the header and, for each array, its name, type, shape and the SHA-256 of each of its blocks of 8 MiB;
then the raw little-endian arrays, each from the next multiple of 64 bytes on, zeros between. FAISS
reads back flipped bits without noticing and pickle executes code, so neither writes here. Large files
are mapped, not read: their arrays are the pages of the file.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAGIC = b"epimem-derived 2\n"
_TYPES = frozenset({"uint8", "uint16", "uint64", "int8", "int32", "int64", "float32"})
_ALIGNED = 64
_BLOCK = 8 << 20
_MAPPED = 1 << 20  # smaller files are read: a copy of them costs nothing, and needs no open file
_HASHERS = 2  # threads; hashing is what opening a large file costs

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
    plain = {name: _little_endian(array) for name, array in arrays.items()}
    views = {name: _bytes_of(array) for name, array in plain.items()}
    digests = _digests(list(views.values()))
    table = [
        [name, plain[name].dtype.name, list(plain[name].shape), digest]
        for name, digest in zip(plain, digests, strict=True)
    ]
    content = {"header": dict(header), "arrays": table}
    line = json.dumps(content, sort_keys=True).encode("ascii")
    parts: list[bytes | memoryview] = [_MAGIC, _digest(line).encode("ascii"), b"\n", line, b"\n"]
    size = sum(len(part) for part in parts)
    for view in views.values():
        parts += [b"\x00" * (-size % _ALIGNED), view]
        size += -size % _ALIGNED + len(view)
    write_whole(path, parts)


def read_derived(path: Path, expected: Header) -> DerivedFile | None:
    """Return what `path` holds, or None where it is absent, damaged or made for something else.

    Args:
        path: a file that `write_derived` made.
        expected: header fields that must have these values; others may be there.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if file.read(len(_MAGIC)) != _MAGIC:
                return None
            file.seek(0)
            if size < _MAPPED:
                data = memoryview(file.read())
            else:
                data = memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))
            # Pages that are mapped stay those of this file: it is only ever replaced as a whole.
    except (OSError, ValueError):
        return None
    try:
        return _parse(data, expected)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _parse(data: memoryview, expected: Header) -> DerivedFile | None:
    """Read what a file holds; its hashes prove that it is as written, not who wrote it."""
    start = len(_MAGIC) + 65
    line, size = _line(data, start)
    if _digest(line).encode("ascii") + b"\n" != data[len(_MAGIC) : start]:
        return None
    content = json.loads(line)
    header = dict(content["header"])
    if any(header.get(name) != value for name, value in expected.items()):
        return None
    arrays: dict[str, NDArray[Any]] = {}
    views, digests = [], []
    for name, kind, shape, digest in content["arrays"]:
        padding = -size % _ALIGNED
        if kind not in _TYPES or any(not isinstance(length, int) or length < 0 for length in shape):
            return None
        dtype = np.dtype(kind).newbyteorder("<")
        length = math.prod(shape) * dtype.itemsize
        end = size + padding + length
        if end > len(data) or any(data[size : size + padding]):
            return None
        views.append(data[size + padding : end])
        digests.append(digest)
        arrays[str(name)] = np.frombuffer(views[-1], dtype).reshape(shape)
        size = end
    if size != len(data) or _digests(views) != digests:
        return None
    return DerivedFile(header, arrays)


def _line(data: memoryview, start: int) -> tuple[bytes, int]:
    """Return the line that begins at `start`, and where the next one does."""
    assert data.obj is not None
    end = data.obj.find(b"\n", start)  # type: ignore[attr-defined]
    if end < start:
        raise ValueError("the line has no end")
    return bytes(data[start:end]), end + 1


def _digest(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()


def _digests(views: list[memoryview]) -> list[list[str]]:
    """Return the digest of each block of each view."""
    parts = [[view[at : at + _BLOCK] for at in range(0, len(view), _BLOCK)] for view in views]
    blocks = [block for part in parts for block in part]
    if sum(len(block) for block in blocks) < _MAPPED:
        done = [_digest(block) for block in blocks]
    else:
        with ThreadPoolExecutor(_HASHERS) as pool:
            done = list(pool.map(_digest, blocks))
    found = iter(done)
    return [[next(found) for _ in part] for part in parts]


def _little_endian(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.name not in _TYPES:
        raise TypeError(f"no derived file holds {array.dtype}")
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


def _bytes_of(array: NDArray[Any]) -> memoryview:
    """Return the bytes of an array without a copy."""
    return array.reshape(-1).view(np.uint8).data


def write_whole(path: Path, parts: Sequence[bytes | memoryview]) -> None:
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
