"""One contract over every transport: the same bytes, the same faults, the same bank."""

from __future__ import annotations

import sys

import pytest

from epimem.config import Config, EncoderConfig
from epimem.errors import (
    AccessError,
    BankBusyError,
    BankConflictError,
    EpimemError,
    NotFoundError,
    RecordError,
)
from epimem.memory import ExperienceMemory
from epimem.schema import strict_json
from epimem.service.messages import RetrieveRequest
from harness_adapters.client import Client
from tests.cli_program import QUESTION, lesson, run_record
from tests.image_files import encoded, picture
from tests.service_process import environment, grant, illustrated, serving

TRANSPORTS = ("local", "http", "mcp_http", "mcp_stdio")
UNSERVED = ("mcp_http", "mcp_stdio")
CALLER = "someone"


@pytest.fixture(scope="module")
def bank(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "bank"
    config = Config(encoder=EncoderConfig(model="none"), gate="always")
    config = config.model_copy(
        update={"caller": config.caller.model_copy(update={"contributor": CALLER})}
    )
    with ExperienceMemory.create(path, config) as memory:
        png = encoded(picture(), "PNG")
        illustrated(memory, png, *(lesson(n) for n in range(3)), namespace="default")
    return path


@pytest.fixture(scope="module")
def server(bank, tmp_path_factory):
    token = grant(bank, "all", "read", "contribute", "maintain", "admin", contributor=CALLER)
    log = tmp_path_factory.mktemp("log") / "server.log"
    with serving(bank, log=log) as running:
        running.tokens["all"] = token
        yield running


@pytest.fixture(scope="module")
def clients(bank, server):
    token = server.tokens["all"]
    made = {
        "local": Client.local(bank),
        "http": Client.http(server.url, token),
        "mcp_http": Client.mcp_http(f"{server.url}/mcp", token),
        "mcp_stdio": Client.mcp_stdio(
            sys.executable, ["-m", "epimem", "mcp", str(bank)], environment()
        ),
    }
    yield made
    for client in made.values():
        client.close()


def everywhere(clients, ask):
    """Return what each transport gives: bytes, or the code of the fault."""
    found = {}
    for name, client in clients.items():
        try:
            found[name] = ask(client)
        except EpimemError as error:
            found[name] = (type(error), error.code, error.field)
    return found


def one(found):
    assert len(set(map(repr, found.values()))) == 1, found
    return next(iter(found.values()))


def test_a_retrieval_is_the_same_bytes_everywhere(clients):
    body = RetrieveRequest(question=QUESTION, run_id="same").canonical()
    answer = one(everywhere(clients, lambda c: c._transport.call("retrieve", body)))
    found = strict_json.loads(answer)
    assert found["items"]
    assert found["crops"]
    assert strict_json.dumps(found) == answer


def test_a_crop_is_the_same_picture_everywhere(clients):
    given = clients["local"].retrieve(QUESTION, run_id="crops")
    png = one(everywhere(clients, lambda c: c.crop_png(given.crops[0])))
    assert png.startswith(b"\x89PNG")


def test_one_contribution_has_one_effect_whoever_carries_it_again(clients):
    before = clients["local"].health().bank_seq
    told = everywhere(clients, lambda c: c.contribute(lesson(40), idempotency_key="k-40"))
    receipt = one(told)
    assert (receipt.status, receipt.seq) == ("stored", before + 1)
    assert clients["local"].health().bank_seq == before + 1


def test_a_run_travels_whole(clients):
    receipt = one(
        everywhere(
            clients,
            lambda c: c.contribute(run_record("run-1", text="né \u2603"), idempotency_key="r-1"),
        )
    )
    assert receipt.status == "queued"


@pytest.mark.parametrize("name", ["local", "http"])
def test_a_run_too_long_for_a_request_is_uploaded_first(clients, name):
    receipt = clients[name].contribute(run_record(f"long-{name}", text="word " * 300_000))
    assert receipt.status == "queued"


def test_what_one_wrote_the_others_read(clients):
    for name, writer in clients.items():
        draft = {
            "guidance": f"Written by {name}: count quuxes twice.",
            "title": f"quux of {name}",
            "index": {"topic": f"quux {name}", "scope": "quux", "question_anchor": "quux"},
        }
        seq = writer.contribute(draft).seq
        for reader in clients.values():
            found = reader.retrieve(f"How do I count the quux of {name}?", at_least=seq)
            assert any(name in item.title for item in found.items)
            assert found.items[0].contributors == (CALLER,)


def test_feedback_counts_once_whoever_carries_it_again(clients):
    given = clients["http"].retrieve(QUESTION, run_id="judged")
    told = everywhere(clients, lambda c: c.feedback(given.retrieval_id, verdict="right").status)
    assert sorted(told.values()) == ["duplicate", "duplicate", "duplicate", "stored"]


def raw(client, body):
    return client._transport.call("retrieve", body)


def again(client):
    return client.contribute(lesson(42), idempotency_key="k-40")


@pytest.mark.parametrize(
    ("ask", "kind", "code"),
    [
        (lambda c: c.retrieve(""), RecordError, "invalid_text"),
        (lambda c: c.retrieve("a\u202eb"), RecordError, "invalid_text"),
        (lambda c: raw(c, b'{"question":"x","k":0}'), RecordError, "invalid_field"),
        (lambda c: raw(c, b'{"question":"x","kk":1}'), RecordError, "invalid_field"),
        (lambda c: c._transport.call("contribute", b"{}"), RecordError, "invalid_field"),
        (lambda c: c.retrieve("x", at_least=10**9), BankBusyError, "not_ready"),
        (lambda c: c.contribute({**lesson(41), "parents": ["no"]}), NotFoundError, "not_found"),
        (lambda c: c.feedback("no-such", verdict="right"), NotFoundError, "not_found"),
        (again, BankConflictError, "idempotency_mismatch"),
        (lambda c: c._transport.get_blob("0" * 64), NotFoundError, "not_found"),
    ],
)  # fmt: skip
def test_a_fault_is_the_same_everywhere(clients, ask, kind, code):
    found = one(everywhere(clients, ask))
    assert found[:2] == (kind, code)


def test_upkeep_is_the_same_by_http(clients):
    direct = clients["http"]
    report = direct.maintain()
    assert report.placed > 0
    assert direct.ingest().states
    assert direct.health().queued_runs == 0
    assert direct.snapshot("s1").seq == direct.health().bank_seq - 1
    receipt = direct.contribute({**lesson(43), "guidance": "Something to be taken back."})
    assert direct.revoke("item", receipt.id).items >= 1
    assert direct.health().writable


@pytest.mark.parametrize("name", UNSERVED)
def test_mcp_says_what_it_has_no_tool_for(clients, name):
    for ask in (lambda c: c.maintain(), lambda c: c.add_image(b"\x89PNG")):
        with pytest.raises(NotFoundError, match="MCP has no tool"):
            ask(clients[name])


@pytest.mark.parametrize("name", ["local", "http"])
def test_an_image_is_known_by_its_pixels(clients, name):
    image = clients[name].add_image(encoded(picture(50, 40), "PNG"))
    assert (image.width, image.height) == (50, 40)
    assert image == clients["http"].add_image(encoded(picture(50, 40), "WEBP", lossless=True))


def test_a_server_that_is_not_there_is_named(server):
    with Client.http("http://127.0.0.1:9", server.tokens["all"]) as lost:
        with pytest.raises(EpimemError) as caught:
            lost.retrieve(QUESTION)
    assert caught.value.code == "unreachable"


def test_a_token_that_is_none_is_refused(server):
    with Client.http(server.url, "epm_wrong") as stranger:
        with pytest.raises(AccessError) as caught:
            stranger.retrieve(QUESTION)
    assert caught.value.code == "unauthenticated"
