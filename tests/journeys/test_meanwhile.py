"""What one process does in the middle of what another does: nothing mixed up, nothing left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from epimem import memory as facade
from epimem.bank import database, versions
from epimem.bank.bank import Bank
from epimem.bank.derived import write_derived
from epimem.bank.encoder import TableEncoder
from epimem.bank.recall import Recall
from epimem.bank.side import Side
from epimem.errors import BankConflictError
from epimem.memory import ExperienceMemory
from epimem.protocols import SelectRequest
from tests.journeys.reembedding import rows_in
from tests.journeys.scripted_memory import filled, lesson, new_memory, reopened, sound

QUESTION = "how many stop at the cobalt harbor?"


class Mirrored(TableEncoder):
    """Vectors of the same length as those of `table:64`, and comparable to none of them."""

    def __init__(self) -> None:
        super().__init__(64)
        self.name, self.fingerprint = "mirrored", "mirrored-64"

    def _encode(self, texts):
        return np.ascontiguousarray(super()._encode(texts)[:, ::-1])


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[ExperienceMemory]:
    with new_memory(tmp_path / "bank") as made:
        for place in range(6):
            assert made.contribute(lesson(place, place=place)).status == "stored"
        yield made


def nearest(memory: ExperienceMemory) -> tuple[str, float]:
    found = memory.recall.find(QUESTION, namespace="default", mode="dense").candidates[0]
    assert found.dense is not None
    return found.node_id, found.dense


# ---- a change of the encoder


def test_a_writer_in_the_way_of_the_sweeping_does_not_undo_the_change(
    memory: ExperienceMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = nearest(memory)
    monkeypatch.setattr(database, "LOCK_WAIT_S", 0.2)
    release, held = threading.Event(), threading.Event()

    with Bank.open(memory.bank.path) as other:

        def hold() -> None:
            with other._db.exclusive():
                held.set()
                release.wait(10)

        def follow(bank: Bank) -> bool:  # the last thing before the old vectors are swept
            holder.start()
            assert held.wait(10)
            return followed(bank)

        holder, followed = threading.Thread(target=hold), Bank.follow_encoder
        with monkeypatch.context() as patch:
            patch.setattr(Bank, "follow_encoder", follow)
            patch.setattr("epimem.serving.Serving.follow", lambda _: False)
            report = memory.reembed(encoder=Mirrored())
        release.set()
        holder.join()
    assert report.changed
    assert rows_in(memory.bank.path, "next_vectors") == 6
    after = nearest(memory)
    assert after[0] == before[0]
    assert after[1] == pytest.approx(before[1], abs=1e-5), "a mirror leaves angles as they are"
    Bank.open(memory.bank.path).close()
    assert rows_in(memory.bank.path, "next_vectors") == 0


def test_a_handle_that_was_interrupted_after_the_change_serves_the_new_encoder(
    memory: ExperienceMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    nearest(memory)

    def interrupted(_: Bank) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Bank, "sweep_vectors", interrupted)
        with pytest.raises(KeyboardInterrupt):
            memory.reembed("table:96")
    with ExperienceMemory.open(memory.bank.path, read_only=True) as other:
        assert nearest(memory) == nearest(other)
        assert memory.encoder is not None
        assert memory.encoder.dimension == 96


def test_the_encoder_may_change_between_maintenance_and_its_index(
    memory: ExperienceMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    nearest(memory)
    organized = facade.maintain

    def then_another(*args, **options):
        report = organized(*args, **options)
        with reopened(memory) as other:
            assert other.reembed("table:96").changed
        return report

    monkeypatch.setattr(facade, "maintain", then_another)
    assert memory.maintain().placed == 6
    assert memory.encoder is not None
    assert memory.encoder.dimension == 96
    assert sound(memory)


# ---- a revocation


def test_what_is_revoked_while_an_index_is_written_is_not_left_in_it(
    memory: ExperienceMemory, tmp_path: Path
) -> None:
    assert memory.encoder is not None
    target = nearest(memory)[0]
    secret = memory.encoder.encode([memory.bank.node(target).index.text])[0].tobytes()
    waiting = [target]

    def journal_hash(seq: int) -> str:  # asked for after the index has followed the bank
        if seq == memory.bank.head_seq and armed and waiting:
            with reopened(memory) as other:
                other.revoke("item", waiting.pop())
        return memory.bank.journal_hash(seq)

    armed: list[bool] = []
    cache = memory.bank.side.cache
    recall = Recall(memory.bank, encoder=memory.encoder, cache=cache, journal_hash=journal_hash)
    recall.save()
    (file,) = cache.glob("recall-*")
    assert secret in file.read_bytes()
    armed.append(True)
    recall.save()
    assert not waiting
    assert secret not in file.read_bytes()
    folder = tmp_path / "folded"
    waiting.append(nearest(memory)[0])
    secret = memory.encoder.encode([memory.bank.node(waiting[0]).index.text])[0].tobytes()
    recall.save(folder)
    assert not waiting
    assert not [path for path in folder.iterdir() if secret in path.read_bytes()]


def test_what_is_revoked_while_a_question_is_answered_is_not_left_in_the_log(
    memory: ExperienceMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = nearest(memory)[0]
    organizer = memory.controllers[1]
    select, waiting = organizer.select, [target]

    def slow(requests: list[SelectRequest]):
        if waiting:
            with reopened(memory) as other:
                other.revoke("item", waiting.pop())
        return select(requests)

    monkeypatch.setattr(organizer, "select", slow)
    answer = memory.retrieve("what about the harbor, all told?", run_id="run-1")
    assert not waiting
    assert target not in {item.node_id for item in answer.items}
    again = memory.retrieve("what about the harbor, all told?", run_id="run-1")
    assert again == answer
    root = memory.bank.side.root
    memory.close()
    files = [path for path in root.rglob("*") if path.is_file()]
    assert [path for path in files if b"cobalt harbor" in path.read_bytes()] == []


def test_a_purge_takes_the_cache_from_under_those_who_write_to_it(tmp_path: Path) -> None:
    (tmp_path / "bank").mkdir()
    side, stop = Side(tmp_path / "bank", "id"), threading.Event()
    nothing = {"rows": np.zeros(100, np.uint8)}

    def write(name: str) -> None:
        while not stop.is_set():
            with suppress(OSError):  # as whoever saves a cache does
                write_derived(side.cache / "deep" / name, {"format": 1}, nothing)

    old = side.cache / "deep" / "old.derived"
    threads = [threading.Thread(target=write, args=(f"{name}.derived",)) for name in "ab"]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            with suppress(OSError):
                write_derived(old, {"format": 1}, nothing)
            side.purge(["n1"])
            assert not old.exists()
            assert side.cache.is_dir()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    side.purge(["n1"])
    assert list(side.cache.iterdir()) == []
    side.close()


def test_a_bank_is_not_frozen_with_an_index_that_holds_what_was_revoked_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_memory(tmp_path / "bank") as memory:
        filled(memory, places=3, each=1)
        target = nearest(memory)[0]
        committed = versions.freeze

        def late(*args, **options) -> versions.Frozen:
            with reopened(memory) as other:
                other.revoke("item", target)
            return committed(*args, **options)

        with monkeypatch.context() as patch:
            patch.setattr(versions, "freeze", late)
            with pytest.raises(BankConflictError, match="revoked"):
                memory.freeze()
        assert not (memory.bank.path / versions.FOLDED_INDEX).exists()
        assert memory.bank.frozen is None
        assert memory.freeze().seq == memory.bank.head_seq
        assert sound(memory)
