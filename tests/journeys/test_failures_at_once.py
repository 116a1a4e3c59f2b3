"""Failures that other memory systems had, as tests: writing at once, retries, update and delete.

Numbers are rows of the list of public failure reports; `test_failures.py` holds the whole table.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from epimem.bank import database
from epimem.bank.bank import Bank
from epimem.bank.intake import Caller
from epimem.errors import BankBusyError, BankConflictError
from epimem.protocols import Derived
from epimem.schema.outcome import SealedOutcome
from epimem.testing import nearest_or_new, small_run
from tests.journeys.scripted_memory import (
    everything,
    filled,
    lesson,
    new_memory,
    reopened,
    rows_of,
    sound,
)

# -- c. concurrency, duplicates, idempotency -------------------------------------------------------


def contribute_one(folder, number, *, same):
    with Bank.open(folder) as bank:
        key = "q" if same else f"q{number}"
        return bank.add_lesson(
            lesson(0, question_key=key), caller=Caller("alice", "org"), namespace="default"
        ).status


def in_processes(folder, count, *, same):
    """Contribute from forked processes that start together; return their receipts' statuses."""
    gate, said = os.pipe(), os.pipe()
    children = []
    for number in range(count):
        child = os.fork()
        children.append(child)
        if child == 0:
            try:
                os.close(gate[1])
                os.read(gate[0], 1)
                os.write(said[1], f"{contribute_one(folder, number, same=same)} ".encode())
            finally:
                os._exit(0)
    os.close(gate[1])
    for child in children:
        os.waitpid(child, 0)
    os.close(said[1])
    with os.fdopen(said[0]) as handle:
        statuses = handle.read().split()
    os.close(gate[0])
    return statuses


def in_threads(folder, count, *, same):
    barrier = threading.Barrier(count)

    def one(number):
        barrier.wait()
        return contribute_one(folder, number, same=same)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


@pytest.mark.parametrize("together", [in_processes, in_threads])
@pytest.mark.parametrize("same", [True, False], ids=["one question", "eight questions"])
def test_eight_writers_of_one_sentence_store_it_once(tmp_path, together, same):  # 32
    folder = tmp_path / "bank"
    with new_memory(folder) as memory:
        statuses = together(folder, 8, same=same)
        again = "duplicate" if same else "folded"
        assert sorted(statuses) == sorted([again] * 7 + ["stored"])
        (node,) = memory.bank.inbox("default", limit=9)
        assert len(node.lesson.supports) == (1 if same else 8)
        assert sound(memory)


def test_a_retry_with_its_key_gives_the_first_receipt_and_another_body_is_refused(tmp_path):  # 34
    with new_memory(tmp_path / "bank") as memory:
        first = memory.contribute(lesson(1), idempotency_key="k")
        head = memory.bank.head_seq
        assert memory.contribute(lesson(1), idempotency_key="k") == first
        with pytest.raises(BankConflictError) as refused:
            memory.contribute(lesson(2), idempotency_key="k")
        assert refused.value.code == "idempotency_mismatch"
        assert memory.bank.head_seq == head
        with reopened(memory, name="bob") as other:
            assert other.contribute(lesson(2), idempotency_key="k").status == "folded"


def test_no_lock_is_held_while_a_controller_thinks(tmp_path):  # 37
    waits = []

    def timed(number):
        with reopened(memory, name="bob") as other:
            started = time.monotonic()
            other.contribute(lesson(number, place=9, words=f"Meanwhile {number}"))
            waits.append(time.monotonic() - started)

    def derive(_):
        timed("during derive")
        return Derived((lesson(1),))

    def place(request):
        if len(waits) < 2:
            timed("during place")
        return nearest_or_new(request)

    with new_memory(tmp_path / "bank", derive=derive, place=place) as memory:
        memory.contribute(small_run(1))
        memory.ingest()
        assert memory.maintain().placed == 3, "what came meanwhile is placed by the next step"
        assert len(waits) == 2
        assert max(waits) < 4


def test_a_writer_that_waits_too_long_is_told_so_and_readers_never_wait(
    tmp_path, monkeypatch
):  # 37
    monkeypatch.setattr(database, "LOCK_WAIT_S", 0.2)
    with new_memory(tmp_path / "bank") as memory, reopened(memory) as other:
        memory.contribute(lesson(1))
        with memory.bank._db.write():
            with pytest.raises(BankBusyError) as refused:
                other.contribute(lesson(2))
            assert (refused.value.code, refused.value.retry) == ("bank_busy", True)
            assert other.retrieve("how many white triangles stop at the amber bridge?").items
        assert other.contribute(lesson(2)).status == "folded"


