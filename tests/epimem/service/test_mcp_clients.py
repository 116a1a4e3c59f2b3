"""Clients of others: the MCP inspector and the protocol's conformance suite."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest

from tests.cli_program import QUESTION
from tests.service_process import environment

pytestmark = pytest.mark.clients
FOLDER = Path(__file__).resolve().parents[3] / ".clients" / "node_modules"
INSPECTOR = FOLDER / ".bin" / "mcp-inspector"
CONFORMANCE = FOLDER / ".bin" / "conformance"
# The suite needs Node 22; the system may have another.
NODE = FOLDER / "node" / "bin" / "node"
SCENARIOS = (
    "server-initialize",
    "ping",
    "tools-list",
    "resources-list",
    "dns-rebinding-protection",
)


@pytest.fixture(autouse=True)
def _installed():
    if not (INSPECTOR.exists() and CONFORMANCE.exists()):
        pytest.skip("the MCP clients are not installed: make test-clients")


def inspect(bank, *words):
    done = subprocess.run(
        [INSPECTOR, "--cli", sys.executable, "-m", "epimem", "mcp", str(bank), *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env=environment(),
    )
    return json.loads(done.stdout)


def test_the_inspector_lists_the_tools_and_is_shown_text_and_picture(make_bank):
    bank = make_bank()
    listed = inspect(bank, "--method", "tools/list")
    assert len(listed["tools"]) == 3
    call = ("--method", "tools/call", "--tool-name", "epimem_retrieve")
    told = inspect(bank, *call, "--tool-arg", f"question={QUESTION}")
    assert [part["type"] for part in told["content"]] == ["text", "image"]
    assert base64.b64decode(told["content"][1]["data"]).startswith(b"\x89PNG")
    assert "structuredContent" not in told


@pytest.fixture
def forwarded(server):
    """The address of a door in front of the server that adds the token: the suite cannot send one."""

    class Forwarder(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def _pass_on(self):
            data = self.rfile.read(int(self.headers.get("content-length", 0)))
            # It stands for the server: its own name and origin are the server's.
            own, port = str(self.server.server_address[1]), str(server.port)
            kept = {
                name: value.replace(f":{own}", f":{port}")
                for name, value in self.headers.items()
                if name.lower() not in {"connection", "content-length", "transfer-encoding"}
            }
            token = {"authorization": f"Bearer {server.tokens['all']}"}
            answer = httpx2.request(
                self.command, f"{server.url}{self.path}", content=data, headers={**kept, **token}
            )
            self.send_response(answer.status_code)
            for name in ("content-type", "allow"):
                if name in answer.headers:
                    self.send_header(name, answer.headers[name])
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST = do_DELETE = _pass_on  # noqa: N815 - names of the library

    door = ThreadingHTTPServer(("127.0.0.1", 0), Forwarder)
    thread = threading.Thread(target=door.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{door.server_address[1]}/mcp"
    door.shutdown()
    door.server_close()
    thread.join()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_conformance_suite_passes(forwarded, scenario, tmp_path):
    done = subprocess.run(
        [NODE, CONFORMANCE, "server", "--url", forwarded, "--scenario", scenario],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    # A scenario that found nothing to check ends well, too.
    passed = re.search(r"Passed: (\d+)/(\d+), 0 failed, 0 warnings", done.stdout)
    assert passed is not None, done.stdout[-3000:]
    assert 0 < int(passed[1]) == int(passed[2])
