"""The order in which a bank becomes durable, seen in its system calls: blob, folder, row, answer."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epimem.bank.bank import Bank
from tests.image_files import encoded, picture
from tests.journeys.crash import (
    CALLER,
    LIMITS,
    add_lessons,
    add_runs,
    new_bank,
    run_ingest,
    run_maintain,
)
from tests.sync_order import FOLDERS, RENAMES, SYNCS, WRITES, Event, check, parse_strace
from tests.tracing import Say, Traced, require_strace, traced

CALLS = ",".join(sorted(WRITES | SYNCS | RENAMES | FOLDERS))


@pytest.fixture(autouse=True)
def _strace() -> None:
    require_strace()


def contribute(folder: Path, say: Say) -> None:
    with Bank.open(folder) as bank:
        image = bank.add_image(encoded(picture(), "PNG"), caller=CALLER)
        say(image.image_id)
        for number in range(3):
            say(add_runs(bank, 1, start=number)[0])
            say(add_lessons(bank, 1, start=number)[0])


def organize(folder: Path, say: Say) -> None:
    with Bank.open(folder) as bank:
        run_ingest(bank)
        say("ingested")
        run_maintain(bank)
        say("maintained")
        bank.revoke("run", "run-000001", LIMITS, caller=CALLER)
        say("revoked")


def without_sync_of(part: Callable[[str], bool], operation: Any) -> Callable[[Path, Say], None]:
    """Return the operation with the fsync of some files or folders left out."""

    def sabotaged(folder: Path, say: Say) -> None:
        complete = os.fsync

        def fsync(descriptor: int) -> None:
            if not part(str(Path(f"/proc/self/fd/{descriptor}").readlink())):
                complete(descriptor)

        os.fsync = fsync
        operation(folder, say)

    return sabotaged


def run(tmp_path: Path, operation: Callable[[Path, Say], None], name: str = "run") -> Traced:
    folder = tmp_path.resolve() / "bank"
    if not folder.exists():
        with new_bank(folder):
            pass
    done = traced(operation, folder, tmp_path / f"{name}.said", ["-e", f"trace={CALLS}"])
    assert not done.killed
    return done


def breaks(tmp_path: Path, done: Traced) -> list[str]:
    folder = tmp_path.resolve() / "bank"
    events = parse_strace(done.log)
    assert sum(event.call.startswith("rename") for event in events) >= 4
    return check(events, blobs=str(folder / "blobs"), database=str(folder / "bank.db"))


def early_answers(events: list[Event], database: Path, said: Path) -> list[str]:
    """Return the acknowledgements that came before the commit they speak of was durable."""
    found, dirty = [], set[str]()
    files = {f"{database}{suffix}" for suffix in ("", "-wal", "-journal")}
    for event in events:
        if event.call in WRITES and event.path in files:
            dirty.add(event.path)
        elif event.call in SYNCS:
            dirty.discard(event.path)
        elif event.call in WRITES and event.path == str(said):
            found += [f"acknowledged while {path} is not on the disk" for path in sorted(dirty)]
    return found


def test_a_blob_is_durable_before_its_row_and_its_row_before_the_answer(tmp_path: Path) -> None:
    done = run(tmp_path, contribute)
    assert len(done.acknowledged) == 7
    assert breaks(tmp_path, done) == []
    database, said = tmp_path.resolve() / "bank" / "bank.db", tmp_path / "run.said"
    events = parse_strace(done.log)
    assert early_answers(events, database, said) == []
    later = run(tmp_path, organize, "later")
    assert later.acknowledged == ["ingested", "maintained", "revoked"]
    events = parse_strace(later.log)
    assert early_answers(events, database, tmp_path / "later.said") == []


@pytest.mark.parametrize(
    ("left_out", "complaint"),
    [
        (lambda path: "blobs/tmp/" in path, "renamed before its bytes were fsynced"),
        (lambda path: path[-3:-2] == "/", "not fsynced before the database was"),
    ],
    ids=["the file", "the folder"],
)
def test_a_bank_that_leaves_out_the_sync_of_a_blob_is_caught(
    tmp_path: Path, left_out: Callable[[str], bool], complaint: str
) -> None:
    done = run(tmp_path, without_sync_of(left_out, contribute))
    found = breaks(tmp_path, done)
    assert len(found) >= 4, "three runs and one image"
    assert all(complaint in line for line in found)


def test_a_bank_that_answers_before_the_commit_is_durable_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from epimem.bank import database

    prepare = database._prepare

    def hasty(connection: Any, **options: Any) -> None:
        prepare(connection, **options)
        connection.execute("PRAGMA synchronous=OFF")

    monkeypatch.setattr(database, "_prepare", hasty)
    done = run(tmp_path, contribute)
    database_file = tmp_path.resolve() / "bank" / "bank.db"
    assert early_answers(parse_strace(done.log), database_file, tmp_path / "run.said") != []


def test_freezing_signs_off_only_what_is_on_the_disk(tmp_path: Path) -> None:
    def freeze(folder: Path, say: Say) -> None:
        with Bank.open(folder) as bank:
            add_lessons(bank, 3)
            run_maintain(bank)
            bank.freeze(lambda index: (index / "folded").write_text("x"), caller=CALLER)
            say("frozen")

    done = run(tmp_path, freeze)
    folder = tmp_path.resolve() / "bank"
    events = parse_strace(done.log)
    signed = [e for e in events if e.call.startswith("rename") and e.target.endswith(".json")]
    assert len(signed) == 1
    at = events.index(signed[0])
    before = [event for event in events[:at] if event.path == signed[0].path]
    assert [event.call for event in before[-2:]] == ["write", "fsync"]
    assert any(e.call == "fsync" and e.path == str(folder) for e in events[at:])
    writes = [e for e in events[at + 1 :] if e.call in WRITES and e.path.startswith(f"{folder}/")]
    assert writes == [], "nothing is written to a frozen bank"
    assert early_answers(events, folder / "bank.db", tmp_path / "run.said") == []
    shutil.rmtree(folder)
