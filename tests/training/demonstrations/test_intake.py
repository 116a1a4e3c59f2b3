"""Runs from files and from banks: verdicts, references, pictures and what is refused."""

from __future__ import annotations

import json

import pytest

from epimem.config import Config, EncoderConfig
from epimem.errors import NotFoundError
from epimem.memory import ExperienceMemory
from epimem.schema.outcome import SealedOutcome
from epimem.schema.run import Run
from epimem.testing import ScriptedMemoryController, ScriptedTreeOrganizer
from tests.training.demonstrations import small_runs
from training.demonstrations.intake import REJECTED, opened_runs


def opened(source, work, **more):
    return opened_runs(source, work, progress=small_runs.nothing, **more)


def test_runs_of_a_file_come_with_verdict_reference_and_their_batch(tmp_path):
    pairs = [small_runs.pair_of("Rubra", 0), small_runs.pair_of("Azul", 1, verdict="right")]
    source = small_runs.write_runs(tmp_path / "runs.jsonl", *pairs)
    with opened(source, tmp_path / "work") as found:
        first, second = found.runs
        assert (first.queued.verdict, second.queued.verdict) == ("wrong", "right")
        assert first.queued.verdict_source == "oracle"
        assert first.reference == "CANARY-Rubra-0"
        assert first.queued.batch == (first.run.task.question, second.run.task.question)


def test_runs_that_come_again_under_other_ids_are_the_same_runs_with_their_references(tmp_path):
    first = small_runs.pair_of("Rubra", 0)
    again = json.loads(json.dumps(first))
    again["run"]["run_id"] = again["outcome"]["run_id"] = "another"
    for pair in (first, again):
        source = small_runs.write_runs(tmp_path / "runs.jsonl", pair)
        with opened(source, tmp_path / "work") as found:
            (run,) = found.runs
            assert (run.run.run_id, run.reference) == ("Rubra-0-1", "CANARY-Rubra-0")


def test_a_folder_gives_all_its_files_and_what_cannot_be_read_is_set_aside(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    small_runs.write_runs(folder / "a.jsonl", small_runs.pair_of("Rubra", 0), {"schema": "?"})
    (folder / "b.json").write_text(json.dumps(small_runs.pair_of("Azul", 0)))
    _, page = small_runs.picture()
    small_runs.write_runs(folder / "c.jsonl", small_runs.pair_of("Orio", 0, page=page))
    with opened(folder, tmp_path / "work") as found:
        assert [run.run.task.house for run in found.runs] == ["Rubra", "Azul"]
        assert found.refused == 2
    lines = (tmp_path / "work" / REJECTED).read_text().splitlines()
    refused = [json.loads(line) for line in lines]
    assert ["a.jsonl" in refused[0]["source"], "c.jsonl" in refused[1]["source"]] == [True, True]
    assert "image" in refused[1]["reason"]


def test_a_reference_that_may_not_be_seen_offline_is_not_seen(tmp_path):
    pair = small_runs.pair_of("Rubra", 0)
    pair["outcome"]["visible_to"] = ["construction"]
    source = small_runs.write_runs(tmp_path / "runs.jsonl", pair)
    with opened(source, tmp_path / "work") as found:
        assert (found.runs[0].reference, found.runs[0].queued.verdict) == ("", "wrong")


def test_pictures_are_handed_in_beside_the_runs_and_can_be_looked_at(tmp_path):
    png, page = small_runs.picture()
    (tmp_path / "page.png").write_bytes(png)
    source = small_runs.write_runs(tmp_path / "a.jsonl", small_runs.pair_of("Rubra", 0, page=page))
    with opened(source, tmp_path / "work", images=[str(tmp_path / "page.png")]) as found:
        (shown,) = found.pages(found.runs[0].run)
        assert (shown.image_id, shown.page) == (page["image_id"], 1)
        assert shown.png(10_000)[:4] == b"\x89PNG"


def test_a_bank_gives_its_stored_runs_also_those_that_are_derived_and_is_not_changed(tmp_path):
    roles = (ScriptedMemoryController(), ScriptedTreeOrganizer())
    bank = tmp_path / "bank"
    settings = Config(encoder=EncoderConfig(model="none"))
    with ExperienceMemory.create(bank, settings, controllers=roles) as memory:
        for number in range(2):
            pair = small_runs.pair_of("Rubra", number)
            memory.contribute(
                Run.read(pair["run"]), outcome=SealedOutcome.read(json.dumps(pair["outcome"]))
            )
            memory.ingest()
        hidden = {**small_runs.pair_of("Azul", 0)["outcome"], "visible_to": ["construction"]}
        run = Run.read(small_runs.run_of("Azul", 0))
        memory.contribute(run, outcome=SealedOutcome.read(json.dumps(hidden)))
        seq = memory.bank.head_seq
    with opened(bank, tmp_path / "work") as found:
        assert [run.queued.verdict for run in found.runs] == ["wrong"] * 3
        assert [run.reference for run in found.runs] == ["CANARY-Rubra-0", "CANARY-Rubra-1", ""]
        assert found.bank.head_seq == seq
    assert not (tmp_path / "work").exists()


def test_a_place_without_runs_is_named(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError), opened(tmp_path / "empty", tmp_path / "work"):
        pass
    with pytest.raises(NotFoundError), opened(tmp_path / "nowhere.jsonl", tmp_path / "work"):
        pass
    source = small_runs.write_runs(tmp_path / "bad.jsonl", {"schema": "?"})
    with pytest.raises(NotFoundError) as none, opened(source, tmp_path / "work"):
        pass
    assert none.value.message == "no run to learn from"
