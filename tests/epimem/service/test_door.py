"""What the HTTP server refuses before it does anything, in raw bytes over a loopback socket."""

from __future__ import annotations

import json
import socket
import time

import pytest

from tests import cli_program

QUESTION = json.dumps({"question": cli_program.QUESTION}).encode()


@pytest.fixture
def send(server):
    """Send one request made of parts; return (status, body as JSON or None, head)."""

    def call(
        method="POST",
        path="/v1/retrieve",
        body=QUESTION,
        *,
        host=None,
        token="all",
        kind="application/json",
        more=(),
        length=None,
        version="1.1",
    ):
        lines = [f"{method} {path} HTTP/{version}"]
        hosts = [f"127.0.0.1:{server.port}"] if host is None else host
        lines += [f"Host: {name}" for name in hosts]
        if token is not None:
            lines.append(f"Authorization: Bearer {server.tokens.get(token, token)}")
        if kind is not None:
            lines.append(f"Content-Type: {kind}")
        if length is None:
            length = [str(len(body))] if body or method in {"POST", "PUT"} else []
        lines += [f"Content-Length: {value}" for value in length]
        lines += [*more, "Connection: close"]
        return parsed(server.raw("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body))

    return call


def parsed(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    return int(head.split(b" ", 2)[1]), value, head.decode("latin-1").lower()


def code(answer):
    return answer[1]["error"]["code"] if answer[1] is not None else None


def test_a_plain_request_is_answered(send):
    status, body, head = send()
    assert status == 200
    assert body["items"]
    assert "x-content-type-options: nosniff" in head
    assert "server:" not in head


@pytest.mark.parametrize(
    "token",
    [None, "epm_" + "A" * 43, "", "all\t", "ALL", "x" * 1000],
    ids=["none", "wrong", "empty", "trailing", "case", "long"],
)
def test_a_request_without_a_good_token_is_refused(send, token):
    answer = send(token=token)
    assert (answer[0], code(answer)) == (401, "unauthenticated")
    assert "www-authenticate: bearer" in answer[2]


def test_a_token_is_taken_from_one_header_alone(send, server):
    good = server.tokens["all"]
    for answer in (
        send(token=None, path=f"/v1/retrieve?token={good}"),
        send(token=None, more=[f"Authorization: Basic {good}"]),
        send(token=None, more=[f"X-Api-Key: {good}", f"Cookie: token={good}"]),
        send(more=[f"Authorization: Bearer {good}"]),
    ):
        assert (answer[0], code(answer)) == (401, "unauthenticated")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.",
        "evil.example:80",
        "127.0.0.1@evil.example",
        "127.0.0.1:80:80",
        "[::1",
        "0.0.0.0",
        "xn--lcalhost-54a",
        "127.1",
        "2130706433",
        "localhost#",
        "localhost/",
    ],
)
def test_a_foreign_host_is_refused(send, host):
    answer = send(host=[host])
    assert (answer[0], code(answer)) == (421, "host_not_allowed")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8765", "127.0.0.1", "[::1]:9"])
def test_a_name_of_this_machine_is_let_in(send, host):
    assert send(host=[host])[0] == 200


@pytest.mark.parametrize("host", [[], ["127.0.0.1", "127.0.0.1"]], ids=["none", "two"])
def test_not_exactly_one_host_is_a_bad_request(send, host):
    assert send(host=host)[0] == 400


def test_a_request_line_with_another_host_reaches_no_other_place(send):
    answer = send(path="http://evil.example/v1/retrieve")
    assert answer[0] in {400, 404}


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://127.0.0.1:1", "https://localhost", "", "file://"],
)
def test_a_page_of_another_origin_is_refused(send, origin):
    answer = send(more=[f"Origin: {origin}"])
    assert (answer[0], code(answer)) == (403, "origin_not_allowed")


def test_a_page_of_the_server_itself_is_let_in_and_forged_forwarding_is_ignored(send, server):
    own = f"http://127.0.0.1:{server.port}"
    assert send(more=[f"Origin: {own}"])[0] == 200
    forged = ["X-Forwarded-For: 10.0.0.1", "X-Forwarded-Host: evil.example", "Forwarded: for=x"]
    assert send(more=forged)[0] == 200
    assert send(more=[*forged, "Origin: http://evil.example"])[0] == 403


