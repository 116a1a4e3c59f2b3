"""What the server says of itself holds: requests made from its own description by Schemathesis."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from epimem.service.operations import OPERATIONS

EXAMPLES = 100
# A request may fit its schema and still hold a text that the rules of texts refuse, by name.
REFUSED_BY_RULE = "positive_data_acceptance"


@pytest.fixture(scope="module")
def described(server):
    headers = {"authorization": f"Bearer {server.tokens['all']}"}
    return httpx2.get(f"{server.url}/openapi.json", headers=headers).json()


def test_every_operation_is_described_and_every_reference_leads_somewhere(described):
    assert {f"/v1/{name}" for name in OPERATIONS} <= set(described["paths"])

    def references(value):
        if isinstance(value, dict):
            for key, inner in value.items():
                if key == "$ref":
                    yield inner
                yield from references(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from references(inner)

    found = set(references(described))
    assert len(found) > 5
    for reference in found:
        assert reference.removeprefix("#/components/schemas/") in described["components"]["schemas"]


def test_no_request_made_from_the_description_is_answered_otherwise_than_it_says(server, tmp_path):
    words = [
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        f"{server.url}/openapi.json",
        *("--url", server.url),
        *("-H", f"Authorization: Bearer {server.tokens['all']}"),
        *("--phases", "coverage,fuzzing"),
        *("--max-examples", str(EXAMPLES)),
        *("--seed", "1"),
        *("--exclude-checks", REFUSED_BY_RULE),
        *("--generation-database", "none"),
        "--continue-on-failure",
    ]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert "Tested: 15" in done.stdout
    assert '"status": 5' not in server.log.read_text()
