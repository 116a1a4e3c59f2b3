"""A tiny model and a small set for the tests of fine-tuning, in a process that has torchvision."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controllers.backends import tiny_llama, tiny_qwen3_vl
from tests.controllers.backends.torchvision_beside import (  # noqa: F401 - hooks
    pytest_configure,
    pytest_runtest_logreport,
    pytest_runtest_protocol,
)
from tests.training.sft import small_runs


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory) -> Path:
    return tiny_qwen3_vl.write_checkpoint(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def text_checkpoint(tmp_path_factory) -> Path:
    return tiny_llama.write_checkpoint(tmp_path_factory.mktemp("models") / "text")


@pytest.fixture(scope="session")
def gates(tmp_path_factory):
    """A finished set of decisions of the gate, with pictures, in groups for all splits."""
    return small_runs.write_set(tmp_path_factory.mktemp("sets") / "gates")
