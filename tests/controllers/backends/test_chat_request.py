from __future__ import annotations

import base64

from controllers.backends.chat_request import NEWER, Dialect, request, response_format
from controllers.prompts.message import Message, Prompt, Text
from tests.controllers.backends.chat_prompts import SCHEMA, image, prompt


def test_texts_go_as_plain_text():
    body = request("m", prompt("a {b} 100 %", "c"), Dialect(schema=False))
    assert body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "You place lessons."},
            {"role": "user", "content": "a {b} 100 %\nc"},
        ],
        "max_tokens": 32,
        "temperature": 0.0,
    }


def test_images_go_as_png_files_at_their_places():
    content = request("m", prompt("a", image(b"png"), "b"), Dialect(schema=False))["messages"][1]
    texts = [part.get("text") for part in content["content"]]
    assert texts == ["a\n", None, "\nb"]
    url = content["content"][1]["image_url"]["url"]
    head, data = url.split(",")
    assert (head, base64.b64decode(data)) == ("data:image/png;base64", b"png")


def test_a_reply_that_is_quoted_back_keeps_its_role():
    messages = (Message("user", (Text("q"),)), Message("assistant", (Text("{"),)))
    body = request("m", Prompt("gate", messages, SCHEMA, 8), Dialect(schema=True))
    assert body["messages"][1] == {"role": "assistant", "content": "{"}


def test_the_schema_goes_along_where_it_is_honoured():
    body = request("m", prompt(), Dialect(schema=True))
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "place", "schema": SCHEMA, "strict": True},
    }
    assert "response_format" not in request("m", prompt(), Dialect(schema=False))


def test_lengths_of_strings_do_not_go_along():
    schema = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 9}}}
    sent = request("m", prompt(schema=schema), Dialect(schema=True))["response_format"]
    assert sent["json_schema"]["schema"]["properties"] == {"a": {"type": "string"}}


def test_a_prompt_without_a_schema_asks_for_free_text():
    assert "response_format" not in request("m", prompt(schema={}), Dialect(schema=True))


def test_newer_models_get_the_fields_that_they_take():
    body = request("m", prompt(), NEWER)
    assert body["max_completion_tokens"] == 32
    assert not {"max_tokens", "temperature"} & set(body)


def test_a_name_that_servers_refuse_is_made_safe():
    assert response_format("split lift/ä", {})["json_schema"]["name"] == "split_lift__"
