"""Reading some nodes by id costs by their number, not by the size of the bank."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from sqlalchemy import event

from epimem.bank import tables
from epimem.config import Config, EncoderConfig
from epimem.memory import ExperienceMemory
from epimem.schema.lesson import IndexText, LessonDraft


def plans_of_a_retrieval(path, *, follow=False):
    """Return the plan of every query on nodes by id that a retrieval makes, or that a follower makes."""
    config = Config(encoder=EncoderConfig(model="none"))
    with ExperienceMemory.create(path, config) as memory:
        for number in range(40):
            index = IndexText(question_anchor=f"what is {number}?")
            memory.contribute(LessonDraft(guidance=f"It is {number}.", index=index))
        if follow:
            assert memory.retrieve("what is 6?").items
            memory.contribute(LessonDraft(guidance="It is 41."))
        seen = []
        engine = memory.bank._db._reader
        event.listen(
            engine, "before_cursor_execute", lambda _c, _k, sql, *_: seen.append(sql), named=False
        )
        assert memory.retrieve("what is 7?").items
    with closing(sqlite3.connect(path / "bank.db")) as raw:
        return [
            " ".join(
                row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {sql}", ["x"] * sql.count("?"))
            )
            for sql in seen
            if ("nodes.from_seq >" if follow else "nodes.node_id IN") in sql
        ]


def test_nodes_are_looked_up_by_id(tmp_path):
    plans = plans_of_a_retrieval(tmp_path / "bank")
    assert len(plans) >= 2
    assert all("nodes USING INDEX" in plan and "(node_id=?)" in plan for plan in plans)


def test_a_follower_looks_up_what_changed(tmp_path):
    path = tmp_path / "bank"
    plans = plans_of_a_retrieval(path, follow=True)
    assert plans
    assert not any("SCAN nodes" in plan for plan in plans)


def test_the_plain_condition_would_walk_all_live_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "is_live", tables.nodes.c.to_seq.is_(None))
    plans = plans_of_a_retrieval(tmp_path / "bank")
    assert any("(node_id=?)" not in plan for plan in plans)
