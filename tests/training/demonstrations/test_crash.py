from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.training.demonstrations import made
from training.demonstrations.store import DemonstrationSet


def test_cut_off_at_any_byte_of_the_last_line_only_that_line_is_lost(tmp_path) -> None:
    whole = tmp_path / "whole"
    with DemonstrationSet.create(whole) as found:
        found.add(made.demonstration("merge", made.request("merge"), key="first"))
        found.set_aside("aside-1", "gate", "g", "teacher", "none")
        size = (whole / "demonstrations.jsonl").stat().st_size
        found.add(made.demonstration("merge", made.request("merge"), key="second"))
        found.set_aside("aside-2", "gate", "g", "teacher", "none")
    data = (whole / "demonstrations.jsonl").read_bytes()
    asides = (whole / "aside.jsonl").read_bytes()
    cut = tmp_path / "cut"
    shutil.copytree(whole, cut)
    for at in [*range(size, len(data), 331), len(data) - 2, len(data) - 1]:
        (cut / "demonstrations.jsonl").write_bytes(data[:at])
        (cut / "aside.jsonl").write_bytes(asides[: -1 - at % 60])
        with DemonstrationSet.create(cut) as found:
            assert found.done == {"first", "aside-1"}
            found.add(made.demonstration("merge", made.request("merge"), key="second"))
            found.set_aside("aside-2", "gate", "g", "teacher", "none")
            assert [each.id for each in found.read()] == ["first", "second"]
            assert not found.skipped
        assert (cut / "demonstrations.jsonl").read_bytes() == data
        assert (cut / "aside.jsonl").read_bytes() == asides


WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from tests.training.demonstrations import made
from training.demonstrations.store import DemonstrationSet
with DemonstrationSet.create(sys.argv[1]) as found:
    at = len(found.done)
    while True:
        if at % 7 == 3:
            found.finish()
        request = made.request("gate", (found.add_image(made.pixels(6, 6, at), 1),))
        found.add(made.demonstration("gate", request, key=f"d{at}", group=f"g{at}"))
        print(f"d{at}", flush=True)
        at += 1
"""


def test_killed_at_any_moment_nothing_that_was_acknowledged_is_lost(tmp_path) -> None:
    folder, told = tmp_path / "set", []
    root = os.fspath(__file__).split("/tests/")[0]
    for pause in (0.0, 0.017):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder), root], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        told.append(writer.stdout.readline().strip())
        time.sleep(pause)
        writer.send_signal(signal.SIGKILL)
        told += [line.strip() for line in writer.stdout if line.endswith("\n")]
        writer.wait()
        writer.stdout.close()
    with DemonstrationSet.create(folder) as found:
        kept = [each.id for each in found.read()]
        assert not found.skipped
        assert set(told) <= set(kept)
        assert len(kept) <= len(told) + 2  # at most one a kill was written and not told
        assert kept == [f"d{at}" for at in range(len(kept))]
        found.finish()
        assert len(found.splits()) == len(kept)


FULL = """
import resource, sys
sys.path.insert(0, sys.argv[2])
from epimem.errors import StorageError
from tests.training.demonstrations import made
from training.demonstrations.store import DemonstrationSet
with DemonstrationSet.create(sys.argv[1]) as found:
    found.add(made.demonstration("merge", made.request("merge"), key="first"))
    size = (found.path / "demonstrations.jsonl").stat().st_size
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, limit[1]))
    second = made.demonstration("merge", made.request("merge"), key="second")
    try:
        found.add(second)
    except StorageError as error:
        print(error.code, "second" in found.done)
    resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    found.add(second)
"""


def test_a_full_disk_costs_the_demonstration_and_not_the_set(tmp_path) -> None:
    root = os.fspath(__file__).split("/tests/")[0]
    said = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "set"), root],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert said == "storage_full False\n"
    found = DemonstrationSet.open(tmp_path / "set")
    assert [each.id for each in found.read()] == ["first", "second"]
    assert not found.skipped


@pytest.mark.parametrize("name", ["card.md", "card.json", "splits.json"])
def test_a_finish_that_fails_leaves_the_set_unfinished_or_as_it_was(tmp_path, name) -> None:
    with DemonstrationSet.create(tmp_path) as found:
        found.add(made.demonstration("merge", made.request("merge")))
        (tmp_path / name).mkdir()  # a rename onto a folder is refused
        with pytest.raises(Exception, match="disk refused"):
            found.finish()
        assert not (tmp_path / "splits.json").is_file()
        assert not list(tmp_path.glob("*.tmp"))
