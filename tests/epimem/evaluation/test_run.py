"""The run: what is asked, what is kept, what stops it."""

# ruff: noqa: ARG001, ARG005 - solvers, scorers and arms are handed more than each test looks at

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from epimem import ExperienceMemory
from epimem.errors import BankBusyError, BankConflictError, BankCorruptError, RecordError
from epimem.evaluation import (
    Arm,
    EvalResult,
    EvalTask,
    Frequent,
    Given,
    Handout,
    Nothing,
    PublicTask,
    Retrieved,
    SolverAnswer,
    StandardArms,
    evaluate,
    summarize,
)
from epimem.evaluation.answers import SolverLostError
from epimem.schema.memory_input import Item, MemoryInput
from tests.epimem.evaluation import houses
from tests.epimem.evaluation.conftest import opened


def task(name: str = "q", reference: str = "seven", **more: Any) -> EvalTask:
    return EvalTask(id=name, question=f"What about {name}?", reference=reference, **more)


def handout(text: str) -> Handout:
    items = (Item(node_id="n", kind="lesson", guidance=text),) if text else ()
    return Handout(MemoryInput(retrieval_id="r", bank_seq=1, items=items, text=text))


def says(text: str) -> Given:
    return Given(lambda task, seed: handout(text))


def repeats(task: PublicTask, memory: Handout | None, seed: int) -> str:
    return memory.text if memory is not None else "nothing"


def plain(result: EvalResult) -> list[dict[str, Any]]:
    """Return the rows without what differs from run to run."""
    times = {"memory_seconds": 0, "solver_seconds": 0}
    return [row.model_copy(update=times).plain() for row in result.rows]


def test_every_arm_asks_every_question_under_every_seed(result: EvalResult) -> None:
    asked = Counter((row.arm, row.seed) for row in result.rows)

    assert len(asked) == 7 * 3
    assert set(asked.values()) == {12}
    assert result.arm("flat").share == 1.0
    assert result.digests[0].state


def test_neither_solver_nor_arm_gets_the_reference_and_the_scorer_does() -> None:
    seen: list[PublicTask] = []
    judged: list[tuple[str, str]] = []

    def solve(task: PublicTask, memory: Handout | None, seed: int) -> str:
        seen.append(task)
        return "six"

    def score(task: PublicTask, answer: str, reference: str) -> bool:
        judged.append((answer, reference))
        return False

    arms: dict[str, Arm] = {"product": Given(lambda task, seed: seen.append(task))}  # type: ignore[func-returns-value]
    sealed = task(reference="seven")
    evaluate([sealed], solve, arms=arms, scorer=score, seeds=[0])

    assert judged == [("six", "seven")]
    assert [type(one) for one in seen] == [PublicTask, PublicTask]
    assert all(not hasattr(one, "reference") for one in seen)
    assert "seven" not in repr(sealed) + sealed.canonical().decode()


def test_the_same_request_is_asked_once_under_a_seed() -> None:
    asked: list[tuple[str, int]] = []

    def solve(task: PublicTask, memory: Handout | None, seed: int) -> str:
        asked.append((memory.text if memory is not None else "", seed))
        return "seven"

    arms = {"none": Nothing(), "empty": says(""), "first": says("a"), "second": says("a")}
    result = evaluate([task()], solve, arms=arms, seeds=[0, 1])

    assert asked == [("", 0), ("a", 0), ("", 1), ("a", 1)]
    assert all(arm.share == 1.0 for arm in result.arms)
    assert result.arm("first").costs == result.arm("second").costs


def test_an_error_counts_as_wrong_and_is_told() -> None:
    def solve(task: PublicTask, memory: Handout | None, seed: int) -> str:
        if task.id == "bad":
            raise ValueError("no idea")
        return "seven"

    def score(task: PublicTask, answer: str, reference: str) -> bool:
        if task.id == "odd":
            raise KeyError("scale")
        return answer == reference

    tasks = [task("good"), task("bad"), task("odd")]
    result = evaluate(tasks, solve, arms={"none": Nothing()}, scorer=score, seeds=[0])

    assert (result.arm("none").mean, result.arm("none").errors) == (1.0, 2)
    errors = {row.task: row.error for row in result.rows}
    assert errors == {"bad": "ValueError: no idea", "good": "", "odd": "scorer: KeyError: 'scale'"}


def test_a_solver_may_say_how_long_it_took() -> None:
    def solve(task: PublicTask, memory: Handout | None, seed: int) -> SolverAnswer:
        return SolverAnswer("seven", 40, 2, seconds=12.5)

    row = evaluate([task()], solve, arms={"none": Nothing()}, seeds=[0]).rows[0]

    assert (row.solver_seconds, row.solver_tokens) == (12.5, 42)


