"""What the server says of itself holds: requests made from its own description by Schemathesis."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import httpx2
import jsonschema
import pytest

from epimem.service import faults
from epimem.service.operations import OPERATIONS
from tests.cli_program import QUESTION, lesson
from tests.image_files import encoded, picture

EXAMPLES = 100
# A request may fit its schema and still hold a text that the rules of texts refuse, by name.
REFUSED_BY_RULE = "positive_data_acceptance"
MOST_S = 60
OPEN = "/healthz"


@pytest.fixture(scope="module")
def client(server):
    headers = {"authorization": f"Bearer {server.tokens['all']}"}
    with httpx2.Client(base_url=server.url, headers=headers) as made:
        yield made


@pytest.fixture(scope="module")
def described(client):
    return client.get("/openapi.json").json()


def operations(described):
    return [
        (path, operation)
        for path, methods in described["paths"].items()
        for operation in methods.values()
    ]


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


def test_each_operation_names_its_statuses_and_the_codes_of_each(described):
    assert len(operations(described)) == len(OPERATIONS) + 5
    for path, operation in operations(described):
        told = set(operation["responses"])
        # "default" would let any status pass for a described one.
        assert "default" not in told
        assert {"200", "400", "421", "503"} <= told
        assert ("401" in told) == (path != OPEN)
        for status in told - {"200"}:
            assert list(operation["responses"][status]["content"]) == ["application/json"]
    schemas = described["components"]["schemas"]
    for code, status in faults.STATUS.items():
        if status not in {405, 500}:  # 405 belongs to no operation
            fault = schemas[f"Fault{status}"]["properties"]["error"]["properties"]
            assert code in fault["code"]["enum"]


def test_each_request_names_all_its_fields_and_only_the_probe_needs_no_token(described):
    assert described["components"]["securitySchemes"] == {
        "token": {"type": "http", "scheme": "bearer"}
    }
    assert described["security"] == [{"token": []}]
    for path, operation in operations(described):
        assert operation.get("security") == ([] if path == OPEN else None)
    for name in OPERATIONS:
        body = described["paths"][f"/v1/{name}"]["post"]["requestBody"]
        assert body["required"] is True
        assert body["content"]["application/json"]["schema"]["additionalProperties"] is False


def test_what_is_done_is_answered_as_described(client, described):
    def check(answer, path, method):
        assert answer.status_code == 200, answer.text
        content = described["paths"][path][method]["responses"]["200"]["content"]
        kind = answer.headers["content-type"].partition(";")[0]
        assert kind in content
        if kind != "application/json":
            return answer
        schema = {**content[kind]["schema"], "components": described["components"]}
        jsonschema.validate(answer.json(), schema)
        return answer.json()

    def post(operation, **body):
        return check(client.post(f"/v1/{operation}", json=body), f"/v1/{operation}", "post")

    def put(data, kind):
        path = f"/v1/blobs/{sha256(data).hexdigest()}"
        answer = client.put(path, content=data, headers={"content-type": kind})
        return check(answer, "/v1/blobs/{blob}", "put")

    given = post("retrieve", question=QUESTION)
    assert given["items"]
    post("feedback", retrieval_id=given["retrieval_id"], verdict="right")
    crop = client.get(f"/v1/blobs/{given['crops'][0]['blob']}")
    assert check(crop, "/v1/blobs/{blob}", "get").content.startswith(b"\x89PNG")
    assert put(encoded(picture(40, 30), "PNG"), "image/png")["width"] == 40
    waits = put(json.dumps(lesson(700)).encode(), "application/json")
    stored = post("contribute", blob=waits["blob"])
    check(client.get(f"/v1/items/{stored['id']}"), "/v1/items/{node_id}", "get")
    post("revise", question=QUESTION, answer="6")
    post("snapshot", name="described")
    for operation in ("ingest", "maintain", "review", "health"):
        post(operation)
    assert post("revoke", target="item", name=stored["id"])["items"] >= 1
    check(client.get("/healthz"), "/healthz", "get")
    check(client.get("/metrics"), "/metrics", "get")


def test_a_gate_that_is_no_number_is_refused(client):
    body = {"question": QUESTION, "memory": {"gate": False}}
    assert client.post("/v1/revise", json=body).status_code == 422


def test_no_field_of_a_question_takes_what_its_description_rules_out(client):
    """One fault a request, all else right: what is refused is refused for that fault."""
    assert client.post("/v1/retrieve", json={"question": QUESTION}).status_code == 200
    for field, value in WRONG:
        answer = client.post("/v1/retrieve", json={"question": QUESTION, field: value})
        assert answer.status_code in {413, 422}, (field, value)
        assert answer.json()["error"]["field"].startswith(field)


WRONG = (
    ("question", ""),
    ("images", "one"),
    ("images", [7]),
    ("namespace", 7),
    ("family", None),
    ("run_id", "r" * 257),
    ("k", True),
    ("k", "3"),
    ("k", 1.5),
    ("k", 51),
    ("mode", "deep"),
    ("budget", 4000),
    ("budget", {"chars": "4000"}),
    ("budget", {"chars": 4000, "more": 1}),
    ("minimum_authority", "emperor"),
    ("exclude", ["x"] * 257),
    ("gate", "sometimes"),
    ("at_least", -1),
    ("at_least", 1.5),
    ("other", 1),
)


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
    began = time.monotonic()
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert "Tested: 15" in done.stdout
    assert time.monotonic() - began < MOST_S
    log = server.log.read_text()
    assert len(re.findall(r'"status": \d', log)) > 1000
    assert '"status": 5' not in log
