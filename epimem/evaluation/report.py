"""From rows to a result: arms over seeds, paired differences, costs, and whether it counts."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from typing import Any

from pydantic import Field

from epimem.evaluation.guards import Digests, Leak
from epimem.evaluation.rows import Row
from epimem.evaluation.statistics import Difference, mean_and_sd, paired_difference
from epimem.schema.base import Record, StrictBool, StrictFloat, StrictInt

BASE = "none"
SUBJECT = "product"
CONTROLS = ("shuffled", "frequency")
LEAST_SEEDS = 10
MOST_ERRORS = 0.02
"""Share of questions without an answer above which a comparison says nothing (ours)."""


class Costs(Record):
    """Cost of a question relative to what the solver alone takes without memory.

    `solver_time` is the solver's wall time over its time in the arm without memory, `memory_time` what
    memory takes over the same; likewise tokens. In the arm without memory they are 1 and 0. None where
    there is nothing to divide by.
    """

    solver_time: StrictFloat | None = None
    memory_time: StrictFloat | None = None
    solver_tokens: StrictFloat | None = None
    memory_tokens: StrictFloat | None = None


class ArmResult(Record):
    """One arm: questions solved, mean and standard deviation over seeds, and what it took.

    `by_seed` counts the solved questions of each seed, `share` is solved over asked. `empty` is the
    share of questions that nothing was handed out for, `asked` the alternatives a question got.
    """

    arm: str
    mean: StrictFloat
    sd: StrictFloat
    share: StrictFloat
    by_seed: dict[int, StrictInt]
    questions: StrictInt
    errors: StrictInt
    warnings: StrictInt
    empty: StrictFloat
    asked: StrictFloat
    costs: Costs = Costs()


class EvalResult(Record):
    """What an evaluation found; `rows` has everything question by question.

    `differences` compare the product with every other arm. `leaks` is empty in an evaluation that
    counts; `digests` are those of the banks, the same before and after. `tokens` says who counted them:
    the solver, the fixed tokenizer, or both.
    """

    arms: tuple[ArmResult, ...]
    differences: tuple[Difference, ...]
    leaks: tuple[Leak, ...] = ()
    digests: tuple[Digests, ...] = ()
    tokens: str = ""
    versions: dict[str, str] = Field(default_factory=dict)
    setup: dict[str, Any] = Field(default_factory=dict)
    seconds: StrictFloat | StrictInt = 0
    rows: tuple[Row, ...] = ()

    def arm(self, name: str) -> ArmResult:
        """Return an arm by name; KeyError where there is none."""
        return {arm.arm: arm for arm in self.arms}[name]

    def over(self, name: str) -> Difference:
        """Return the difference between the product and this arm; KeyError where there is none."""
        return {difference.second: difference for difference in self.differences}[name]


class EvalVerdict(Record):
    """Whether a result supports the claim that the bank helps, and every reason why not."""

    passed: StrictBool
    reasons: tuple[str, ...] = ()


def summarize(
    rows: Iterable[Row],
    *,
    leaks: Sequence[Leak] = (),
    digests: Sequence[Digests] = (),
    setup: Mapping[str, Any] | None = None,
    seconds: float = 0.0,
) -> EvalResult:
    """Return the result of rows, from one evaluation or several of the same kind.

    Args:
        rows: in any order.
        leaks: what makes it not count, besides what the rows say themselves.
        digests: of the banks.
        setup: what was evaluated how.
        seconds: wall time.
    """
    kept = sorted(rows, key=lambda row: row.key)
    by_arm: dict[str, list[Row]] = {}
    for row in kept:
        by_arm.setdefault(row.arm, []).append(row)
    base = _Spent.of(by_arm.get(BASE, ()))
    found = [*leaks, *(Leak(task=r.task, what=r.leak, where=r.arm) for r in kept if r.leak)]
    return EvalResult(
        arms=tuple(_arm(name, rows, base) for name, rows in by_arm.items()),
        differences=tuple(_differences(by_arm)),
        leaks=tuple({(leak.task, leak.what): leak for leak in reversed(found)}.values())[::-1],
        digests=tuple(digests),
        tokens=_counted_by(kept),
        versions={
            "epimem": metadata.version("epimem"),
            "python": platform.python_version(),
            "numpy": metadata.version("numpy"),
        },
        setup=dict(setup or {}),
        seconds=round(seconds, 3),
        rows=tuple(kept),
    )


def _counted_by(rows: Sequence[Row]) -> str:
    reported = [row.solver_tokens is not None for row in rows]
    if all(reported):
        return "solver"
    return "both" if any(reported) else "fixed tokenizer"


class _Spent:
    """Means over the questions of an arm."""

    def __init__(self, rows: Sequence[Row]) -> None:
        count = max(len(rows), 1)
        self.solver_time = sum(row.solver_seconds for row in rows) / count
        self.memory_time = sum(row.memory_seconds for row in rows) / count
        self.solver_tokens = sum(map(_solver_tokens, rows)) / count
        self.memory_tokens = sum(map(_memory_tokens, rows)) / count

    @classmethod
    def of(cls, rows: Sequence[Row]) -> _Spent | None:
        return cls(rows) if rows else None


def _solver_tokens(row: Row) -> int:
    return row.counted_tokens if row.solver_tokens is None else row.solver_tokens


def _memory_tokens(row: Row) -> int:
    """Return the tokens of memory; what a solver reports holds the delivered text already."""
    delivered = row.memory_tokens if row.solver_tokens is None else 0
    return delivered + row.controller_tokens


def _arm(name: str, rows: Sequence[Row], base: _Spent | None) -> ArmResult:
    by_seed: dict[int, int] = {}
    for row in rows:
        by_seed[row.seed] = by_seed.get(row.seed, 0) + row.right
    mean, sd = mean_and_sd([float(value) for value in by_seed.values()])
    count = len(rows)
    return ArmResult(
        arm=name,
        mean=mean,
        sd=sd,
        share=sum(row.right for row in rows) / count,
        by_seed=by_seed,
        questions=count,
        errors=sum(bool(row.error) for row in rows),
        warnings=sum(bool(row.warning) for row in rows),
        empty=sum(row.items == 0 for row in rows) / count,
        asked=sum(row.asked for row in rows) / count,
        costs=_costs(_Spent(rows), base),
    )


def _costs(spent: _Spent, base: _Spent | None) -> Costs:
    if base is None:
        return Costs()

    def over(value: float, unit: float) -> float | None:
        return value / unit if unit > 0 else None

    return Costs(
        solver_time=over(spent.solver_time, base.solver_time),
        memory_time=over(spent.memory_time, base.solver_time),
        solver_tokens=over(spent.solver_tokens, base.solver_tokens),
        memory_tokens=over(spent.memory_tokens, base.solver_tokens),
    )


def _differences(by_arm: Mapping[str, Sequence[Row]]) -> Iterable[Difference]:
    if SUBJECT not in by_arm:
        return
    rights = {
        name: {(row.seed, row.task): row.right for row in rows} for name, rows in by_arm.items()
    }
    units = {row.task: row.group for rows in by_arm.values() for row in rows}
    for name in by_arm:
        if name != SUBJECT:
            found = paired_difference((SUBJECT, name), rights[SUBJECT], rights[name], units)
            if found is not None:
                yield found


def verdict(result: EvalResult, *, least_seeds: int = LEAST_SEEDS) -> EvalVerdict:
    """Say whether the product beats both the shuffled bank and the frequency prior.

    Paired, over at least 10 seeds, with an interval above 0, in a run without leaks and with few
    errors. To beat the arm without memory is no part of it: a wrong lesson may do that too.

    Args:
        result: of an evaluation.
        least_seeds: seeds that a claim needs.
    """
    reasons = [
        f"{leak.what} of {leak.task or 'the data set'} in {leak.where}" for leak in result.leaks
    ]
    arms = {arm.arm: arm for arm in result.arms}
    over = {difference.second: difference for difference in result.differences}
    for name in CONTROLS:
        if name not in over:
            reasons.append(f"the arm {name} is missing")
        elif over[name].low <= 0.0:
            reasons.append(
                f"product - {name} is {over[name].mean:+.3f}, interval from {over[name].low:+.3f}"
            )
    for name in (SUBJECT, *CONTROLS):
        arm = arms.get(name)
        if arm is None:
            continue
        if len(arm.by_seed) < least_seeds:
            reasons.append(f"{len(arm.by_seed)} seeds in {name}, a claim needs {least_seeds}")
        if arm.errors > MOST_ERRORS * arm.questions:
            reasons.append(f"{arm.errors} of {arm.questions} questions failed in {name}")
    return EvalVerdict(passed=not reasons, reasons=tuple(reasons))
