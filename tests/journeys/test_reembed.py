"""Another encoder for a bank in use: killed anywhere, and with others at work on it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from epimem import reembed as journey
from epimem.bank import reembed as storage
from epimem.bank.bank import Bank
from epimem.bank.encoder import TableEncoder, identity_of
from epimem.config import Config, EncoderConfig, TreeConfig, load
from epimem.memory import ExperienceMemory
from epimem.schema.lesson import IndexText, LessonDraft
from epimem.testing import ScriptedMemoryController, ScriptedTreeOrganizer
from tests.journeys.crash import LIMITS, Killed, kill_everywhere, lesson, problems
from tests.journeys.reembedding import assert_all_vectors_are_of, rows_in

OLD, NEW = TableEncoder(32), TableEncoder(48)
CONTROLLERS = (ScriptedMemoryController(), ScriptedTreeOrganizer())
# The steps of a change where most is at stake; the others are killed in the long test.
FEW = ("reembed.flip", "reembed.flipped", "reembed.settings")
ALL = (
    *("reembed.begun", "reembed.cleared", "reembed.batch", "reembed.swept"),
    *(*FEW, "db.commit", "db.committed"),
)


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(journey, "BATCH", 8)
    monkeypatch.setattr(storage, "SWEPT", 8)
    folder = tmp_path / "template"
    tree = TreeConfig(capacity=LIMITS.capacity, min_group=LIMITS.min_group, batch=8)
    config = Config(encoder=EncoderConfig(model="table:32"), tree=tree)
    with ExperienceMemory.create(folder, config, controllers=CONTROLLERS) as memory:
        for number in range(9):
            memory.contribute(lesson(number))
        memory.maintain()
        for number in range(9, 12):
            memory.contribute(lesson(number))
    return folder


def killed_at(points: tuple[str, ...], template: Path, target: Path) -> int:
    with Bank.open(template, read_only=True) as bank:
        digest = bank.state_digest()

    def change(folder: Path, say) -> None:
        with ExperienceMemory.open(folder, controllers=CONTROLLERS) as memory:
            memory.reembed("table:48")
            say("done")

    def inspect(folder: Path, ended: Killed) -> None:
        with Bank.open(folder, read_only=True) as bank:
            changed = bank.encoder == identity_of(NEW) or bank.encoder.dimension == 48
            assert changed or not ended.acknowledged
            assert_all_vectors_are_of(bank, NEW if changed else OLD)
            assert bank.state_digest() == digest
        with ExperienceMemory.open(folder, controllers=CONTROLLERS) as memory:
            memory.contribute(lesson(50))
            assert_all_vectors_are_of(memory.bank, NEW if changed else OLD)
            memory.reembed("table:48")
            assert_all_vectors_are_of(memory.bank, NEW)
        assert load(folder).encoder.model == "table:48"
        assert rows_in(folder, "next_vectors") == rows_in(folder, "reembedding") == 0

    return kill_everywhere(change, template, target, points, inspect)


def test_a_change_that_is_killed_leaves_the_old_encoder_or_the_new(template, tmp_path):
    assert killed_at(FEW, template, tmp_path / "target") >= 3


@pytest.mark.long
def test_a_change_that_is_killed_anywhere_leaves_the_old_encoder_or_the_new(template, tmp_path):
    with Bank.open(template) as bank:
        # Rubbish of an earlier job, so that there is something to clear.
        job = bank.take_reembedding(identity_of(TableEncoder(24)))
        work = journey._Work(bank, TableEncoder(24), job, None)
        work.all_nodes()
        bank.leave_reembedding(job)
    assert killed_at(ALL, template, tmp_path / "target") >= 25


def named(number: int) -> LessonDraft:
    text = f"how many windows has house number {number}?"
    return LessonDraft(guidance=f"House {number}: count.", index=IndexText(question_anchor=text))


def at_work(folder: Path, ready: int) -> None:
    """Contribute and find again, until five lessons after the encoder was seen to change."""
    with ExperienceMemory.open(folder, controllers=CONTROLLERS) as memory:
        seen: list[int] = []
        for number in range(10_000):
            receipt = memory.contribute(named(number))
            assert receipt.searchable == "dense"
            asked = named(number).index.question_anchor
            answer = memory.retrieve(asked, mode="dense")
            best = memory.explain(answer.retrieval_id)["candidates"][0]
            assert (best["node_id"], round(best["dense"], 4)) == (receipt.id, 1.0)
            seen.append(memory.encoder.dimension)
            if number == 5:
                os.write(ready, b"!")
            if seen.count(96) >= 5:
                break
        assert sorted(set(seen)) == [64, 96] == list(dict.fromkeys(seen))


def test_a_process_that_contributes_and_reads_follows_the_change(tmp_path):
    folder = tmp_path / "bank"
    config = Config(encoder=EncoderConfig(model="table:64"))
    with ExperienceMemory.create(folder, config, controllers=CONTROLLERS) as memory:
        for number in range(20_000, 20_020):
            memory.contribute(named(number))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 70
        try:
            os.close(reading)
            at_work(folder, writing)
            status = 0
        except BaseException as error:  # noqa: BLE001 - a fork ends here, whatever happened
            sys.stderr.write(f"{error!r}\n")
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as handle:
        assert handle.read(1) == b"!"
    with ExperienceMemory.open(folder, controllers=CONTROLLERS) as memory:
        report = memory.reembed("table:96")
        assert report.changed
        assert report.encoded >= 20
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with ExperienceMemory.open(folder, controllers=CONTROLLERS) as memory:
        assert_all_vectors_are_of(memory.bank, TableEncoder(96))
        assert problems(memory.bank) == []
        assert memory.reembed().filled == 0
