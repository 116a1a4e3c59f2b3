"""Hooks that run tests with the mark `torchvision` in a process that has it, and a finished run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controllers.backends import tiny_qwen3_vl
from tests.controllers.backends.torchvision_beside import (  # noqa: F401 - hooks
    pytest_configure,
    pytest_runtest_logreport,
    pytest_runtest_protocol,
)
from tests.training.export.runs import write_run


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory) -> Path:
    return tiny_qwen3_vl.write_checkpoint(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def adapters(checkpoint: Path) -> dict[str, Path]:
    return tiny_qwen3_vl.write_adapters(checkpoint, checkpoint.parent / "adapters")


@pytest.fixture(scope="session")
def finished(checkpoint: Path, adapters: dict[str, Path], tmp_path_factory) -> Path:
    """Return the folder of a run with LoRA; tests copy it before they change anything."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    return write_run(folder, checkpoint, adapter=adapters["organizer"])
