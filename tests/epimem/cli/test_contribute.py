"""`epimem contribute` and `import-runs`."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from PIL import Image

from epimem.memory import ExperienceMemory
from tests.cli_program import Epimem, lesson, lines_of, run_record, write


def test_contribute_prints_a_receipt_for_each_record(
    bank: Path, tmp_path: Path, epimem: Epimem
) -> None:
    source = write(tmp_path / "mixed.jsonl", lesson(0), run_record("run-1"), lesson(0))
    result = epimem("contribute", bank, source)

    assert result.status == 0
    assert [(line["source"], line["status"]) for line in result.lines] == [
        ("mixed.jsonl:1", "stored"),
        ("mixed.jsonl:2", "queued"),
        ("mixed.jsonl:3", "duplicate"),
    ]
    assert result.lines[1]["id"] == "run-1"
    assert not result.err


def test_a_refused_record_is_set_aside_and_the_rest_goes_on(
    bank: Path, tmp_path: Path, epimem: Epimem
) -> None:
    missing = lesson(2, parents=["no-such-lesson"])
    source = write(tmp_path / "r.jsonl", lesson(0), {"guidance": "a\x1b"}, missing, lesson(1))
    result = epimem("contribute", bank, source)

    assert result.status == 1
    assert [line["status"] for line in result.lines] == ["stored", "stored"]
    aside = [json.loads(line) for line in lines_of(tmp_path / "r.jsonl.rejected.jsonl")]
    assert [(item["line"] or item["source"], item["code"]) for item in aside] == [
        (2, "invalid_text"),
        ("r.jsonl:3", "not_found"),
    ]
    assert "2 refused" in result.err

    write(source, lesson(0))
    assert epimem("contribute", bank, source).status == 0
    assert not (tmp_path / "r.jsonl.rejected.jsonl").exists()


@pytest.mark.parametrize(
    ("data", "status"),
    [(b"\x00\x01", 2), (b'{"guidance": "x", "parents": ["gone"]}', 4), (b"[1, 2]", 2)],
)
def test_nothing_accepted_gives_the_status_of_the_first_refusal(
    bank: Path, tmp_path: Path, epimem: Epimem, data: bytes, status: int
) -> None:
    (tmp_path / "one.json").write_bytes(data)

    assert epimem("contribute", bank, tmp_path / "one.json").status == status


def test_an_outcome_goes_with_one_run(bank: Path, tmp_path: Path, epimem: Epimem) -> None:
    run = write(tmp_path / "run.json", run_record("run-1"))
    outcome = write(
        tmp_path / "outcome.json", {"run_id": "run-1", "verdict": "wrong", "source": "oracle"}
    )
    refused = epimem("contribute", bank, run, "--outcome", outcome, "--phase", "evaluation")
    assert (refused.status, refused.lines) == (3, [])

    assert epimem("contribute", bank, run, "--outcome", outcome).lines[0]["status"] == "queued"
    with ExperienceMemory.open(bank) as memory:
        assert memory.bank.queued_runs(limit=5)[0].verdict == "wrong"

    two = write(tmp_path / "two.jsonl", run_record("run-2"), run_record("run-3"))
    assert epimem("contribute", bank, two, "--outcome", outcome).status == 2
    other = write(tmp_path / "other.json", run_record("run-4"))
    assert "another run" in epimem("contribute", bank, other, "--outcome", outcome).err


def test_images_are_stored_first_and_named(bank: Path, tmp_path: Path, epimem: Epimem) -> None:
    Image.new("RGB", (8, 6), (1, 2, 3)).save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"no picture")
    result = epimem(
        "contribute", bank, "--image", tmp_path / "a.png", "--image", tmp_path / "b.png"
    )

    assert result.status == 1
    assert result.lines[0]["source"] == "a.png"
    assert (result.lines[0]["width"], result.lines[0]["height"]) == (8, 6)
    assert "b.png" in result.err
    assert epimem("contribute", bank, "--image", tmp_path / "b.png").status == 2


def test_contribute_reads_standard_input(
    bank: Path, epimem: Epimem, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = json.dumps(lesson(0)).encode() + b"\nbroken\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    result = epimem("contribute", bank, "-")

    assert result.status == 1
    assert result.lines[0]["source"] == "standard input:1"
    assert "standard input:2: bad_json" in result.err


def test_a_fault_of_the_bank_is_no_fault_of_the_record(
    bank: Path, tmp_path: Path, epimem: Epimem
) -> None:
    source = write(tmp_path / "r.jsonl", lesson(0), lesson(1))
    assert epimem("freeze", bank).status == 0
    result = epimem("contribute", bank, source)

    assert result.status == 5
    assert result.err.startswith("epimem: bank_frozen: ")
    assert not (tmp_path / "r.jsonl.rejected.jsonl").exists()


def test_import_runs_contributes_and_reports_losses(
    bank: Path, tmp_path: Path, epimem: Epimem
) -> None:
    turns = [{"role": "user", "content": "How many?"}, {"role": "assistant", "content": "Six."}]
    source = write(tmp_path / "chat.jsonl", {"messages": turns, "odd": 1}, {"messages": 3})
    result = epimem("import-runs", bank, "openai-chat", source, "--loss-report")

    assert result.status == 1
    assert result.lines[0]["status"] == "queued"
    fields = {line["field"]: line for line in result.lines if "field" in line}
    assert fields["odd"]["native"] == 1
    assert fields["messages[].role"]["mapped"] == 2
    assert (tmp_path / "chat.jsonl.rejected.jsonl").exists()
    assert len(epimem("import-runs", bank, "openai-chat", source).lines) == 1


def test_import_runs_names_what_is_installed(bank: Path, tmp_path: Path, epimem: Epimem) -> None:
    result = epimem("import-runs", bank, "no-such", tmp_path)

    assert result.status == 2
    assert "openai-chat" in result.err
    take = epimem("import-runs", bank, "openai-chat", tmp_path, "--take", "lessons")
    assert (take.status, take.err.split(": ")[1]) == (2, "usage")
    assert epimem("import-runs", bank, "openai-chat", tmp_path / "absent").status == 4
