from __future__ import annotations

import json
import threading
import time

import pytest

from controllers.backends.base import Completion, Failure
from controllers.backends.scripted import Line, Replay, ScriptedBackend, from_file, read_line
from epimem.errors import ConfigError, ControllerError
from tests.controllers.backends.chat_prompts import image, prompt


def replay(*lines):
    return ScriptedBackend(Replay([read_line(json.dumps(line), 1) for line in lines]))


def said(backend, *prompts):
    return [completion.text or completion.error for completion in backend.complete(prompts)]


def test_a_function_answers_prompt_by_prompt():
    backend = ScriptedBackend(lambda it: it.messages[-1].text.upper(), name="rule")
    assert said(backend, prompt("a"), prompt("b")) == ["A", "B"]
    assert (backend.name, backend.concurrency) == ("rule", 1)


def test_a_function_may_return_a_completion_or_raise():
    whole = Completion(error=Failure.MEMORY)
    assert ScriptedBackend(lambda _: whole).complete([prompt()]) == [whole]

    def gone(_):
        raise ControllerError("gone")

    with pytest.raises(ControllerError, match="gone"):
        ScriptedBackend(gone).complete([prompt()])


def test_lines_answer_their_operation_and_are_used_up_in_order():
    backend = replay(
        {"operation": "gate", "reply": "1"},
        {"operation": "place", "reply": "2"},
        {"operation": "gate", "reply": "3"},
        {"reply": "4"},
    )
    gate, place = prompt(operation="gate"), prompt(operation="place")
    assert said(backend, place, gate, gate, place, gate) == ["2", "1", "3", "4", Failure.NO_REPLY]


def test_a_line_may_wait_for_a_text_in_the_prompt():
    backend = replay({"when": "Kite", "reply": "kite"}, {"reply": "other"})
    found = said(backend, prompt("x"), prompt("a Kite", image(None)), prompt("a Kite"))
    assert found == ["other", "kite", Failure.NO_REPLY]


def test_a_text_of_the_system_counts_too():
    backend = replay({"when": "You place", "reply": "yes"})
    assert said(backend, prompt()) == ["yes"]


@pytest.mark.parametrize(("times", "served"), [(0, 0), (2, 2), (None, 5)])
def test_a_line_may_serve_more_than_once(times, served):
    backend = replay({"reply": "again", "times": times})
    assert said(backend, *[prompt()] * 5).count("again") == served


def test_a_reply_is_text_as_it_stands_or_data_as_json():
    broken = '```json\n{"a": '
    backend = replay({"reply": broken}, {"reply": {"ä": [1, None]}})
    assert said(backend, prompt(), prompt()) == [broken, '{"ä": [1, null]}']


def test_tokens_are_those_of_the_line():
    (found,) = replay({"reply": "x", "tokens_in": 7, "tokens_out": 3}).complete([prompt()])
    assert (found.tokens_in, found.tokens_out) == (7, 3)


class Slow(Line):
    def answers(self, prompt, text):
        found = super().answers(prompt, text)
        time.sleep(0.001)  # so that threads meet between finding a line and using it up
        return found


def test_several_threads_never_get_the_same_line():
    backend = ScriptedBackend(Replay([Slow(Completion(str(number))) for number in range(40)]))
    found = []

    def take():
        for _ in range(10):
            found.extend(said(backend, prompt()))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, found)) == list(range(40))


def test_a_file_is_read_line_by_line(tmp_path):
    path = tmp_path / "replies.jsonl"
    path.write_text('{"reply": "one\u2028two"}\n\n  \n{"reply": "three"}', encoding="utf-8")
    backend = from_file(path)
    assert backend.name == "scripted/replies"
    assert said(backend, prompt(), prompt()) == ["one\u2028two", "three"]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("{", "not JSON"),
        ("[]", "object"),
        ('{"operation": "gate"}', "reply"),
        ('{"reply": "x", "colour": "gate"}', "colour"),
        ('{"reply": "x", "operation": 3}', "operation"),
        ('{"reply": "x", "when": null}', "when"),
        ('{"reply": "x", "times": -1}', "times"),
        ('{"reply": "x", "times": true}', "times"),
        ('{"reply": "x", "tokens_in": "7"}', "tokens_in"),
        ('{"reply": "x", "reply": "y"}', "duplicate"),
    ],
)
def test_a_line_that_is_none_is_named(line, word, tmp_path):
    path = tmp_path / "replies.jsonl"
    path.write_text(f'{{"reply": "x"}}\n{line}\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"line 2 of the script: .*{word}") as caught:
        from_file(path)
    assert "for example" in str(caught.value)


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_named_without_its_folder(content, tmp_path):
    path = tmp_path / "replies.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"replies\.jsonl") as caught:
        from_file(path)
    assert str(tmp_path) not in str(caught.value)