@pytest.mark.parametrize("path", ["/v1/retrieve", "/mcp", "/openapi.json", "/metrics", "/"])
def test_every_path_is_behind_the_same_door(send, path):
    method = "GET" if path in {"/openapi.json", "/metrics", "/"} else "POST"
    assert send(method, path, host=["evil.example"])[0] == 421
    assert send(method, path, more=["Origin: http://evil.example"])[0] == 403
    assert send(method, path, token=None)[0] == 401


def test_the_probe_needs_no_token_and_says_nothing_else(send):
    status, body, _ = send("GET", "/healthz", b"", token=None, kind=None)
    assert (status, body) == (200, {"status": "ok"})


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/json; charset=utf-16",
        "application/jsonx",
        "application/json, text/plain",
    ],
)
def test_another_type_of_body_is_refused(send, kind):
    answer = send(kind=kind)
    assert (answer[0], code(answer)) == (415, "unsupported_type")


def test_a_coded_body_is_refused_unread(send):
    answer = send(more=["Content-Encoding: gzip"], body=b"\x1f\x8b" + b"\0" * 100)
    assert (answer[0], code(answer)) == (415, "unsupported_type")


@pytest.mark.parametrize(
    ("body", "status", "fault"),
    [
        (b"", 400, "bad_json"),
        (b"{", 400, "bad_json"),
        (b"\xef\xbb\xbf{}", 400, "bad_json"),
        (b'{"question":"\xff"}', 400, "bad_json"),
        (b'{"question":"\\ud800"}', 400, "bad_json"),
        (b'{"question":"\xed\xa0\x80"}', 400, "bad_json"),
        (b'{"question":"a","question":"b"}', 400, "bad_json"),
        (b'{"question":"a","k":NaN}', 400, "bad_json"),
        (b'{"question":"a","k":1e999}', 400, "bad_json"),
        (b'{"question":"a","k":99999999999999999999}', 400, "bad_json"),
        (b"[" * 33 + b"]" * 33, 400, "bad_json"),
        (b"[" * 100_000, 400, "bad_json"),
        (b"[]", 422, "invalid_field"),
        (b'"x"', 422, "invalid_field"),
        (b"1", 422, "invalid_field"),
        (b"null", 422, "invalid_field"),
        (b"{}", 422, "invalid_field"),
        (b'{"question":1}', 422, "invalid_field"),
        (b'{"question":["a"]}', 422, "invalid_field"),
        (b'{"question":"a","bank":"other"}', 422, "invalid_field"),
        (b'{"question":"a","contributor":"x"}', 422, "invalid_field"),
        (b'{"question":"a","k":0}', 422, "invalid_field"),
        (b'{"question":"a","k":51}', 422, "invalid_field"),
        (b'{"question":"a","k":-5}', 422, "invalid_field"),
        (b'{"question":"a","k":true}', 422, "invalid_field"),
        (b'{"question":"a","k":"3"}', 422, "invalid_field"),
        (b'{"question":"a","k":1.5}', 422, "invalid_field"),
        (b'{"question":"a","mode":"deep"}', 422, "invalid_field"),
        (b'{"question":"a\\u0000b"}', 422, "invalid_text"),
        (b'{"question":"a\\u202eb"}', 422, "invalid_text"),
        (b'{"question":" "}', 422, "invalid_text"),
        (b'{"question":"a","namespace":""}', 422, "invalid_text"),
        (b'{"question":"a","at_least":-1}', 422, "invalid_field"),
    ],
)  # fmt: skip
def test_a_body_that_is_no_request_is_refused_by_name(send, body, status, fault):
    answer = send(body=body)
    assert (answer[0], code(answer)) == (status, fault)


def test_a_write_from_the_future_is_waited_for_two_seconds(send):
    began = time.monotonic()
    answer = send(body=b'{"question":"a","at_least":1000000}')
    assert (answer[0], code(answer)) == (409, "not_ready")
    assert 1.5 < time.monotonic() - began < 8


@pytest.mark.parametrize("path", ["/v1/retrieve", "/v1/contribute", "/mcp"])
def test_a_body_that_is_too_long_is_refused_before_it_is_read(send, path):
    answer = send(path=path, body=b"", length=[str(60 * 1024 * 1024)])
    assert (answer[0], code(answer)) == (413, "too_large")


