from __future__ import annotations

import json
import mmap
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from epimem.bank import derived
from epimem.bank.derived import read_derived, write_derived

HEADER: dict[str, str | int] = {"bank_id": "b", "seq": 7}
ARRAYS: dict[str, NDArray[Any]] = {
    "vectors": np.arange(6, dtype=np.float32).reshape(2, 3),
    "empty": np.zeros((0, 3), dtype=np.int64),
    "terms": np.array([2**63, 1], dtype=np.uint64),
}


@pytest.fixture(params=["read", "mapped"])
def stored(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is read as a whole; and one in many blocks that is mapped, as large ones are."""
    if request.param == "mapped":
        monkeypatch.setattr(derived, "_MAPPED", 1)
        monkeypatch.setattr(derived, "_BLOCK", 5)
    path = tmp_path / "deep" / "file.derived"
    write_derived(path, HEADER, ARRAYS)
    return path


def test_what_was_written_is_read_and_cannot_be_written_to(stored: Path) -> None:
    found = read_derived(stored, {"bank_id": "b"})
    assert found is not None
    assert found.header == HEADER
    assert set(found.arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert found.arrays[name].dtype == array.dtype
        assert found.arrays[name].tolist() == array.tolist()
        assert not found.arrays[name].flags.writeable


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_any_flipped_bit_is_noticed(stored: Path, data: st.DataObject) -> None:
    content = bytearray(stored.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    damaged = stored.with_name("damaged")
    damaged.write_bytes(bytes(content))
    assert read_derived(damaged, {}) is None


def test_every_truncation_and_any_addition_is_noticed(stored: Path) -> None:
    content = stored.read_bytes()
    cut = stored.with_name("cut")
    for length in range(len(content)):
        cut.write_bytes(content[:length])
        assert read_derived(cut, {}) is None
    cut.write_bytes(content + b"x")
    assert read_derived(cut, {}) is None


def test_a_file_for_something_else_is_not_used(stored: Path) -> None:
    assert read_derived(stored, {"bank_id": "other"}) is None
    assert read_derived(stored, {"bank_id": "b", "more": 1}) is None
    assert read_derived(stored.with_name("absent"), {}) is None


def test_a_large_file_is_mapped_and_every_array_begins_where_it_is_quick_to_read(
    tmp_path: Path,
) -> None:
    path = tmp_path / "large.derived"
    vectors = np.random.default_rng(0).random((3000, 100), dtype=np.float32)
    write_derived(path, HEADER, {"odd": np.zeros(3, np.uint8), "vectors": vectors})
    found = read_derived(path, HEADER)
    assert found is not None
    read = found.arrays["vectors"]
    assert read.tobytes() == vectors.tobytes()
    assert read.ctypes.data % 64 == 0
    base: Any = read
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base.obj, mmap.mmap)
    path.unlink()
    write_derived(path, HEADER, ARRAYS)
    assert read.tobytes() == vectors.tobytes(), "a new file does not change what was mapped"


@pytest.mark.parametrize(
    "table",
    [
        [["a", "float32", [-1], []]],
        [["a", "float32", [2**62, 2**62], []]],
        [["a", "object", [1], [""]]],
        [["a", "float32", ["1"], [""]]],
        [["a", "float32", 4, [""]]],
        [["a", "float32", [4], []]],
        [["a", "float32"]],
        {"a": 1},
        None,
    ],
)
def test_a_table_that_claims_what_is_not_there_is_refused(tmp_path: Path, table: Any) -> None:
    line = json.dumps({"header": HEADER, "arrays": table}).encode("ascii")
    digest = sha256(line).hexdigest().encode("ascii")
    path = tmp_path / "claims.derived"
    content = b"epimem-derived 2\n" + digest + b"\n" + line + b"\n"
    path.write_bytes(content)
    assert read_derived(path, {}) is None
    path.write_bytes(content.replace(b" 2\n", b" 1\n", 1))
    assert read_derived(path, {}) is None, "files of the old format are not read"


def test_objects_are_never_stored(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        write_derived(tmp_path / "x", {}, {"bad": np.array([object()])})
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.derived"
    write_derived(path, HEADER, ARRAYS)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_derived(path, {"seq": 8}, ARRAYS)
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["file.derived"]
