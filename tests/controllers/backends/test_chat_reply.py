from __future__ import annotations

import json

import pytest

from controllers.backends.base import Failure
from controllers.backends.chat_reply import is_too_long, read


def body(message=None, *, finish="stop", **fields):
    said = {"role": "assistant", "content": "text"} if message is None else message
    choice = {"index": 0, "message": said, "finish_reason": finish}
    return json.dumps({"choices": [choice], "model": "m"} | fields).encode()


def counts(data):
    found = read(data).completion
    return found.tokens_in, found.tokens_out, found.cached


def test_a_good_reply_is_read_whole():
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    reply = read(body(usage=usage))
    assert (reply.completion.text, reply.completion.error, reply.model) == ("text", "", "m")
    assert counts(body(usage=usage)) == (9, 3, 4)
    assert not reply.completion.truncated


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, (0, 0, 0)),
        ([], (0, 0, 0)),
        ({"prompt_tokens": -1, "completion_tokens": 3}, (0, 3, 0)),
        ({"prompt_tokens": "9", "completion_tokens": 2.5}, (0, 0, 0)),
        ({"prompt_tokens": True, "completion_tokens": None}, (0, 0, 0)),
        ({"prompt_tokens": 2**62, "completion_tokens": 1}, (0, 1, 0)),
        ({"prompt_tokens": 5, "prompt_tokens_details": None}, (5, 0, 0)),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9}}, (5, 0, 5)),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": -9}}, (5, 0, 0)),
    ],
)
def test_numbers_that_make_no_sense_count_as_none(usage, expected):
    assert counts(body(usage=usage)) == expected


@pytest.mark.parametrize(
    ("message", "text", "error"),
    [
        ({"content": None}, "", Failure.EMPTY),
        ({"content": ""}, "", Failure.EMPTY),
        ({}, "", Failure.EMPTY),
        ({"content": 7}, "", Failure.EMPTY),
        ({"content": " "}, " ", ""),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab", ""),
        ({"content": [{"type": "image"}, 3, {"text": 4}]}, "", Failure.EMPTY),
        ({"content": None, "tool_calls": [{}, {}]}, "", Failure.TOOL_CALL),
        ({"content": None, "function_call": {"name": "x"}}, "", Failure.TOOL_CALL),
        ({"content": "text", "tool_calls": [{}]}, "text", ""),
        ({"content": None, "refusal": "no"}, "", Failure.REFUSED),
    ],
)
def test_what_a_message_holds_is_its_text_or_a_failure(message, text, error):
    completion = read(body(message)).completion
    assert (completion.text, completion.error) == (text, error)


def test_the_end_of_a_reply_is_told():
    assert read(body(finish="length")).completion.truncated
    filtered = read(body(finish="content_filter")).completion
    assert (filtered.text, filtered.error) == ("", Failure.FILTERED)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no json",
        b"[]",
        b"null",
        b"{}",
        b'{"choices": null}',
        b'{"choices": []}',
        b'{"choices": [null]}',
        b'{"choices": [{"message": "text"}]}',
        b'{"choices": {"0": 1}}',
        body() * 2,
        body()[:-1],
        b"\xef\xbb\xbf" + body(),
        body().decode().encode("utf-16"),
        body().replace(b"text", b"\xe9"),
        body().replace(b'"m"', b"NaN"),
        b"[" * 100_000,
    ],
)
def test_what_is_no_chat_completion_is_said_to_be_none(data):
    assert read(data).completion.error == Failure.NOT_CHAT


def test_a_model_that_is_no_name_is_none():
    assert read(body(model=None)).model == ""
    assert read(body(model=["m"])).model == ""


def test_a_complaint_about_length_is_told_from_others():
    assert is_too_long(b'{"error": {"code": "context_length_exceeded"}}')
    assert is_too_long(b"This model's maximum Context Length is 8 tokens")
    assert not is_too_long(b'{"error": {"message": "unknown field"}}')
