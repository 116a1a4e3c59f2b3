"""Finding out what a server takes."""

from __future__ import annotations

import pytest

from controllers.backends.base import Failure
from controllers.backends.fake_replies import is_probe, schema_of, text_of
from controllers.backends.fake_server import FakeServer
from controllers.backends.openai import OpenAIBackend
from epimem.errors import ControllerError
from tests.controllers.backends.chat_prompts import (
    backend,
    chat_server,
    last_text,
    prompt,
    texts,
)


@pytest.mark.parametrize(
    ("schemas", "held"), [("honoured", True), ("ignored", False), ("refused", False)]
)
def test_a_probe_tells_whether_they_are_honoured(schemas, held):
    with FakeServer(schemas=schemas) as server:
        model = backend(server)
        assert model.constrained is None
        (found,) = model.complete([prompt()])
        assert model.constrained is held
        assert not found.error
        sent = server.bodies[-1]
    assert (schema_of(sent) is not None) is held


def test_the_probe_forces_what_its_text_does_not_suggest():
    with FakeServer() as server:
        backend(server).complete([prompt()])
        probe = server.bodies[0]
    assert is_probe(probe)
    assert "violet" not in text_of(probe)


def test_one_probe_serves_all_calls_and_both_roles():
    with FakeServer() as server:
        shared = chat_server(server)
        for _ in range(2):
            for _ in range(2):
                OpenAIBackend(shared, "tiny").complete([prompt()])
        assert sum(map(is_probe, server.bodies)) == 1
        OpenAIBackend(shared, "other").complete([prompt()])
        assert sum(map(is_probe, server.bodies)) == 2


def test_newer_models_are_asked_in_their_own_fields():
    def plan(_, body):
        return "status:400" if "max_tokens" in body or "temperature" in body else "good"

    with FakeServer(plan=plan) as server:
        model = backend(server)
        (found,) = model.complete([prompt()])
        assert model.constrained
        assert not found.error
        assert server.bodies[-1]["max_completion_tokens"] == 32


def test_a_newer_model_may_refuse_schemas():
    def plan(_, body):
        return "status:422" if {"max_tokens", "response_format"} & set(body) else "good"

    with FakeServer(plan=plan) as server:
        model = backend(server)
        (found,) = model.complete([prompt()])
        assert (model.constrained, found.error) == (False, "")


@pytest.mark.parametrize("fault", ["status:500", "reset", "status:429", "raw:x", "redirect"])
def test_without_an_answer_to_the_probe_nothing_is_known_nor_asked(fault):
    with FakeServer(plan=lambda _, __: fault) as server:
        model = backend(server)
        with pytest.raises(ControllerError, match="first small request"):
            model.complete([prompt()])
        assert all(is_probe(body) for body in server.bodies)
        assert model.constrained is None
        server.plan = lambda _, __: "good"
        assert not model.complete([prompt()])[0].error


def test_an_operation_whose_schema_is_refused_is_asked_without():
    def plan(_, body):
        wanted = body.get("response_format", {}).get("json_schema", {})
        return "status:400" if wanted.get("name") == "split_lift" else "good"

    with FakeServer(last_text, plan=plan) as server:
        model = backend(server)
        asked = [prompt("a", operation="split_lift"), prompt("b"), prompt("c")]
        asked += [prompt(str(number), operation="split_lift") for number in range(5)]
        found = model.complete(asked)
        assert texts(found) == ["a", "b", "c", *"01234"]
        assert server.requests == 1 + len(asked) + 1
        held = [schema_of(body) is not None for body in server.bodies if not is_probe(body)]
        assert held.count(False) == 6
        model.complete([prompt("d"), prompt("e", operation="split_lift")])
        assert [schema_of(body) is not None for body in server.bodies[-2:]].count(False) == 1


def test_free_text_does_not_settle_whether_a_schema_is_taken():
    def plan(_, body):
        return "good" if is_probe(body) or "response_format" not in body else "status:400"

    with FakeServer(plan=plan) as server:
        model = backend(server)
        assert not model.complete([prompt(schema={})])[0].error
        assert not model.complete([prompt()])[0].error


def test_a_refusal_that_is_not_about_the_schema_does_not_cost_it():
    def plan(_, body):
        return "status:400" if "poison" in text_of(body) else "good"

    with FakeServer(plan=plan) as server:
        model = backend(server)
        found = model.complete([prompt("poison"), prompt("good")])
        assert [completion.error for completion in found] == [Failure.REQUEST, ""]
        model.complete([prompt("good")])
        assert schema_of(server.bodies[-1]) is not None
