"""The evaluation itself: the same questions, in every arm, under every seed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epimem.errors import EpimemError, RecordError
from epimem.evaluation.answers import (
    Scorer,
    Solver,
    SolverAnswer,
    SolverLostError,
    counted_tokens,
    exact_match,
)
from epimem.evaluation.arms import Arm
from epimem.evaluation.guards import Leak, Sealed, Watch
from epimem.evaluation.handout import Handout
from epimem.evaluation.report import EvalResult, summarize
from epimem.evaluation.rows import Ledger, Row
from epimem.evaluation.tasks import (
    EvalTask,
    PublicTask,
    check_tasks,
    tasks_digest,
    with_image_ids,
)
from epimem.schema.text import escape_unstorable

SEEDS = range(10)
KEPT_ANSWER = 1000
"""Characters of an answer that are kept in its row, for people to look at."""
Tasks = Iterable[EvalTask] | Callable[[int], Iterable[EvalTask]]
Arms = Mapping[str, Arm] | Callable[[int], Mapping[str, Arm]]
Progress = Callable[[str, int, int], None]


def evaluate(
    tasks: Tasks,
    solver: Solver,
    *,
    arms: Arms,
    scorer: Scorer = exact_match,
    seeds: Iterable[int] = SEEDS,
    work: Path | None = None,
    setup: Mapping[str, Any] | None = None,
    canaries: Sequence[str] = (),
    progress: Progress | None = None,
) -> EvalResult:
    """Ask every question in every arm under every seed, and compare.

    Every bank of an arm must be frozen; its digests are compared with its `frozen.json` before and
    after each seed. A question that is put a second time with the same memory content under the same
    seed is not asked again: the first answer and its cost count for both arms.

    Args:
        tasks: the stream, or a function that gives that of a seed.
        solver: answers. What it raises is an error of that question, which then counts as wrong.
        arms: by name, or a function that makes those of a seed, which are closed after it. The name
            "none" is what costs are divided by; "product" is compared with all others.
        scorer: judges; what it raises is an error of the question too.
        seeds: one run each. They reach solver and arms.
        work: a folder that takes the results as they come; the same call goes on where it stopped.
        setup: JSON data that names solver and settings; results of another are not mixed in.
        canaries: texts that stand in the data set and nowhere else, looked for besides the references.
        progress: called with (phase, done, total); may raise to stop.

    Raises:
        RecordError: no task, or two of one id.
        BankConflictError: a bank is not frozen, or `work` holds results of another set-up.
        BankCorruptError: a bank is not what it was.
    """
    started = time.monotonic()
    streams = _streams(tasks, tuple(seeds))
    run = _Run(solver, scorer, progress)
    everything = {
        **(setup or {}),
        "tasks": tasks_digest({t.id: t for s in streams.values() for t in s}.values()),
    }
    with Ledger(work, everything) as ledger:
        for seed, stream in streams.items():
            run.seed(seed, stream, arms, ledger, canaries)
        wanted = {(seed, task.id) for seed, stream in streams.items() for task in stream}
        rows = [
            row
            for row in ledger.rows.values()
            if (row.seed, row.task) in wanted and row.arm in run.names
        ]
    return summarize(
        rows,
        leaks=run.leaks,
        digests=tuple(run.watch.before.values()),
        setup=everything,
        seconds=time.monotonic() - started,
    )


def _streams(tasks: Tasks, seeds: Sequence[int]) -> dict[int, list[EvalTask]]:
    if not seeds:
        raise RecordError("no seed", field="seeds")
    if callable(tasks):
        found = {seed: with_image_ids(tasks(seed)) for seed in seeds}
    else:
        stream = with_image_ids(tasks)
        found = dict.fromkeys(seeds, stream)
    for stream in found.values():
        check_tasks(stream)
    return found


@dataclass
class _Run:
    """One call of `evaluate`."""

    solver: Solver
    scorer: Scorer
    progress: Progress | None
    watch: Watch = field(default_factory=Watch)
    leaks: list[Leak] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    searched: set[tuple[Path, str, tuple[str, ...]]] = field(default_factory=set)

    def seed(
        self,
        seed: int,
        tasks: Sequence[EvalTask],
        arms: Arms,
        ledger: Ledger,
        canaries: Sequence[str],
    ) -> None:
        """Ask all questions of a seed that have no row yet."""
        made = arms(seed) if callable(arms) else arms
        public = {task.id: task.public for task in tasks}
        sealed = Sealed(tasks, canaries)
        self.names |= made.keys()
        waiting = {
            name: [task for task in public.values() if (seed, name, task.id) not in ledger]
            for name in made
        }
        total = sum(map(len, waiting.values()))
        done = 0
        try:
            for name, arm in made.items():
                if waiting[name]:
                    arm.prepare(list(public.values()))
            self._see(made, sealed, public)
            for task in public.values():
                known: dict[str, _Answered] = {}
                for name in (name for name in made if task in waiting[name]):
                    row = self._row(task, seed, name, arm=made[name], sealed=sealed, known=known)
                    ledger.add(row)
                    done += 1
                    if self.progress is not None:
                        self.progress(f"seed {seed}", done, total)
            self._see(made, sealed, public)
            read = {bank.bank.path: bank for arm in made.values() for bank in arm.banks()}
            self.watch.compare(read.values())
        finally:
            if callable(arms):
                for arm in made.values():
                    arm.close()

    def _see(
        self, arms: Mapping[str, Arm], sealed: Sealed, public: Mapping[str, PublicTask]
    ) -> None:
        for arm in arms.values():
            self.watch.see(arm.banks())
            for memory in arm.banks():
                searched = memory.bank.path, arm.asking.space(memory), tuple(public)
                if searched not in self.searched:
                    self.searched.add(searched)
                    self.leaks += sealed.in_bank(memory, searched[1], public)

    def _row(
        self,
        task: PublicTask,
        seed: int,
        name: str,
        *,
        arm: Arm,
        sealed: Sealed,
        known: dict[str, _Answered],
    ) -> Row:
        """Ask the alternatives of an arm until one is right."""
        row = _Sum()
        for given in _or_nothing(arm.handouts(task, seed)):
            handed = given if given is not None and given.input.items else None
            leak = sealed.in_text(task, handed.words) if handed is not None else ""
            key = handed.key if handed is not None else ""
            if key not in known:
                known[key] = self._ask(task, handed, seed, sealed)
            row.add(given, known[key], leak)
            if known[key].right:
                break
        return row.row(seed, name, task)

    def _ask(
        self, task: PublicTask, handed: Handout | None, seed: int, sealed: Sealed
    ) -> _Answered:
        started = time.perf_counter()
        try:
            given = self.solver(task, handed, seed)
            answer = given if isinstance(given, SolverAnswer) else SolverAnswer(str(given))
        except SolverLostError:
            raise
        except Exception as error:  # noqa: BLE001 - foreign code
            return _Answered(error=_told(error), seconds=time.perf_counter() - started)
        seconds = time.perf_counter() - started if answer.seconds is None else answer.seconds
        try:
            right, error_text = sealed.judge(self.scorer, task, answer.text), ""
        except SolverLostError:
            raise
        except Exception as error:  # noqa: BLE001 - foreign code
            right, error_text = False, f"scorer: {_told(error)}"
        return _Answered(answer=answer, right=right, error=error_text, seconds=seconds)


def _or_nothing(handouts: Iterable[Handout]) -> Iterator[Handout | None]:
    empty = True
    for given in handouts:
        empty = False
        yield given
    if empty:
        yield None


@dataclass(frozen=True)
class _Answered:
    """What the solver said to one request, and what the scorer said to that."""

    answer: SolverAnswer | None = None
    right: bool = False
    error: str = ""
    seconds: float = 0.0


@dataclass
class _Sum:
    """Adds up the alternatives of a question."""

    asked: list[tuple[Handout | None, _Answered]] = field(default_factory=list)
    leak: str = ""

    def add(self, given: Handout | None, answered: _Answered, leak: str) -> None:
        self.asked.append((given, answered))
        self.leak = self.leak or leak

    def row(self, seed: int, name: str, task: PublicTask) -> Row:
        given, last = self.asked[-1]
        handed = [one for one, _ in self.asked if one is not None]
        answers = [one.answer for _, one in self.asked if one.answer is not None]
        reported = [one.tokens for one in answers if one.tokens is not None]
        answer = last.answer.text if last.answer is not None else ""
        errors = [one.error for _, one in self.asked]
        usages = [one.input.usage for one in handed]
        return Row(
            seed=seed,
            arm=name,
            task=task.id,
            group=task.unit,
            right=last.right,
            error="" if last.right else _kept(next(filter(None, errors), "")),
            answer=_kept(answer),
            asked=len(self.asked),
            items=len(given.input.items) if given is not None else 0,
            crops=len(given.input.crops) if given is not None else 0,
            memory_seconds=sum(one.seconds for one in handed),
            solver_seconds=sum(one.seconds for _, one in self.asked),
            memory_tokens=sum(counted_tokens(one.text) for one in handed),
            controller_tokens=sum(usage.tokens_in + usage.tokens_out for usage in usages),
            solver_tokens=sum(reported) if reported else None,
            counted_tokens=sum(
                counted_tokens(task.question) + counted_tokens(one.text) for one in answers
            ),
            leak=self.leak,
            warning=_kept(given.input.warning) if given is not None else "",
        )


def _told(error: Exception) -> str:
    """Return what an error says, with its kind where it is none of ours."""
    if isinstance(error, EpimemError):
        return error.message
    return f"{type(error).__name__}: {error}"


def _kept(text: str) -> str:
    """Return the start of a text from anywhere, as JSON can hold it."""
    return escape_unstorable(text[:KEPT_ANSWER])[0]
