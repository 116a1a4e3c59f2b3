"""Real harnesses, real binaries, a fake model: each shows its model the memory and hands its run in.

DeepSeek Harness runs in every test run, Codex and CAMEL with the marker `clients` (make test-clients).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from epimem.memory import ExperienceMemory
from harness_adapters import contract
from harness_adapters.client import Client
from harness_adapters.fake_model import FakeModel, ToolCall
from harness_adapters.harness import Asked, Driver
from tests.harness_adapters.real_clients import (
    KEY,
    LOCAL,
    camel_at,
    codex_at,
    codex_program,
    dsh_at,
)
from tests.image_files import encoded, picture
from tests.service_process import grant, serving

ROOT = Path(__file__).resolve().parents[2]
CODEX = pytest.param("codex", marks=pytest.mark.clients)
CAMEL = pytest.param("camel", marks=pytest.mark.clients)


def harness(name, url, folder):
    if name == "codex":
        return codex_at(url, folder / "codex-home")
    return {"dsh": dsh_at, "camel": camel_at}[name](url)


@pytest.mark.parametrize("name", ["dsh", CODEX, CAMEL])
def test_a_real_harness_passes_the_contract(name, tmp_path):
    contract.check(lambda url: harness(name, url, tmp_path), tmp_path)


# -- traps that were met in real clients, one test each


@pytest.fixture
def bank(tmp_path):
    contract._fill(tmp_path / "bank")
    return tmp_path / "bank"


SCRIPT = (
    ToolCall("epimem_retrieve", {"question": contract.QUESTION}),
    ToolCall("epimem_contribute", {"item": {"guidance": "Ask whether a triangle is filled."}}),
)


def printed(client, bank, *options):
    """Return the settings that the command prints for a client."""
    words = [sys.executable, "-m", "epimem", "mcp", str(bank), *options, "--print-config", client]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


def codex_session(bank, model, folder, *, without=()):
    """Run `codex exec` with the bank as an MCP server; return the process."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    table = printed("codex", bank, "--contributor", "codex").splitlines()
    table = [line for line in table if not line.startswith(tuple(without))]
    table.append(f"env = {{PYTHONPATH = {json.dumps(str(ROOT))}, OMP_NUM_THREADS = '1'}}")
    (home / "config.toml").write_text("\n".join(table), "utf-8")
    overrides = [*LOCAL, f'model_providers.local.base_url="{model.url}"']
    settings = [word for override in overrides for word in ("-c", override)]
    return subprocess.run(
        [codex_program(), "exec", "--json", "--skip-git-repo-check", *settings, contract.QUESTION],
        cwd=folder,
        env={**os.environ, **KEY, "CODEX_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.clients
def test_codex_shows_its_model_text_and_picture_of_a_retrieval_and_contributes(bank, tmp_path):
    with FakeModel(SCRIPT, answer="six") as model:
        done = codex_session(bank, model, tmp_path)
    assert done.returncode == 0, done.stderr
    second, last = model.seen[1], model.seen[2]
    assert contract.LESSON in second.text
    assert len(second.images) == 1
    assert '"status":"stored"' in last.text
    assert "epimem/1" not in json.dumps([seen.body for seen in model.seen])
    with ExperienceMemory.open(bank, read_only=True) as memory:
        found = memory.retrieve("Is a triangle filled?")
    assert found.items[0].contributors == ("codex",)


@pytest.mark.clients
def test_codex_needs_no_approval_for_tools_that_say_they_destroy_nothing(bank, tmp_path):
    with FakeModel(SCRIPT, answer="six") as model:
        codex_session(bank, model, tmp_path, without=["default_tools_approval_mode"])
    assert contract.LESSON in model.seen[1].text
    assert '"status":"stored"' in model.seen[2].text


@pytest.mark.clients
def test_codex_without_required_leaves_out_a_server_that_does_not_start(tmp_path):
    with FakeModel(SCRIPT, answer="six") as model:
        done = codex_session(tmp_path / "nowhere", model, tmp_path, without=["required"])
    assert done.returncode == 0
    assert not any("epimem" in tool.name for tool in model.seen[0].tools)


@pytest.mark.clients
def test_codex_with_a_required_server_that_is_not_there_ends_before_any_answer(tmp_path):
    with FakeModel(SCRIPT) as model:
        done = codex_session(tmp_path / "nowhere", model, tmp_path)
    assert done.returncode != 0
    assert model.seen == []


@pytest.mark.clients
def test_codex_makes_a_large_page_smaller_and_the_run_keeps_it_as_it_was(bank, tmp_path):
    page = tmp_path / "large.png"
    page.write_bytes(encoded(picture(120, 160).resize((2400, 3200)), "PNG"))
    with FakeModel(answer="six") as model, Client.local(bank) as client:
        driver = Driver(client, codex_at(model.url, tmp_path / "home"), tmp_path / "runs")
        driver.drive(contract.QUESTION, [page])
    width, height = contract._size(model.seen[-1].images[0])
    assert width * height < 2400 * 3200
    with ExperienceMemory.open(bank, read_only=True) as memory:
        (queued,) = memory.bank.queued_runs(limit=5)
    assert [(each.width, each.height) for each in queued.run.task.pages] == [(2400, 3200)]


def dsh_session(bank, model, folder, *, images):
    """Run one session of the SDK with the bank as an MCP server; return its words."""
    made = dsh_at(model.url)
    rows = made._patch()
    rows[-1]["insert"][0]["config"]["providers"]["local"]["models"][0]["input"] = images
    (inserted,) = json.loads(printed("dsh", bank, "--contributor", "dsh"))
    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    inserted["insert"][0]["config"]["env"] = environment
    made._patch = lambda: [*rows, inserted]
    folder.mkdir()
    return made.solve(Asked(contract.QUESTION, (), "", (), folder))


def test_dsh_shows_its_model_text_and_picture_of_a_retrieval_and_contributes(bank, tmp_path):
    with FakeModel(SCRIPT, answer="six") as model:
        done = dsh_session(bank, model, tmp_path / "run", images=["text", "image"])
    assert done.answer == "six"
    assert contract.LESSON in model.seen[1].text
    assert len(model.seen[1].images) == 1
    assert '"status":"stored"' in model.seen[2].text
    with ExperienceMemory.open(bank, read_only=True) as memory:
        found = memory.retrieve("Is a triangle filled?")
    assert found.items[0].contributors == ("dsh",)


def test_dsh_on_a_route_without_pictures_still_gets_the_text(bank, tmp_path):
    with FakeModel(SCRIPT, answer="six") as model:
        dsh_session(bank, model, tmp_path / "run", images=["text"])
    assert contract.LESSON in model.seen[1].text
    assert model.seen[1].images == []


# -- who wrote it, who reads it


def words_of(writer):
    return {
        "question": f"What do the {writer} signs mean on Zintha maps?",
        "finding": f"On Zintha maps the {writer} signs mark stations that are closed on Sundays.",
    }


def matrix(names, tmp_path):
    """Let each write through one server and each read it; return the cells that hold."""
    bank = tmp_path / "bank"
    contract._fill(bank)
    tokens = {name: grant(bank, name, "read", "contribute") for name in names}
    operator = grant(bank, "operator", "read", "maintain")
    cells = {}
    with serving(bank, log=tmp_path / "log") as server:
        clients = {
            name: Client.mcp_http(f"{server.url}/mcp", tokens[name])
            if name == "mcp"
            else Client.http(server.url, tokens[name])
            for name in names
        }
        picture_of(clients["http"], tmp_path)
        for name in names:
            write(name, clients[name], clients["http"], tmp_path)
        with Client.http(server.url, operator) as upkeep:
            upkeep.ingest()
        for reader in names:
            for writer in names:
                cells[writer, reader] = read(reader, writer, clients[reader], tmp_path)
        for client in clients.values():
            client.close()
    return cells


def picture_of(client, folder):
    (folder / "page.png").write_bytes(encoded(picture(90, 70), "PNG"))
    return client.add_image((folder / "page.png").read_bytes())


def write(name, client, http, folder):
    """A harness hands a run in; a plain client a lesson with a picture."""
    words = words_of(name)
    if name in {"http", "mcp"}:
        image = picture_of(http, folder)
        region = {"width": 90, "height": 70, "x0": 5, "y0": 5, "x1": 60, "y1": 40}
        index = {
            "topic": f"{name} signs",
            "scope": "Zintha maps",
            "question_anchor": words["question"],
        }
        evidence = [{"image_id": image.image_id, "region": region}]
        client.contribute({"guidance": words["finding"], "index": index, "evidence": evidence})
        return
    with FakeModel(answer=words["finding"]) as model:
        driver = Driver(client, harness(name, model.url, folder), folder / "runs")
        done = driver.drive(words["question"], [folder / "page.png"])
    assert done.receipt.status == "queued"


def read(reader, writer, client, folder):
    """Return what reached the reader's model: (text, pictures, attribution)."""
    words = words_of(writer)
    if reader in {"http", "mcp"}:
        given = client.retrieve(words["question"])
        text, pictures = given.text, len([client.crop_png(crop) for crop in given.crops])
    else:
        with FakeModel(answer="thanks") as model:
            driver = Driver(client, harness(reader, model.url, folder), folder / "reads")
            driver.contribute = False
            given = driver.drive(words["question"]).given
        text, pictures = model.seen[-1].text, len(model.seen[-1].images)
    people = {name for item in given.items for name in item.contributors}
    return words["finding"] in text, pictures, writer in people


def check(cells, names):
    for (writer, reader), (text, pictures, attributed) in cells.items():
        assert text, f"{reader} was not told what {writer} wrote"
        assert attributed, f"{reader} was not told that {writer} wrote it"
        if writer in {"http", "mcp"}:
            assert pictures == 1, f"{reader} was not shown the picture of {writer}"
    assert len(cells) == len(names) ** 2


def test_what_dsh_writes_plain_clients_read_and_the_other_way_round(tmp_path):
    names = ("dsh", "http", "mcp")
    check(matrix(names, tmp_path), names)


@pytest.mark.clients
def test_the_whole_matrix_holds_and_is_written_down(tmp_path):
    names = ("codex", "dsh", "camel", "http", "mcp")
    cells = matrix(names, tmp_path)
    check(cells, names)
    lines = [
        "# Who writes, who reads",
        "",
        "Written by `make test-clients`: real binaries against a fake model, one server, a token",
        "each. A harness hands in a run, from which the bank derives a lesson; a plain client",
        "contributes a lesson with a picture. Each cell: what reached the reader's model.",
        "",
        f"| written by | {' | '.join(f'read by {name}' for name in names)} |",
        f"|{' --- |' * (len(names) + 1)}",
    ]
    for writer in names:
        row = ["text, picture" if cells[writer, reader][1] else "text" for reader in names]
        lines.append(f"| {writer} | {' | '.join(row)} |")
    (ROOT / "docs" / "matrix.md").write_text("\n".join(lines) + "\n", "utf-8")
