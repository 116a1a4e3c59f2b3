"""Help and reference: complete, current, and quick to show."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from epimem.cli import main
from epimem.cli.program import COMMANDS
from epimem.cli.reference import commands, render

ROOT = Path(__file__).resolve().parents[3]
NAMES = [command.name or "" for command in COMMANDS]
TYPED = dict(commands())
HEAVY = ("torch", "faiss", "rich", "numpy", "pydantic", "sqlalchemy", "PIL", "onnxruntime")


def test_the_reference_is_current() -> None:
    written = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")

    assert written == render(), "run: python -m epimem.cli.reference > docs/cli.md"


def test_the_commands_are_those_of_the_design() -> None:
    designed = (
        "init contribute ingest maintain build retrieve feedback show log explain check stats "
        "snapshot diff restore freeze revoke import-runs eval reembed serve mcp token review"
    )
    assert set(NAMES) == set(designed.split())


@pytest.mark.parametrize("name", TYPED)
def test_every_command_explains_itself_with_an_example(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*name.split(), "--help"]) == 0
    text = capsys.readouterr().out

    command = TYPED[name]
    subject = "" if name.split(maxsplit=1)[0] in {"train", "run", "stream"} else " my-bank"
    assert "Examples:" in text
    assert len(command.help or "") > 100
    assert command.examples
    for example in command.examples:
        assert f"epimem {name}{subject}" in example
        assert example in text
    for option in command.params:
        if option.param_type_name == "option":
            assert getattr(option, "help", None), option.name


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    from importlib.metadata import version

    assert main(["--version"]) == 0
    assert version("epimem") in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [("--help",), ("retrieve", "--help"), ("train", "--help"), ("--version",)]
)
def test_help_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    code = (
        "import sys; from epimem.cli import main; status = main(sys.argv[1:]); "
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr); "
        "sys.exit(status)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert result.returncode == 0
    assert result.stderr.strip() == "[]"
    assert result.stdout
