"""Asking again: what else does the bank know, beside what did not help?"""

from __future__ import annotations

import sqlite3
from types import SimpleNamespace

import pytest

from epimem.config import Config, EncoderConfig
from epimem.memory import ExperienceMemory
from epimem.retrieve import _in_order
from epimem.schema.lesson import IndexText, LessonDraft
from epimem.schema.memory_input import Selection

QUESTION = "How many stations does a Rubra Metro train call at?"
RUN = "018f0000-0000-7000-8000-000000000001"
ADVICE = (
    "Leave out the stations drawn as white triangles.",
    "Add the terminus where the ring line ends.",
    "Read the legend before anything is counted.",
)


def advice(number, guidance):
    return LessonDraft(
        guidance=guidance,
        applies_when="A Rubra Metro diagram.",
        index=IndexText(topic="stations", scope="Rubra Metro", question_anchor=QUESTION),
        question_key=f"q{number}",
        verdict_source="oracle",
    )


@pytest.fixture
def memory(tmp_path):
    plain = Config(encoder=EncoderConfig(model="none"))
    with ExperienceMemory.create(tmp_path / "bank", plain) as opened:
        for number, guidance in enumerate(ADVICE):
            opened.contribute(advice(number, guidance))
        yield opened


def asked(memory, had, **fields):
    answer = memory.retrieve(QUESTION, exclude=had, **fields)
    return answer, [item.node_id for item in answer.items]


def test_a_follow_up_gives_what_was_not_had_until_nothing_is_left(memory):
    had, said = [], []
    for _ in range(5):
        answer, ids = asked(memory, had)
        assert not set(ids) & set(had)
        had += ids
        said += [item.guidance for item in answer.items]
    assert sorted(said) == sorted(ADVICE)
    assert asked(memory, had)[0].text == ""


def test_an_excluded_rule_takes_the_lessons_along_that_it_speaks_for(memory):
    for number in range(3, 6):
        memory.contribute(advice(number, f"{ADVICE[0]} They are closed, says map {number}."))
    memory.maintain()
    answer, ids = asked(memory, [])
    rules = [item for item in answer.items if item.kind != "lesson"]
    assert rules
    spoken_for = {key for item in rules for key in memory.bank.node(item.node_id).supported_by}
    assert spoken_for
    later, _ = asked(memory, ids)
    assert not spoken_for & {item.node_id for item in later.items}


def test_each_follow_up_of_a_run_is_answered_once(memory):
    first, ids = asked(memory, [], run_id=RUN)
    second, _ = asked(memory, ids, run_id=RUN)
    assert first.items != second.items
    assert asked(memory, [], run_id=RUN)[0] == first
    assert asked(memory, ids, run_id=RUN)[0] == second
    assert memory.explain(second.retrieval_id)["excluded"] == sorted(ids)


def test_a_log_from_before_follow_ups_is_brought_up_to_date(memory):
    first, ids = asked(memory, [], run_id=RUN)
    path = memory.bank.side.log_path
    memory.bank.side._disconnect()
    with sqlite3.connect(path) as raw:
        raw.executescript(
            "DROP INDEX once_per_run_in_a_namespace; ALTER TABLE retrievals DROP COLUMN excluded;"
            "CREATE UNIQUE INDEX once_per_run ON retrievals (run_id, reader)"
            " WHERE run_id IS NOT NULL;"
        )
    raw.close()
    assert asked(memory, [], run_id=RUN)[0] == first
    assert asked(memory, ids, run_id=RUN)[0] != first


def test_one_run_asks_in_two_namespaces_and_a_log_that_knew_one_is_brought_up_to_date(memory):
    first = memory.retrieve(QUESTION, run_id=RUN)
    path = memory.bank.side.log_path
    memory.bank.side._disconnect()
    with sqlite3.connect(path) as raw:
        raw.executescript(
            "DROP INDEX once_per_run_in_a_namespace; CREATE UNIQUE INDEX once_per_run_and_rest"
            " ON retrievals (run_id, reader, excluded) WHERE run_id IS NOT NULL;"
        )
    raw.close()
    other = memory.retrieve(QUESTION, run_id=RUN, namespace="elsewhere")
    assert first.items
    assert other.items == ()
    assert memory.retrieve(QUESTION, run_id=RUN) == first
    assert memory.retrieve(QUESTION, run_id=RUN, namespace="elsewhere") == other


def test_items_come_in_order_of_nearness_and_a_rule_is_as_near_as_its_best_lesson():
    found = SimpleNamespace(candidates=[SimpleNamespace(node_id=key) for key in ("x", "l", "r")])
    chosen = Selection(rule_ids=("r",), lesson_id="l")
    for supported_by, order in ((("y",), ("l", "r")), (("y", "x"), ("r", "l"))):
        nodes = {
            "r": SimpleNamespace(supported_by=supported_by),
            "l": SimpleNamespace(supported_by=()),
        }
        assert _in_order(chosen, found, nodes) == order
