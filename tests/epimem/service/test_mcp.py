"""MCP in raw frames: broken ones get errors and have no effect; tools are pinned; stdout is clean."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import threading

import httpx2
import pytest

from epimem.config import Config, EncoderConfig
from epimem.memory import ExperienceMemory
from epimem.service.mcp import TEXT_CHARS
from tests.cli_program import QUESTION, lesson
from tests.service_process import command, environment

HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


class Session:
    """One server on standard input and output."""

    def __init__(self, bank, *options):
        self.process = subprocess.Popen(
            command("mcp", str(bank), *options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        )
        self.lines = []
        self.number = 0
        self._came = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            with self._came:
                self.lines.append(line)
                self._came.notify_all()

    def send(self, data):
        self.process.stdin.write(
            data if isinstance(data, bytes) else json.dumps(data).encode() + b"\n"
        )
        self.process.stdin.flush()

    def ask(self, method, params=None, **more):
        self.number += 1
        key = f"k{self.number}"
        self.send({"jsonrpc": "2.0", "id": key, "method": method, "params": params or {}, **more})
        return self.answer(key)

    def answer(self, key):
        def mine():
            return next((v for v in map(json.loads, self.lines) if v.get("id") == key), None)

        with self._came:
            assert self._came.wait_for(lambda: mine() is not None, 30), (key, self.lines[-3:])
            return mine()

    def start(self):
        assert self.ask("initialize", HELLO)["result"]["serverInfo"]["name"] == "epimem"
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def call(self, tool, **arguments):
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()
        self.process.stderr.close()


@pytest.fixture
def open_session():
    made = []

    def make(bank, *options):
        made.append(Session(bank, *options).start())
        return made[-1]

    yield make
    for session in made:
        session.close()


@pytest.fixture(scope="module")
def bank(make_bank):
    return make_bank()


def test_the_tools_are_pinned(bank, open_session):
    session = open_session(bank)
    tools = session.ask("tools/list")["result"]["tools"]
    by_name = {tool["name"]: tool for tool in tools}
    assert set(by_name) == {"epimem_retrieve", "epimem_contribute", "epimem_feedback"}
    assert by_name["epimem_retrieve"]["annotations"]["readOnlyHint"] is True
    for name in ("epimem_contribute", "epimem_feedback"):
        assert by_name[name]["annotations"]["readOnlyHint"] is False
    words = json.dumps(
        [[t["name"], t["description"], t["annotations"]] for t in tools], sort_keys=True
    )
    # Text that a client's model reads: a change is meant, or somebody else's.
    assert hashlib.sha256(words.encode()).hexdigest()[:16] == "9bdfda53407c1015"


def test_a_retrieval_is_one_block_of_text_then_pictures_and_nothing_structured(
    tmp_path, open_session
):
    path = tmp_path / "bank"
    with ExperienceMemory.create(path, Config(encoder=EncoderConfig(model="none"))) as memory:
        for number in range(4):
            memory.contribute(lesson(number, guidance=f"{number} " + "long words " * 1200))
    session = open_session(path)
    budget = {"chars": 64000, "max_rules": 3, "max_lessons": 1}
    result = session.call("epimem_retrieve", question=QUESTION, budget=budget)["result"]
    assert "structuredContent" not in result
    assert [part["type"] for part in result["content"]] == ["text"]
    text = result["content"][0]["text"]
    assert 4000 < len(text) <= TEXT_CHARS
    record = json.loads(result["_meta"]["epimem/1"])
    assert text.splitlines()[0] == f"retrieval_id: {record['retrieval_id']}"


def test_pictures_come_after_the_text_and_are_resources_as_well(bank, open_session):
    session = open_session(bank)
    result = session.call("epimem_retrieve", question=QUESTION)["result"]
    assert [part["type"] for part in result["content"]] == ["text", "image"]
    record = json.loads(result["_meta"]["epimem/1"])
    uri = f"epimem://blob/{record['crops'][0]['blob']}"
    found = session.ask("resources/read", {"uri": uri})["result"]["contents"][0]
    assert found["mimeType"] == "image/png"
    assert base64.b64decode(found["blob"]) == base64.b64decode(result["content"][1]["data"])
    item = session.ask("resources/read", {"uri": f"epimem://item/{record['items'][0]['node_id']}"})
    assert json.loads(item["result"]["contents"][0]["text"])["kind"] == "lesson"


def test_who_may_do_what_is_said_where_the_server_is_started(bank, open_session):
    reader = open_session(bank, "--read-only")
    refused = reader.call("epimem_contribute", item={"guidance": "g"})["result"]
    assert refused["isError"]
    assert "forbidden_action" in refused["content"][0]["text"]
    other = open_session(bank, "--namespace", "elsewhere", "--contributor", "me")
    hidden = other.call("epimem_retrieve", question=QUESTION, namespace="default")["result"]
    assert "not_found" in hidden["content"][0]["text"]
    stored = other.call("epimem_contribute", item={"guidance": "Mine: look twice."})["result"]
    with ExperienceMemory.open(bank, read_only=True) as memory:
        node = memory.bank.node(stored["structuredContent"]["id"])
    assert (node.namespace, node.lesson.contributor) == ("elsewhere", "me")


FRAMES = {
    "an empty line": b"\n",
    "a line of ten MiB": b"x" * 10 * 1024 * 1024 + b"\n",
    "not UTF-8": b"\xff\xfe{}\n",
    "two frames in one line": b'{"jsonrpc":"2.0","method":"ping"}{"jsonrpc":"2.0"}\n',
    "a number": b"7\n",
    "an empty batch": b"[]\n",
    "a batch": b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]\n',
    "no version": b'{"id":1,"method":"ping"}\n',
    "another version": b'{"jsonrpc":"1.0","id":1,"method":"ping"}\n',
    "no method": b'{"jsonrpc":"2.0","id":1}\n',
    "params of text": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}\n',
    "deep params": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b"[" * 10**5 + b"\n",
    "a long id": b'{"jsonrpc":"2.0","id":"' + b"a" * 2**20 + b'","method":"nothing"}\n',
    "an unknown notification": b'{"jsonrpc":"2.0","method":"notifications/cancelled",'
    b'"params":{"requestId":"none"}}\n',
    "a lone surrogate": b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":'
    b'"epimem_retrieve","arguments":{"question":"\\ud800"}}}\n',
    "NaN": b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"epimem_retrieve",'
    b'"arguments":{"question":"q","k":NaN}}}\n',
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_broken_frame_leaves_the_server_alive_and_the_bank_as_it_was(bank, open_session, name):
    session = open_session(bank)
    with ExperienceMemory.open(bank, read_only=True) as memory:
        before = memory.bank.head_seq
    session.send(FRAMES[name])
    assert session.ask("ping")["result"] == {}
    assert all(isinstance(json.loads(line), dict) for line in session.lines)
    with ExperienceMemory.open(bank, read_only=True) as memory:
        assert memory.bank.head_seq == before


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("nothing/here", {}),
        ("tools/list ", {}),
        ("tools/call", {"name": "epimem_retrieve\u0435", "arguments": {}}),
        ("tools/call", {"name": "nothing", "arguments": {}}),
        ("tools/call", {"arguments": {}}),
        ("resources/read", {"uri": "epimem://item/../../bank.db"}),
        ("resources/read", {"uri": "epimem://blob/" + "0" * 64}),
        ("resources/read", {"uri": "file:///etc/passwd"}),
        ("resources/read", {"uri": "http://127.0.0.1/"}),
        ("prompts/get", {"name": "x"}),
        ("completion/complete", {"ref": {}, "argument": {}}),
        ("logging/setLevel", {"level": "loudest"}),
        ("resources/subscribe", {"uri": "epimem://item/1"}),
    ],
)
def test_what_cannot_be_asked_is_an_error(bank, open_session, method, params):
    session = open_session(bank)
    assert "error" in session.ask(method, params)
    assert session.ask("ping")["result"] == {}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, "invalid_field"),
        ({"question": 7}, "invalid_field"),
        ({"question": "q", "bank": "other"}, "invalid_field"),
        ({"question": "q", "k": 10**9}, "invalid_field"),
        ({"question": "a\u202eb"}, "invalid_text"),
        ({"question": "q", "namespace": "?/default"}, "invalid_field"),
    ],
)
def test_arguments_that_are_none_are_refused_by_name(bank, open_session, arguments, code):
    session = open_session(bank)
    answer = session.call("epimem_retrieve", **arguments)
    told = json.dumps(answer)
    assert code in told or "error" in answer


def test_an_image_named_by_an_address_or_a_path_is_fetched_from_nowhere(bank, open_session):
    session = open_session(bank)
    for name in ("http://127.0.0.1:9/x.png", "file:///etc/passwd", "/etc/passwd"):
        result = session.call("epimem_retrieve", question=QUESTION, images=[name])["result"]
        assert "passwd" not in json.dumps(result)
        region = {"width": 3, "height": 3, "x0": 0, "y0": 0, "x1": 1, "y1": 1}
        item = {"guidance": "g", "evidence": [{"image_id": name, "region": region}]}
        refused = session.call("epimem_contribute", item=item)["result"]
        assert "not_found" in refused["content"][0]["text"]


def test_a_thousand_pings_and_a_frame_in_many_pieces_are_answered(bank, open_session):
    session = open_session(bank)
    for number in range(1000):
        session.send({"jsonrpc": "2.0", "id": f"p{number}", "method": "ping"})
    assert session.answer("p999")["result"] == {}
    for byte in json.dumps({"jsonrpc": "2.0", "id": "slow", "method": "ping"}).encode() + b"\n":
        session.send(bytes([byte]))
    assert session.answer("slow")["result"] == {}


def test_a_client_that_goes_away_ends_the_server(bank):
    session = Session(bank).start()
    session.process.stdin.close()
    assert session.process.wait(30) == 0
    session.process.stdout.close()
    session.process.stderr.close()


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost", "[::1]:9", "evil.example"])
@pytest.mark.parametrize("origin", [None, "http://127.0.0.1:{port}", "http://evil.example", "null"])
def test_hosts_and_origins_over_http(server, host, origin):
    headers = {
        "authorization": f"Bearer {server.tokens['all']}",
        "accept": "application/json, text/event-stream",
        "host": host.format(port=server.port),
    }
    if origin is not None:
        headers["origin"] = origin.format(port=server.port)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    answer = httpx2.post(f"{server.url}/mcp", json=body, headers=headers)
    own = host != "evil.example"
    same = origin is None or headers.get("origin") == f"http://{headers['host']}"
    if own and same:
        assert answer.status_code == 200
        assert len(answer.json()["result"]["tools"]) == 3
    else:
        assert answer.status_code == (421 if not own else 403)
        assert "result" not in answer.text


def test_http_needs_the_token_on_every_request_and_has_no_sessions_to_steal(server):
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accept = {"accept": "application/json, text/event-stream"}
    assert httpx2.post(f"{server.url}/mcp", json=body, headers=accept).status_code == 401
    good = {**accept, "authorization": f"Bearer {server.tokens['all']}"}
    stolen = {**good, "mcp-session-id": "somebody-elses"}
    assert httpx2.post(f"{server.url}/mcp", json=body, headers=stolen).status_code == 200
    assert "mcp-session-id" not in httpx2.post(f"{server.url}/mcp", json=body, headers=good).headers
    for method in ("GET", "DELETE"):
        answer = httpx2.request(method, f"{server.url}/mcp", headers=good)
        assert answer.status_code == 405
