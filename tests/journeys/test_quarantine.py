"""Quarantine: stored, revocable, and seen by nobody until somebody has looked at it."""

from __future__ import annotations

import pytest

from epimem.bank.intake import Caller
from epimem.config import Config, EncoderConfig
from epimem.errors import AccessError, NotFoundError, RecordError
from epimem.memory import ExperienceMemory
from tests.cli_program import QUESTION, lesson, run_record

STRANGER = Caller("stranger", "elsewhere")


@pytest.fixture(params=["none", "table:64"])
def memory(tmp_path, request):
    config = Config(encoder=EncoderConfig(model=request.param))
    with ExperienceMemory.create(tmp_path / "bank", config) as made:
        yield made


def hand_in(memory, item, **given):
    with memory.acting_as(STRANGER):
        return memory.contribute(item, quarantine=True, **given)


def sound(memory):
    assert [found for found in memory.check() if found.code != "orphan"] == []


def test_nothing_sees_what_waits_and_all_see_it_when_it_is_approved(memory):
    receipt = hand_in(memory, lesson(0))
    assert receipt.status == "quarantined"
    assert memory.retrieve(QUESTION).items == ()
    assert memory.maintain().steps == 0
    assert memory.tree("?/default".removeprefix("?/")) is None
    (waits,) = memory.quarantined()
    assert (waits.id, waits.kind, waits.namespace) == (receipt.id, "lesson", "default")
    assert (waits.contributor, waits.organisation) == ("stranger", "elsewhere")
    sound(memory)
    approved = memory.approve(receipt.id)
    assert (approved.status, approved.id) == ("stored", receipt.id)
    (item,) = memory.retrieve(QUESTION).items
    assert (item.node_id, item.contributors) == (receipt.id, ("stranger",))
    assert memory.maintain().placed == 1
    assert memory.quarantined() == []
    sound(memory)


def test_a_run_is_derived_from_only_when_it_is_approved(memory):
    said = "The red line diagram shows six open stations, so the answer must be 6 stations."
    receipt = hand_in(memory, run_record("r-1", text=said))
    assert receipt.status == "quarantined"
    assert memory.ingest().states == {}
    assert memory.approve("r-1").status == "queued"
    assert memory.ingest().states == {"derived": 1}
    (found,) = memory.retrieve(f"{QUESTION} (r-1)").items
    assert found.contributors == ("stranger",)
    sound(memory)


def test_what_is_refused_is_gone_and_cannot_be_offered_again(memory):
    first, second = hand_in(memory, lesson(0)), hand_in(memory, run_record("r-1"))
    for item_id in (first.id, second.id):
        memory.refuse(item_id)
        with pytest.raises(NotFoundError):
            memory.refuse(item_id)
        with pytest.raises(NotFoundError):
            memory.approve(item_id)
    assert memory.quarantined() == []
    for item in (lesson(0), {**run_record("r-1"), "run_id": "r-2"}):
        with pytest.raises(AccessError) as caught:
            hand_in(memory, item)
        assert caught.value.code == "text_blocked"
    sound(memory)


def test_an_approved_lesson_that_says_what_one_says_already_is_folded_into_it(memory):
    own = memory.contribute(lesson(0))
    waits = hand_in(memory, lesson(0, question_key="another"))
    assert waits.status == "quarantined"
    folded = memory.approve(waits.id)
    assert (folded.status, folded.id) == ("folded", own.id)
    (item,) = memory.retrieve(QUESTION).items
    assert (item.support, item.contributors) == (2, ("local", "stranger"))
    sound(memory)


def test_an_approved_run_that_is_there_already_is_a_duplicate(memory):
    memory.contribute(run_record("own"))
    hand_in(memory, {**run_record("own"), "run_id": "theirs"})
    receipt = memory.approve("theirs")
    assert (receipt.status, receipt.id) == ("duplicate", "own")
    assert memory.quarantined() == []
    sound(memory)


def test_a_stranger_that_is_revoked_takes_what_waits_with_him(memory):
    hand_in(memory, lesson(0))
    memory.revoke("contributor", "stranger")
    assert memory.quarantined() == []
    sound(memory)


def test_a_key_that_comes_again_gives_the_same_receipt(memory):
    first, again = (hand_in(memory, lesson(0), idempotency_key="k") for _ in range(2))
    assert first == again
    assert memory.bank.quarantine_counts() == (1, 0)


def test_nobody_can_name_the_namespace_of_what_waits(memory):
    hand_in(memory, lesson(0))
    for ask in (
        lambda: memory.retrieve(QUESTION, namespace="?/default"),
        lambda: memory.contribute(lesson(1), namespace="?/default"),
        lambda: memory.tree("?/default"),
    ):
        with pytest.raises(RecordError, match="kept for quarantine"):
            ask()


def test_what_waits_is_no_backlog_and_counts_for_no_trust(memory):
    hand_in(memory, lesson(0))
    hand_in(memory, run_record("r"))
    backlog = memory.bank.backlog()
    assert (backlog.runs, backlog.lessons) == (0, 0)
    assert memory.bank.known_lessons("stranger") == 0
    memory.approve(memory.quarantined()[0].id)
    assert memory.bank.known_lessons("stranger") == 1


def test_a_frozen_bank_lets_nothing_in(memory):
    receipt = hand_in(memory, lesson(0))
    memory.freeze()
    for decide in (memory.approve, memory.refuse):
        with pytest.raises(Exception, match="frozen"):
            decide(receipt.id)
