"""SIGKILL at system calls: whatever the kernel was just asked for, nothing acknowledged is lost.

Unlike the failpoints, these kills also come inside the database's own writes and flushes.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from epimem.bank.bank import Bank
from epimem.bank.versions import FROZEN_NAME
from tests.journeys.crash import (
    CALLER,
    LIMITS,
    add_lessons,
    add_runs,
    new_bank,
    problems,
    run_ingest,
    run_maintain,
)
from tests.tracing import Say, Traced, require_strace, traced

CALLS = "pwrite64,write,fsync,fdatasync,rename,renameat,unlink,ftruncate"
KILLS = 32
Inspect = Callable[[Path, Traced], None]


@pytest.fixture(autouse=True)
def _strace() -> None:
    require_strace()


@pytest.fixture
def template(tmp_path: Path) -> Path:
    folder = tmp_path / "template"
    with new_bank(folder) as bank:
        add_runs(bank, 2, start=50)
        add_lessons(bank, 9, start=50)
        run_ingest(bank)
        run_maintain(bank)
    return folder


def copy_to(template: Path, folder: Path) -> None:
    for suffix in ("", ".side"):
        shutil.rmtree(f"{folder}{suffix}", ignore_errors=True)
    shutil.copytree(template, folder)


def calls_in(log: str) -> dict[str, int]:
    """Return how often the busiest thread makes each call: strace counts by thread and call."""
    threads: dict[str, Counter[str]] = {}
    for line in log.splitlines():
        if found := re.match(r"(\d+) +(\w+)\(", line):
            threads.setdefault(found[1], Counter())[found[2]] += 1
    return max(threads.values(), key=Counter.total)


def spread(calls: dict[str, int], kills: int | None) -> list[tuple[str, int]]:
    """Return (call, number) points over the whole run, the rare calls first; None: every point."""
    points: list[tuple[str, int]] = []
    for at, (call, count) in enumerate(sorted(calls.items(), key=lambda item: (item[1], item[0]))):
        share = count
        if kills is not None:
            share = min(count, (kills - len(points)) // (len(calls) - at))
        points += [(call, 1 + n * count // share) for n in range(share)]
    return points


def kill_at(
    operation: Callable[[Path, Say], None],
    template: Path,
    tmp_path: Path,
    inspect: Inspect,
    kills: int | None,
) -> int:
    """Kill the operation at calls spread over its whole run (None: at every one); count the kills."""
    folder, said = tmp_path / "bank", tmp_path / "acknowledged"
    copy_to(template, folder)
    whole = traced(operation, folder, said, ["-e", f"trace={CALLS}"])
    assert not whole.killed
    inspect(folder, whole)
    points = spread(calls_in(whole.log), kills)
    done = 0
    for call, number in points:
        copy_to(template, folder)
        inject = f"inject={call}:signal=KILL:when={number}"
        ended = traced(operation, folder, said, ["-e", f"trace={CALLS}", "-e", inject])
        inspect(folder, ended)
        done += ended.killed
    assert done >= len(points) - 3, "a call or two may come or go with the timing"
    return done


def contribute_ingest_maintain(folder: Path, say: Say) -> None:
    with Bank.open(folder) as bank:
        for number in range(2):
            say(add_runs(bank, 1, start=number)[0])
            say(add_lessons(bank, 1, start=number)[0])
        run_ingest(bank)
        say("ingested")
        run_maintain(bank)
        say("maintained")


def inspect_built(folder: Path, ended: Traced) -> None:
    with Bank.open(folder) as bank:
        assert problems(bank) == []
        states = bank.run_states()
        tree = bank.tree("n")
        assert tree is not None
        lessons = {n.node_id for n in (*tree.lessons(), *bank.inbox("n", limit=100))}
        given = {line for line in ended.acknowledged if line not in {"ingested", "maintained"}}
        assert given <= set(states) | lessons, "nothing acknowledged is lost"
        new = {run_id for run_id in states if run_id < "run-000050"}
        assert len(new) + len(lessons) >= len(given)
        if "ingested" in ended.acknowledged:
            assert {state for state, _ in states.values()} == {"derived"}
        if "maintained" in ended.acknowledged:
            assert bank.waiting("n") == 0
        derived = sum(state == "derived" for state, _ in states.values())
        own = 9 + sum(line in lessons for line in given)
        assert own + derived <= len(lessons) <= own + derived + 1, "no half run"
        for queued in bank.queued_runs(limit=100):
            assert queued.run.run_id == queued.run_id
        # The next writer finds no lock, and all comes to its end.
        add_lessons(bank, 1, start=30)
        run_ingest(bank)
        run_maintain(bank)
        assert bank.waiting("n") == 0
        assert problems(bank) == []


def revoke_and_freeze(folder: Path, say: Say) -> None:
    with Bank.open(folder) as bank:
        bank.revoke("run", "run-000050", LIMITS, caller=CALLER)
        say("revoked")
        bank.freeze(lambda index: (index / "folded").write_text("x"), caller=CALLER)
        say("frozen")


def inspect_revoked(folder: Path, ended: Traced) -> None:
    with Bank.open(folder) as bank:
        assert problems(bank) == []
        gone = "run-000050" not in bank.run_states()
        assert gone or "revoked" not in ended.acknowledged
        sides = [path for root in (folder, Path(f"{folder}.side")) for path in root.rglob("*")]
        held = any(b"answer 50 holds" in path.read_bytes() for path in sides if path.is_file())
        assert held != gone
        assert (bank.frozen is not None) == (folder / FROZEN_NAME).exists()
        assert bank.frozen is not None or "frozen" not in ended.acknowledged
        if bank.frozen is None:
            add_lessons(bank, 1, start=30)


def test_kills_inside_contribute_ingest_and_maintain_lose_nothing(
    template: Path, tmp_path: Path
) -> None:
    done = kill_at(contribute_ingest_maintain, template, tmp_path, inspect_built, KILLS)
    assert done >= KILLS - 3


def test_kills_inside_revoke_and_freeze_leave_the_old_state_or_the_new(
    template: Path, tmp_path: Path
) -> None:
    done = kill_at(revoke_and_freeze, template, tmp_path, inspect_revoked, KILLS // 2)
    assert done >= KILLS // 2 - 3


@pytest.mark.long
@pytest.mark.parametrize(
    ("operation", "inspect"),
    [(contribute_ingest_maintain, inspect_built), (revoke_and_freeze, inspect_revoked)],
    ids=["build", "revoke and freeze"],
)
def test_a_kill_at_every_single_call(
    template: Path, tmp_path: Path, operation: Callable[[Path, Say], None], inspect: Inspect
) -> None:
    assert kill_at(operation, template, tmp_path, inspect, None) > 20
