from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epimem.schema.atif import ImageSource
from epimem.schema.ids import counting_ids
from epimem.schema.run import Run, interleave
from harness_adapters.importer import Imported, Refused
from harness_adapters.openai_chat import OpenAIChatImporter

Png = Callable[..., bytes]
Read = Callable[[dict[str, Any]], Imported]

USER: dict[str, Any] = {"role": "user", "content": "How many stops?"}
ANSWER = {"role": "assistant", "content": "Seven."}
CALL: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"x": 1}'}}
    ],
}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "nine markers"}


@pytest.fixture
def read(tmp_path: Path, album: Any, assert_sound: Callable[[Run, Any], None]) -> Read:
    def one(conversation: dict[str, Any]) -> Imported:
        path = tmp_path / "chat.jsonl"
        path.write_text(json.dumps(conversation) + "\n")
        importer = OpenAIChatImporter(ids=counting_ids(), clock=lambda: 0.0)
        (found,) = importer.read(path, admit=album.admit)
        assert isinstance(found, Imported), found
        assert found.run is not None
        assert_sound(found.run, album)
        return found

    return one


def run_of(found: Imported) -> Run:
    assert found.run is not None
    return found.run


def data_url(data: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(data).decode()


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def test_a_plain_conversation_becomes_one_chain_in_order(read: Read) -> None:
    found = read(
        {
            "id": "conv-1",
            "model": "m-1",
            "tools": [{"type": "function", "function": {"name": "look"}}],
            "usage": {
                "prompt_tokens": 30,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 10},
            },
            "finish_reason": "stop",
            "messages": [{"role": "system", "content": "Be brief."}, USER, CALL, RESULT, ANSWER],
        }
    )
    run = run_of(found)
    assert [(turn.seq, turn.text) for turn in interleave(run)] == [
        (0, "Be brief."),
        (1, "How many stops?"),
        (2, "nine markers"),
        (3, "Seven."),
    ]
    steps = run.trajectory.steps
    assert [step.source for step in steps] == ["system", "user", "agent", "agent"]
    assert steps[2].tool_calls is not None
    assert steps[2].tool_calls[0].arguments == {"x": 1}
    assert steps[2].observation is not None
    assert steps[2].observation.results[0].source_call_id == "c1"
    assert (run.task.task_id, run.task.question) == ("conv-1", "How many stops?")
    assert (run.answer.text, run.answer.finish_reason) == ("Seven.", "stop")
    assert run.system.backbones[0].id == run.trajectory.agent.model_name == "m-1"
    assert (run.costs.mas.tokens_in, run.costs.mas.tokens_out) == (30, 5)
    assert (run.costs.mas.cached, run.costs.mas.calls) == (10, 2)
    assert found.outcome is None
    assert found.loss.total.native == found.loss.total.mapped == 18


def test_content_may_be_a_text_a_list_of_parts_a_single_part_or_nothing(read: Read) -> None:
    text = {"type": "text", "text": "t"}
    for content, seen in (
        ("t", "t"),
        ([text, text], "t\nt"),
        (text, "t"),
        (["t", {"type": "output_text", "text": "u"}], "t\nu"),
        ([], ""),
        (None, ""),
        ([{"type": "refusal", "refusal": "no"}], "no"),
    ):
        run = run_of(read({"messages": [USER, {"role": "assistant", "content": content}]}))
        assert run.trajectory.steps[1].text == seen
        assert run.answer.text == seen


def test_images_of_the_question_become_its_pages(read: Read, album: Any, png: Png) -> None:
    parts = [
        {"type": "text", "text": "Compare."},
        image(data_url(png(3, 2))),
        {"type": "input_image", "image_url": data_url(png(5, 4))},
    ]
    found = read({"messages": [{"role": "user", "content": parts}, ANSWER]})
    run = run_of(found)
    assert [(page.width, page.height) for page in run.task.pages] == [(3, 2), (5, 4)]
    assert run.task.question == "Compare."
    assert [item.image_id for item in found.images] == [page.image_id for page in run.task.pages]
    sources = [part.source for part in run.trajectory.steps[0].parts if part.source]
    assert [source.path for source in sources] == [f"sha256:{name}" for name in album.stored]
    assert found.images[0].data == png(3, 2)
    assert b"base64" not in run.canonical()


