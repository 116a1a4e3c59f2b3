"""A disk that fills up (T4): `storage_full`, nothing corrupt, and all goes on when there is room again.

A limit on the size of files works without any right and gives what a quota gives. A small file system
of its own, with few inodes too, needs the right to mount one and is tried by the long tests.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from epimem.bank import database
from tests.journeys.disk_faults import (
    Say,
    copied,
    draft,
    freezing,
    inspect,
    new_template,
    opened,
    outcomes,
    session,
    tried,
    warm,
)

KIB = 1024
Operation = Callable[[Path, Say], None]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("full")
    made = new_template(folder / "template")
    warm(made, folder / "warm")
    return made


def in_child(operation: Operation, folder: Path, limit: int = resource.RLIM_INFINITY) -> list[str]:
    """Run an operation in a child whose files may grow to `limit` bytes; return what it said."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 70
        try:
            os.close(reading)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            operation(folder, lambda line: _say(writing, line))
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as handle:
        said = handle.read().split()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return said


def _say(descriptor: int, line: str) -> None:
    os.write(descriptor, f"{line}\n".encode())


def refusals(lines: list[str]) -> list[str]:
    return [outcome for _, outcome, _ in outcomes(lines) if outcome != "ok"]


@pytest.mark.parametrize("kib", [1, 40, 512])
def test_files_that_may_grow_no_more_are_a_full_disk(
    template: Path, tmp_path: Path, kib: int
) -> None:
    bank = copied(template, tmp_path / "bank")
    lines = in_child(session, bank, kib * KIB)
    assert set(refusals(lines)) == {"storage_full"}
    assert lines[-1].startswith("close:ok") or lines == ["open:storage_full:"]
    inspect(bank, lines, codes={"storage_full"})


@pytest.mark.parametrize("kib", [1, 100])
def test_a_bank_that_finds_no_room_to_freeze_stays_open(
    template: Path, tmp_path: Path, kib: int
) -> None:
    bank = copied(template, tmp_path / "bank")
    lines = in_child(freezing, bank, kib * KIB)
    inspect(bank, lines, codes={"storage_full"})


def contribute_ten(folder: Path, say: Say) -> None:
    memory = opened(folder)
    for number in range(10):
        tried(say, "lesson", lambda number=number: str(memory.contribute(draft(number)).id))
    tried(say, "close", lambda: str(memory.close()))


def test_a_commit_stands_where_its_log_cannot_be_folded_in(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "CHECKPOINT_BYTES", 32 * KIB)
    bank = copied(template, tmp_path / "bank")
    limit = (bank / "bank.db").stat().st_size
    lines = in_child(contribute_ten, bank, limit)
    said = outcomes(lines)
    assert said[0][:2] == said[1][:2] == said[2][:2] == ("lesson", "ok")
    assert set(refusals(lines)) <= {"storage_full"}, "when the log has no room either"
    inspect(bank, lines, codes={"storage_full"})


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mount file systems of given options on a folder; needs the right to."""
    mount = tmp_path / "small"
    mount.mkdir()
    mounted = []

    def make(options: str) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", options, "none", str(mount)]
        made = subprocess.run(command, check=False, capture_output=True)
        if made.returncode:
            pytest.skip("mounting a small disk needs root")
        mounted.append(mount)
        return mount

    yield make
    for _ in mounted:
        subprocess.run(["umount", "-l", str(mount)], check=True)


def fill(folder: Path, *, leave: int) -> Path:
    """Fill a disk up to some bytes; return the file that does it."""
    filler = folder / "filler"
    space = os.statvfs(folder)
    filler.write_bytes(bytes(max(space.f_bavail * space.f_frsize - leave, 0)))
    return filler


@pytest.mark.long
@pytest.mark.parametrize("operation", [session, freezing], ids=["session", "freeze"])
def test_a_full_disk_of_forty_sizes(
    template: Path, small: Callable[[str], Path], operation: Operation
) -> None:
    disk = small("size=16m")
    full = 0
    for pages in (*range(20), *range(20, 180, 8)):
        bank = copied(template, disk / "bank")
        filler = fill(disk, leave=pages * 4 * KIB)
        lines = in_child(operation, bank)
        full += "storage_full" in refusals(lines)
        filler.unlink()
        inspect(bank, lines, codes={"storage_full"})
    assert full >= 15


@pytest.mark.long
def test_a_disk_without_inodes(template: Path, small: Callable[[str], Path]) -> None:
    disk = small("size=16m,nr_inodes=400")
    full = 0
    for left in range(20):
        bank = copied(template, disk / "bank")
        (disk / "files").mkdir()
        for number in range(os.statvfs(disk).f_ffree - left):
            (disk / "files" / str(number)).touch()
        lines = in_child(session, bank)
        full += "storage_full" in refusals(lines)
        shutil.rmtree(disk / "files")
        inspect(bank, lines, codes={"storage_full"})
    assert full >= 5
