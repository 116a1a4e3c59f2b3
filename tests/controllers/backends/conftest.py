"""A tiny model for the tests of a file, and the hooks that run those in a process with torchvision."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controllers.prompts.message import Image, Message, Prompt, Text
from epimem.protocols import Picture
from tests.controllers.backends import tiny_qwen3_vl
from tests.controllers.backends.chat_prompts import close_all
from tests.controllers.backends.torchvision_beside import (  # noqa: F401 - hooks
    pytest_configure,
    pytest_runtest_logreport,
    pytest_runtest_protocol,
)

SCHEMA = {
    "type": "object",
    "properties": {
        "guidance": {"type": "string"},
        "lessons": {"type": "array", "items": {"enum": ["L1", "L2"]}, "maxItems": 3},
        "gate": {"type": "integer", "minimum": 0, "maximum": 9},
    },
    "required": ["guidance", "lessons", "gate"],
    "additionalProperties": False,
}


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Close the servers that a test opened."""
    yield
    close_all()


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory) -> Path:
    return tiny_qwen3_vl.write_checkpoint(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def adapters(checkpoint: Path) -> dict[str, Path]:
    return tiny_qwen3_vl.write_adapters(checkpoint, checkpoint.parent / "adapters")


@pytest.fixture(scope="session")
def picture() -> Callable[..., Picture]:
    def make(colour: str, width: int = 96, height: int = 64) -> Picture:
        from PIL import Image as Pixels

        def png(max_pixels: int) -> bytes:
            assert width * height <= max_pixels
            file = io.BytesIO()
            Pixels.new("RGB", (width, height), colour).save(file, "PNG")
            return file.getvalue()

        return Picture(colour, width, height, page=1, read=png)

    return make


@pytest.fixture(scope="session")
def prompt() -> Callable[..., Prompt]:
    """Make a prompt: `prompt("text", picture, "text", max_tokens=...)`; parts in order, by the user."""

    def make(*parts: Any, max_tokens: int = 64, schema: Any = None, **more: Any) -> Prompt:
        said = tuple(
            Text(part) if isinstance(part, str) else Image(part, f"P{number}")
            for number, part in enumerate(parts)
        )
        turns = (Message("system", (Text("You choose."),)), Message("user", said))
        return Prompt("gate", turns, SCHEMA if schema is None else schema, max_tokens, **more)

    return make
