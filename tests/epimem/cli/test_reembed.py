"""`epimem reembed`, and what it leaves in the settings file."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from epimem.config import FILE_NAME, Config, load, save, set_encoder
from epimem.errors import ConfigError
from tests.cli_program import QUESTION, Epimem, lesson, write


def test_reembed_changes_the_encoder_and_questions_are_answered_with_it(
    grown: Path, epimem: Epimem
) -> None:
    assert epimem("retrieve", grown, QUESTION, "--mode", "dense").lines[0]["items"]
    result = epimem("reembed", grown, "--encoder", "table:48")
    assert result.status == 0
    found = result.lines[0]
    assert (found["encoder"], found["dimension"], found["changed"]) == ("table", 48, True)
    assert found["encoded"] >= 12
    assert found["filled"] == 0
    assert "encode: " in result.err
    assert load(grown).encoder.model == "table:48"
    after = epimem("retrieve", grown, QUESTION, "--mode", "dense").lines[0]
    assert after["items"]
    assert after["searchable"] == "dense"
    assert epimem("check", grown).status == 0
    again = epimem("reembed", grown, "--encoder", "table:48").lines[0]
    assert (again["changed"], again["encoded"], again["filled"]) == (False, 0, 0)


def test_settings_that_a_crash_left_behind_are_corrected_and_said_so(
    grown: Path, epimem: Epimem
) -> None:
    before = (grown / FILE_NAME).read_text()
    epimem("reembed", grown, "--encoder", "table:48")
    (grown / FILE_NAME).write_text(before)
    result = epimem("retrieve", grown, QUESTION)
    assert result.status == 0
    assert result.lines[0]["items"]
    assert "was changed from table:64 to table:48" in result.err
    assert load(grown).encoder.model == "table:64", "a reader writes nothing"
    assert "was changed from" in epimem("maintain", grown).err
    assert load(grown).encoder.model == "table:48"
    assert epimem("retrieve", grown, QUESTION).err == ""


def test_lessons_of_a_contributor_without_encoder_are_filled_in(
    grown: Path, tmp_path: Path, epimem: Epimem
) -> None:
    source = write(tmp_path / "more.jsonl", lesson(77), lesson(78))
    settings = (grown / FILE_NAME).read_text()
    set_encoder(grown, "none")
    receipts = epimem("contribute", grown, source).lines
    assert [receipt["searchable"] for receipt in receipts] == ["lexical", "lexical"]
    refused = epimem("reembed", grown)
    assert refused.status == 2
    assert "--encoder" in refused.err
    (grown / FILE_NAME).write_text(settings)
    assert epimem("reembed", grown).lines[0]["filled"] == 2
    assert epimem("check", grown).status == 0


def test_reembed_refuses_what_it_cannot_do(grown: Path, tmp_path: Path, epimem: Epimem) -> None:
    unknown = epimem("reembed", grown, "--encoder", "table:0")
    assert (unknown.status, unknown.err.split(": ")[1]) == (2, "bad_config")
    assert epimem("reembed", grown, "--encoder", "table:48", "--phase", "evaluation").status == 3
    assert epimem("reembed", tmp_path / "nothing").status == 4
    epimem("freeze", grown)
    frozen = epimem("reembed", grown, "--encoder", "table:48")
    assert (frozen.status, frozen.err.split(": ")[1]) == (5, "bank_frozen")
    mismatch = epimem("build", grown, "jsonl", "-", "--encoder", "table:48")
    assert "epimem reembed" in mismatch.err


# ---- the settings file


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# mine\nnamespace = 'n'\n",
        "# mine\n[encoder]\n# why\nmodel = 'table:64' # trigrams\n\n[tree]\ncapacity = 9\n",
        "[tree]\ncapacity = 9 # model = no\n[ encoder ]\n",
        "[tree]\ncapacity = 9\n[encoder] # none\n\n[caller]\ncontributor = 'model = x'",
    ],
)
def test_only_the_model_changes_in_a_settings_file(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    before = load(tmp_path)
    try:
        set_encoder(tmp_path, 'a "b" \\ ü')
    except ConfigError:
        # A header written in an unusual way is left to its author, the file untouched.
        assert "[ encoder ]" in text
        assert (tmp_path / FILE_NAME).read_text() == text
        return
    after = (tmp_path / FILE_NAME).read_text()
    assert load(tmp_path) == before.model_copy(
        update={"encoder": before.encoder.model_copy(update={"model": 'a "b" \\ ü'})}
    )
    for line in text.splitlines():
        if "#" in line and not line.startswith("model"):
            assert line in after.splitlines()
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_settings_without_a_file_get_one(tmp_path: Path) -> None:
    set_encoder(tmp_path, "table:9")
    assert load(tmp_path).encoder.model == "table:9"
    save(tmp_path, Config())
    set_encoder(tmp_path, "none")
    assert tomllib.loads((tmp_path / FILE_NAME).read_text()) == {"encoder": {"model": "none"}}
