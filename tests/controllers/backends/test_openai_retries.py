"""Faults that pass, and servers that are gone."""

from __future__ import annotations

import asyncio
import json
import random

import pytest

from controllers.backends.base import Failure
from controllers.backends.fake_replies import text_of
from controllers.backends.fake_server import FakeServer, after_probe, listed
from controllers.backends.openai import OpenAIBackend
from controllers.backends.pacing import backoff
from epimem.errors import ControllerError
from tests.controllers.backends.chat_prompts import (
    backend,
    chat_server,
    last_text,
    prompt,
    texts,
)


@pytest.mark.parametrize("fault", ["status:500", "status:429", "status:529", "reset", "half"])
def test_a_fault_that_passes_costs_a_retry_and_no_prompt(fault):
    with FakeServer(last_text, plan=listed([fault, fault])) as server:
        model = backend(server)
        asked = [str(number) for number in range(30)]
        assert texts(model.complete([prompt(text) for text in asked])) == asked
        assert model.retries == 2


def test_a_call_is_tried_three_times():
    with FakeServer(plan=listed(["status:500"] * 3)) as server:
        model = backend(server)
        found = model.complete([prompt()] * 40)
        assert [completion.error for completion in found].count(Failure.SERVER) == 1
        assert found[0].error == Failure.SERVER
        assert server.requests == 1 + 40 + 2


def test_all_calls_together_use_a_tenth_of_their_number():
    with FakeServer(plan=after_probe("status:500")) as server:
        model = backend(server)
        with pytest.raises(ControllerError, match="no call of the batch"):
            model.complete([prompt()] * 50)
        assert server.requests == 1 + 55
        for _ in range(20):
            model.complete([prompt()])
        assert server.requests <= (1 + 50 + 20) * 1.1 + 1


def test_the_waits_grow_and_depend_on_the_source_of_jitter():
    with FakeServer(plan=listed(["status:500"] * 2)) as server:
        shared = chat_server(server, first_wait_s=0.5)
        shared._jitter = lambda: 0.25
        waits = []
        shared._sleep = record(waits)
        shared.budget.expect(100)
        assert not OpenAIBackend(shared, "tiny").complete([prompt()])[0].error
    expected = [backoff(attempt, lambda: 0.25, 0.5) for attempt in (0, 1)]
    assert [wait for wait in waits if wait] == expected


@pytest.mark.parametrize("value", ["7", "0007.0"])
def test_retry_after_is_waited_for_by_all_calls(value):
    with FakeServer(plan=listed([f"retry-after:{value}"])) as server:
        shared = chat_server(server, deadline_s=60)
        waits = []
        shared._sleep = record(waits)
        model = OpenAIBackend(shared, "tiny")
        found = model.complete([prompt()] * 3)
        assert not any(completion.error for completion in found)
    # The probe does not wait. The first call waits for its retry; the hold, which no time passes
    # for here, is waited for again by every later attempt.
    longest = [wait for wait in waits if wait > 6]
    assert longest[0] == 7.0
    assert len(longest) == 1 + 3


@pytest.mark.parametrize("value", ["86400", "1e300", "999999999999999999999"])
def test_a_wait_beyond_the_deadline_is_not_begun_and_soon_forgotten(value):
    with FakeServer(plan=listed([f"retry-after:{value}"])) as server:
        shared = chat_server(server)
        model = OpenAIBackend(shared, "tiny")
        for _ in range(2):
            (found,) = model.complete([prompt()])
            assert (found.error, server.requests) == (Failure.RATE_LIMITED, 2)
        shared._forget = 0.0  # as one deadline later
        assert not model.complete([prompt()])[0].error


def test_random_faults_lose_their_own_prompts_only():
    faults = ["good", "status:500", "reset", "half", "content", "raw:x", "status:429", "parts"]
    drawn = random.Random(11)
    plan = listed([drawn.choice(faults) for _ in range(400)], repeat=True)
    with FakeServer(last_text, plan=plan) as server:
        model = backend(server)
        for start in range(0, 320, 40):
            asked = [f"prompt {number}" for number in range(start, start + 40)]
            found = model.complete([prompt(text) for text in asked])
            for text, completion in zip(asked, found, strict=True):
                assert completion.error in set(Failure) or json.loads(completion.text) == text
        assert server.requests <= (320 + 1) * 1.1


def record(waits):
    """Return a sleep that notes how long it should have been, and gives way for a moment."""

    async def sleep(seconds):
        waits.append(seconds)
        await asyncio.sleep(0)

    return sleep


@pytest.mark.parametrize(
    ("status", "word"), [(401, "key"), (402, "payment"), (403, "forbids"), (404, "model")]
)
def test_what_no_call_can_mend_ends_the_batch(status, word):
    plan = listed([*["good"] * 5, f"status:{status}"], repeat=True)
    with FakeServer(plan=plan) as server:
        model = backend(server, concurrency=2)
        with pytest.raises(ControllerError, match=word) as caught:
            model.complete([prompt()] * 200)
        assert caught.value.hint
        assert server.requests < 100
        server.plan = lambda _, __: "good"
        assert not model.complete([prompt()])[0].error


@pytest.mark.timeout(30)
def test_what_no_call_can_mend_does_not_wait_for_the_others():
    def plan(_, body):
        return "status:401" if "last" in text_of(body) else "silence"

    with FakeServer() as server:
        model = backend(server, deadline_s=120)
        model.complete([prompt()])
        server.plan = plan
        with pytest.raises(ControllerError, match="key"):
            model.complete([prompt(), prompt("last")])


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}/v1", "https://{host}/v1"])
def test_a_server_out_of_reach_is_told_so(url):
    with FakeServer() as server:
        address = url.format(host=server.url.split("/")[2], port=1)
        shared = chat_server(server)
        shared._url = address
        with pytest.raises(ControllerError, match="cannot be reached"):
            OpenAIBackend(shared, "tiny").complete([prompt()])
        assert server.requests == 0


def test_a_name_that_stands_for_no_machine_is_out_of_reach(monkeypatch):
    def unknown(*_args, **_kwargs):
        raise OSError(-2, "Name or service not known")

    with FakeServer() as server:
        shared = chat_server(server)
    shared._url = "http://models.invalid/v1"
    monkeypatch.setattr("socket.getaddrinfo", unknown)
    with pytest.raises(ControllerError, match="cannot be reached"):
        OpenAIBackend(shared, "tiny").complete([prompt()])


def test_a_server_that_goes_away_is_told_after_the_probe_too():
    server = FakeServer()
    model = backend(server)
    model.complete([prompt()])
    server.close()
    with pytest.raises(ControllerError, match="cannot be reached"):
        model.complete([prompt()] * 3)


def test_a_single_call_that_a_fault_meets_is_lost_alone():
    with FakeServer(plan=after_probe("status:500")) as server:
        (found,) = backend(server).complete([prompt()])
    assert found.error == Failure.SERVER


def test_a_batch_that_a_silent_server_meets_fails_as_a_whole():
    with FakeServer(plan=after_probe("silence")) as server:
        with pytest.raises(ControllerError, match="deadline"):
            backend(server, deadline_s=0.2).complete([prompt()] * 3)


def test_faults_of_the_prompts_do_not_end_a_batch():
    with FakeServer(plan=after_probe("content")) as server:
        found = backend(server).complete([prompt()] * 3)
    assert [completion.error for completion in found] == [Failure.EMPTY] * 3
