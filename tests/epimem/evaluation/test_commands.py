"""Solvers and scorers that are other programs, sound and unsound."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from epimem.errors import ConfigError, ControllerError, NotFoundError
from epimem.evaluation import EvalTask, Handout, PublicTask
from epimem.evaluation.answers import SolverLostError
from epimem.evaluation.commands import IN_A_ROW, Command, CommandScorer, CommandSolver
from epimem.schema.memory_input import Item, MemoryInput

# A program that does what the question says; it is told apart from a restarted one by its id.
PROGRAM = """
import json, os, sys, time
print("up", file=sys.stderr)
for line in sys.stdin:
    asked = json.loads(line)
    what = asked.get("question", asked.get("answer"))
    reply = {"id": asked["id"], "answer": str(os.getpid())}
    if what == "die": os._exit(3)
    if what == "segfault": os.kill(os.getpid(), 11)
    if what == "hang": time.sleep(60)
    if what == "close": os.close(1); time.sleep(60)
    if what == "child":
        if os.fork() == 0: time.sleep(60)
        time.sleep(60)
    if what == "garbage": print("Thinking...", flush=True); continue
    if what == "other": reply["id"] += 1
    if what == "late":
        if os.fork() == 0: time.sleep(0.2); print(json.dumps(reply), flush=True); os._exit(0)
    if what == "slow": time.sleep(5)
    if what == "twice": print(json.dumps(reply), flush=True)
    if what == "no text": reply["answer"] = 7
    if what == "no count": reply["tokens_in"] = "many"
    if what == "give up": reply = {"id": asked["id"], "error": "out of credit"}
    if what == "echo": reply["answer"] = json.dumps(asked)
    if what == "count": reply.update(tokens_in=9, tokens_out=2)
    if what == "right": reply = {"id": asked["id"], "right": asked["reference"] == "right"}
    if what == "maybe": reply = {"id": asked["id"], "right": "maybe"}
    print(json.dumps(reply), flush=True)
"""
Ask = Callable[[str], str]


def task(what: str) -> PublicTask:
    return EvalTask(id="q", question=what, images=("/page.png",), image_ids=("i",)).public


@pytest.fixture
def command(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return f"{sys.executable} -S {path}"


@pytest.fixture
def solver(command: str) -> Iterator[CommandSolver]:
    with CommandSolver(command, deadline_s=20.0, startup_s=0.0) as solver:
        solver(task("hello"), None, 0)
        yield solver


def test_a_question_goes_out_with_its_memory_and_without_a_reference(
    solver: CommandSolver, tmp_path: Path
) -> None:
    given = MemoryInput(retrieval_id="r", bank_seq=1, text="Look.", items=())

    said = solver(task("echo"), Handout(given, (tmp_path / "crop.png",)), 4).text

    assert said == (
        '{"id": 3, "images": ["/page.png"], "memory": {"crops": ["'
        + str(tmp_path / "crop.png")
        + '"], "text": "Look."}, "question": "echo", "seed": 4, "task": "q"}'
    )
    assert '"memory": null' in solver(task("echo"), None, 0).text


def test_tokens_are_taken_over(solver: CommandSolver) -> None:
    assert solver(task("count"), None, 0).tokens == 11
    assert solver(task("hello"), None, 0).tokens is None


def test_the_first_request_comes_twice_so_that_loading_is_no_cost(command: str) -> None:
    with CommandSolver(command, deadline_s=20.0) as solver:
        answers = [solver(task("echo"), None, 0) for _ in range(2)]

    assert [json.loads(answer.text)["id"] for answer in answers] == [2, 3]
    assert all(answer.seconds is not None for answer in answers)


def test_a_long_memory_passes(solver: CommandSolver) -> None:
    text = "x" * 500_000
    items = (Item(node_id="n", kind="lesson", guidance="x"),)
    given = MemoryInput(retrieval_id="r", bank_seq=1, text=text, items=items)

    assert text in solver(task("echo"), Handout(given), 0).text


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("die", "ended with status 3"),
        ("segfault", "was ended by SIGSEGV"),
        ("hang", "did not answer in time"),
        ("garbage", "no JSON: 'Thinking...'"),
        ("other", "answered something else"),
        ("close", "closed its output"),
    ],
)
def test_an_unsound_program_fails_one_question_and_is_started_anew(
    solver: CommandSolver, what: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epimem.evaluation.commands.CLOSE_S", 0.2)
    before = int(solver(task("hello"), None, 0).text)
    if what == "hang":
        solver._deadline_s = 0.3

    with pytest.raises(ControllerError, match=reason):
        solver(task(what), None, 0)

    solver._deadline_s = 20.0
    after = int(solver(task("hello"), None, 0).text)
    assert after != before
    assert not Path(f"/proc/{before}").exists()


def test_a_late_answer_is_not_taken_for_that_of_the_next_question(solver: CommandSolver) -> None:
    solver(task("late"), None, 0)

    with pytest.raises(ControllerError, match="something else"):
        solver(task("slow"), None, 0)


def test_a_line_too_many_fails_the_next_question(solver: CommandSolver) -> None:
    solver(task("twice"), None, 0)

    with pytest.raises(ControllerError, match=r"not asked for|something else"):
        solver(task("hello"), None, 0)


@pytest.mark.parametrize("what", ["no text", "no count", "give up"])
def test_an_answer_that_is_none_fails_its_question_only(solver: CommandSolver, what: str) -> None:
    before = solver(task("hello"), None, 0).text

    for _ in range(IN_A_ROW + 1):
        with pytest.raises(ControllerError) as caught:
            solver(task(what), None, 0)
    assert not isinstance(caught.value, SolverLostError)

    assert solver(task("hello"), None, 0).text == before


def test_children_of_a_program_are_ended_with_it(solver: CommandSolver) -> None:
    group = int(solver(task("hello"), None, 0).text)
    solver._deadline_s = 0.3

    with pytest.raises(ControllerError):
        solver(task("child"), None, 0)

    for _ in range(100):
        if not _lives(group):
            break
        time.sleep(0.02)
    assert not _lives(group)


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_failures_in_a_row_end_the_run(solver: CommandSolver) -> None:
    for _ in range(IN_A_ROW - 1):
        with pytest.raises(ControllerError):
            solver(task("die"), None, 0)
    solver(task("hello"), None, 0)  # in a row: this one starts the count anew
    for _ in range(IN_A_ROW - 1):
        with pytest.raises(ControllerError):
            solver(task("die"), None, 0)

    with pytest.raises(SolverLostError, match="5 times in a row"):
        solver(task("die"), None, 0)


def test_a_scorer_judges(command: str) -> None:
    with CommandScorer(command, deadline_s=20.0) as scorer:
        assert scorer(task("-"), "right", "right") is True
        assert scorer(task("-"), "right", "wrong") is False
        with pytest.raises(ControllerError, match="no judgement"):
            scorer(task("-"), "maybe", "right")


def test_a_program_that_is_not_there_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no such program"):
        Command(str(tmp_path / "nothing"))
    with pytest.raises(ConfigError):
        Command("python 'solve.py")
    with pytest.raises(ConfigError):
        Command(" ")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ConfigError, match="cannot be started"):
        Command(str(tmp_path / "text"))
