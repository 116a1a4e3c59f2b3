"""The fake model speaks its protocols as a real client of each expects."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest
from openai import OpenAI

from harness_adapters.fake_model import FakeModel, ToolCall

PNG = "data:image/png;base64,iVBORw0KGgo="
PARAMETERS = {"type": "object", "properties": {}}


@pytest.fixture
def model():
    with FakeModel([ToolCall("look", {"at": 1})], answer="six") as running:
        yield running


@pytest.fixture
def client(model):
    with OpenAI(base_url=model.url, api_key="any") as made:
        yield made


@pytest.mark.parametrize("stream", [False, True])
def test_chat_completions(model, client, stream):
    tool = {"type": "function", "function": {"name": "please_look", "parameters": PARAMETERS}}
    content = [
        {"type": "text", "text": "how many?"},
        {"type": "image_url", "image_url": {"url": PNG}},
    ]
    messages = [{"role": "user", "content": content}]

    def ask():
        got = client.chat.completions.create(
            model="m", messages=messages, tools=[tool], stream=stream
        )
        if not stream:
            return got.choices[0].message
        deltas = [chunk.choices[0].delta for chunk in got if chunk.choices]
        return next(delta for delta in deltas if delta.content or delta.tool_calls)

    call = ask().tool_calls[0]
    assert (call.function.name, json.loads(call.function.arguments)) == ("please_look", {"at": 1})
    messages += [
        {"role": "assistant", "tool_calls": [{"id": call.id, "type": "function",
         "function": {"name": "please_look", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": call.id, "content": "a lot"},
    ]  # fmt: skip
    assert ask().content == "six"
    assert model.seen[-1].images == [PNG]
    assert model.seen[-1].texts == ["how many?", "a lot"]


@pytest.mark.parametrize("stream", [False, True])
def test_responses(model, client, stream):
    tools = [{"type": "function", "name": "please_look", "parameters": PARAMETERS, "strict": False}]
    given = [
        {"role": "user", "content": [{"type": "input_text", "text": "how many?"},
                                     {"type": "input_image", "image_url": PNG}]},
    ]  # fmt: skip

    def ask():
        got = client.responses.create(model="m", input=given, tools=tools, stream=stream)
        if stream:
            return next(e.item for e in got if e.type == "response.output_item.done")
        return got.output[0]

    call = ask()
    assert (call.type, call.name, json.loads(call.arguments)) == (
        "function_call",
        "please_look",
        {"at": 1},
    )
    given.append({"type": "function_call_output", "call_id": call.call_id, "output": "a lot"})
    assert ask().content[0].text == "six"
    assert model.seen[-1].images == [PNG]


def post(url, body):
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


def test_messages(model):
    image = {"type": "image", "source": {"media_type": "image/png", "data": "iVBORw0KGgo="}}
    body = {
        "system": "be brief",
        "tools": [{"name": "please_look", "input_schema": PARAMETERS}],
        "messages": [{"role": "user", "content": [image, {"type": "text", "text": "how many?"}]}],
    }
    told = json.loads(post(f"{model.url}/messages", body))
    assert told["content"][0]["input"] == {"at": 1}
    result = {"type": "tool_result", "content": [{"type": "text", "text": "a lot"}, image]}
    body["messages"].append({"role": "user", "content": [result]})
    events = post(f"{model.url}/messages", {**body, "stream": True})
    assert '"text_delta", "text": "six"' in events
    assert events.count("event: ") == 6
    assert model.seen[-1].texts == ["be brief", "how many?", "a lot"]
    assert model.seen[-1].images == [PNG, PNG]


def test_a_path_that_is_none_is_not_found_and_models_are_listed(model, client):
    assert [each.id for each in client.models.list()] == ["fake"]
    with pytest.raises(urllib.error.HTTPError):
        post(f"{model.url}/files", {})
