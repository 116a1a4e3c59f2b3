"""A clock that jumps (T25): order is that of the commits, nothing hangs and nothing runs out too soon.

The wall clock is injected; the steady one, by which leases count on the same machine, is set beside it.
"""

from __future__ import annotations

import json
import os
import random
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from epimem.bank.bank import Bank
from epimem.bank.encoder import TableEncoder
from epimem.bank.run_queue import LAST_RETRY_S
from epimem.config import Config, EncoderConfig, TreeConfig
from epimem.errors import BankBusyError
from epimem.memory import ExperienceMemory
from epimem.protocols import Reply
from epimem.schema import ids as identity
from epimem.schema.ids import counting_ids
from epimem.testing import (
    ScriptedMemoryController,
    ScriptedTreeOrganizer,
    answer_as_lesson,
    nearest_or_new,
    small_run,
)
from tests.journeys.disk_faults import draft

ENCODER = TableEncoder(32)
CONFIG = Config(
    encoder=EncoderConfig(model="table:32"), tree=TreeConfig(capacity=7, min_group=4, batch=4)
)
HOUR, DAY, YEAR = 3600, 86_400, 365 * 86_400
JUMPS = {
    "back an hour": -HOUR,
    "back a year": -YEAR,
    "forward fifty years": 50 * YEAR,
    "stands still": 0,
}


class Clocks:
    """A wall clock that tests set, and a steady one that only time moves."""

    def __init__(self) -> None:
        self.wall = 1_800_000_000.0
        self.steady = 5_000.0

    def pass_time(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds

    def opened(self, folder: Path, **scripts: Callable[..., object]) -> ExperienceMemory:
        """Open a bank (made where there is none) that goes by these clocks."""
        derive = scripts.pop("derive", None)
        pair = (ScriptedMemoryController(derive=derive), ScriptedTreeOrganizer(**scripts))
        if not (folder / "bank.db").exists():
            ExperienceMemory.create(folder, CONFIG, encoder=ENCODER).close()
        memory = ExperienceMemory.open(
            folder, encoder=ENCODER, controllers=pair, clock=lambda: self.wall, ids=self.ids
        )
        memory.bank._steady = lambda: self.steady
        return memory

    _counter = count()

    def ids(self) -> str:
        """Return an id as a process makes it that was started just now."""
        milliseconds, number = int(self.wall * 1000), next(self._counter)
        return f"{milliseconds >> 16:08x}-{milliseconds & 0xFFFF:04x}-7000-8000-{number:012x}"


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "bank"


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)
def test_order_is_that_of_the_commits(clocks: Clocks, folder: Path, jump: float) -> None:
    with clocks.opened(folder) as memory:
        lessons, runs = [], []
        for number in range(9):
            clocks.wall += jump if number == 5 else 1 if jump else 0
            lessons.append(memory.contribute(draft(number)).id)
            runs.append(memory.contribute(small_run(number)).id)
        assert [node.node_id for node in memory.bank.inbox("default", limit=99)] == lessons
        assert [queued.run_id for queued in memory.bank.queued_runs(limit=99)] == runs
        rows = memory.bank.journal_rows(last=99)
        assert [row["seq"] for row in rows] == list(range(1, 19))
        seq = memory.bank.head_seq
        memory.ingest()
        assert memory.maintain().waiting == 0
        with closing(sqlite3.connect(folder / "bank.db")) as raw:
            (first,) = raw.execute("SELECT lessons FROM steps ORDER BY step LIMIT 1").fetchone()
        assert all(node_id in first for node_id in lessons[:4])
        assert len(memory.diff(seq, memory.bank.head_seq).removed) == 0
        answers = [memory.retrieve(f"how many stop, {n}?").retrieval_id for n in range(2)]
        clocks.wall += jump
        answers.append(memory.retrieve("how many stop?").retrieval_id)
        last = memory.explain()
        assert last is not None
        assert last["retrieval_id"] == answers[-1]
        assert memory.check() == []


def test_a_clock_that_jumps_at_every_look_builds_the_same_tree(folder: Path) -> None:
    digests = []
    for wild in (False, True):
        chance = random.Random(3)

        def clock(chance: random.Random = chance, wild: bool = wild) -> float:  # noqa: FBT001
            return 1_800_000_000.0 + (chance.uniform(-50 * YEAR, 50 * YEAR) if wild else 0)

        path = folder.with_name(f"bank-{wild}")
        pair = (ScriptedMemoryController(), ScriptedTreeOrganizer())
        ids = counting_ids()
        with ExperienceMemory.create(
            path, CONFIG, encoder=ENCODER, controllers=pair, ids=ids, clock=clock
        ) as memory:
            for number in range(12):
                key = f"key-{number}"
                first = memory.contribute(draft(number), idempotency_key=key)
                assert memory.contribute(draft(number), idempotency_key=key).id == first.id
                memory.contribute(small_run(number, answer=f"answer {number}"))
            assert memory.ingest().states == {"derived": 12}
            assert memory.maintain().placed == 24
            assert memory.check() == []
            digests.append(memory.bank.state_digest())
    assert digests[0] == digests[1]


