"""Logs that real harnesses wrote (against the fake model): each becomes the run that it records."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from controllers.embedded.derive import derive_lesson
from epimem.errors import RecordError
from epimem.protocols import DeriveRequest
from epimem.schema.run import Run
from harness_adapters.camel_records import CamelImporter
from harness_adapters.codex_rollout import CodexRolloutImporter
from harness_adapters.dsh_session import DshSessionImporter
from harness_adapters.importer import Imported, Refused

LOGS = Path(__file__).parent / "logs"
QUESTION = "How many stations does the train call at on the red line diagram?"
CASES = {
    "codex": (CodexRolloutImporter, LOGS / "codex"),
    "deepseek-harness": (DshSessionImporter, LOGS / "dsh"),
    "camel": (CamelImporter, LOGS),
}


def read(importer, path, album):
    return [*importer().read(path, admit=album.admit)]


@pytest.fixture(params=CASES)
def case(request):
    return request.param


def test_a_log_becomes_the_run_that_it_records(case, album, assert_sound):
    (found,) = read(*CASES[case], album)
    run = found.run
    assert_sound(run, album)
    assert run.system.harness == case
    assert run.system.harness_version
    assert [backbone.id for backbone in run.system.backbones] in (["fake"], ["fake-vl"])
    assert run.task.question.endswith(QUESTION)
    assert [(page.width, page.height) for page in run.task.pages] == [(200, 100)]
    assert run.answer.text == "six"
    assert run.answer.finish_reason == "completed"
    assert run.costs.mas.calls >= 1
    assert run.costs.mas.tokens_out == 5 * run.costs.mas.calls


@pytest.mark.parametrize("case", ["codex", "deepseek-harness"])
def test_what_a_memory_said_is_named_and_does_not_stand_in_the_run(case, album):
    (found,) = read(*CASES[case], album)
    (shown,) = found.run.retrievals
    text = found.run.canonical().decode()
    assert "white triangles" not in text
    assert f"[memory {shown.retrieval_id}]" in text
    calls = [
        call.function_name for step in found.run.trajectory.steps for call in step.tool_calls or ()
    ]
    assert [name.rpartition("epimem_")[2] for name in calls] == ["retrieve", "contribute"]


def test_what_a_harness_adds_by_itself_is_no_question_and_no_lesson(case, album):
    (found,) = read(*CASES[case], album)
    sources = [step.source for step in found.run.trajectory.steps]
    assert sources[0] == "system"
    assert sources.count("user") == 1
    derived = derive_lesson(DeriveRequest(found.run, "right", "verifier"))
    said = " ".join(draft.guidance for draft in derived.drafts)
    for word in ("skill", "environment", "working directory", "MCP", "You solve", "memory 0"):
        assert word not in said


def test_what_memory_says_in_a_prompt_or_a_hook_is_cut_out_and_nothing_else(album):
    (found,) = read(*CASES["camel"], album)
    (asked,) = (step for step in found.run.trajectory.steps if step.source == "user")
    assert asked.text.split("\n\n") == ["[memory]", QUESTION]


def test_reading_a_log_again_gives_the_same_content(case, album):
    first, second = (read(*CASES[case], album)[0].run for _ in range(2))
    assert first.run_id != second.run_id
    assert first.content_hash == second.content_hash


def test_every_field_of_a_log_is_counted(case, album):
    (found,) = read(*CASES[case], album)
    assert found.loss.total.mapped > found.loss.total.native_only > 0 or case == "camel"


@pytest.fixture
def copy(tmp_path, case):
    """A copy of a log that may be changed: (importer, its file, all of its lines)."""
    importer, source = CASES[case]
    target = tmp_path / "logs"
    shutil.copytree(source, target)
    pattern = {
        "codex": "rollout-*",
        "deepseek-harness": "session.v4.jsonl",
        "camel": "*.camel.jsonl",
    }
    file = next(target.rglob(pattern[case]))
    return importer, file, file.read_text("utf-8").splitlines()


def test_a_log_that_was_cut_off_is_read_as_far_as_it_goes(copy, album):
    importer, file, lines = copy
    file.write_text("\n".join([*lines, lines[-1][: len(lines[-1]) // 2]]), "utf-8")
    (found,) = read(importer, file, album)
    assert found.run.answer.text == "six"
    assert found.loss.note_counts()["cut_off"] == 1


def test_a_damaged_log_is_set_aside_and_the_others_are_read(copy, album, case):
    importer, file, lines = copy
    bad = file.with_name(file.name.replace("rollout-", "rollout-a").replace("agent", "a-agent"))
    if case == "deepseek-harness":
        bad = file.parent.parent / "s2" / file.name
        bad.parent.mkdir()
    bad.write_text("\n".join([lines[0], "{", *lines[1:]]), "utf-8")
    root = {"codex": file.parents[3], "deepseek-harness": file.parents[2], "camel": file.parent}[
        case
    ]
    found = read(importer, root, album)
    assert {type(each) for each in found} == {Imported, Refused}
    assert len(found) == 2
    refused = next(each for each in found if isinstance(each, Refused))
    assert refused.code == "bad_json"


def test_a_session_in_which_nobody_asked_is_set_aside(copy, album):
    importer, file, lines = copy
    file.write_text(lines[0] + "\n", "utf-8")
    (found,) = read(importer, file, album)
    assert isinstance(found, Refused)
    assert "nobody asked" in found.message


def test_a_folder_without_a_log_is_named(tmp_path, album):
    for importer, _ in CASES.values():
        with pytest.raises(RecordError, match="no session log"):
            read(importer, tmp_path, album)


def test_an_attachment_that_is_gone_or_changed_is_no_picture(tmp_path, album):
    home = tmp_path / "home"
    shutil.copytree(LOGS / "dsh", home)
    objects = [path for path in (home / "attachments").rglob("*") if path.is_file()]
    objects[0].unlink()
    objects[1].write_bytes(b"\x89PNG other")
    (found,) = read(DshSessionImporter, home, album)
    assert found.images == ()
    assert "image not imported" in found.run.canonical().decode()


def test_a_link_out_of_the_folder_is_not_followed(tmp_path, album):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "rollout-x.jsonl").symlink_to(next((LOGS / "codex").rglob("rollout-*")))
    (found,) = read(CodexRolloutImporter, tmp_path / "out", album)
    assert isinstance(found, Refused)


def test_an_item_of_type_error_is_no_failed_run(album, tmp_path):
    source = next((LOGS / "codex").rglob("rollout-*"))
    lines = source.read_text("utf-8").splitlines()
    error = {"type": "event_msg", "payload": {"type": "error", "message": "metadata not found"}}
    file = tmp_path / source.name
    file.write_text("\n".join([lines[0], json.dumps(error), *lines[1:]]), "utf-8")
    (found,) = read(CodexRolloutImporter, file, album)
    assert found.run.answer.text == "six"
    assert Run.read(found.run.canonical()) == found.run