def test_a_tool_may_return_an_image(read: Read, album: Any, png: Png) -> None:
    result = RESULT | {"content": [image(data_url(png()))]}
    run = run_of(read({"messages": [USER, CALL, result, ANSWER]}))
    observation = run.trajectory.steps[1].observation
    assert observation is not None
    content = observation.results[0].content
    assert isinstance(content, tuple)
    assert isinstance(content[0].source, ImageSource)
    assert run.task.pages == ()
    assert run.image_ids == tuple(album.stored)


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data",
        "https://host/a.png",
        "file:///etc/passwd",
        "/etc/passwd",
        "images/a.png",
        "",
    ],
)
def test_a_remote_image_is_noted_and_the_rest_of_the_run_kept(read: Read, url: str) -> None:
    parts = [{"type": "text", "text": "Look:"}, image(url)]
    found = read({"messages": [{"role": "user", "content": parts}, ANSWER]})
    run = run_of(found)
    assert found.images == ()
    assert found.loss.note_counts() == {"remote_image_refused": 1}
    text = run.trajectory.steps[0].text
    assert text.startswith("Look:\n[image not imported: remote_image_refused")
    assert url in text
    assert run.answer.text == "Seven."
    assert found.loss.fields["messages[].content[image_url]"].native_only == 1


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("data:image/png;base64,AAA", "invalid_image"),
        (data_url(b"\x89PNG\r\n\x1a\n broken"), "invalid_image"),
        (data_url(b"<svg/>"), "unsupported_type"),
    ],
)
def test_a_broken_image_is_noted_and_the_rest_of_the_run_kept(
    read: Read, url: str, code: str
) -> None:
    found = read({"messages": [USER, {"role": "user", "content": [image(url)]}, ANSWER]})
    assert found.loss.note_counts() == {code: 1}
    assert run_of(found).trajectory.steps[1].text == f"[image not imported: {code}]"


def test_a_part_of_another_kind_is_noted_not_silent(read: Read) -> None:
    parts = [
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "text", "text": "What do you hear?", "cache_control": {}},
        image("http://host/a") | {"image_url": {"url": "http://host/a", "detail": "low"}},
    ]
    found = read({"messages": [{"role": "user", "content": parts}, ANSWER]})
    assert found.loss.note_counts() == {"remote_image_refused": 1, "unsupported_part": 1}
    lost = {path for path, count in found.loss.fields.items() if count.native_only}
    assert lost == {
        "messages[].content[input_audio]",
        "messages[].content[].input_audio",
        "messages[].content[].cache_control",
        "messages[].content[].image_url.detail",
        "messages[].content[image_url]",
    }
    assert "[content part not imported: input_audio]" in run_of(found).trajectory.steps[0].text


@pytest.mark.parametrize("between", [ANSWER, USER, {"role": "system", "content": "tick"}])
def test_a_late_result_becomes_a_system_step_in_its_callers_chain(
    read: Read, between: dict[str, Any]
) -> None:
    found = read({"messages": [USER, CALL, between, RESULT]})
    step = run_of(found).trajectory.steps[3]
    assert (step.source, step.message) == ("system", "")
    assert step.observation is not None
    assert step.observation.results[0].source_call_id == "c1"
    assert step.text == "nine markers"
    assert found.loss.note_counts() == {"late_tool_result": 1}


def test_an_orphan_result_becomes_a_system_step(read: Read) -> None:
    orphan = RESULT | {"tool_call_id": "c9"}
    found = read({"messages": [USER, CALL, orphan, RESULT, ANSWER]})
    steps = run_of(found).trajectory.steps
    assert [step.source for step in steps] == ["user", "agent", "system", "agent"]
    assert steps[1].text == "nine markers"
    assert found.loss.note_counts() == {"orphan_tool_result": 1}


