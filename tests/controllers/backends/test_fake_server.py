from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from controllers.backends.fake_faults import FAULTS, fault
from controllers.backends.fake_replies import PLAIN_TEXT, smallest
from controllers.backends.fake_server import FakeServer, listed, main
from controllers.prompts import OPERATIONS
from tests.controllers.prompts import samples

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def post(url, body):
    request = urllib.request.Request(
        f"{url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with OPENER.open(request, timeout=20) as reply:
        return json.load(reply)


def said(url, body):
    return post(url, body)["choices"][0]["message"]["content"]


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_smallest_reply_has_what_the_schema_of_each_operation_requires(name):
    prompt = OPERATIONS[name].render(getattr(samples, name)())
    assert set(smallest(prompt.schema)) >= set(prompt.schema["required"])


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"const": 4}, 4),
        ({"enum": ["b", "a"]}, "b"),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, None),
        ({"type": ["integer", "null"], "minimum": 3}, 3),
        ({"type": "number", "maximum": -2}, -2),
        ({"type": "integer", "exclusiveMinimum": 4}, 5),
        ({"type": "string", "minLength": 2}, "xx"),
        ({"type": "boolean"}, False),
        ({"type": "array", "minItems": 2, "items": {"type": "integer"}}, [0, 0]),
        ({"type": "array", "prefixItems": [{"const": 1}], "items": False}, [1]),
        (
            {"type": "object", "properties": {"a": {"const": 1}, "b": {}}, "required": ["a"]},
            {"a": 1},
        ),
        ({}, None),
    ],
)
def test_the_smallest_value_of_a_schema(schema, value):
    assert smallest(schema) == value


def test_the_rule_says_what_is_good():
    with FakeServer(lambda body: body["messages"][0]["content"][::-1]) as server:
        assert said(server.url, {"messages": [{"role": "user", "content": "abc"}]}) == "cba"
        assert server.bodies[0]["messages"][0]["content"] == "abc"


def test_schemas_may_be_ignored_or_refused():
    wanted = {"type": "json_schema", "json_schema": {"schema": {"const": 7}}}
    body = {"messages": [], "response_format": wanted}
    with FakeServer() as server:
        assert said(server.url, body) == "7"
        server.schemas = "ignored"
        assert said(server.url, body) == PLAIN_TEXT
        server.schemas = "refused"
        with pytest.raises(urllib.error.HTTPError, match="400"):
            said(server.url, body)


def test_faults_are_listed_one_per_request():
    once, ever = listed(["reset", "half"]), listed(["reset", "half"], repeat=True)
    assert [once(0, {}) for _ in range(4)] == ["reset", "half", "good", "good"]
    assert [ever(0, {}) for _ in range(4)] == ["reset", "half", "reset", "half"]


def test_an_unknown_fault_names_those_there_are():
    with pytest.raises(ValueError, match="silence") as caught:
        fault("sielnce")
    assert all(name in str(caught.value) for name in FAULTS)


def test_a_reset_is_one_and_not_an_end():
    with FakeServer(plan=lambda _, __: "reset") as server:
        with socket.create_connection(server._http.server_address, timeout=20) as client:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
            with pytest.raises(ConnectionResetError):
                client.recv(1)


def test_it_listens_on_this_machine_only():
    with FakeServer() as server:
        assert server._http.server_address[0] == "127.0.0.1"


def test_a_server_that_is_closed_cuts_what_it_was_saying():
    with FakeServer(plan=lambda _, __: "silence") as server:
        url = server.url
        request = subprocess.Popen(
            [sys.executable, "-c", CALL, url], stdout=subprocess.PIPE, text=True
        )
        while not server.requests:
            assert request.poll() is None
    assert request.communicate(timeout=20)[0] == "cut\n"


CALL = """
import sys, urllib.request
url = sys.argv[1] + "/chat/completions"
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try:
    opener.open(urllib.request.Request(url, b"{}"), timeout=60)
except OSError:
    print("cut")
"""


def test_as_a_program_it_takes_a_list_of_faults():
    command = [sys.executable, "-m", "controllers.backends.fake_server", "--port", "0"]
    with subprocess.Popen(
        [*command, "--faults", "status:503,good", "--reply", "hello"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path.cwd())},
    ) as process:
        url = process.stdout.readline().split(";")[0].split()[-1]
        with pytest.raises(urllib.error.HTTPError, match="503"):
            post(url, {"messages": []})
        assert said(url, {"messages": []}) == "hello"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_as_a_program_it_refuses_an_unknown_fault(capsys):
    with pytest.raises(SystemExit):
        main(["--faults", "good,sielnce"])
    assert "no fault named 'sielnce'" in capsys.readouterr().err
