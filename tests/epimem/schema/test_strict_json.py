from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epimem.errors import RecordError
from epimem.schema import strict_json
from epimem.schema.strict_json import MAX_DEPTH, MAX_INT, MAX_KEYS, MIN_INT

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(MIN_INT, MAX_INT)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)

REFUSED: dict[str, bytes | str] = {
    "nothing": b"",
    "white space": b" \n",
    "prose": b"Sure, here is the JSON:",
    "cut off": b'{"a": [1, 2',
    "two values": b"{} {}",
    "byte order mark": b"\xef\xbb\xbf{}",
    "byte order mark in text": "\ufeff{}",
    "UTF-16": "{}".encode("utf-16"),
    "UTF-32": "{}".encode("utf-32"),
    "Latin-1": b'{"a": "caf\xe9"}',
    "encoded surrogate": b'"\xed\xa0\x80"',
    "overlong NUL": b'"\xc0\x80"',
    "byte FF": b'"a\xffb"',
    "truncated character": b'"\xe2\x82"',
    "duplicate key": b'{"a": 1, "a": 1}',
    "duplicate key by escape": b'{"a": 1, "\\u0061": 2}',
    "NaN": b"NaN",
    "Infinity": b"[Infinity]",
    "minus Infinity": b"-Infinity",
    "number over the range": b"1e999",
    "integer of 65 bits": b"9223372036854775808",
    "negative integer of 65 bits": b"-9223372036854775809",
    "integer of many digits": b"1" * 5000,
    "lone high surrogate": b'"hello \\ud83d"',
    "lone low surrogate": b'"\\udc00"',
    "lone surrogate as key": b'{"\\ud83d": 1}',
    "lone surrogate in text": '"\ud83d"',
    "raw control character": b'"a\x01b"',
    "raw NUL": b'"a\x00b"',
    "raw newline in a text": b'"a\nb"',
    "single quotes": b"{'a': 1}",
    "trailing comma": b"[1,]",
    "comment": b"[1] // one",
    "too deep": b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
    "far too deep": b"[" * 200_000,
    "too many keys": json.dumps({str(n): n for n in range(MAX_KEYS + 1)}),
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_strict_json_is_refused_by_name(data: bytes | str) -> None:
    with pytest.raises(RecordError) as caught:
        strict_json.loads(data)
    assert caught.value.code == "bad_json"


def test_what_stands_at_the_limit_is_read() -> None:
    deepest = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert strict_json.dumps(strict_json.loads(deepest)) == deepest
    widest = {str(n): n for n in range(MAX_KEYS)}
    assert strict_json.loads(json.dumps(widest)) == widest
    assert strict_json.loads(f"[{MIN_INT}, {MAX_INT}]") == [MIN_INT, MAX_INT]
    assert strict_json.loads('"\\ud83d\\ude00\\u0000"') == "\U0001f600\x00"


def test_a_run_may_be_deeper_and_keep_its_surrogates() -> None:
    depth = strict_json.RUN_DEPTH
    deepest = b"[" * depth + b"]" * depth
    assert strict_json.dumps(strict_json.loads(deepest, max_depth=depth)) == deepest
    with pytest.raises(RecordError):
        strict_json.loads(b"[" + deepest + b"]", max_depth=depth)
    assert strict_json.loads(b'["\\ud83d"]', keep_surrogates=True) == ["\ud83d"]


@given(plain)
def test_written_json_reads_back_equal(value: Any) -> None:
    assert strict_json.loads(strict_json.dumps(value)) == value


@given(st.dictionaries(st.text(), st.integers(0, 9)), st.randoms())
def test_canonical_json_does_not_depend_on_the_order_of_keys(
    value: dict[str, int], random: Any
) -> None:
    items = list(value.items())
    random.shuffle(items)
    assert strict_json.dumps(dict(items)) == strict_json.dumps(value)


def test_canonical_json_has_sorted_keys_no_spaces_and_utf8() -> None:
    assert strict_json.dumps({"b": [1, 2.5], "a": "é"}) == '{"a":"é","b":[1,2.5]}'.encode()


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), "\ud83d", {"\udc00": 1}, {1, 2}, object()]
)
def test_what_json_cannot_hold_is_not_written(value: Any) -> None:
    with pytest.raises(RecordError) as caught:
        strict_json.dumps({"a": value})
    assert caught.value.code == "bad_json"


def test_the_message_of_a_refusal_is_short_and_plain() -> None:
    with pytest.raises(RecordError) as caught:
        strict_json.loads("1" * 10_000)
    assert len(str(caught.value)) < 120
    assert str(caught.value).isascii()


@pytest.mark.parametrize("data", [b"[" * 1_000_000, b'{"a":' * 200_000, b'"' + b"a" * 10_000_000])
def test_hostile_input_is_refused_within_a_second(data: bytes) -> None:
    started = time.process_time()
    with pytest.raises(RecordError):
        strict_json.loads(data)
    assert time.process_time() - started < 1.0
