"""What users run into: other families, damaged rows, full disks, closed handles, odd names."""

from __future__ import annotations

import sqlite3
import subprocess

import pytest

from epimem.config import Config, EncoderConfig
from epimem.errors import AccessError, BankCorruptError, BankError, RecordError
from epimem.memory import ExperienceMemory
from epimem.schema.lesson import IndexText, LessonDraft
from epimem.schema.outcome import SealedOutcome
from epimem.testing import small_run

PLAIN = Config(encoder=EncoderConfig(model="none"))
QUESTION = "How many stations does a Rubra Metro train call at?"


def advice(number: int) -> LessonDraft:
    return LessonDraft(
        guidance="Leave out the stations drawn as white triangles, then count the rest.",
        applies_when=f"A Rubra Metro diagram of kind {number}.",
        index=IndexText(topic="stations", scope="Rubra Metro", question_anchor=QUESTION),
        family="metro",
        question_key=f"q{number}",
        verdict_source="oracle",
    )


@pytest.fixture
def memory(tmp_path):
    with ExperienceMemory.create(tmp_path / "bank", PLAIN) as opened:
        for number in range(3):
            opened.contribute(advice(number))
        opened.maintain()
        yield opened


def test_a_summary_of_another_family_is_not_selected(memory):
    own = memory.retrieve(QUESTION, family="metro")
    assert "summary" in {item.kind for item in own.items}
    other = memory.retrieve(QUESTION, family="bar charts")
    assert other.items == ()
    reasons = {row["verdict"] for row in memory.explain()["candidates"]}
    assert any("of the family metro" in reason for reason in reasons)


def test_an_answer_says_that_damaged_items_were_withheld(memory, tmp_path):
    assert memory.retrieve(QUESTION).warning == ""
    with sqlite3.connect(tmp_path / "bank" / "bank.db") as raw:
        raw.execute("UPDATE nodes SET body = body || ' ' WHERE kind = 'summary' AND to_seq IS NULL")
    raw.close()
    answer = memory.retrieve(QUESTION)
    assert "1 damaged item(s) withheld" in answer.warning
    assert {item.kind for item in answer.items} == {"lesson"}


def test_freezing_a_damaged_bank_changes_nothing(memory, tmp_path):
    with sqlite3.connect(tmp_path / "bank" / "bank.db") as raw:
        raw.execute("UPDATE nodes SET body = body || ' ' WHERE kind = 'summary' AND to_seq IS NULL")
    raw.close()
    head = memory.bank.head_seq
    with pytest.raises(BankCorruptError):
        memory.freeze()
    assert memory.bank.head_seq == head
    assert memory.bank.frozen is None
    assert not (tmp_path / "bank" / "index").exists()


def test_a_question_is_answered_on_a_full_disk(tmp_path):
    mount = tmp_path / "small"
    mount.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(mount)],
        check=False,
        capture_output=True,
    )
    if made.returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        with ExperienceMemory.create(mount / "bank", PLAIN) as memory:
            memory.contribute(advice(0))
            memory.retrieve("Any question at all?")
            _fill(mount / "filler")
            answer = memory.retrieve(QUESTION)
            assert [item.guidance for item in answer.items] == [advice(0).guidance]
            assert "not logged (storage_full)" in answer.warning
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


def _fill(path):
    try:
        with path.open("wb", buffering=0) as handle:
            while True:
                handle.write(bytes(4096))
    except OSError:
        return


def test_a_closed_bank_refuses_every_use_and_is_not_called_damaged(memory):
    memory.close()
    for use in (memory.maintain, memory.check, lambda: memory.contribute(advice(9))):
        with pytest.raises(BankError) as refused:
            use()
        assert refused.value.code == "forbidden_action"
        assert "closed" in refused.value.message


def test_feedback_on_a_frozen_bank_counts_once(memory):
    answer = memory.retrieve(QUESTION, family="metro")
    memory.freeze()
    assert memory.feedback(answer.retrieval_id, verdict="right").status == "stored"
    assert memory.feedback(answer.retrieval_id, verdict="wrong").status == "duplicate"


def test_a_name_is_one_line(memory):
    with pytest.raises(RecordError) as refused:
        memory.snapshot("two\nlines")
    assert refused.value.code == "invalid_text"


def test_what_a_revocation_left_is_consolidated_by_the_next_maintain(memory):
    tree = memory.tree()
    (summary,) = (node for node in tree.walk() if node.kind == "summary")
    gone = summary.supported_by[0]
    memory.revoke("item", gone)
    assert not [node for node in memory.tree().walk() if node.kind == "summary"]
    memory.maintain()
    (again,) = (node for node in memory.tree().walk() if node.kind == "summary")
    assert gone not in again.supported_by
    assert len(again.supported_by) == 2
    assert memory.maintain().steps == 0


def test_no_verdict_reaches_a_controller_in_the_evaluation_phase(memory, tmp_path):
    memory.contribute(small_run(1), outcome=SealedOutcome(run_id="run-000001", verdict="right"))
    memory.close()
    with ExperienceMemory.open(tmp_path / "bank", phase="evaluation") as evaluated:
        with pytest.raises(AccessError):
            evaluated.ingest()
        assert evaluated.bank.run_states() == {"run-000001": ("queued", "")}


def test_what_a_revocation_took_is_not_counted_by_the_next(tmp_path):
    with ExperienceMemory.create(tmp_path / "bank", PLAIN) as memory:
        first = memory.contribute(advice(0))
        again = advice(1).model_copy(update={"guidance": "Skip them.", "parents": (first.id,)})
        second = memory.contribute(again)
        assert memory.revoke("item", second.id).node_ids == {second.id}
        assert memory.revoke("item", first.id).node_ids == {first.id}
