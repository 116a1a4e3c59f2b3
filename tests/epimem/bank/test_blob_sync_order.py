from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from epimem.bank.blobs import BlobStore
from tests.sync_order import FOLDERS, RENAMES, SYNCS, WRITES, Event, check, parse_strace

ABSENT = "0" * 64


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


@pytest.fixture
def store(root: Path) -> BlobStore:
    return BlobStore(root)


# ---- the order of syncs


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Event]]:
    events: list[Event] = []
    real = {call: getattr(os, call) for call in ("write", "fsync", "rename", "mkdir")}

    def of(descriptor: int) -> str:
        return str(Path(f"/proc/self/fd/{descriptor}").readlink())

    def write(descriptor: int, data: bytes) -> int:
        events.append(Event("write", of(descriptor)))
        return int(real["write"](descriptor, data))

    def fsync(descriptor: int) -> None:
        real["fsync"](descriptor)
        events.append(Event("fsync", of(descriptor)))

    def rename(source: Path, target: Path) -> None:
        real["rename"](source, target)
        events.append(Event("rename", str(source), str(target)))

    def mkdir(path: Path, *args: object, **keywords: object) -> None:
        real["mkdir"](path, *args, **keywords)
        events.append(Event("mkdir", str(path)))

    monkeypatch.setattr(os, "write", write)
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(os, "mkdir", mkdir)
    yield events
    monkeypatch.undo()


def test_a_blob_is_synced_then_renamed_then_its_folder_is_synced(
    root: Path, recorded: list[Event]
) -> None:
    store = BlobStore(root)
    names = [store.put(bytes([number])) for number in range(20)]
    assert sum(event.call == "rename" for event in recorded) == 20
    assert check(recorded, blobs=str(root)) == []
    steps = [event.call for event in recorded if names[3] in event.target + event.path]
    assert steps == ["rename"]
    at = next(i for i, event in enumerate(recorded) if event.target.endswith(names[3]))
    assert recorded[at - 1] == Event("fsync", recorded[at].path)
    assert recorded[at + 1] == Event("fsync", str(root / names[3][:2]))


def test_a_copy_found_in_place_is_made_durable_before_it_counts(
    root: Path, recorded: list[Event]
) -> None:
    name = BlobStore(root).put(b"lesson")
    recorded.clear()
    BlobStore(root).put(b"lesson")
    path = root / name[:2] / name
    synced = [event.path for event in recorded if event.call == "fsync"]
    assert synced[-2:] == [str(path), str(path.parent)]
    assert str(root) in synced