def test_a_body_without_a_length_is_counted_while_it_comes(server):
    head = (
        f"POST /v1/retrieve HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
        f"{server.tokens['all']}\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    ).encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(head)
        try:
            for _ in range(64):
                connection.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    "length", [["-1"], ["+5"], ["0x10"], ["5", "7"], ["a"]], ids=["-1", "+5", "0x", "two", "a"]
)
def test_a_length_that_is_none_is_a_bad_request(send, length):
    assert send(length=length)[0] == 400


def test_length_and_chunks_together_are_no_way_to_smuggle(send):
    answer = send(more=["Transfer-Encoding: chunked"], body=b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n")
    assert answer[0] in {400, 413} or answer[0] >= 400


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ([f"X-Long: {'a' * 65536}"], 431),
        ([f"X-{n}: 1" for n in range(1000)], 431),
    ],
    ids=["long", "many"],
)
def test_headers_have_a_limit(send, more, status):
    assert send(more=more)[0] == status


@pytest.mark.parametrize(
    "path",
    [
        "/v1/%2e%2e%2fetc/passwd",
        "/v1/%252e%252e/x",
        "/v1\\retrieve",
        "/v1/retrieve/",
        "/V1/retrieve",
        "//v1/retrieve",
        "/v1/blobs/..%2f..%2fbank.db",
    ],
)
def test_a_path_that_is_none_is_not_found(send, path):
    answer = send(path=path)
    assert (answer[0], code(answer)) in {(404, "not_found"), (405, "method_not_allowed")}


def test_a_path_of_a_hundred_kilobytes_is_refused(send):
    assert send(path="/v1/" + "a" * 100_000)[0] in {413, 431}


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE", "FOO"])
def test_another_method_is_refused(send, method):
    answer = send(method)
    assert answer[0] == 405


def test_an_upgrade_opens_nothing(send):
    more = ["Upgrade: websocket", "Sec-WebSocket-Key: eA==", "Sec-WebSocket-Version: 13"]
    assert send("GET", "/v1/retrieve", b"", more=more)[0] in {404, 405}


@pytest.mark.parametrize(
    ("path", "kind", "body", "status", "fault"),
    [
        ("/v1/blobs/" + "0" * 64, "image/png", b"\x89PNG", 422, "invalid_field"),
        ("/v1/blobs/nothing", "image/png", b"\x89PNG", 422, "invalid_field"),
        ("/v1/blobs/" + "0" * 64, "image/svg+xml", b"<svg/>", 415, "unsupported_type"),
        ("/v1/blobs/" + "0" * 64, "image/gif", b"GIF89a", 415, "unsupported_type"),
    ],
)
def test_a_blob_that_is_not_what_it_says_is_refused(send, path, kind, body, status, fault):
    answer = send("PUT", path, body, kind=kind)
    assert (answer[0], code(answer)) == (status, fault)


def test_a_blob_is_never_sent_as_anything_but_a_picture(send):
    answer = send("GET", "/v1/blobs/" + "0" * 64, b"", more=["Accept: image/svg+xml"])
    assert (answer[0], code(answer)) == (404, "not_found")


def test_what_a_caller_sent_stands_in_no_log(send, server):
    secret = "swordfish-in-the-question"
    send(body=json.dumps({"question": secret}).encode())
    send(body=json.dumps({"question": "a", secret: 1}).encode())
    send(path=f"/v1/{secret}")
    send(token=f"epm_{secret}")
    time.sleep(0.2)
    log = server.log.read_text()
    assert secret not in log
    assert server.tokens["all"] not in log
    events = [json.loads(line) for line in log.splitlines()]
    assert {"request_id", "route", "status", "principal", "ms"} <= set(events[-1])


def test_many_requests_in_one_go_are_all_answered(server):
    one = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
    answer = server.raw(one % b"" * 999 + one % b"Connection: close\r\n")
    assert answer.count(b"HTTP/1.1 200") == 1000


def test_idle_connections_do_not_stop_the_others(server, send):
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(200)]
    try:
        for number, connection in enumerate(idle):  # half of them in the middle of a header
            connection.sendall(b"GET /healthz HTT" * (number % 2))
        assert send()[0] == 200
    finally:
        for connection in idle:
            connection.close()
