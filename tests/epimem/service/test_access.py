"""Who may do what: six principals, five scopes, every operation; hidden and absent look the same."""

from __future__ import annotations

import itertools
import re

import httpx2
import pytest

from epimem.config import Config, EncoderConfig
from epimem.errors import AccessError, BankConflictError, ConfigError, NotFoundError
from epimem.memory import ExperienceMemory
from epimem.service.access import Grant, TokenFile, new_token
from epimem.service.operations import OPERATIONS
from tests.cli_program import QUESTION, lesson
from tests.image_files import encoded, picture
from tests.service_process import grant, illustrated, serving

SPACES = ("alpha", "beta")
CANARY = "xylophone"
PRINCIPALS = {
    "nobody": None,
    "reader of alpha": ({"read"}, {"alpha"}),
    "writer of alpha": ({"contribute"}, {"alpha"}),
    "both of beta": ({"read", "contribute"}, {"beta"}),
    "maintainer": ({"maintain"}, None),
    "admin": ({"read", "contribute", "maintain", "admin"}, None),
}
NUMBERS = itertools.count()
SCOPES = ("alpha", "beta", "absent", "default", None)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A server of a bank with two namespaces, and an HTTP client for each principal."""
    path = tmp_path_factory.mktemp("served") / "bank"
    with ExperienceMemory.create(
        path, Config(encoder=EncoderConfig(model="none"), gate="always")
    ) as memory:
        for number, space in enumerate(SPACES):
            word = f"{CANARY} of {space}"
            drafts = [
                {**lesson(n), "guidance": f"{word} {n}: skip white triangles.", "title": word}
                for n in range(3)
            ]
            png = encoded(picture().rotate(180 * number), "PNG")
            illustrated(memory, png, *drafts, namespace=space)
    tokens = {
        name: grant(path, name, *sorted(of[0]), namespaces=sorted(of[1] or ()))
        for name, of in PRINCIPALS.items()
        if of is not None
    }
    log = tmp_path_factory.mktemp("log") / "server.log"
    with serving(path, log=log) as server:
        clients = {
            name: httpx2.Client(
                base_url=server.url,
                headers={"authorization": f"Bearer {tokens[name]}"} if name in tokens else {},
                trust_env=False,
            )
            for name in PRINCIPALS
        }
        yield clients
        for client in clients.values():
            client.close()


def body_of(operation, scope):
    """Return a request that would be good for somebody who may do everything."""
    bodies = {
        "retrieve": {"question": QUESTION},
        "revise": {"question": QUESTION},
        "contribute": {"item": {"guidance": f"Look twice at {scope}.", "title": "looking"}},
        "feedback": {"retrieval_id": "none", "verdict": "right"},
        "snapshot": {"name": f"s-{next(NUMBERS)}"},
        "revoke": {"target": "item", "name": "none"},
    }
    body = bodies.get(operation, {})
    if operation in {"retrieve", "contribute"} and scope is not None:
        body["namespace"] = scope
    return body


def expected(principal, operation, scope):
    """Return the statuses that the rules allow, stated apart from the code under test."""
    if PRINCIPALS[principal] is None:
        return {401}
    rights, spaces = PRINCIPALS[principal]
    if OPERATIONS[operation].right not in rights:
        return {403}
    if operation in {"feedback", "revoke"}:
        return {404}
    if operation == "health" and spaces is not None:
        return {403}
    if operation in {"retrieve", "contribute"}:
        # Without a name: the namespace of the settings, or the only one of the token.
        hidden = spaces is not None and scope is not None and scope not in spaces
        return {404} if hidden else {200}
    return {200}


@pytest.mark.parametrize("principal", PRINCIPALS)
@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_rights_and_scopes(shared, principal, operation):
    seen = []
    for scope in SCOPES:
        answer = shared[principal].post(f"/v1/{operation}", json=body_of(operation, scope))
        seen.append((scope, answer.status_code, expected(principal, operation, scope)))
        if PRINCIPALS[principal] and PRINCIPALS[principal][1] == {"alpha"}:
            assert "beta" not in re.sub(r'"namespace"', "", answer.text)
    assert all(status in wanted for _, status, wanted in seen), seen


def without_id(answer):
    text = re.sub(r'"request_id":"[^"]+"', "", answer.text)
    return answer.status_code, text, answer.headers.get("content-type")


@pytest.mark.parametrize("operation", ["retrieve", "contribute"])
def test_a_hidden_namespace_looks_like_none(shared, operation):
    client = shared["reader of alpha" if operation == "retrieve" else "writer of alpha"]
    hidden, absent = (
        without_id(client.post(f"/v1/{operation}", json=body_of(operation, scope)))
        for scope in ("beta", "absent")
    )
    assert hidden == absent


def test_hidden_items_crops_and_retrievals_look_like_none(shared):
    admin, reader, writer = (
        shared[name] for name in ("admin", "reader of alpha", "writer of alpha")
    )
    found = admin.post("/v1/retrieve", json={"question": QUESTION, "namespace": "beta"}).json()
    own = reader.post("/v1/retrieve", json={"question": QUESTION}).json()
    node, crop = found["items"][0]["node_id"], found["crops"][0]["blob"]
    assert admin.get(f"/v1/items/{node}").status_code == 200
    assert admin.get(f"/v1/blobs/{crop}").content.startswith(b"\x89PNG")
    for path, gone in (("items", node[:-4] + "0000"), ("blobs", "0" * 64)):
        hidden = node if path == "items" else crop
        assert without_id(reader.get(f"/v1/{path}/{hidden}")) == without_id(
            reader.get(f"/v1/{path}/{gone}")
        )
    assert reader.get(f"/v1/items/{own['items'][0]['node_id']}").status_code == 200
    assert reader.get(f"/v1/blobs/{own['crops'][0]['blob']}").status_code == 200
    hidden, absent = (
        without_id(writer.post("/v1/feedback", json={"retrieval_id": key, "verdict": "right"}))
        for key in (found["retrieval_id"], "none")
    )
    assert hidden == absent
    mine = {"retrieval_id": own["retrieval_id"], "verdict": "right"}
    assert writer.post("/v1/feedback", json=mine).json()["status"] == "stored"


def test_the_run_of_another_namespace_gives_nothing_away(shared):
    asked = {"question": QUESTION, "run_id": "the-same-run", "reader": "solver"}
    for name, space in (("admin", "beta"), ("reader of alpha", "alpha")):
        answer = shared[name].post("/v1/retrieve", json={**asked, "namespace": space}).json()
        assert answer["items"]
        assert {space} == {
            word for word in SPACES for item in answer["items"] if word in item["title"]
        }


def test_an_item_to_be_excluded_cannot_be_one_that_is_hidden(shared):
    hidden = shared["admin"].post("/v1/retrieve", json={"question": QUESTION, "namespace": "beta"})
    node = hidden.json()["items"][0]["node_id"]
    plain, excluding = (
        shared["reader of alpha"].post(
            "/v1/retrieve", json={"question": QUESTION, "exclude": names}
        )
        for names in ([], [node])
    )
    assert [i["node_id"] for i in plain.json()["items"]] == [
        i["node_id"] for i in excluding.json()["items"]
    ]


def test_a_lesson_is_attributed_to_its_token_whatever_it_says(shared):
    client = shared["writer of alpha"]
    for extra in ({"contributor": "owner"}, {"organisation": "x"}, {"authority": "owner"}):
        answer = client.post("/v1/contribute", json={"item": {"guidance": "g", **extra}})
        assert answer.status_code == 422
    text = "Attributed: look at the foot of the page."
    client.post("/v1/contribute", json={"item": {"guidance": text, "title": "attributed foot"}})
    found = shared["admin"].post(
        "/v1/retrieve", json={"question": "attributed foot of the page", "namespace": "alpha"}
    )
    item = next(i for i in found.json()["items"] if i["guidance"] == text)
    assert item["contributors"] == ["writer of alpha"]
    assert item["authority"] == "observed"


# -- the file of tokens


@pytest.fixture
def tokens(tmp_path):
    return TokenFile(tmp_path / "bank.tokens.json", clock=lambda: 1000.0)


def a_grant(name="one", **more):
    values = {"name": name, "sha256": "0" * 64, "contributor": "c", "organisation": "o"}
    return Grant.read({**values, "rights": ["read"], **more})


def test_a_token_is_kept_as_a_hash_for_its_owner_alone(tokens):
    token = new_token()
    tokens.add(a_grant(), token)
    assert token.encode() not in tokens.path.read_bytes()
    assert tokens.path.stat().st_mode & 0o077 == 0
    assert tokens.principal(token).caller.contributor == "c"


def test_a_removed_token_is_refused_by_a_server_that_had_read_it(tokens):
    token = new_token()
    tokens.add(a_grant(), token)
    other = TokenFile(tokens.path)
    assert other.principal(token).name == "one"
    tokens.remove("one")
    with pytest.raises(AccessError):
        other.principal(token)
    with pytest.raises(NotFoundError):
        tokens.remove("one")


def test_an_expired_token_is_refused(tokens):
    late, early = new_token(), new_token()
    tokens.add(a_grant("late", expires_at=1001), late)
    tokens.add(a_grant("early", expires_at=1000), early)
    assert tokens.principal(late).name == "late"
    with pytest.raises(AccessError):
        tokens.principal(early)


def test_grants_that_contradict_themselves_are_refused(tokens):
    tokens.add(a_grant(), new_token())
    with pytest.raises(BankConflictError):
        tokens.add(a_grant(), new_token())
    with pytest.raises(ConfigError, match="whole bank"):
        tokens.add(a_grant("two", rights=["admin"], namespaces=["alpha"]), new_token())


def test_a_damaged_file_lets_nobody_in_and_says_so(tokens):
    token = new_token()
    tokens.add(a_grant(), token)
    tokens.path.write_bytes(b'{"tokens":[{"name":"one"}]}')
    with pytest.raises(ConfigError, match="token file"):
        tokens.principal(token)
