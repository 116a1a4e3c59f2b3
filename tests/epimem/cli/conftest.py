"""Commands run in this process, and banks to run them on."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from PIL import Image

from epimem.cli import main
from epimem.cli.ask import image_ids
from tests.cli_program import Epimem, Result, lesson, write


@pytest.fixture
def epimem(capsysbinary: pytest.CaptureFixture[bytes]) -> Epimem:
    def call(*arguments: object) -> Result:
        capsysbinary.readouterr()
        status = main([str(argument) for argument in arguments])
        out, err = (part.decode("utf-8") for part in capsysbinary.readouterr())
        lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        return Result(status, lines, out, err)

    return call


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epimem.cli.output.is_terminal", lambda stream: stream is sys.stdout)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "dumb")


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    bank = str(folder / "bank")
    Image.new("RGB", (80, 60), (200, 10, 10)).save(folder / "map.png")
    evidence = {
        "image_id": image_ids([str(folder / "map.png")])[0],
        "region": {"x0": 10, "y0": 10, "x1": 40, "y1": 30, "width": 80, "height": 60},
        "note": "the white triangle",
    }
    lessons = write(folder / "lessons.jsonl", *(lesson(n, evidence=[evidence]) for n in range(12)))
    assert main(["init", bank, "--encoder", "table:64"]) == 0
    shutil.copytree(bank, folder / "empty")
    assert main(["contribute", bank, "--image", str(folder / "map.png"), str(lessons)]) == 0
    assert main(["maintain", bank]) == 0
    return folder


@pytest.fixture
def grown(template: Path, tmp_path: Path) -> Path:
    """Return a bank with twelve lessons in its tree, and put the image they show beside it."""
    shutil.copy(template / "map.png", tmp_path)
    return shutil.copytree(template / "bank", tmp_path / "bank")


@pytest.fixture
def bank(template: Path, tmp_path: Path) -> Path:
    """Return an empty bank."""
    return shutil.copytree(template / "empty", tmp_path / "bank")
