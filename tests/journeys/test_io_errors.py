"""A system call that fails (T3): no wrong data, nothing acknowledged lost, and a code, never a trace.

strace makes one call of a session fail, or that call and all after it. After a failed flush a handle
refuses to write until the bank is opened again: the kernel may have dropped what it could not write.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from epimem.bank import database
from epimem.bank.versions import FROZEN_NAME
from epimem.cli import main
from tests.journeys.crash import run_killed
from tests.journeys.disk_faults import (
    CODES,
    READ_CODES,
    WRITES,
    Say,
    copied,
    draft,
    freezing,
    inspect,
    new_template,
    outcomes,
    session,
    warm,
)
from tests.journeys.test_strace import calls_in
from tests.tracing import require_strace, traced

Operation = Callable[[Path, Say], None]
CALLS = ("openat", "pread64", "pwrite64", "write", "fsync", "fdatasync", "rename", "ftruncate")
ERRORS = ("EIO", "ENOSPC", "EDQUOT", "EROFS", "EACCES", "EINTR")
FLUSHES = {"fsync", "fdatasync"}
POSITIONS = 10


@pytest.fixture(scope="module", autouse=True)
def _strace() -> None:
    require_strace()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("io")
    made = new_template(folder / "template")
    warm(made, folder / "warm")
    return made


def with_fault(
    operation: Operation, template: Path, folder: Path, fault: str, *paths: Path
) -> list[str]:
    """Run an operation on a fresh copy with a fault; look at what is left; return what it said.

    Args:
        operation: run in a child.
        template: the bank to copy.
        folder: where to.
        fault: as strace takes it, call:error=ERROR:when=POSITION; "+" is that one and all after it.
        paths: calls on other files are not counted and do not fail; none: all calls count.
    """
    copied(template, folder)
    call = fault.partition(":")[0]
    options = ["-e", f"trace={call}", "-e", f"inject={fault}"]
    options += [part for path in paths for part in ("-P", str(path))]
    ended = traced(operation, folder, folder.with_name("said"), options)
    inspect(folder, ended.acknowledged, codes=READ_CODES if call == "pread64" else CODES)
    return ended.acknowledged


def counted(operation: Operation, template: Path, folder: Path) -> dict[str, int]:
    """Return how often an operation makes each call."""
    copied(template, folder)
    said = folder.with_name("said")
    return dict(calls_in(traced(operation, folder, said, ["-e", f"trace={','.join(CALLS)}"]).log))


def assert_refused_after(lines: list[str]) -> None:
    """After `storage_failed` every write is refused, and reads go on."""
    said = outcomes(lines)
    failed = [n for n, (_, code, _) in enumerate(said) if code == "storage_failed"]
    for verb, outcome, _ in said[failed[0] + 1 :] if failed else []:
        assert outcome == ("storage_failed" if verb in WRITES else "ok"), lines


@pytest.mark.parametrize("fault", ["fsync:error=EIO:when=2", "fdatasync:error=EIO:when=3"])
def test_after_a_failed_flush_writes_are_refused_and_reads_go_on(
    template: Path, tmp_path: Path, fault: str
) -> None:
    lines = with_fault(session, template, tmp_path / "bank", fault)
    assert_refused_after(lines)
    refused = [verb for verb, outcome, _ in outcomes(lines) if outcome == "storage_failed"]
    assert len(refused) >= 3


@pytest.mark.parametrize(
    "fault",
    [
        "pwrite64:error=ENOSPC:when=9+",
        "pwrite64:error=EDQUOT:when=9+",
        "pwrite64:error=ENOSPC:when=1+",
        "write:error=EDQUOT:when=1+",
    ],
)
def test_a_disk_that_stays_full_is_called_so(template: Path, tmp_path: Path, fault: str) -> None:
    lines = with_fault(session, template, tmp_path / "bank", fault)
    assert {outcome for _, outcome, _ in outcomes(lines)} - {"ok"} == {"storage_full"}


@pytest.mark.parametrize(
    "fault",
    [
        "pwrite64:error=EIO:when=12",
        "openat:error=EROFS:when=4+",
        "rename:error=EACCES:when=1",
        "pread64:error=EIO:when=6",
        "fsync:error=EINTR:when=1",
    ],
)
def test_a_call_that_fails_costs_nothing_acknowledged(
    template: Path, tmp_path: Path, fault: str
) -> None:
    with_fault(session, template, tmp_path / "bank", fault)


@pytest.mark.parametrize(
    "fault",
    ["fsync:error=EIO:when=5", "rename:error=EROFS:when=2", "write:error=ENOSPC:when=1+"],
)
def test_a_freeze_that_fails_leaves_a_bank_that_is_frozen_or_goes_on(
    template: Path, tmp_path: Path, fault: str
) -> None:
    lines = with_fault(freezing, template, tmp_path / "bank", fault)
    assert "left:ok:False" not in lines, "an index was left inside the open bank"
    assert_refused_after(lines)


def test_a_bank_that_was_signed_but_perhaps_not_for_good_is_written_no_more(
    template: Path, tmp_path: Path
) -> None:
    bank = tmp_path / "bank"
    lines = with_fault(freezing, template, bank, "fsync:error=EIO:when=1", bank)
    said = {verb: outcome for verb, outcome, _ in outcomes(lines)}
    assert said["freeze"] == said["lesson"] == "storage_failed"
    assert (bank / FROZEN_NAME).exists()


@pytest.mark.parametrize("point", ["freeze.index", "freeze.fsync"])
def test_what_a_killed_freeze_left_is_swept(template: Path, tmp_path: Path, point: str) -> None:
    bank = copied(template, tmp_path / "bank")
    ended = run_killed(freezing, bank, f"{point}:1")
    assert ended.killed
    assert (bank / "index").exists()
    inspect(bank, ended.acknowledged, codes=set())


def test_a_fold_of_the_log_that_fails_leaves_the_commit_and_stops_the_next(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "CHECKPOINT_BYTES", 1)
    bank = tmp_path / "bank"
    lines = with_fault(session, template, bank, "fdatasync:error=EIO:when=1", bank / "bank.db")
    assert [outcome for verb, outcome, _ in outcomes(lines) if verb in WRITES] == [
        "ok",
        *["storage_failed"] * 5,
    ]


COMMANDS = {
    "contribute": ("contribute", "BANK", "BANK.jsonl"),
    "freeze": ("freeze", "BANK"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_ends_with_its_status_and_one_line(
    template: Path, tmp_path: Path, name: str
) -> None:
    bank = tmp_path / "bank"
    Path(f"{bank}.jsonl").write_text(draft(0).canonical().decode() + "\n")

    def run(folder: Path, say: Say) -> None:
        with (
            Path(os.devnull).open("w") as sys.stdout,
            Path(f"{folder}.err").open("w") as sys.stderr,
        ):
            status = main([part.replace("BANK", str(folder)) for part in COMMANDS[name]])
        say(f"status:ok:{status}")

    fault = "fdatasync:error=EIO:when=1"
    ((_, _, status),) = outcomes(with_fault(run, template, bank, fault))
    assert status == "9"
    (line,) = Path(f"{bank}.err").read_text().splitlines()
    assert line.startswith("epimem: storage_failed: ")


@pytest.mark.long
@pytest.mark.parametrize("operation", [session, freezing], ids=["session", "freeze"])
@pytest.mark.parametrize("error", ERRORS)
def test_every_error_at_the_first_ten_of_every_call(
    template: Path, tmp_path: Path, operation: Operation, error: str
) -> None:
    bank = tmp_path / "bank"
    for call, count in sorted(counted(operation, template, bank).items()):
        for position in range(1, min(count, POSITIONS) + 1):
            lines = with_fault(operation, template, bank, f"{call}:error={error}:when={position}")
            if call in FLUSHES and error != "EINTR":
                assert_refused_after(lines)
        # Spread over the rest of the run, from there on; a call that is interrupted for ever never ends.
        for position in () if error == "EINTR" else range(1, count + 1, max(count // 4, 1)):
            with_fault(operation, template, bank, f"{call}:error={error}:when={position}+")