def test_leaving_out_any_of_the_syncs_is_noticed(
    root: Path, recorded: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = os.fsync

    def without(part: Callable[[str], bool]) -> Callable[[int], None]:
        def fsync(descriptor: int) -> None:
            if not part(str(Path(f"/proc/self/fd/{descriptor}").readlink())):
                complete(descriptor)

        return fsync

    sabotage: dict[str, Callable[[str], bool]] = {
        "renamed before its bytes were fsynced": lambda path: "blobs/tmp/" in path,
        "not fsynced at all": lambda path: len(Path(path).name) == 2,
        f"folder {root} not fsynced": lambda path: path == str(root),
    }
    for complaint, part in sabotage.items():
        recorded.clear()
        monkeypatch.setattr(os, "fsync", without(part))
        BlobStore(root).put(complaint.encode())
        breaks = check(recorded, blobs=str(root))
        assert len(breaks) == 1
        assert complaint in breaks[0]


def test_a_write_after_the_fsync_and_a_late_folder_sync_are_noticed() -> None:
    blobs, database = "/bank/blobs", "/bank/bank.db"
    put = [
        Event("write", "/bank/blobs/tmp/r"),
        Event("fsync", "/bank/blobs/tmp/r"),
        Event("rename", "/bank/blobs/tmp/r", "/bank/blobs/ab/abc"),
    ]
    folder = Event("fsync", "/bank/blobs/ab")
    for commit in (Event("fdatasync", database + "-wal"), Event("fsync", database + "-journal")):
        assert check([*put, folder, commit], blobs=blobs, database=database) == []
        late = check([*put, commit, folder], blobs=blobs, database=database)
        assert late == [
            "/bank/blobs/ab/abc: folder /bank/blobs/ab not fsynced before the database was"
        ]
        torn = check([*put[:2], put[0], put[2], folder, commit], blobs=blobs, database=database)
        assert torn == ["/bank/blobs/ab/abc: renamed before its bytes were fsynced"]
    other = Event("fdatasync", database, pid=2)
    assert check([*put, other, folder], blobs=blobs, database=database) != []
    assert check([*put, other, folder], blobs=blobs, database=database, by_process=True) == []


LOG = r"""
17    mkdir("/b/blobs/ab", 0700) = 0
17    mkdir("/b/blobs/ab", 0700) = -1 EEXIST (File exists)
[pid 18] 12:00:01.5 pwrite64(5</b/bank.db-wal>, "\0rename(\"x\") = 0"..., 24, 0) = 24
17    fsync(4</b/blobs/tmp/f\303\251> <unfinished ...>
18    fdatasync(5</b/bank.db-wal>) = 0
17    <... fsync resumed>) = 0
17    rename("/b/blobs/tmp/f\303\251", "/b/blobs/ab/x") = 0
17    renameat2(AT_FDCWD</b>, "blobs/tmp/g", 7</b/blobs/ab>, "y", RENAME_NOREPLACE) = 0
17    fsync(4</b/blobs/ab>) = -1 EIO (Input/output error)
18    mkdirat(AT_FDCWD</b>, "blobs/cd", 0700) = 0
18    +++ exited with 0 +++
"""


def test_a_strace_log_is_read_with_its_unfinished_and_failed_calls() -> None:
    assert parse_strace(LOG) == [
        Event("mkdir", "/b/blobs/ab", pid=17),
        Event("pwrite64", "/b/bank.db-wal", pid=18),
        Event("fdatasync", "/b/bank.db-wal", pid=18),
        Event("fsync", "/b/blobs/tmp/fé", pid=17),
        Event("rename", "/b/blobs/tmp/fé", "/b/blobs/ab/x", pid=17),
        Event("renameat2", "/b/blobs/tmp/g", "/b/blobs/ab/y", pid=17),
        Event("mkdirat", "/b/blobs/cd", pid=18),
    ]


TRACED = """
import os, pathlib, sqlite3, sys
from epimem.bank.blobs import BlobStore
bank, left_out = pathlib.Path(sys.argv[1]), sys.argv[2]
real = os.fsync
def fsync(descriptor):
    path = os.readlink(f"/proc/self/fd/{descriptor}")
    part = "file" if "blobs/tmp/" in path else "folder" if path[-3] == "/" else "other"
    if part != left_out:
        real(descriptor)
os.fsync = fsync
store = BlobStore(bank / "blobs")
database = sqlite3.connect(bank / "bank.db")
database.execute("pragma journal_mode=wal"); database.execute("pragma synchronous=full")
database.execute("create table blob (name text)")
for text in (b"one", b"two"):
    name = store.put(text)
    with database:
        database.execute("insert into blob values (?)", (name,))
"""


@pytest.mark.parametrize("left_out", ["", "file", "folder"])
def test_the_system_calls_of_a_put_and_commit_come_in_order(tmp_path: Path, left_out: str) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    bank, log = tmp_path.resolve() / "bank", tmp_path / "log"
    bank.mkdir()
    calls = ",".join(sorted(WRITES | SYNCS | RENAMES | FOLDERS))
    strace = ["strace", "-f", "-y", "-o", str(log), "-e", f"trace={calls}"]
    done = subprocess.run(
        [*strace, sys.executable, "-c", TRACED, str(bank), left_out],
        capture_output=True,
        check=False,
        text=True,
    )
    if "ptrace" in done.stderr:
        pytest.skip("tracing is not permitted here")
    assert done.returncode == 0, done.stderr
    rows = sqlite3.connect(bank / "bank.db").execute("select name from blob").fetchall()
    assert len(rows) == 2
    events = parse_strace(log.read_text())
    assert sum(event.call.startswith("rename") for event in events) >= 2
    breaks = check(events, blobs=str(bank / "blobs"), database=str(bank / "bank.db"))
    if left_out == "file":
        assert len(breaks) == 2
        assert all("renamed before" in line for line in breaks)
    elif left_out == "folder":
        assert len(breaks) == 2
        assert all("before the database was" in line for line in breaks)
    else:
        assert breaks == []
