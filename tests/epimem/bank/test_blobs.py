from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epimem.bank.blobs import BlobStore
from epimem.errors import BankCorruptError, BankFrozenError, NotFoundError, StorageError
from epimem.schema.ids import sha256

ABSENT = "0" * 64


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


@pytest.fixture
def store(root: Path) -> BlobStore:
    return BlobStore(root)


def tmp_files(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "tmp").iterdir())


# ---- storing and reading


@settings(max_examples=25, deadline=None)
@given(st.lists(st.binary(max_size=300), max_size=5))
def test_what_is_put_is_got_back_and_named_in_order(
    tmp_path_factory: pytest.TempPathFactory, blobs: list[bytes]
) -> None:
    store = BlobStore(tmp_path_factory.mktemp("bank") / "blobs")
    names = [store.put(data) for data in blobs]
    assert [store.get(name) for name in names] == blobs
    assert list(store.names()) == sorted(set(names))
    for name in names:
        store.delete(name)
    assert list(store.names()) == []


def test_a_blob_stands_under_its_hash_readable_by_its_owner_only(
    root: Path, store: BlobStore
) -> None:
    old = os.umask(0)
    try:
        name = store.put(b"lesson")
    finally:
        os.umask(old)
    path = root / name[:2] / name
    assert name == sha256(b"lesson")
    assert store.path(name) == path
    assert path.read_bytes() == b"lesson"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in (root, root / "tmp", path.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert tmp_files(root) == []


def test_a_sound_copy_is_kept_and_a_damaged_one_is_replaced(store: BlobStore) -> None:
    name = store.put(b"lesson")
    path = store.path(name)
    first = path.stat().st_ino
    assert store.put(b"lesson") == name
    assert path.stat().st_ino == first
    path.write_bytes(b"lessoN")
    assert store.put(b"lesson") == name
    assert path.stat().st_ino != first
    assert store.get(name) == b"lesson"


def test_absent_blobs_and_names_that_are_none_are_not_found(root: Path, store: BlobStore) -> None:
    (root.parent / "secret").write_bytes(b"secret")
    bad = ["", "ab", ABSENT[:-1], ABSENT.replace("0", "A"), "../secret", ABSENT + "\n", "../" * 20]
    for name in [ABSENT, *bad]:
        assert not store.has(name)
        with pytest.raises(NotFoundError):
            store.get(name)
    for name in bad:
        with pytest.raises(NotFoundError):
            store.path(name)
    store.delete(ABSENT)


def test_names_leave_out_strays_and_temporary_files(root: Path, store: BlobStore) -> None:
    name = store.put(b"lesson")
    (root / "tmp" / name).write_bytes(b"x")
    (root / "README").write_bytes(b"x")
    (root / "ff").write_bytes(b"a file, no folder")
    (root / name[:2] / "notes").write_bytes(b"x")
    (root / name[:2] / ("f" * 64 if name[:2] != "ff" else ABSENT)).write_bytes(b"misplaced")
    assert list(store.names()) == [name]


def test_a_read_only_store_reads_and_touches_nothing(root: Path, store: BlobStore) -> None:
    name = store.put(b"lesson")
    reader = BlobStore(root, read_only=True)
    assert reader.get(name) == b"lesson"
    for write in (lambda: reader.put(b"x"), lambda: reader.delete(name), reader.sweep_tmp):
        with pytest.raises(BankFrozenError) as caught:
            write()
        assert caught.value.code == "bank_frozen"
    absent = BlobStore(root / "elsewhere", read_only=True)
    assert list(absent.names()) == []
    assert not absent.has(name)
    assert not (root / "elsewhere").exists()


# ---- damage


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[:0],
        lambda data: data + b"\0",
        lambda data: bytes([data[0] ^ 1]) + data[1:],
        lambda data: data[:50] + bytes([data[50] ^ 0x80]) + data[51:],
        lambda data: bytes(len(data)),
    ],
)
def test_damaged_bytes_are_reported_and_never_returned(
    store: BlobStore, damage: Callable[[bytes], bytes]
) -> None:
    data = bytes(range(1, 101))
    name = store.put(data)
    store.path(name).write_bytes(damage(data))
    with pytest.raises(BankCorruptError) as caught:
        store.get(name)
    assert caught.value.code == "bank_corrupt"
    assert store.has(name)


def test_a_link_is_refused_even_to_the_right_bytes(root: Path, store: BlobStore) -> None:
    name = store.put(b"lesson")
    outside = root.parent / "outside"
    outside.write_bytes(b"lesson")
    path = store.path(name)
    path.unlink()
    path.symlink_to(outside)
    with pytest.raises(BankCorruptError):
        store.get(name)
    assert not store.has(name)
    assert store.put(b"lesson") == name  # replaces the link, not what it points to
    assert not path.is_symlink()
    assert outside.read_bytes() == b"lesson"


def test_a_linked_folder_of_blobs_and_a_linked_root_are_refused(
    root: Path, store: BlobStore
) -> None:
    name = store.put(b"lesson")
    moved = root.parent / "moved"
    shutil.move(root / name[:2], moved)
    (root / name[:2]).symlink_to(moved)
    with pytest.raises(BankCorruptError):
        store.get(name)
    with pytest.raises(BankCorruptError):
        BlobStore(root).put(b"lesson")
    assert list(store.names()) == []
    link = root.parent / "link"
    link.symlink_to(root)
    with pytest.raises(StorageError) as caught:
        BlobStore(link)
    assert caught.value.code == "unsafe_bank_location"


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_a_folder_or_pipe_in_a_blobs_place_is_damage_and_never_hangs(
    store: BlobStore, make: Callable[[Path], None]
) -> None:
    name = store.put(b"lesson")
    store.path(name).unlink()
    make(store.path(name))
    assert not store.has(name)
    with pytest.raises(BankCorruptError):
        store.get(name)
    if make is os.mkdir:
        with pytest.raises(BankCorruptError):
            store.put(b"lesson")
        assert tmp_files(store.path(name).parents[1]) == []
    else:
        assert store.get(store.put(b"lesson")) == b"lesson"


