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
}
FIELDS = ("guidance", "title", "applies_when", "tags", "family", "topic")
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


def item_with(field, text):
    item = {"guidance": "A plain lesson.", "title": "plain"}
    if field == "topic":
        return {**item, "index": {"topic": text}}
    return {**item, field: [text] if field == "tags" else text}


def value_of(node, field):
    lesson = node["lesson"]
    if field == "topic":
        return lesson.get("index", {}).get("topic", "")
    found = lesson.get(field, "")
    return found[0] if field == "tags" and found else found


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_refused_by_name_or_kept_and_given_back(client, name):
    text = TEXTS[name]
    for field in FIELDS:
        answer = client.post("/v1/contribute", json={"item": item_with(field, text)})
        told = answer.json()
        if answer.status_code != 200:
            assert answer.status_code in {400, 404, 413, 422}, (field, told)
            assert told["error"]["code"] in REFUSALS, (field, told)
            assert text.strip() == "" or text not in json.dumps(told, ensure_ascii=False)
            continue
        if told["status"] != "stored":
            continue
        node = client.get(f"/v1/items/{told['id']}").json()
        kept = value_of(node, field)
        # Line ends are LF, letters are composed: that is all that may change.
        wanted = unicodedata.normalize("NFC", text).replace("\r\n", "\n")
        assert kept == wanted or kept == text.strip() == "", field


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_in_a_question_is_answered_or_refused_by_name(client, name):
    text = TEXTS[name]
    for field in ASKED:
        body = {"question": "How many?", field: [text] if field == "exclude" else text}
        answer = client.post("/v1/retrieve", json=body)
        assert answer.status_code in {200, 400, 404, 413, 422}, (field, answer.text)
        if answer.status_code != 200:
            assert answer.json()["error"]["code"] in REFUSALS


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_as_a_key_gives_the_same_receipt_or_is_refused(client, name):
    body = {"item": item_with("title", f"keyed {len(name)}"), "idempotency_key": TEXTS[name]}
    first, again = (client.post("/v1/contribute", json=body) for _ in range(2))
    assert first.status_code in {200, 422}
    assert first.status_code != 200 or first.json() == again.json()
    assert first.status_code == 422 or len(TEXTS[name]) <= 256