def test_parallel_calls_get_their_results_in_any_order(read: Read) -> None:
    calls = [{"id": f"c{n}", "function": {"name": "f", "arguments": {"n": n}}} for n in range(3)]
    results = [{"role": "tool", "tool_call_id": f"c{n}", "content": str(n)} for n in (2, 0, 1)]
    message = {"role": "assistant", "content": "", "tool_calls": calls}
    found = read({"messages": [USER, message, *results, ANSWER]})
    step = run_of(found).trajectory.steps[1]
    assert step.observation is not None
    assert [result.source_call_id for result in step.observation.results] == ["c2", "c0", "c1"]
    assert found.loss.notes == ()


def test_call_ids_may_be_used_again_in_later_turns(read: Read) -> None:
    again = RESULT | {"content": "eight"}
    run = run_of(read({"messages": [USER, CALL, RESULT, CALL, again, ANSWER]}))
    assert [step.text for step in run.trajectory.steps[1:3]] == ["nine markers", "eight"]


def test_the_older_form_of_function_calls_is_read(read: Read) -> None:
    call = {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "look", "arguments": "{}"},
    }
    result = {"role": "function", "name": "look", "content": "nine"}
    found = read({"messages": [USER, call, result, ANSWER]})
    step = run_of(found).trajectory.steps[1]
    assert step.tool_calls is not None
    assert step.tool_calls[0].function_name == "look"
    assert step.text == "nine"
    assert found.loss.notes == ()


@pytest.mark.parametrize("arguments", ["not json", "[1, 2]", '{"a": NaN}', '{"a": 1, "a": 2}'])
def test_arguments_that_are_no_object_are_kept_as_text(read: Read, arguments: str) -> None:
    calls = [{"id": "c1", "function": {"name": "f", "arguments": arguments}}]
    found = read({"messages": [USER, CALL | {"tool_calls": calls}, RESULT, ANSWER]})
    step = run_of(found).trajectory.steps[1]
    assert step.tool_calls is not None
    assert step.tool_calls[0].arguments == {"text": arguments}
    assert found.loss.note_counts() == {"arguments_kept_as_text": 1}


def test_custom_tools_keep_their_input(read: Read) -> None:
    calls = [{"id": "c1", "type": "custom", "custom": {"name": "code", "input": "1+1"}}]
    run = run_of(read({"messages": [USER, CALL | {"tool_calls": calls}, RESULT, ANSWER]}))
    assert run.trajectory.steps[1].tool_calls is not None
    call = run.trajectory.steps[1].tool_calls[0]
    assert (call.function_name, call.arguments) == ("code", {"input": "1+1"})


def test_several_named_assistants_get_a_chain_each(read: Read) -> None:
    messages = [
        USER,
        {"role": "assistant", "name": "reader", "content": "nine"},
        {"role": "assistant", "name": "checker", "content": "seven"},
        {"role": "user", "name": "host", "content": "go on"},
        {"role": "assistant", "name": "reader", "content": "agreed"},
    ]
    run = run_of(read({"messages": messages, "harness": "team"}))
    assert [(turn.actor, turn.text) for turn in interleave(run)] == [
        ("main", "How many stops?"),
        ("reader", "nine"),
        ("checker", "seven"),
        ("main", "go on"),
        ("reader", "agreed"),
    ]
    assert [chain.trajectory_id for chain in run.trajectory.walk()] == [None, "reader", "checker"]
    assert run.system.harness == "team"
    assert (run.trajectory.steps[1].extra or {})["name"] == "host"


def test_one_named_assistant_gives_the_chain_its_name(read: Read) -> None:
    run = run_of(read({"messages": [USER, ANSWER | {"name": "solver"}]}))
    assert run.trajectory.agent.name == "solver"
    assert [turn.actor for turn in interleave(run)] == ["solver", "solver"]