# ---- full and failing disks


def failing(call: str, number: int, monkeypatch: pytest.MonkeyPatch, after: int = 0) -> None:
    real = getattr(os, call)
    seen = iter(range(10**6))

    def fail(*args: object, **keywords: object) -> object:
        if next(seen) >= after:
            raise OSError(number, os.strerror(number))
        return real(*args, **keywords)

    monkeypatch.setattr(os, call, fail)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("call", ["open", "write", "rename", "mkdir"])
def test_a_full_disk_says_so_leaves_no_trace_and_works_again_after(
    root: Path, store: BlobStore, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    kept = store.put(b"kept")
    with monkeypatch.context() as patch:
        failing(call, number, patch)
        with pytest.raises(StorageError) as caught:
            store.put(b"lost")
    assert caught.value.code == "storage_full"
    assert tmp_files(root) == []
    assert list(store.names()) == [kept]
    assert store.get(store.put(b"lost")) == b"lost"


@pytest.mark.parametrize("after", [0, 1, 2, 3])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_after_a_failed_fsync_writes_stay_refused_until_opened_anew(
    root: Path, monkeypatch: pytest.MonkeyPatch, after: int, number: int
) -> None:
    kept = BlobStore(root).put(b"kept")
    store = BlobStore(root)
    with monkeypatch.context() as patch:
        failing("fsync", number, patch, after)
        with pytest.raises(StorageError) as caught:
            store.put(b"lost")
    assert caught.value.code == ("storage_failed" if number == errno.EIO else "storage_full")
    for write in (lambda: store.put(b"x"), lambda: store.delete(kept), store.sweep_tmp):
        with pytest.raises(StorageError) as caught:
            write()
        assert caught.value.code == "storage_failed"
    assert store.get(kept) == b"kept"
    assert tmp_files(root) == []
    again = BlobStore(root)
    assert again.get(again.put(b"lost")) == b"lost"


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS])
def test_a_broken_or_read_only_disk_fails_the_write_and_stops_later_ones(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    kept = store.put(b"kept")
    with monkeypatch.context() as patch:
        failing("open" if number == errno.EROFS else "write", number, patch)
        with pytest.raises(StorageError) as caught:
            store.put(b"lost")
        assert caught.value.code == "storage_failed"
    with pytest.raises(StorageError) as caught:
        store.put(b"other")
    assert caught.value.code == "storage_failed"
    assert store.get(kept) == b"kept"


def test_too_many_open_files_fails_one_write_only(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        failing("open", errno.EMFILE, patch)
        with pytest.raises(StorageError) as caught:
            store.put(b"lesson")
        assert caught.value.code == "storage_failed"
    assert store.put(b"lesson") == sha256(b"lesson")


def test_short_writes_are_continued(store: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    data = bytes(range(256))
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda where, what: real(where, bytes(what)[:7]))
        name = store.put(data)
    assert store.get(name) == data


def test_a_really_full_file_system_is_named_and_swept(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", str(mount)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("needs root to mount a small tmpfs")
    try:
        store = BlobStore(mount / "blobs")
        with pytest.raises(StorageError) as caught:
            store.put(bytes(100_000))
        assert caught.value.code == "storage_full"
        assert tmp_files(mount / "blobs") == []
        assert store.get(store.put(b"small")) == b"small"
    finally:
        subprocess.run(["umount", str(mount)], check=True)


# ---- crashes and sweeping


PUT = "import sys, pathlib; from epimem.bank.blobs import BlobStore; "
PUT += "BlobStore(pathlib.Path(sys.argv[1])).put(b'lesson'); print('acknowledged')"


@pytest.mark.parametrize("point", ["write", "fsync", "rename", "dirsync"])
def test_a_kill_at_any_step_leaves_the_blob_whole_or_absent(root: Path, point: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PUT, str(root)],
        env={**os.environ, "EPIMEM_FAILPOINT": f"blob.{point}"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == b""
    store = BlobStore(root)
    name = sha256(b"lesson")
    assert store.has(name) == (point == "dirsync")
    assert store.sweep_tmp() == (point != "dirsync")
    assert tmp_files(root) == []
    assert store.get(store.put(b"lesson")) == b"lesson"


def test_a_sweep_spares_the_file_of_a_live_writer(root: Path, store: BlobStore) -> None:
    (root / "tmp" / "left").write_bytes(b"by a crash")
    (root / "tmp" / "link").symlink_to(root.parent)
    path, descriptor = store._temporary()
    assert BlobStore(root).sweep_tmp() == 2
    assert tmp_files(root) == [path.name]
    os.close(descriptor)
    assert BlobStore(root).sweep_tmp() == 1


def test_a_sweep_between_creation_and_lock_makes_the_writer_begin_again(
    root: Path, store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.flock
    sweeps = iter([True])

    def lock(descriptor: int, operation: int) -> None:
        if operation == fcntl.LOCK_EX and next(sweeps, False):
            assert BlobStore(root).sweep_tmp() == 1
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", lock)
    assert store.get(store.put(b"lesson")) == b"lesson"
    assert next(sweeps, None) is None
