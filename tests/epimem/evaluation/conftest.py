"""The bank of the houses, its questions, and one whole evaluation that several tests look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from epimem import ExperienceMemory
from epimem.evaluation import EvalResult, EvalTask, StandardArms, evaluate
from tests.epimem.evaluation import houses

SEEDS = 3


@pytest.fixture(scope="session")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return houses.build(tmp_path_factory.mktemp("houses") / "bank")


@pytest.fixture(scope="session")
def stream(tmp_path_factory: pytest.TempPathFactory) -> list[EvalTask]:
    return houses.tasks(tmp_path_factory.mktemp("lines"), each=1)


@pytest.fixture
def memory(bank: Path) -> Iterator[ExperienceMemory]:
    with opened(bank) as memory:
        yield memory


def opened(bank: Path) -> ExperienceMemory:
    return ExperienceMemory.open(bank, read_only=True, phase="evaluation")


@pytest.fixture(scope="session")
def result(bank: Path, stream: list[EvalTask]) -> EvalResult:
    with opened(bank) as memory, StandardArms(memory) as arms:
        return evaluate(stream, houses.solver, arms=arms, seeds=range(SEEDS))
