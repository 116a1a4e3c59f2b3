"""SIGKILL at every named step of every writing operation: nothing lost, nothing half done."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from crash import (
    CALLER,
    LIMITS,
    add_lessons,
    add_runs,
    kill_everywhere,
    new_bank,
    problems,
    run_ingest,
    run_maintain,
)

from epimem.bank.bank import Bank
from epimem.bank.versions import FROZEN_NAME


@pytest.fixture
def template(tmp_path):
    folder = tmp_path / "template"
    with new_bank(folder):
        pass
    return folder


@pytest.fixture
def target(tmp_path):
    return tmp_path / "target"


def test_contribute_keeps_every_acknowledged_item(template, target):
    def contribute(folder, say):
        with Bank.open(folder) as bank:
            for number in range(3):
                say(add_runs(bank, 1, start=number)[0])
                say(add_lessons(bank, 1, start=number)[0])

    def inspect(folder, ended):
        with Bank.open(folder) as bank:
            assert problems(bank) == []
            stored = set(bank.run_states()) | {n.node_id for n in bank.inbox("n", limit=100)}
            assert set(ended.acknowledged) <= stored
            assert len(stored) <= len(ended.acknowledged) + 1
            for queued in bank.queued_runs(limit=100):
                assert queued.run.run_id == queued.run_id
            # The next write works: no lock is left behind.
            add_lessons(bank, 1, start=50)

    points = (
        "blob.write",
        "blob.fsync",
        "blob.rename",
        "blob.dirsync",
        "contribute.blob",
        "contribute.rows",
        "db.commit",
        "db.committed",
        "contribute.acknowledge",
    )
    assert kill_everywhere(contribute, template, target, points, inspect) >= 30


def test_ingest_stores_all_lessons_of_a_run_or_none(template, target):
    with Bank.open(template) as bank:
        add_runs(bank, 4)

    def derive(folder, say):
        with Bank.open(folder) as bank:
            run_ingest(bank)
            say("done")

    def inspect(folder, _):
        with Bank.open(folder) as bank:
            assert problems(bank) == []
            states = bank.run_states()
            derived = sum(state == "derived" for state, _ in states.values())
            assert len(states) == 4
            assert len(bank.inbox("n", limit=100)) == derived
            run_ingest(bank)
            assert all(state == "derived" for state, _ in bank.run_states().values())
            assert len(bank.inbox("n", limit=100)) == 4

    points = ("ingest.lesson", "ingest.rows", "db.commit", "db.committed", "ingest.acknowledge")
    assert kill_everywhere(derive, template, target, points, inspect) >= 20


def test_maintain_leaves_the_old_state_or_the_new_and_resumes_as_if_undisturbed(
    template, target, tmp_path
):
    with Bank.open(template) as bank:
        ids = set(add_lessons(bank, 20))
    shutil.copytree(template, tmp_path / "undisturbed")
    with Bank.open(tmp_path / "undisturbed") as bank:
        run_maintain(bank)
        undisturbed = bank.state_digest()

    def organize(folder, say):
        with Bank.open(folder) as bank:
            run_maintain(bank)
            say("done")

    def inspect(folder, _):
        with Bank.open(folder) as bank:
            assert problems(bank) == []
            tree = bank.tree("n")
            placed = {n.node_id for n in tree.lessons()} if tree else set()
            waiting = {n.node_id for n in bank.inbox("n", limit=100)}
            assert placed | waiting == ids
            assert not placed & waiting
            # A dead maintainer's lease does not block the next.
            run_maintain(bank)
            assert {n.node_id for n in bank.tree("n").lessons()} == ids
            assert problems(bank) == []
            assert bank.state_digest() == undisturbed

    points = ("maintain.rows", "db.commit", "maintain.committed")
    assert kill_everywhere(organize, template, target, points, inspect, most=60) >= 60


def test_revoke_is_finished_when_the_bank_is_next_opened(template, target):
    with Bank.open(template) as bank:
        runs = add_runs(bank, 4)
        run_ingest(bank)
        add_lessons(bank, 10, start=100)
        run_maintain(bank)
    text = b"answer 0 holds"

    def revoke(folder, say):
        with Bank.open(folder) as bank:
            bank.revoke("run", runs[0], LIMITS, caller=CALLER)
            say("done")

    def inspect(folder, ended):
        with Bank.open(folder) as bank:
            assert problems(bank) == []
            gone = runs[0] not in bank.run_states()
            if ended.acknowledged:
                assert gone
            if gone:
                assert not _holds(folder, text)
            else:
                assert bank.run_states()[runs[0]] == ("derived", "")

    points = (
        "revoke.rows",
        "db.commit",
        "revoke.hidden",
        "purge.rows",
        "purge.committed",
        "purge.blob",
        "purge.rewritten",
        "purge.side",
    )
    assert kill_everywhere(revoke, template, target, points, inspect) >= 10


def test_freeze_leaves_a_bank_that_is_frozen_or_still_open(template, target):
    with Bank.open(template) as bank:
        add_lessons(bank, 6)
        run_maintain(bank)
        digest = bank.state_digest()

    def freeze(folder, say):
        with Bank.open(folder) as bank:
            bank.freeze(lambda index: (index / "folded").write_text("x"), caller=CALLER)
            say("done")

    def inspect(folder, ended):
        with Bank.open(folder) as bank:
            assert bank.state_digest() == digest
            assert problems(bank) == []
            assert (bank.frozen is not None) == (folder / FROZEN_NAME).exists()
            if ended.acknowledged:
                assert bank.frozen is not None
            if bank.frozen is None:
                add_lessons(bank, 1, start=60)

    points = (
        "freeze.index",
        "freeze.checkpoint",
        "freeze.mode",
        "freeze.write",
        "freeze.fsync",
        "freeze.rename",
    )
    assert kill_everywhere(freeze, template, target, points, inspect) >= 6


def test_restore_is_one_commit(template, target):
    with Bank.open(template) as bank:
        add_lessons(bank, 8)
        run_maintain(bank)
        bank.snapshot("before", caller=CALLER)
        before = bank.state_digest()
        add_lessons(bank, 8, start=8)
        run_maintain(bank)
        after = bank.state_digest()

    def restore(folder, say):
        with Bank.open(folder) as bank:
            bank.restore("before", LIMITS, caller=CALLER)
            say("done")

    def inspect(folder, ended):
        with Bank.open(folder) as bank:
            assert problems(bank) == []
            assert bank.state_digest() in ({before} if ended.acknowledged else {before, after})

    points = ("restore.rows", "db.commit", "db.committed")
    assert kill_everywhere(restore, template, target, points, inspect) >= 3


def _holds(folder: Path, text: bytes) -> bool:
    sides = [folder, folder.with_name(folder.name + ".side")]
    files = [path for side in sides for path in side.rglob("*") if path.is_file()]
    return any(text in path.read_bytes() for path in files)
