"""Documents that wait to be contributed: each owner's own, bounded, and gone after an hour."""

from __future__ import annotations

import os
import time

import pytest

from epimem.errors import AccessError, NotFoundError, RecordError
from epimem.schema.ids import sha256
from epimem.service import uploads
from epimem.service.uploads import KEPT_S, Uploads


@pytest.fixture
def waiting(tmp_path):
    return Uploads(tmp_path / "uploads")


def put(waiting, owner, data):
    path = waiting.new()
    path.write_bytes(data)
    waiting.keep(owner, path, sha256(data))
    return sha256(data)


def test_a_document_is_its_owners_and_may_be_taken_again(waiting):
    blob = put(waiting, "one", b"{}")
    assert waiting.get("one", blob) == waiting.get("one", blob) == b"{}"
    with pytest.raises(NotFoundError):
        waiting.get("two", blob)
    for name in ("", "../x", "Z" * 64, blob + "0"):
        with pytest.raises(RecordError):
            waiting.get("one", name)


def test_so_much_may_wait_for_one_owner(waiting, monkeypatch):
    monkeypatch.setattr(uploads, "MOST_WAITING", 10)
    put(waiting, "one", b"123456")
    with pytest.raises(AccessError) as caught:
        put(waiting, "one", b"abcdef")
    assert caught.value.code == "quota_exceeded"
    put(waiting, "two", b"abcdef")


def test_what_nobody_came_back_for_goes_with_the_next_upload(waiting, tmp_path):
    blob = put(waiting, "one", b"old")
    old = time.time() - KEPT_S - 5
    for path in (tmp_path / "uploads").iterdir():
        os.utime(path, (old, old))
    put(waiting, "one", b"new")
    with pytest.raises(NotFoundError):
        waiting.get("one", blob)
