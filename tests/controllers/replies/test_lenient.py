from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.replies.lenient import MAX_DEPTH, Unreadable, scan

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**6)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


def value(text: str, words: frozenset[str] = frozenset()) -> object:
    return json.loads(scan(text, 0, words).json)


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=5), plain, max_size=4), st.sampled_from([None, 2]))
def test_json_is_read_as_json(data: dict, indent: int | None) -> None:
    for ascii_only in (False, True):
        text = json.dumps(data, indent=indent, ensure_ascii=ascii_only)
        found = scan(f"{text} and so on", 0)
        assert json.loads(found.json) == data
        assert (found.end, found.repairs) == (len(text), ())


@pytest.mark.parametrize(
    ("text", "data", "repair"),
    [
        ('{"a": 1,}', {"a": 1}, "a comma before a closing bracket"),
        ('{"a": [1, 2, ], }', {"a": [1, 2]}, "a comma before a closing bracket"),
        ("{'a': 'b'}", {"a": "b"}, "single quotes"),
        ("{'a': 'it isn't so'}", {"a": "it isn't so"}, "single quotes"),
        ("{'a': 'say \"x\"'}", {"a": 'say "x"'}, "single quotes"),
        ("{a: 1, b_c: 2}", {"a": 1, "b_c": 2}, "a field name without quotes"),
        ('{"a": True, "b": None}', {"a": True, "b": None}, "True, False or None"),
        ('{"a": "one\ntwo\tthree"}', {"a": "one\ntwo\tthree"}, "a line break or tab inside a text"),
        ('{"a": "it\\\'s"}', {"a": "it's"}, "an escaped single quote"),
        ('{"a": 1, // why\n "b": 2}', {"a": 1, "b": 2}, "a comment"),
        ('{"a": 1 /* why */}', {"a": 1}, "a comment"),
        ('{"a": L1}', {"a": "L1"}, "a text without quotes"),
    ],
)
def test_what_any_person_reads_alike_is_repaired(text: str, data: dict, repair: str) -> None:
    found = scan(text, 0, frozenset({"L1"}))
    assert json.loads(found.json) == data
    assert found.repairs == (repair,)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": }',
        '{"a" "b": 1}',
        '{"a": 1 "b": 2}',
        '{"a": "say "x" now"}',
        "{'a': 'the riders', he said'}",
        "{'a': 'dogs' tails'}",
        "{'a': '7'o clock'}",
        "{'a': 'b''c'}",
        '{"a": ...}',
        '{"a": [1, ...]}',
        '{"a": [,]}',
        '{"a": [1,,2]}',
        '{"a": 0x10}',
        '{"a": 01}',
        '{"a": 1.}',
        '{"a": +1}',
        '{"a": 12cm}',
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": undefined}',
        '{"a": yes maybe}',
        '{"a": L2}',
        '{"a": "\\x41"}',
        '{"a": "\\ud83"}',
        '{"a": "\x00"}',
        '{"a": 1]',
        "{a}",
        "{1: 2}",
        "{{}}",
    ],
)
def test_what_would_need_a_choice_or_a_value_is_refused(text: str) -> None:
    with pytest.raises(Unreadable) as caught:
        scan(text, 0, frozenset({"L1"}))
    assert not caught.value.cut


@pytest.mark.parametrize("quote", ['"', "'"])
def test_what_is_cut_anywhere_is_refused(quote: str) -> None:
    whole = '{"a": "one two", "b": [12, true, {"c": null}], "d": -1.5e3}'.replace('"', quote)
    assert value(whole)
    for size in range(1, len(whole)):
        with pytest.raises(Unreadable) as caught:
            scan(whole[:size], 0)
        assert caught.value.cut


def test_a_cut_escape_is_cut() -> None:
    with pytest.raises(Unreadable) as caught:
        scan('{"a": "b\\', 0)
    assert caught.value.cut


def test_depth_is_bounded() -> None:
    inner = MAX_DEPTH - 1
    assert scan('{"a":' + "[" * inner + "]" * inner + "}", 0).end == 2 * inner + 6
    for depth in (MAX_DEPTH, 100_000):
        with pytest.raises(Unreadable) as caught:
            scan('{"a":' + "[" * depth + "]" * depth + "}", 0)
        assert "deeper than 32" in caught.value.message
        assert caught.value.at < 100


@settings(deadline=None)
@given(st.text("{}[]:,'\"\\/*#\n aL1tN-0.", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = scan("{" + text, 0, frozenset({"L1"}))
    except Unreadable as refused:
        at = refused.at
    else:
        json.loads(found.json)
        at = found.end
    assert 0 < at <= len(text) + 1
