"""Figures of rows made by hand, and when they support a claim."""

# ruff: noqa: ARG005 - a pattern of rights may depend on seed or task only

from __future__ import annotations

from collections.abc import Callable

import pytest

from epimem.evaluation import EvalResult, summarize, verdict
from epimem.evaluation.guards import Leak
from epimem.evaluation.rows import Row

Right = Callable[[int, int], bool]
ARMS: dict[str, Right] = {
    "none": lambda seed, task: task == 0,
    "product": lambda seed, task: task < 6 + seed % 2,
    "shuffled": lambda seed, task: task < 2,
    "frequency": lambda seed, task: task == 1,
}


def rows(arms: dict[str, Right], *, seeds: int = 10, tasks: int = 12, **more: object) -> list[Row]:
    return [
        Row(seed=seed, arm=arm, task=f"t{task}", group=f"t{task}", right=right(seed, task), **more)
        for arm, right in arms.items()
        for seed in range(seeds)
        for task in range(tasks)
    ]


def test_arms_are_counted_over_seeds() -> None:
    result = summarize(rows(ARMS))

    product = result.arm("product")
    assert (product.mean, product.sd) == (6.5, pytest.approx(0.527046))
    assert product.by_seed[1] == 7
    assert product.share == pytest.approx(6.5 / 12)
    assert [item.second for item in result.differences] == ["frequency", "none", "shuffled"]
    assert result.over("shuffled").mean == pytest.approx(4.5 / 12)
    assert result.over("shuffled").above == 10


def test_a_claim_needs_both_controls_seeds_no_leak_and_few_errors() -> None:
    assert verdict(summarize(rows(ARMS))).passed

    def reasons(result: EvalResult) -> str:
        said = verdict(result)
        assert not said.passed
        return "; ".join(said.reasons)

    assert "product - shuffled" in reasons(summarize(rows({**ARMS, "shuffled": ARMS["product"]})))
    better = {**ARMS, "frequency": lambda seed, task: task != 3}
    assert "product - frequency" in reasons(summarize(rows(better)))
    assert "9 seeds in product" in reasons(summarize(rows(ARMS, seeds=9)))
    without = {name: right for name, right in ARMS.items() if name != "frequency"}
    assert "the arm frequency is missing" in reasons(summarize(rows(without)))
    leak = Leak(task="t3", what="reference", where="bank")
    assert "reference of t3 in bank" in reasons(summarize(rows(ARMS), leaks=[leak]))
    leaked = rows(ARMS)
    leaked[200] = leaked[200].model_copy(update={"leak": "canary"})
    assert "canary of" in reasons(summarize(leaked))
    failed = rows(ARMS)
    spoiled = [row.key for row in failed if row.arm == "shuffled"][:3]
    failed = [
        row.model_copy(update={"error": "lost"}) if row.key in spoiled else row for row in failed
    ]
    assert "3 of 120 questions failed in shuffled" in reasons(summarize(failed))


def test_better_than_nothing_is_no_claim() -> None:
    """A wrong lesson may help too: product beats none here, and no control."""
    result = summarize(rows({**ARMS, "shuffled": ARMS["product"], "frequency": ARMS["product"]}))

    assert result.over("none").low > 0
    assert not verdict(result).passed


def test_costs_are_over_what_the_solver_takes_alone() -> None:
    alone = {"solver_seconds": 2.0, "counted_tokens": 50}
    with_memory = {
        "solver_seconds": 3.0,
        "counted_tokens": 50,
        "memory_seconds": 0.5,
        "memory_tokens": 100,
        "controller_tokens": 25,
    }
    made = [
        *rows({"none": ARMS["none"]}, **alone),
        *rows({"product": ARMS["product"]}, **with_memory),
    ]

    result = summarize(made)

    assert result.arm("none").costs.plain() == {
        "solver_time": 1.0,
        "memory_time": 0.0,
        "solver_tokens": 1.0,
        "memory_tokens": 0.0,
    }
    assert result.arm("product").costs.plain() == {
        "solver_time": 1.5,
        "memory_time": 0.25,
        "solver_tokens": 1.0,
        "memory_tokens": 2.5,
    }
    assert result.tokens == "fixed tokenizer"
    assert summarize(made[120:]).arm("product").costs.solver_time is None


def test_a_solver_that_counts_has_the_delivered_text_in_its_own_tokens() -> None:
    made = [
        *rows({"none": ARMS["none"]}, solver_tokens=200, counted_tokens=50),
        *rows(
            {"product": ARMS["product"]},
            solver_tokens=300,
            counted_tokens=50,
            memory_tokens=100,
            controller_tokens=20,
        ),
    ]

    costs = summarize(made).arm("product").costs

    assert (costs.solver_tokens, costs.memory_tokens) == (1.5, 0.1)
    assert summarize(made).tokens == "solver"


def test_a_leak_is_told_once() -> None:
    leak = Leak(task="t3", what="reference", where="bank")
    made = rows(ARMS)
    made = [
        row.model_copy(update={"leak": "reference"}) if row.task == "t3" else row for row in made
    ]

    assert summarize(made, leaks=[leak]).leaks == (leak,)