def test_ids_of_one_process_never_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    start = identity.time.time_ns()
    jumps = (0, 1, -HOUR, -YEAR, 2, 50 * YEAR, 1, 0)
    times = iter([start + jump * 10**9 for jump in jumps for _ in range(20)])
    monkeypatch.setattr(identity, "_last", identity._last)  # the others go on from now
    monkeypatch.setattr(identity.time, "time_ns", lambda: next(times))
    made = [identity.uuid7() for _ in range(20 * len(jumps))]
    assert made == sorted(set(made))


# ---- times that are waited for


@pytest.fixture
def failing() -> Callable[[object], object]:
    tries = iter([Reply(None, reason="not_json", detail="cut")])
    return lambda request: next(tries, None) or answer_as_lesson(request)


@pytest.mark.parametrize("back", [HOUR, YEAR, 50 * YEAR])
def test_a_retry_set_by_a_clock_that_ran_ahead_does_not_strand_its_run(
    clocks: Clocks, folder: Path, failing: Callable[[object], object], back: int
) -> None:
    with clocks.opened(folder, derive=failing) as memory:
        memory.contribute(small_run(1))
        clocks.wall += back
        assert memory.ingest().states == {"queued": 1}
        clocks.wall -= back
        clocks.pass_time(61 if back > LAST_RETRY_S else LAST_RETRY_S)
        assert memory.ingest().states == {"derived": 1}


def test_a_retry_is_still_waited_for(
    clocks: Clocks, folder: Path, failing: Callable[[object], object]
) -> None:
    with clocks.opened(folder, derive=failing) as memory:
        memory.contribute(small_run(1))
        memory.ingest()
        clocks.pass_time(59)
        assert memory.ingest().states == {}
        clocks.pass_time(2)
        assert memory.ingest().states == {"derived": 1}


def test_an_idempotency_key_holds_its_seven_days_whatever_came_between(
    clocks: Clocks, folder: Path
) -> None:
    with clocks.opened(folder) as memory:
        first = memory.contribute(draft(1), idempotency_key="k")
        head = memory.bank.head_seq
        for jump in (-HOUR, -YEAR, 0, 6 * DAY):
            clocks.wall += jump
            assert memory.contribute(draft(1), idempotency_key="k") == first
            clocks.wall -= jump
        assert memory.bank.head_seq == head
        clocks.wall += 50 * YEAR
        ahead = memory.contribute(draft(2), idempotency_key="k2")
        clocks.wall -= 50 * YEAR
        assert memory.contribute(draft(2), idempotency_key="k2") == ahead
        assert memory.contribute(draft(1), idempotency_key="k") == first
        clocks.wall += 8 * DAY
        late = memory.contribute(draft(1), idempotency_key="k")
        assert (late.status, late.id) == ("duplicate", first.id), "and what it did is done once"


# ---- leases


@pytest.fixture
def pair(clocks: Clocks, folder: Path) -> Iterator[tuple[Bank, Bank]]:
    with clocks.opened(folder) as one, clocks.opened(folder) as two:
        yield one.bank, two.bank


def refused(bank: Bank) -> bool:
    try:
        with bank.lease("other"):
            return False
    except BankBusyError as error:
        return error.code == "bank_locked_elsewhere"


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)
def test_a_jump_takes_the_lease_from_nobody_and_keeps_it_for_nobody(
    clocks: Clocks, pair: tuple[Bank, Bank], jump: float
) -> None:
    one, two = pair
    with one.lease("one", ttl_s=30) as held:
        clocks.wall += jump
        assert refused(two)
        clocks.steady += 20
        held.renew()
        clocks.steady += 20
        assert refused(two), "it was renewed after the jump"
        clocks.steady += 20
        assert not refused(two), "it hangs: its time is over"
        with pytest.raises(BankBusyError, match="stale_epoch"):
            held.renew()


def test_a_maintainer_works_through_a_jump(clocks: Clocks, folder: Path) -> None:
    seen = []

    def place(request):
        clocks.wall += -YEAR if len(seen) % 2 else 50 * YEAR
        with clocks.opened(folder) as other:
            seen.append(refused(other.bank))
        return nearest_or_new(request)

    with clocks.opened(folder, place=place) as memory:
        for number in range(6):
            memory.contribute(draft(number))
        assert memory.maintain().placed == 6
        assert seen == [True] * 6
        assert not refused(memory.bank), "given back"


@pytest.mark.parametrize(
    ("host", "boot", "until", "held"),
    [
        ("elsewhere", [], 60, True),
        ("elsewhere", [], -1, False),
        ("elsewhere", [], 50 * YEAR, False),
        ("elsewhere", ["another-boot", 7.5], 60, True),
        ("elsewhere", ["another-boot", 7.5], 50 * YEAR, False),
        (None, ["another-boot", 7.5], 60, True),
        (None, ["another-boot", 7.5], 50 * YEAR, False),
        (None, [], 50 * YEAR, False),
    ],
)
def test_a_lease_of_another_machine_or_boot_is_believed_for_a_day_at_most(
    clocks: Clocks, folder: Path, *, host: str | None, boot: list[object], until: float, held: bool
) -> None:
    with clocks.opened(folder) as memory:
        holder = json.dumps(["m", host or socket.gethostname(), os.getpid(), *boot])
        with closing(sqlite3.connect(folder / "bank.db")) as raw, raw:
            values = (holder, int(clocks.wall + until))
            raw.execute("UPDATE bank SET lease_holder = ?, lease_until = ?", values)
        assert refused(memory.bank) == held