def test_a_dead_maintainer_does_not_block_the_next_one(tmp_path):  # 38
    with new_memory(tmp_path / "bank") as memory:
        memory.contribute(lesson(1))
        ready = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                with Bank.open(memory.bank.path) as bank, bank.lease("doomed", ttl_s=3600):
                    os.write(ready[1], b"x")
                    time.sleep(60)
            finally:
                os._exit(1)
        os.read(ready[0], 1)
        with pytest.raises(BankBusyError) as refused:
            memory.maintain()
        assert refused.value.code == "bank_locked_elsewhere"
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert memory.maintain().placed == 1
        for end in ready:
            os.close(end)


def test_a_slow_controller_does_not_cost_the_maintainer_its_lease(tmp_path):  # 38, 39
    now = [1_000_000.0]
    refused = []

    def slow(request):
        now[0] += 50  # within the deadline of 60 s, beyond 30 s
        with Bank.open(memory.bank.path, clock=lambda: now[0]) as other:
            with pytest.raises(BankBusyError) as busy, other.lease("another"):
                pass
            refused.append(busy.value.code)
        return nearest_or_new(request)

    with new_memory(tmp_path / "bank", clock=lambda: now[0], place=slow) as memory:
        memory.contribute(lesson(1))
        assert memory.maintain().placed == 1
        assert refused == ["bank_locked_elsewhere"]
        now[0] += 1
        with memory.bank.lease("next"):
            pass


def test_two_deposits_in_one_second_are_two_and_the_bank_stays_sound(tmp_path):  # 93
    with new_memory(tmp_path / "bank", clock=lambda: 1_000_000.0) as memory:
        first = memory.contribute(lesson(1, tags=("one",), audience=("alice",)))
        second = memory.contribute(lesson(1, tags=("two",), audience=("bob",)))
        runs = [memory.contribute(small_run(n, answer="the same")) for n in (1, 2)]
        assert (first.status, second.status) == ("stored", "stored")
        assert first.id != second.id
        assert [receipt.status for receipt in runs] == ["queued", "queued"]
        assert memory.ingest().states == {"derived": 2}
        assert sound(memory)


# -- i. update, delete -------------------------------------------------------------------------------


def test_an_update_is_a_version_and_at_no_number_is_a_node_missing(tmp_path):  # 79
    with new_memory(tmp_path / "bank", consolidate=everything) as memory:
        filled(memory, places=2)
        with reopened(memory, name="bob", consolidate=everything) as other:
            other.contribute(lesson("x", words="Count number 0"))
            other.contribute(lesson("y", place=1, words="Count the new ones"))
            other.maintain()
        spans = {}
        for node_id, start, end in rows_of(
            memory, "SELECT node_id, from_seq, to_seq FROM nodes ORDER BY node_id, from_seq"
        ):
            spans.setdefault(node_id, []).append((start, end))
        assert max(len(found) for found in spans.values()) >= 3
        for found in spans.values():
            assert [end for _, end in found[:-1]] == [start for start, _ in found[1:]]
            assert found[-1][1] is None
        kept = [node for node in memory.tree().lessons() if node.lesson.folded]
        assert [node.lesson.contributor for node in kept] == ["local"]


def test_a_scope_of_250_is_counted_and_removed_exactly(tmp_path):  # 80
    with new_memory(tmp_path / "bank") as memory:
        memory.contribute(lesson("mine", place=11))
        with reopened(memory, name="bob") as other:
            ids = {
                other.contribute(lesson(n, place=n % 11, words=f"Count number {n}")).id
                for n in range(250)
            }
            outcome = SealedOutcome(run_id="run-000001", verdict="right", source="verifier")
            other.contribute(small_run(1), outcome=outcome)
        assert memory.bank.counts()["nodes"] == {"lesson": 251}
        assert len(memory.bank.inbox("default", limit=1000)) == 251
        scope = memory.revoke("contributor", "bob")
        assert scope.node_ids == ids
        assert scope.run_ids == {"run-000001"}
        assert memory.bank.counts()["nodes"] == {"lesson": 1}
        assert sound(memory)
