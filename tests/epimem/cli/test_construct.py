"""`epimem ingest` and `maintain`; for `build` see test_build.py."""

from __future__ import annotations

from pathlib import Path

from tests.cli_program import Epimem, lesson, run_record, write


def test_ingest_tries_at_most_so_many_runs(bank: Path, tmp_path: Path, epimem: Epimem) -> None:
    epimem("contribute", bank, write(tmp_path / "r.jsonl", *map(run_record, ("a", "b", "c"))))
    first = epimem("ingest", bank, "--limit", 2)
    second = epimem("ingest", bank, "--retry-now")

    assert sum(first.lines[0]["runs"].values()) == 2
    assert sum(second.lines[0]["runs"].values()) == 1
    assert epimem("ingest", bank, "--limit", -1).status == 2


def test_maintain_does_at_most_so_many_steps(bank: Path, tmp_path: Path, epimem: Epimem) -> None:
    epimem("contribute", bank, write(tmp_path / "l.jsonl", *map(lesson, range(70))))

    assert epimem("maintain", bank, "--steps", 1).lines[0]["placed"] == 64
    assert epimem("maintain", bank).lines[0]["placed"] == 6
    assert epimem("maintain", bank, "--steps", 0).status == 2