def test_a_lost_solver_stops_the_run() -> None:
    def solve(task: PublicTask, memory: Handout | None, seed: int) -> str:
        raise SolverLostError("gone")

    with pytest.raises(SolverLostError, match="gone"):
        evaluate([task()], solve, arms={"none": Nothing()}, seeds=[0])


def test_the_first_right_alternative_ends_a_question() -> None:
    arms = {"oracle": Given(lambda task, seed: [handout("a"), handout("seven"), handout("b")])}

    row = evaluate([task()], repeats, arms=arms, seeds=[0]).rows[0]

    assert (row.right, row.asked, row.answer) == (True, 2, "seven")
    arms = {"oracle": Given(lambda task, seed: [handout("a"), handout("b")])}
    row = evaluate([task()], repeats, arms=arms, seeds=[0]).rows[0]
    assert (row.right, row.asked) == (False, 2)


def test_the_oracle_is_right_where_product_or_none_is(result: EvalResult) -> None:
    right = {row.key: row.right for row in result.rows}

    for (seed, arm, name), value in right.items():
        if arm in {"product", "none"}:
            assert right[seed, "oracle", name] >= value


def test_the_row_of_no_memory_reads_one_and_zero(result: EvalResult) -> None:
    costs = result.arm("none").costs

    assert (costs.solver_time, costs.memory_time) == (1.0, 0.0)
    assert (costs.solver_tokens, costs.memory_tokens) == (1.0, 0.0)
    product = result.arm("product").costs
    assert product.memory_time is not None
    assert product.memory_time > 0.0
    assert product.memory_tokens is not None
    assert product.memory_tokens > 1.0
    assert result.tokens == "fixed tokenizer"


class StopError(Exception):
    pass


def stop_after(count: int) -> Any:
    def progress(phase: str, done: int, total: int) -> None:
        if phase.startswith("seed") and done == count:
            raise StopError

    return progress


