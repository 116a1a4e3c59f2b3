"""Hooks that run the tests of whole vision-language models in a process with torchvision."""

from __future__ import annotations

from tests.controllers.backends.torchvision_beside import (  # noqa: F401 - hooks
    pytest_configure,
    pytest_runtest_logreport,
    pytest_runtest_protocol,
)
