"""The houses: memory helps there, the proof says so, and it fails when any part is taken away."""

# ruff: noqa: ARG005 - solvers, scorers and arms are handed more than each test looks at

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from epimem import ExperienceMemory
from epimem.bank.recall import Recall
from epimem.evaluation import EvalResult, EvalTask, StandardArms, evaluate, verdict
from epimem.schema.memory_input import Candidate
from tests.epimem.evaluation import houses
from tests.epimem.evaluation.conftest import SEEDS, opened

FEW = 1


def measured(bank: Path, stream: list[EvalTask]) -> EvalResult:
    names = ("product", "shuffled", "frequency")
    with opened(bank) as memory, StandardArms(memory, names=names) as arms:
        return evaluate(stream, houses.solver, arms=arms, seeds=range(FEW))


def fails(result: EvalResult) -> bool:
    """Tell whether both comparisons that make a claim fail, for no other reason than their figures."""
    said = verdict(result, least_seeds=FEW)
    return not said.passed and all(reason.startswith("product - ") for reason in said.reasons)


def test_the_bank_of_houses_passes(result: EvalResult) -> None:
    assert verdict(result, least_seeds=SEEDS).passed
    assert result.arm("product").share == 1.0
    assert result.arm("none").share == 0.0
    assert result.over("shuffled").low > 0.5
    assert result.over("frequency").low > 0.5
    assert result.over("wrong").low > 0.5
    assert not result.leaks


def test_random_retrieval_fails(
    bank: Path, stream: list[EvalTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Recall.find
    chance = random.Random(0)

    def find(self: Recall, question: str, **settings: Any) -> Any:
        found = honest(self, question, **settings)
        some = honest(self, "stations on a diagram", namespace="default", k=50).candidates
        nodes = [candidate.node_id for candidate in some if candidate.kind == "lesson"]
        picked = chance.sample(nodes, 2)
        made = [
            Candidate(node_id=key, kind="lesson", rank_score=1.0, passes=True) for key in picked
        ]
        return replace(found, candidates=tuple(made))

    monkeypatch.setattr(Recall, "find", find)

    assert fails(measured(bank, stream))


def test_blank_crops_fail(
    bank: Path, stream: list[EvalTask], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blank = tmp_path / "blank.png"
    Image.new("RGB", (12, 12), houses.PAPER).save(blank)
    monkeypatch.setattr(ExperienceMemory, "crop_path", lambda self, crop: blank)

    assert fails(measured(bank, stream))


def test_empty_scopes_fail(tmp_path: Path, stream: list[EvalTask]) -> None:
    assert fails(measured(houses.build(tmp_path / "bank", scope=False), stream))
