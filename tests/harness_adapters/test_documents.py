from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from epimem.errors import NotFoundError
from harness_adapters import documents as module
from harness_adapters.documents import Document, documents, inside
from harness_adapters.importer import FieldTally, Imported, Refused
from harness_adapters.openai_chat import OpenAIChatImporter

CHAT = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}


def sources(found: Iterator[Document | Refused]) -> list[str]:
    return [
        item.label if isinstance(item, Document) else f"refused {item.source}" for item in found
    ]


def test_a_folder_is_walked_in_the_order_of_numbers_and_names(tmp_path: Path) -> None:
    for name in ("10.json", "9.json", "b.json", "notes.txt", "sub/2.json", "sub/1.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}\n\n{}\n" if name.endswith("l") else "{}")
    assert sources(documents(tmp_path, (".json", ".jsonl"))) == [
        "9.json",
        "10.json",
        "b.json",
        "sub/1.jsonl:1",
        "sub/1.jsonl:3",
        "sub/2.json",
    ]


def test_nothing_to_read_is_an_error_not_an_empty_success(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("{}")
    for path in (tmp_path, tmp_path / "absent.json"):
        with pytest.raises(NotFoundError):
            list(documents(path, (".json",)))


def test_links_that_leave_the_folder_are_refused_and_others_read(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.json").write_text("{}")
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.json").write_text("{}")
    (folder / "b.json").symlink_to(folder / "a.json")
    (folder / "c.json").symlink_to(outside / "secret.json")
    (folder / "d").symlink_to(outside)
    (folder / "e.json").symlink_to(folder / "absent.json")
    os.mkfifo(folder / "f.json")
    assert sources(documents(folder, (".json",))) == [
        "a.json",
        "b.json",
        "refused c.json",
        "refused d",
        "refused e.json",
        "refused f.json",
    ]
    assert not inside(folder, folder / "../outside/secret.json")


def test_one_bad_line_in_ten_thousand_is_set_aside_and_the_rest_goes_on(tmp_path: Path) -> None:
    line = json.dumps(CHAT)
    lines = [line] * 10_000
    lines[4_999] = line[:-1]
    path = tmp_path / "chats.jsonl"
    path.write_text("\n".join(lines))
    imported, refused = 0, []
    for item in OpenAIChatImporter().read(path, admit=_no_images):
        imported += isinstance(item, Imported)
        if isinstance(item, Refused):
            refused.append((item.source, item.line, item.code))
    assert refused == [("chats.jsonl", 5_000, "bad_json")]
    assert imported == 9_999


def test_lines_are_read_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    big = json.dumps(CHAT | {"padding": "x" * 200_000}) + "\n"
    path.write_text(big * 3)
    reading = OpenAIChatImporter().read(path, admit=_no_images)
    assert isinstance(next(reading), Imported)
    with path.open("a") as file:
        file.write(big)
    assert len(list(reading)) == 3


def test_a_document_over_the_limit_is_refused_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_DOCUMENT", 1_000)
    path = tmp_path / "chats.jsonl"
    huge = json.dumps(CHAT | {"padding": "x" * 5_000})
    path.write_text("\n".join([json.dumps(CHAT), huge, json.dumps(CHAT)]))
    found = list(OpenAIChatImporter().read(path, admit=_no_images))
    assert [type(item) for item in found] == [Imported, Refused, Imported]
    assert isinstance(found[1], Refused)
    assert (found[1].line, found[1].code) == (2, "too_large")
    (tmp_path / "one.json").write_text(huge)
    (alone,) = OpenAIChatImporter().read(tmp_path / "one.json", admit=_no_images)
    assert isinstance(alone, Refused)
    assert (alone.line, alone.code) == (0, "too_large")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"[]", "invalid_field"),
        (b"null", "invalid_field"),
        (b'{"messages": []}', "invalid_field"),
        (b'{"messages": "hi"}', "invalid_field"),
        (b'{"messages": [{"role": "critic", "content": "x"}]}', "invalid_field"),
        (b'{"messages": [{"content": "x"}]}', "invalid_field"),
        (b'{"messages": [{"role": "user", "content": 5}]}', "invalid_field"),
        (b'{"messages": [{"role": "assistant", "content": "no question"}]}', "invalid_field"),
        (b'\xef\xbb\xbf{"messages": []}', "bad_json"),
        (b'{"messages": [], "messages": []}', "bad_json"),
        (b'{"a": "\xff"}', "bad_json"),
        (b'{"a": NaN}', "bad_json"),
        (b'{"a": ' + b"[" * 60 + b"]" * 60 + b"}", "bad_json"),
    ],
)
def test_a_bad_line_is_refused_by_name(tmp_path: Path, line: bytes, code: str) -> None:
    path = tmp_path / "chats.jsonl"
    path.write_bytes(line + b"\n")
    (found,) = OpenAIChatImporter().read(path, admit=_no_images)
    assert isinstance(found, Refused)
    assert (found.line, found.code) == (1, code)
    assert found.message.isascii()
    assert len(found.message) < 300


def test_a_fault_that_is_not_the_documents_is_raised(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    data = "data:image/png;base64,iVBORw0KGgo="
    image = {"type": "image_url", "image_url": {"url": data}}
    path.write_text(json.dumps({"messages": [{"role": "user", "content": [image]}]}))

    def full(_: bytes) -> Any:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        list(OpenAIChatImporter().read(path, admit=full))


def test_replaced_characters_are_counted_and_noted() -> None:
    tally = FieldTally("x")
    value, replaced = Document("x", 0, Path(), b'{"a\\u0000": "\\ud83d"}').parse(tally)
    assert value == {"a\\u0000": "\\ud83d"}
    assert replaced == 2
    assert tally.report().note_counts() == {"characters_replaced": 1}


def _no_images(_: bytes) -> Any:
    raise AssertionError("no image in here")