def test_a_stopped_run_goes_on_where_it_stopped(
    bank: Path, stream: list[EvalTask], result: EvalResult, tmp_path: Path
) -> None:
    names = ("none", "product", "shuffled")
    first = {task.id for task in stream[:6]}
    undisturbed = [
        row for row in result.rows if row.seed == 0 and row.arm in names and row.task in first
    ]
    asked: Counter[tuple[str, str]] = Counter()

    def solve(task: PublicTask, memory: Handout | None, seed: int) -> SolverAnswer:
        asked[task.id, memory.key if memory is not None else ""] += 1
        return houses.solver(task, memory, seed)

    def run(count: int = 0) -> EvalResult:
        with opened(bank) as memory, StandardArms(memory, tmp_path, names=names) as arms:
            return evaluate(
                stream[:6],
                solve,
                arms=arms,
                seeds=[0],
                work=tmp_path,
                progress=stop_after(count),
            )

    with pytest.raises(StopError):
        run(7)
    (made,) = tmp_path.glob("banks-*/shuffled-0/bank.db")
    number = made.stat().st_ino
    with pytest.raises(StopError):
        run(4)
    assert made.stat().st_ino == number
    resumed = run()

    assert plain(resumed) == plain(summarize(undisturbed))
    assert set(asked.values()) == {1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results.jsonl", "setup.json"]
    asked.clear()
    assert plain(run()) == plain(resumed)
    assert not asked


def test_what_a_crash_cut_off_is_asked_again(tmp_path: Path) -> None:
    arms = {"none": Nothing(), "product": says("seven")}
    whole = evaluate([task()], repeats, arms=arms, seeds=[0], work=tmp_path)
    path = tmp_path / "results.jsonl"
    path.write_bytes(path.read_bytes()[:-9])

    again = evaluate([task()], repeats, arms=arms, seeds=[0], work=tmp_path)

    assert plain(again) == plain(whole)
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 2


def test_failed_questions_are_asked_again(tmp_path: Path) -> None:
    broken = [True]

    def solve(task: PublicTask, memory: Handout | None, seed: int) -> str:
        if broken[0]:
            raise OSError("no network")
        return "seven"

    def run() -> EvalResult:
        return evaluate([task()], solve, arms={"none": Nothing()}, seeds=[0], work=tmp_path)

    assert run().arm("none").errors == 1
    broken[0] = False
    result = run()
    assert (result.arm("none").errors, result.arm("none").share) == (0, 1.0)


def test_results_of_another_set_up_are_not_mixed_in(tmp_path: Path) -> None:
    arms = {"none": Nothing(), "product": says("seven")}

    def run(tasks: list[EvalTask], **more: Any) -> EvalResult:
        return evaluate(tasks, repeats, arms=arms, work=tmp_path, **more)

    run([task()], seeds=[0], setup={"tries": 1})
    with pytest.raises(BankConflictError, match="tries changed"):
        run([task()], seeds=[0], setup={"tries": 2})
    with pytest.raises(BankConflictError, match="tasks changed"):
        run([task(reference="eight")], seeds=[0], setup={"tries": 1})
    more = run([task()], seeds=[0, 1, 2], setup={"tries": 1})
    assert more.arm("product").by_seed == {0: 1, 1: 1, 2: 1}
    fewer = run([task()], seeds=[1], setup={"tries": 1})
    assert fewer.arm("product").by_seed == {1: 1}


def test_two_runs_do_not_share_a_work_folder(tmp_path: Path) -> None:
    def solve(task_: PublicTask, memory: Handout | None, seed: int) -> str:
        with pytest.raises(BankBusyError):
            evaluate([task()], repeats, arms={"none": Nothing()}, seeds=[0], work=tmp_path)
        return "seven"

    result = evaluate([task()], solve, arms={"none": Nothing()}, seeds=[0], work=tmp_path)
    assert result.arm("none").errors == 0


def test_a_bank_that_is_not_frozen_is_refused(tmp_path: Path) -> None:
    with ExperienceMemory.create(tmp_path / "bank", opened_config()) as memory:
        with pytest.raises(BankConflictError, match="frozen") as caught:
            evaluate([task()], repeats, arms={"product": Retrieved(memory)}, seeds=[0])

    assert "epimem freeze" in (caught.value.hint or "")


def opened_config() -> Any:
    from epimem.config import Config, EncoderConfig

    return Config(encoder=EncoderConfig(model="none"))


@pytest.mark.parametrize("file", ["epimem.toml", "index/extra", "bank.db"])
def test_a_bank_that_changes_ends_the_run(
    bank: Path, stream: list[EvalTask], tmp_path: Path, file: str
) -> None:
    copy = shutil.copytree(bank, tmp_path / "bank")

    def solve(task: PublicTask, memory: Handout | None, seed: int) -> str:
        path = copy / file
        path.write_bytes((path.read_bytes() if path.exists() else b"") + b"\n")
        return "7"

    with opened(copy) as memory, pytest.raises(BankCorruptError, match="changed while"):
        evaluate(stream[:1], solve, arms={"product": Retrieved(memory)}, seeds=[0])


def test_a_bank_that_is_not_what_it_says_is_refused(
    bank: Path, stream: list[EvalTask], tmp_path: Path
) -> None:
    copy = shutil.copytree(bank, tmp_path / "bank")
    (copy / "epimem.toml").write_bytes((copy / "epimem.toml").read_bytes() + b"\n")

    with opened(copy) as memory, pytest.raises(BankCorruptError, match=r"frozen\.json"):
        evaluate(stream[:1], repeats, arms={"frequency": Frequent(memory)}, seeds=[0])


def test_rows_of_several_evaluations_make_one_result() -> None:
    parts = [
        evaluate(
            [task()], repeats, arms={"product": says("seven"), "none": Nothing()}, seeds=[seed]
        )
        for seed in range(3)
    ]

    joined = summarize([row for part in parts for row in part.rows])

    assert joined.over("none").by_seed == {0: 1, 1: 1, 2: 1}


def test_arms_and_tasks_of_a_seed() -> None:
    closed: list[int] = []

    class Noting(Nothing):
        def __init__(self, seed: int) -> None:
            self.seed = seed

        def close(self) -> None:
            closed.append(self.seed)

    result = evaluate(
        lambda seed: [task(f"q{seed}")],
        repeats,
        arms=lambda seed: {"none": Noting(seed)},
        seeds=[3, 4],
    )

    assert closed == [3, 4]
    assert [(row.seed, row.task) for row in result.rows] == [(3, "q3"), (4, "q4")]


@pytest.mark.parametrize(
    ("tasks", "seeds"), [([], [0]), ([task("a"), task("a")], [0]), ([task("a")], [])]
)
def test_what_is_no_evaluation_is_refused(tasks: list[EvalTask], seeds: list[int]) -> None:
    with pytest.raises(RecordError):
        evaluate(tasks, repeats, arms={"none": Nothing()}, seeds=seeds)
