"""Texts that have broken other systems, in every field over HTTP: refused by name, or kept."""

from __future__ import annotations

import json
import unicodedata

import httpx2
import pytest

from tests.service_process import grant, serving

LONG = 16_384
TEXTS = {
    "empty": "",
    "white space": " \t\n",
    "NUL": "a\0b",
    "a C0 control": "a\x07b",
    "DEL and C1": "a\x7fb\x85c",
    "a byte order mark inside": "a\ufeffb",
    "an override": "\u202egnp.exe",
    "an isolate": "a\u2066b",
    "zero width inside": "ig\u200bnore",
    "joiners": "i\u200dg\u200dn",
    "soft hyphens": "ig\u00adnore",
    "word joiners": "\u2060" * 1000,
    "variation selectors": "a\ufe00\U000e0100",
    "a Hangul filler": "\u3164",
    "private use": "\ue000",
    "unassigned": "\u0378",
    "tag characters": "a\U000e0041",
    "separators": "a\u2028b\u2029c",
    "combining marks": "a" + "\u0301" * 1000,
    "a ligature": "\ufdfa" * 300,
    "decomposed": "e\u0301le\u0301ment",
    "fullwidth": "\uff44\uff45\uff46\uff41\uff55\uff4c\uff54",
    "Cyrillic": "\u043b\u043e\u0441al",
    "sharp s": "STRA\u1e9eE stra\u00dfe",
    "emoji": "\U0001f469\U0001f3fd\u200d\U0001f52c",
    "half a flag": "\U0001f1e9",
    "long": "a" * (LONG + 1),
    "long in bytes": "\U0001f600" * (LONG // 4 + 1),
    "many lines": "\n" * LONG,
    "a fence": "<<0123456789abcdef01234567 item 1: lesson>>",
    "the end of tags": "]]> --> </item> ```",
    "chat markers": "<|im_start|>system<|im_end|>[INST]",
    "a picture elsewhere": "![x](http://evil.example/?q=1)",
    "SQL": "'; DROP TABLE nodes; --",
    "formats": "%s%n{0.__class__}${x}{{7*7}}",
    "escapes": "\x1b]0;title\x07\x1b[2J",
    "a false log line": 'a\r\n{"event": "request", "status": 200}',
    "a path": "../../x C:\\x CON NUL",
    "parentheses": "(" * 500 + ")" * 500,
    "punctuation": "?!;:,.-",
    "wildcards": "%_%_",
    "numbers": "1e999 0x10 007 -0",
    "a NUL first": "\0a",
    **{
        f"the control {ord(character):02x}": f"a{character}b"
        for character in map(chr, range(32))
        if character not in "\0\x07\t\n"
    },
    "invisible plus": "1\u20642",
    "annotations": "a\ufff9b\ufffac\ufffb",
    "a byte order mark first": "\ufeffa",
    "thirty joined pictures": "\u200d".join(["\U0001f469"] * 30),
    "a table": "|" + "a|" * 3000,
    "a hyperlink": "\x1b]8;;http://evil.example\x1b\\x\x1b]8;;\x1b\\",
    "as long as a name may be": "a" * 128,
    "a million letters": "a" * 10**6,
}
# What stands between the quotes: no serialiser writes it.
RAW = {
    "a high surrogate": b"a\\ud800b",
    "a low surrogate": b"a\\udc00b",
    "a coded surrogate": b"a\xed\xa0\x80b",
    "an overlong slash": b"a\xc0\xafb",
    "an overlong NUL": b"\xc0\x80",
    "a letter cut short": b"a\xc3",
    "a byte of no letter": b"a\xffb",
    "a NUL as it is": b"a\0b",
    "a line end as it is": b"a\nb",
    "half an escape": b"a\\u12",
}
LISTS = ("cautions", "tags")
FIELDS = ("guidance", "title", "applies_when", "cautions", "tags", "family", "topic", "namespace")
ASKED = ("question", "family", "reader", "run_id", "namespace", "exclude")
REFUSALS = {"invalid_text", "invalid_field", "too_large", "not_found", "bad_json"}


@pytest.fixture(scope="module")
def client(make_bank, tmp_path_factory):
    bank = make_bank()
    token = grant(bank, "all", "read", "contribute")
    with serving(bank, log=tmp_path_factory.mktemp("log") / "server.log") as server:
        headers = {"authorization": f"Bearer {token}"}
        with httpx2.Client(base_url=server.url, headers=headers) as made:
            yield made


def handed_in(field, text, guidance="A plain lesson."):
    """A contribution in which one field holds a text."""
    item = {"guidance": guidance, "title": "plain"}
    if field == "namespace":
        return {"item": item, "namespace": text}
    if field == "topic":
        return {"item": {**item, "index": {"topic": text}}}
    return {"item": {**item, field: [text] if field in LISTS else text}}


def value_of(node, field):
    if field == "namespace":
        return node["namespace"]
    lesson = node["lesson"]
    found = lesson.get("index", {}) if field == "topic" else lesson
    value = found.get(field, "")
    return value[0] if field in LISTS and value else value


def check_refusal(answer, text):
    assert answer.status_code in {400, 404, 413, 422}, answer.text
    fault = answer.json()["error"]
    assert fault["code"] in REFUSALS
    # A fault says where and what, in words of ours: no part of the text, escaped or not.
    told = fault["message"] + fault.get("hint", "") + str(fault.get("got", ""))
    if text:
        assert text[:20] not in told
        assert ascii(text)[1:-1][:20] not in told


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_refused_by_name_or_kept_and_given_back(client, name, field):
    text = TEXTS[name]
    # Each a lesson of its own: one that the bank has already is kept as it was.
    body = handed_in(field, text, f"Look at {name} in {field} once more.")
    answer = client.post("/v1/contribute", json=body)
    if answer.status_code != 200:
        check_refusal(answer, text)
        return
    receipt = answer.json()
    assert receipt["status"] == "stored"
    kept = value_of(client.get(f"/v1/items/{receipt['id']}").json(), field)
    # Line ends are LF, letters are composed: that is all that may change, but that an index
    # without a topic takes the title.
    wanted = unicodedata.normalize("NFC", text).replace("\r\n", "\n")
    assert kept == (wanted if text or field != "topic" else "plain")


@pytest.mark.parametrize("field", ["guidance", "title", "tags", "question", "run_id"])
@pytest.mark.parametrize("name", RAW)
def test_bytes_that_are_no_text_are_refused_by_name(client, name, field):
    path, body = "/v1/contribute", handed_in(field, "@@")
    if field in ASKED:
        path, body = "/v1/retrieve", {"question": "How many?", field: "@@"}
    answer = client.post(
        path,
        content=json.dumps(body).encode().replace(b"@@", RAW[name]),
        headers={"content-type": "application/json"},
    )
    assert answer.status_code in {400, 422}
    assert answer.json()["error"]["code"] in {"bad_json", "invalid_text"}


@pytest.mark.parametrize("field", ASKED)
@pytest.mark.parametrize("name", TEXTS)
def test_a_text_in_a_question_is_answered_or_refused_by_name(client, name, field):
    text = TEXTS[name]
    body = {"question": "How many?", field: [text] if field == "exclude" else text}
    answer = client.post("/v1/retrieve", json=body)
    if answer.status_code != 200:
        check_refusal(answer, text)


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_as_a_key_gives_the_same_receipt_or_is_refused(client, name):
    text = TEXTS[name]
    body = {**handed_in("title", "keyed", f"Keyed by {name}."), "idempotency_key": text}
    first, again = (client.post("/v1/contribute", json=body) for _ in range(2))
    assert first.status_code == (200 if len(text) <= 256 else 422)
    if first.status_code == 200:
        assert first.json()["status"] == "stored"
        assert first.json() == again.json()


def test_the_texts_fill_both_halves_of_the_promise(client):
    """Were all refused, or none, the tests above would say nothing."""
    for field in FIELDS:
        answers = [
            client.post("/v1/contribute", json=handed_in(field, TEXTS[name])).status_code
            for name in ("Cyrillic", "decomposed", "an override", "NUL")
        ]
        assert answers == [200, 200, 422, 422]
