"""Names and ids that stand beside a record."""

from __future__ import annotations

import pytest

from epimem.errors import RecordError
from epimem.schema.names import addressed, checked_id, checked_name, checked_title


def test_a_name_is_normalized_and_otherwise_as_it_is():
    assert checked_name("e\u0301quipe", "namespace") == "\u00e9quipe"
    assert checked_name("my-team 'a' 100%", "namespace") == "my-team 'a' 100%"
    assert checked_title("", "family") == ""


@pytest.mark.parametrize(
    ("check", "value", "code"),
    [
        (checked_name, "", "invalid_text"),
        (checked_name, " \t", "invalid_text"),
        (checked_name, "a\u202eb", "invalid_text"),
        (checked_name, "\ud83d", "invalid_text"),
        (checked_name, "a" * 129, "too_large"),
        (checked_name, 5, "invalid_field"),
        (checked_name, None, "invalid_field"),
        (checked_title, "a" * 257, "too_large"),
        (checked_title, "a\0", "invalid_text"),
        (checked_id, "a\ud83d", "invalid_text"),
        (checked_id, 5, "invalid_field"),
        (checked_id, b"a", "invalid_field"),
    ],
)
def test_a_bad_one_is_refused_by_the_name_of_its_field(check, value, code):
    with pytest.raises(RecordError) as refused:
        check(value, "place")
    assert (refused.value.code, refused.value.field) == (code, "place")


@pytest.mark.parametrize("value", ["", "a\0b", "e\u0301", "\U0001f600", "0198f2c4-7d1e"])
def test_an_id_is_any_text_that_utf8_can_hold_unchanged(value):
    assert checked_id(value, "id") == value


@pytest.mark.parametrize(
    ("audience", "reader", "seen"),
    [
        ((), None, True),
        (("ann",), "ann", True),
        (("ann",), "bob", False),
        (("ann",), None, False),
        (("ann",), "@pool/ann", False),
        (("@pool/ann", "eve"), "codex", False),
        (("@pool/ann", "@other/eve"), "@other/bob", False),
        (("@pool/ann", "@other/eve"), "@third/bob", True),
        (("@pool/ann",), "@pool/x/ann", False),
        (("@pool/ann",), "pool/ann", True),
        (("@pool/ann",), "", True),
        (("pool/ann",), "codex", False),
        (("@ann",), "codex", False),
    ],
)
def test_whom_an_audience_lets_in(audience: tuple[str, ...], reader: str | None, *, seen: bool):
    assert addressed(audience, reader) is seen