def test_the_task_may_be_named_beside_the_messages(read: Read) -> None:
    task = {"task_id": "t7", "question": "Q?", "family": "metro", "house": "Rubra", "group": "g"}
    for beside in (
        {"task": task},
        {"metadata": task},
        {"task": "Q?", "metadata": task | {"question": "X"}},
    ):
        run = run_of(read({"messages": [USER, ANSWER], **beside}))
        assert run.task.question == "Q?"
        assert (run.task.task_id, run.task.family, run.task.house) == ("t7", "metro", "Rubra")
        assert run.task.group_key == "g"
    assert run_of(read({"messages": [USER, ANSWER]})).task.task_id == "chat-1"


def test_references_and_scores_are_sealed_wherever_they_stand(read: Read) -> None:
    found = read(
        {
            "messages": [USER, ANSWER | {"score": 0.1, "weight": 1}],
            "ground_truth": "SECRET-1",
            "reward": 0.25,
            "seed": 4,
            "metadata": {"answer": "SECRET-2", "level": "2"},
            "task": {"info": {"solution": "SECRET-3"}},
        }
    )
    run = run_of(found)
    assert found.outcome is not None
    assert found.outcome.reference == "SECRET-1"
    assert found.outcome.labels == {
        "reward": 0.25,
        "answer": "SECRET-2",
        "info.solution": "SECRET-3",
        "messages.1.score": 0.1,
    }
    assert found.outcome.verdict == "unknown"
    assert b"SECRET" not in run.canonical()
    assert (run.trajectory.extra or {})["native"] == {
        "seed": 4,
        "metadata": {"level": "2"},
        "task": {"info": {}},
    }
    assert (run.trajectory.steps[1].extra or {})["native"] == {"weight": 1}
    assert found.loss.fields["seed"].extra == 1
    assert found.loss.fields["messages[].weight"].extra == 1
    assert found.loss.fields["messages[].score"].mapped == 1


def test_an_outcome_may_be_given_outright(read: Read) -> None:
    outcome = {"verdict": "wrong", "source": "verifier", "reference": "5"}
    found = read({"messages": [USER, ANSWER], "outcome": outcome, "reward": 0})
    assert found.outcome is not None
    assert (found.outcome.verdict, found.outcome.source) == ("wrong", "verifier")
    assert found.outcome.labels == {"reward": 0}
    assert found.outcome.run_id == run_of(found).run_id


def test_a_nul_or_lone_surrogate_loses_nothing(tmp_path: Path, album: Any) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_text(
        '{"messages": [{"role": "user", "content": "Acme moved\\u0000"},'
        ' {"role": "assistant", "content": "hello \\ud83d"}]}\n'
    )
    (found,) = OpenAIChatImporter().read(path, admit=album.admit)
    assert isinstance(found, Imported)
    run = run_of(found)
    assert [turn.text for turn in interleave(run)] == ["Acme moved\\u0000", "hello \\ud83d"]
    assert run.replaced == 2
    assert found.loss.note_counts() == {"characters_replaced": 1}


def test_a_re_import_has_the_same_content(tmp_path: Path, album: Any) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_text(json.dumps({"messages": [USER, CALL, RESULT, ANSWER]}))
    runs = [
        run_of(item)
        for _ in range(2)
        for item in OpenAIChatImporter().read(path, admit=album.admit)
        if isinstance(item, Imported)
    ]
    assert runs[0].content_hash == runs[1].content_hash
    assert runs[0].run_id != runs[1].run_id


@pytest.mark.parametrize(
    "conversation",
    [
        {"messages": [USER | {"tool_calls": CALL["tool_calls"]}]},
        {"messages": [USER, ANSWER], "outcome": {"verdict": "maybe"}},
        {"messages": [USER, ANSWER], "outcome": {"grade": 1}},
        {"messages": [USER, ANSWER], "usage": {"prompt_tokens": "many"}},
        {"messages": [{"role": "user", "content": [5]}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        {"messages": [USER, ANSWER], "tools": "all"},
    ],
)
def test_a_conversation_of_another_shape_is_refused(
    tmp_path: Path, album: Any, conversation: dict[str, Any]
) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(conversation))
    (found,) = OpenAIChatImporter().read(path, admit=album.admit)
    assert isinstance(found, Refused)
    assert (found.line, found.code) == (0, "invalid_field")
