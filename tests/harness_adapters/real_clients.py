"""Real harnesses for tests: where they are installed, and how they are pointed at the fake model."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness_adapters.camel import Camel
from harness_adapters.codex import Codex
from harness_adapters.dsh import Dsh

FOLDER = Path(__file__).resolve().parents[2] / ".clients"
KEY = {"LOCAL_KEY": "any"}
LOCAL = (
    'model="fake"',
    'model_provider="local"',
    'model_providers.local.name="local"',
    'model_providers.local.wire_api="responses"',
    'model_providers.local.env_key="LOCAL_KEY"',
    'approval_policy="never"',
    'sandbox_mode="read-only"',
)


def codex_program() -> str:
    found = shutil.which(
        "codex", path=f"{FOLDER / 'node_modules' / '.bin'}{os.pathsep}{os.defpath}"
    )
    if found is None:
        pytest.skip("the Codex CLI is not installed: make test-clients")
    return found


def codex_at(url: str, home: Path) -> Codex:
    home.mkdir(parents=True, exist_ok=True)
    overrides = (*LOCAL, f'model_providers.local.base_url="{url}"')
    return Codex(program=codex_program(), home=home, overrides=overrides, env=KEY, timeout_s=120)


def dsh_at(url: str) -> Dsh:
    if find_spec("deepseek_harness") is None:
        pytest.skip("deepseek-harness-sdk is not installed: make test installs it")
    return Dsh(
        provider="local",
        model="fake",
        endpoint=url,
        key_env="LOCAL_KEY",
        python=sys.executable,
        env=KEY,
        timeout_s=120,
    )


def camel_at(url: str) -> Camel:
    python = FOLDER / "camel" / "bin" / "python"
    if not python.is_file():
        pytest.skip("CAMEL is not installed: make test-clients")
    return Camel(endpoint=url, model="fake", python=str(python), timeout_s=120)
