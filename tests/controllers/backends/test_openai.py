from __future__ import annotations

import base64
import json
import random
import re
import threading
from itertools import count

import pytest

from controllers.backends.base import MISSING_IMAGE, Failure
from controllers.backends.bounded_http import _proxy
from controllers.backends.fake_replies import is_probe, text_of
from controllers.backends.fake_server import FakeServer, after_probe
from controllers.backends.openai import OpenAIBackend
from epimem.errors import ControllerError
from tests.controllers.backends.chat_prompts import (
    KEY,
    backend,
    chat_server,
    image,
    last_text,
    prompt,
    texts,
)


def test_replies_come_in_the_order_of_the_prompts():
    waits = random.Random(3)

    def rule(body):
        threading.Event().wait(waits.random() / 50)
        return last_text(body)

    asked = [f"prompt {number}" for number in range(60)]
    with FakeServer(rule) as server:
        # The first of each operation goes ahead of all others.
        operations = ["place"] * 5 + ["gate"] + ["place", "merge"] * 27
        pairs = zip(asked, operations, strict=True)
        found = backend(server).complete([prompt(text, operation=name) for text, name in pairs])
    assert texts(found) == asked
    assert not any(completion.error for completion in found)


def test_nothing_is_asked_for_no_prompts():
    with FakeServer() as server:
        assert backend(server).complete([]) == []
        assert server.requests == 0


def test_sixteen_calls_are_in_flight_together_and_no_more():
    together = threading.Barrier(16, timeout=20)

    def rule(body):
        if "first" not in text_of(body):
            together.wait()
        return "{}"

    with FakeServer(rule) as server:
        model = backend(server)
        found = model.complete([prompt("first"), *[prompt("other")] * 48])
        assert not any(completion.error for completion in found)
        assert (model.concurrency, server.most_in_flight) == (16, 16)


def test_two_callers_share_the_calls_in_flight():
    with FakeServer(latency_s=0.02) as server:
        shared = chat_server(server, concurrency=3)
        models = [OpenAIBackend(shared, "one"), OpenAIBackend(shared, "two")]
        threads = [
            threading.Thread(target=model.complete, args=([prompt()] * 9,)) for model in models
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.most_in_flight == 3


def test_images_are_read_only_when_their_call_begins():
    begun, read = threading.Event(), []

    def rule(_body):
        begun.wait(20)
        return "{}"

    def lazily(number):
        part = image(b"")
        part.picture.__dict__["read"] = lambda _: read.append(number) or b"png"
        return prompt("x", part)

    with FakeServer(rule) as server:
        model = backend(server, concurrency=2)
        server.rule = lambda _: "{}"
        model.complete([prompt()])
        server.rule = rule
        caller = threading.Thread(
            target=model.complete, args=([lazily(number) for number in range(8)],)
        )
        caller.start()
        while len(server.bodies) < 4:
            threading.Event().wait(0.01)
        assert read == [0, 1]
        begun.set()
        caller.join()
    assert read == list(range(8))


def test_an_image_arrives_as_it_was_read_and_one_that_is_gone_as_words():
    with FakeServer() as server:
        backend(server).complete([prompt("page", image(b"\x89PNG 1"), image(None), "end")])
        content = server.bodies[-1]["messages"][1]["content"]
    url = content[1]["image_url"]["url"]
    assert base64.b64decode(url.partition(",")[2]) == b"\x89PNG 1"
    assert content[2]["text"] == f"\n{MISSING_IMAGE}\nend"


def test_usage_is_that_of_the_server():
    usage = {"prompt_tokens": 90, "completion_tokens": 7}
    usage["prompt_tokens_details"] = {"cached_tokens": 64}
    with FakeServer(plan=after_probe(f"usage:{json.dumps(usage)}")) as server:
        (found,) = backend(server).complete([prompt()])
    assert (found.tokens_in, found.tokens_out, found.cached) == (90, 7, 64)
    assert found.seconds > 0


def test_the_identity_holds_neither_host_nor_key():
    with FakeServer() as server:
        assert backend(server).name == "openai/tiny"


class TestClosing:
    def test_a_closed_backend_leaves_no_thread_and_opens_again(self):
        with FakeServer() as server:
            model = backend(server)
            before = threading.active_count()
            for _ in range(2):
                assert not model.complete([prompt()])[0].error
                model.close()
                model.close()
                assert [it.name for it in threading.enumerate() if it.name == "chat server"] == []
            assert threading.active_count() <= before + 2

    def test_closing_ends_calls_in_flight(self):
        with FakeServer(plan=after_probe("silence")) as server:
            model = backend(server)
            caught = []

            def call():
                try:
                    model.complete([prompt()] * 3)
                except ControllerError as error:
                    caught.append(error)

            thread = threading.Thread(target=call)
            thread.start()
            while server.requests < 2:
                threading.Event().wait(0.01)
            model.close()
            thread.join(20)
            assert "closed" in str(caught[0])


class TestHeaders:
    def test_the_key_is_a_bearer_token(self):
        with FakeServer() as server:
            backend(server).complete([prompt()])
            assert {head["authorization"] for head in server.headers} == {f"Bearer {KEY}"}

    def test_without_a_key_nothing_is_sent_for_one(self, monkeypatch):
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_ADMIN_KEY", KEY)
        with FakeServer() as server:
            backend(server, key="").complete([prompt()])
            assert not any("authorization" in head for head in server.headers)
            assert KEY not in json.dumps(server.headers)

    def test_replies_are_asked_for_unpacked(self):
        with FakeServer() as server:
            backend(server).complete([prompt()])
            assert {head["accept-encoding"] for head in server.headers} == {"identity"}

    def test_a_proxy_of_the_environment_is_not_used_for_this_machine(self, monkeypatch):
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
        with FakeServer() as server:
            assert not backend(server).complete([prompt()])[0].error


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://models.example/v1", "http://proxy:1"),
        ("http://models.example/v1", "http://other:2"),
        ("http://localhost:8000/v1", None),
        ("http://127.0.0.9:8000/v1", None),
        ("http://[::1]:8000/v1", None),
        ("http://127.evil.example/v1", "http://other:2"),
    ],
)
def test_the_proxy_of_a_server_is_that_of_its_scheme(url, expected, monkeypatch):
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert _proxy(url, {"https": "http://proxy:1", "all": "http://other:2"}) == expected


def test_requests_hold_the_model_and_nothing_of_this_machine():
    with FakeServer() as server:
        backend(server).complete([prompt()])
        for body in server.bodies:
            assert body["model"] == "tiny"
            assert set(body) <= {
                "model",
                "messages",
                "max_tokens",
                "temperature",
                "response_format",
            }


def test_a_model_that_changes_its_name_is_not_believed():
    numbers = count()

    def plan(_, body):
        return "good" if is_probe(body) or next(numbers) < 2 else "other-model:tiny-2"

    with FakeServer(plan=plan) as server:
        found = backend(server, concurrency=1).complete([prompt()] * 4)
    assert [completion.error for completion in found] == ["", "", *[Failure.OTHER_MODEL] * 2]
    assert not any(re.search(r"tiny-2", repr(completion)) for completion in found)
