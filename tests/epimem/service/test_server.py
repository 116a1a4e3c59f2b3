"""The server as a process: a frozen bank, a kill under load, an end in order, upkeep meanwhile."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import signal
import subprocess
import threading
import time
import tomllib
from pathlib import Path

import httpx2
import pytest

from epimem.bank.intake import Caller
from epimem.errors import EpimemError
from epimem.memory import ExperienceMemory
from epimem.schema.ids import uuid7
from epimem.service.desk import MOST_WAITING, Desk
from harness_adapters.client import Client
from tests.cli_program import QUESTION, lesson, run_record
from tests.image_files import encoded, picture
from tests.service_process import command, environment, grant, serving

PNG = encoded(picture(30, 30), "PNG")


def client_of(server, name="all"):
    return Client.http(server.url, server.tokens[name])


def bytes_of(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def frozen(make_bank, tmp_path_factory):
    bank = make_bank()
    token = grant(bank, "all", "read", "contribute", "maintain", "admin")
    with ExperienceMemory.open(bank) as memory:
        memory.contribute(run_record("queued-before"))
        memory.maintain()
        memory.freeze()
    with serving(bank, log=tmp_path_factory.mktemp("log") / "server.log") as running:
        running.tokens["all"] = token
        yield bank, running


def test_no_byte_of_a_frozen_bank_changes_and_feedback_goes_beside_it(frozen):
    bank, server = frozen
    before = bytes_of(bank)
    with (
        client_of(server) as client,
        Client.mcp_http(f"{server.url}/mcp", server.tokens["all"]) as tools,
    ):
        for write in (
            lambda: client.contribute(lesson(70)),
            lambda: tools.contribute(lesson(70)),
            lambda: client.contribute(run_record("late")),
            lambda: client.contribute(run_record("long", text="word " * 300_000)),
            client.ingest,
            client.maintain,
            lambda: client.snapshot("s"),
            lambda: client.revoke("contributor", "local"),
            lambda: client.add_image(PNG),
        ):
            with pytest.raises(EpimemError) as caught:
                write()
            assert caught.value.code == "bank_frozen"
        first = client.retrieve(QUESTION)
        assert first.items
        assert client.feedback(first.retrieval_id, verdict="wrong").status == "stored"
        assert tools.feedback(first.retrieval_id, verdict="wrong").status == "duplicate"
        hurt = {first.items[0].node_id: first.items[0].guidance}
        again = client.retrieve(QUESTION)
        assert client.feedback(again.retrieval_id, hurt=hurt).status == "stored"
        after = client.retrieve(QUESTION)
        assert [item.plain() for item in after.items] == [item.plain() for item in first.items]
        found = client.health()
        assert (found.frozen, found.writable) == (True, False)
    assert httpx2.get(f"{server.url}/healthz").json() == {"status": "ok"}
    assert bytes_of(bank) == before


def test_a_kill_under_load_loses_no_receipt_and_a_retry_gives_the_same(make_bank, tmp_path):
    bank = make_bank()
    token = grant(bank, "all", "read", "contribute")
    log = tmp_path / "log"
    receipts, stop = {}, threading.Event()

    def write(server, worker):
        with httpx2.Client(
            base_url=server.url, headers={"authorization": f"Bearer {token}"}, trust_env=False
        ) as client:
            for number in range(10_000):
                body = {"item": lesson(1000 * worker + number), "idempotency_key": uuid7()}
                try:
                    answer = client.post("/v1/contribute", json=body)
                except httpx2.TransportError:
                    return
                assert answer.status_code == 200
                receipts[json.dumps(body)] = answer.json()
                if stop.is_set():
                    return

    with serving(bank, log=log) as server:
        workers = [threading.Thread(target=write, args=(server, n)) for n in range(1, 9)]
        for worker in workers:
            worker.start()
        until = time.monotonic() + 30
        while len(receipts) < 60 and time.monotonic() < until:
            time.sleep(0.01)
        server.stop(signal.SIGKILL)
        stop.set()
        for worker in workers:
            worker.join(30)
    assert len(receipts) >= 60
    with serving(bank, log=log) as server:
        server.tokens["all"] = token
        with client_of(server) as client:
            for body, receipt in receipts.items():
                again = json.loads(client._transport.call("contribute", body.encode()))
                assert again == receipt
    with ExperienceMemory.open(bank) as memory:
        assert set(memory.bank.nodes([r["id"] for r in receipts.values()])) == {
            r["id"] for r in receipts.values()
        }
        assert [p for p in memory.check() if p.code != "orphan"] == []


def test_a_signal_lets_what_has_begun_end(make_bank, tmp_path):
    bank = make_bank()
    token = grant(bank, "all", "read")
    answers = []
    with serving(bank, log=tmp_path / "log") as server:

        def ask():
            body = {"question": QUESTION, "at_least": 10**6}  # waits for two seconds
            answers.append(
                httpx2.post(
                    f"{server.url}/v1/retrieve",
                    json=body,
                    headers={"authorization": f"Bearer {token}"},
                ).status_code
            )

        waiting = threading.Thread(target=ask)
        waiting.start()
        time.sleep(0.7)
        assert server.stop(signal.SIGTERM) == 0
        waiting.join(10)
    assert answers == [409]


def test_upkeep_goes_on_while_the_bank_serves(make_bank, tmp_path):
    bank = make_bank()
    token = grant(bank, "all", "read", "contribute")
    with serving(bank, "--maintain", "1", log=tmp_path / "log") as server:
        server.tokens["all"] = token
        with client_of(server) as client:
            client.contribute(run_record("to-ingest"))
            until = time.monotonic() + 30
            while time.monotonic() < until:
                found = client.health()
                if not found.queued_runs and not found.unplaced_lessons:
                    break
                time.sleep(0.2)
            assert (found.queued_runs, found.unplaced_lessons) == (0, 0)
            assert client.retrieve(QUESTION).items


def test_a_server_answers_to_the_names_and_pages_that_it_was_told(make_bank, tmp_path):
    bank = make_bank()
    token = grant(bank, "one", "read")
    options = ("--allow-host", "memory.lab", "--allow-origin", "http://page.example")
    with serving(bank, *options, log=tmp_path / "log") as server:

        def ask(host, origin):
            headers = {"authorization": f"Bearer {token}", "host": host, "origin": origin}
            answer = httpx2.post(
                f"{server.url}/v1/retrieve", json={"question": QUESTION}, headers=headers
            )
            return answer.status_code

        assert ask("memory.lab:80", "http://page.example") == 200
        assert ask("memory.lab", "http://other.example") == 403
        assert ask("other.lab", "http://page.example") == 421


def test_in_the_evaluation_phase_nothing_that_knows_the_answer_comes_in(make_bank, tmp_path):
    bank = make_bank()
    token = grant(bank, "one", "read", "contribute", "maintain", phase="evaluation")
    with serving(bank, log=tmp_path / "log") as server, Client.http(server.url, token) as client:
        tools = Client.mcp_http(f"{server.url}/mcp", token)
        for hand_in in (client.contribute, tools.contribute):
            with pytest.raises(EpimemError) as caught:
                hand_in(lesson(500, verdict_source="oracle"))
            assert caught.value.code == "forbidden_action"
            assert hand_in(lesson(501, verdict_source="self")).status in {"stored", "duplicate"}
        with pytest.raises(EpimemError) as caught:
            client.ingest()
        assert caught.value.code == "forbidden_action"
        given = client.retrieve(QUESTION)
        assert given.items
        assert (
            client.feedback(given.retrieval_id, verdict="right", source="oracle").status == "stored"
        )
        assert tools.retrieve(QUESTION).items == given.items
        tools.close()


def test_health_tells_what_waits_and_for_how_long(server):
    with client_of(server) as client:
        client.contribute(run_record("waits"))
        time.sleep(1.1)
        found = client.health()
    assert found.queued_runs == 1
    assert found.unplaced_lessons >= 3
    assert found.oldest_queued_run_s >= 1
    assert found.oldest_unplaced_lesson_s >= 1
    assert found.writable


def test_a_bank_that_cannot_be_written_fails_its_probe(make_bank, tmp_path):
    bank = make_bank()
    with serving_with_token(bank, tmp_path) as server:
        assert httpx2.get(f"{server.url}/healthz").status_code == 200
        shutil.rmtree(bank / "blobs")
        (bank / "blobs").write_bytes(b"")
        answer = httpx2.get(f"{server.url}/healthz")
    assert (answer.status_code, answer.json()) == (503, {"status": "failing"})


def serving_with_token(bank, tmp_path):
    grant(bank, "all", "read")
    return serving(bank, log=tmp_path / "log")


def test_metrics_count_requests_by_route(server):
    headers = {"authorization": f"Bearer {server.tokens['all']}"}
    for _ in range(3):
        httpx2.get(f"{server.url}/v1/items/none", headers=headers)
    page = httpx2.get(f"{server.url}/metrics", headers=headers).text
    assert (
        'epimem_requests_total{method="GET",route="/v1/items/{node_id}",status="404"} 3.0' in page
    )
    assert "none" not in page
    assert "epimem_unplaced_lessons" in page


# -- the command line


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("serve", "{bank}"), 2, "epimem token add"),
        (("serve", "{bank}", "--host", "0.0.0.0"), 2, "epimem token add"),
        (("serve", "nowhere"), 4, "no bank in this folder"),
        (("token", "remove", "{bank}", "x"), 4, "no token of this name"),
        (("token", "add", "{bank}", "x"), 2, "--right"),
        (("mcp", "nowhere"), 4, "no bank in this folder"),
    ],
)
def test_what_cannot_be_served_is_named(make_bank, arguments, status, words):
    bank = make_bank()
    done = subprocess.run(
        command(*(word.format(bank=bank) for word in arguments)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment(),
    )
    assert done.returncode == status
    assert words in done.stderr
    assert done.stdout == ""


def test_tokens_are_made_listed_and_removed(make_bank):
    bank = make_bank()

    def run(*words):
        done = subprocess.run(
            command("token", *words), capture_output=True, text=True, check=True, timeout=60
        )
        return [json.loads(line) for line in done.stdout.splitlines()]

    made = run("add", str(bank), "one", "--right", "read", "--namespace", "n", "--days", "3")[0]
    listed = run("list", str(bank))
    assert made["token"].startswith("epm_")
    assert listed[0]["namespaces"] == ["n"]
    assert listed[0]["expires_at"] > time.time()
    assert made["token"] not in json.dumps(listed)
    assert run("remove", str(bank), "one") == [{"removed": "one"}]
    assert run("list", str(bank)) == []


@pytest.mark.parametrize("client", ["codex", "claude", "dsh"])
def test_a_client_can_be_told_how_to_start_the_server(make_bank, client):
    bank = make_bank()
    options = ["--contributor", "me", "--namespace", "a", "--namespace", "b", "--read-only"]
    done = subprocess.run(
        command("mcp", str(bank), *options, "--print-config", client),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    if client == "codex":
        told = tomllib.loads(done.stdout)["mcp_servers"]["epimem"]
        assert told["required"] is True
    elif client == "claude":
        told = json.loads(done.stdout)["mcpServers"]["epimem"]
    else:
        told = json.loads(done.stdout)[0]["insert"][0]["config"]
        assert told["failOnStartupError"] is True
    words = [told["command"], *told["args"]]
    assert words == [*command("mcp", str(bank)), *options]


# -- the desk


class Slow:
    """A bank whose every use takes until it is let go."""

    def __init__(self):
        self.go = threading.Event()
        self.closed = False
        self.bank = self
        self.loaded_encoder = None

    @property
    def side(self):
        return self

    @property
    def root(self):
        return Path("/nowhere")

    def close(self):
        self.closed = True


def test_a_desk_tells_callers_to_come_back_when_too_many_wait():
    slow = Slow()
    desk = Desk(lambda: slow)

    async def crowd():
        asked = [
            asyncio.ensure_future(desk.run(lambda _: slow.go.wait(30)))
            for _ in range(MOST_WAITING + 1)
        ]
        await asyncio.sleep(0.05)
        refused = asked.pop()
        with pytest.raises(EpimemError) as caught:
            await refused
        assert caught.value.code == "bank_busy"
        asked[3].cancel()
        slow.go.set()
        assert sum(r is True for r in await asyncio.gather(*asked, return_exceptions=True)) == (
            MOST_WAITING - 1
        )
        await asyncio.sleep(0.05)
        assert desk.waiting == 0

    asyncio.run(crowd())
    desk.close()
    assert slow.closed


# -- quarantine


def test_what_another_organisation_hands_in_waits_until_twenty_of_its_lessons_stand(
    make_bank, tmp_path
):
    bank = make_bank()
    admin = grant(bank, "admin", "read", "admin")
    with serving(bank, log=tmp_path / "log") as server:
        server.tokens["stranger"] = grant(
            bank, "stranger", "read", "contribute", organisation="elsewhere"
        )
        with client_of(server, "stranger") as stranger, Client.http(server.url, admin) as operator:
            for number in range(20):
                receipt = stranger.contribute(lesson(100 + number, question_key="q"))
                assert receipt.status == "quarantined"
                assert not any(
                    item.node_id == receipt.id for item in stranger.retrieve(QUESTION).items
                )
                left = operator.review(approve=[receipt.id])
                assert (left.lessons, left.runs) == (0, 0)
                assert left.approved[0].status == "stored"
            assert stranger.contribute(lesson(130)).status == "stored"
            assert stranger.contribute(run_record("theirs")).status == "queued"


def test_the_command_approves_and_refuses(make_bank):
    bank = make_bank()
    with ExperienceMemory.open(bank) as memory, memory.acting_as(Caller("them", "elsewhere")):
        ids = [memory.contribute(lesson(200 + n), quarantine=True).id for n in range(3)]

    def run(*words):
        done = subprocess.run(
            command("review", str(bank), *words),
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    listed, told = run()
    assert [each["id"] for each in listed] == ids
    assert "3 lessons and 0 runs wait" in told
    decided, _ = run("--approve", ids[0], "--refuse", ids[1])
    assert [each.get("status") or each.get("refused") for each in decided[:2]] == ["stored", ids[1]]
    assert [each["id"] for each in decided[2:]] == [ids[2]]
    last, told = run("--approve-all-of", "them")
    assert [each["status"] for each in last] == ["stored"]
    assert "0 lessons" in told
