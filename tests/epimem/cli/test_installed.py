"""Commands of other packages: found by entry point, listed, called, and no harm where one is broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from epimem.cli import main

MODULE = """
import click

@click.command("greet", short_help="Say hello.")
@click.argument("whom")
def greet(whom):
    click.echo(f"hello {whom}")

@click.command("init")
def init():
    click.echo("not the real one")
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lay out an installed distribution as pip does, and let Python find it."""
    (tmp_path / "greetings_for_epimem.py").write_text(MODULE)
    about = tmp_path / "greetings-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: greetings\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[epimem.commands]\n"
        "greet = greetings_for_epimem:greet\n"
        "init = greetings_for_epimem:init\n"
        "torn = greetings_for_epimem:no_such_thing\n"
        "absent = a_package_that_nobody_has:command\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("plugin")
def test_a_command_of_another_package_is_listed_and_called(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--help"]) == 0
    assert "Say hello." in capsys.readouterr().out
    assert main(["greet", "you"]) == 0
    assert capsys.readouterr().out == "hello you\n"


@pytest.mark.usefixtures("plugin")
def test_no_package_can_take_the_place_of_a_command_of_ours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["init", "--help"]) == 0
    assert "not the real one" not in capsys.readouterr().out
    assert main(["--help"]) == 0
    assert capsys.readouterr().out.count("\n  init ") == 1


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("name", ["torn", "absent"])
def test_a_command_that_cannot_be_loaded_is_listed_and_says_why(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--help"]) == 0
    assert "cannot be loaded" in capsys.readouterr().out
    assert main([name]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"epimem: bad_config: the command {name} cannot be loaded")
    assert said.count("\n") == 1


def test_a_command_that_nobody_brings_is_a_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no-such-command"]) == 2
    assert "no-such-command" in capsys.readouterr().err
