"""`epimem init`."""

from __future__ import annotations

from pathlib import Path

import pytest

from epimem.cli.create import _config
from epimem.cli.options import BankSettings
from epimem.memory import ExperienceMemory
from tests.cli_program import Epimem


def test_init_makes_a_bank_with_the_settings_given(tmp_path: Path, epimem: Epimem) -> None:
    options = ("--encoder", "table:32", "--namespace", "metro", "--contributor", "alice")
    result = epimem("init", tmp_path / "b", *options, "--organisation", "acme", "--capacity", 9)

    assert result.status == 0
    assert result.lines[0] | {"bank_id": ""} == {
        "path": str(tmp_path / "b"),
        "bank_id": "",
        "namespace": "metro",
        "encoder": "table",
        "dimension": 32,
    }
    with ExperienceMemory.open(tmp_path / "b") as memory:
        assert memory.config.tree.capacity == 9
        assert memory.caller.contributor == "alice"
        assert memory.caller.organisation == "acme"


def test_init_without_an_encoder_says_that_recall_will_be_lexical(
    tmp_path: Path, epimem: Epimem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epimem.bank.onnx_export.PACKAGED", {"all-MiniLM-L6-v2": "no_such_one"})
    result = epimem("init", tmp_path / "b")

    assert result.status == 0
    assert result.lines[0]["encoder"] == "none"
    assert "lexical" in result.err
    assert "epimem[encoder]" in result.err

    asked = epimem("init", tmp_path / "c", "--encoder", "all-MiniLM-L6-v2")
    assert asked.status == 2
    assert asked.err.startswith("epimem: bad_config: ")
    assert not (tmp_path / "c" / "bank.db").exists()


def test_init_leaves_what_is_there_alone(tmp_path: Path, bank: Path, epimem: Epimem) -> None:
    again = epimem("init", bank, "--encoder", "none")
    assert (again.status, again.err.split(": ")[1]) == (5, "bank_exists")

    project = tmp_path / "project"
    project.mkdir()
    (project / "main.py").touch()
    assert epimem("init", project, "--encoder", "none").status == 5
    assert [path.name for path in project.iterdir()] == ["main.py"]
    assert epimem("init", project / "main.py", "--encoder", "none").status == 5


@pytest.mark.parametrize("capacity", [6, 65, -1])
def test_init_refuses_a_capacity_out_of_range(
    tmp_path: Path, epimem: Epimem, capacity: int
) -> None:
    result = epimem("init", tmp_path / "b", "--encoder", "none", "--capacity", capacity)

    assert result.status == 2
    assert "capacity" in result.err
    assert not (tmp_path / "b").exists()


def test_a_model_folder_is_found_again_from_anywhere(
    tmp_path: Path, epimem: Epimem, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    epimem("init", "b", "--encoder", "model")  # no model in it, but the name is resolved first
    settings = BankSettings("model", None, None, None, None)
    assert _config(settings).encoder.model == str(tmp_path / "model")
