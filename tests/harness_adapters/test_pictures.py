from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epimem.errors import ImageError
from epimem.schema.atif import ImageSource
from harness_adapters import pictures as module
from harness_adapters.importer import FieldTally
from harness_adapters.pictures import Pictures, from_data_url, media_type_of, read_beside

Png = Callable[..., bytes]

ADDRESSES = [
    "http://host/a.png",
    "https://host/a.png",
    "HTTP://host/a.png",
    " http://host/a.png",
    "file:///etc/passwd",
    "file://host/etc/passwd",
    "gopher://host",
    "blob:abc",
    "javascript:alert(1)",
    "dict://host",
    "ldap://host",
    "data:image/png;base64,AAAA",
    "http://169.254.169.254/latest",
    "http://[::1]/",
    "h" + "ttp://host/" + "a" * 100_000,
]
LEAVING = [
    "/etc/passwd",
    "../secret.png",
    "sub/../../secret.png",
    "./../secret.png",
    "/dev/zero",
    "/proc/self/environ",
    "nul\x00.png",
    "link.png",
    "linked/secret.png",
]
ABSENT = ["absent.png", "", ".", "sub", "~/a.png", "a" * 5_000, "pipe.png", "a.png/b.png"]


@pytest.fixture
def folder(tmp_path: Path, png: Png) -> Path:
    (tmp_path / "secret.png").write_bytes(png())
    folder = tmp_path / "data"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.png").write_bytes(png())
    (folder / "sub/b.png").write_bytes(png(color="blue"))
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "linked").symlink_to(tmp_path)
    (folder / "fine.png").symlink_to("a.png")
    os.mkfifo(folder / "pipe.png")
    return folder


@pytest.mark.parametrize("name", ADDRESSES, ids=range(len(ADDRESSES)))
def test_an_address_is_refused_unread(folder: Path, name: str) -> None:
    with pytest.raises(ImageError) as caught:
        read_beside(folder, name)
    assert caught.value.code == "remote_image_refused"


@pytest.mark.parametrize("name", LEAVING)
def test_a_path_that_leaves_its_folder_is_refused_unread(folder: Path, name: str) -> None:
    with pytest.raises(ImageError) as caught:
        read_beside(folder, name)
    assert caught.value.code == "remote_image_refused"


@pytest.mark.parametrize("name", ABSENT, ids=range(len(ABSENT)))
def test_what_is_no_regular_file_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(ImageError) as caught:
        read_beside(folder, name)
    assert caught.value.code in {"invalid_image", "remote_image_refused"}


def test_files_beside_and_below_are_read(folder: Path, png: Png) -> None:
    assert read_beside(folder, "a.png") == read_beside(folder, "fine.png") == png()
    assert read_beside(folder, "sub/b.png") == read_beside(folder, "./sub/../sub/b.png")


def test_a_file_over_the_limit_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_IMAGE", 10)
    with pytest.raises(ImageError) as caught:
        read_beside(folder, "a.png")
    assert caught.value.code == "image_too_big"


def test_a_data_url_carries_the_bytes(png: Png) -> None:
    text = base64.b64encode(png()).decode()
    for head in ("data:image/png;base64,", "DATA:image/png;BASE64,", "data:image/png;a=b;base64,"):
        assert from_data_url(head + text) == (png(), "image/png")
    assert from_data_url(f"data:;base64,{text}") == (png(), "")


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("data:image/png;base64,AA AA", "invalid_image"),
        ("data:image/png;base64,AA-_", "invalid_image"),
        ("data:image/png;base64,AAA", "invalid_image"),
        ("data:image/png;base64,AAAA===", "invalid_image"),
        ("data:image/png;base64,é", "invalid_image"),
        ("data:image/png,%89PNG", "invalid_image"),
        ("data:image/png;base64", "remote_image_refused"),
        (" data:image/png;base64,AAAA", "remote_image_refused"),
        ("https://host/a.png", "remote_image_refused"),
        ("", "remote_image_refused"),
    ],
)
def test_a_faulty_data_url_is_refused(url: str, code: str) -> None:
    with pytest.raises(ImageError) as caught:
        from_data_url(url)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("kind", "media_type"),
    [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("WEBP", "image/webp"), ("GIF", "image/gif")],
)
def test_the_bytes_tell_the_media_type(png: Png, kind: str, media_type: str) -> None:
    assert media_type_of(png(kind=kind)) == media_type


@pytest.mark.parametrize("data", [b"", b"\x89PNG", b"<svg/>", b"%PDF-1.7", b"RIFF0000WAVE"])
def test_other_bytes_are_of_an_unsupported_type(data: bytes) -> None:
    with pytest.raises(ImageError) as caught:
        media_type_of(data)
    assert caught.value.code == "unsupported_type"


def test_a_wrongly_declared_type_is_corrected_and_noted(album: Any, png: Png) -> None:
    tally = FieldTally("x")
    pictures = Pictures(album.admit, tally)
    part = pictures.part(png(kind="JPEG"), "a", "image/png")
    assert isinstance(part.source, ImageSource)
    assert part.source.media_type == "image/jpeg"
    pictures.part(png(kind="JPEG"), "b", " image/JPG ")
    assert tally.report().note_counts() == {"media_type_corrected": 1}


def test_admitted_images_become_pages_in_order(album: Any, png: Png) -> None:
    pictures = Pictures(album.admit, FieldTally("x"))
    parts = (pictures.part(png(3, 2), "a"), pictures.part(png(4, 5), "b"))
    pages = pictures.pages(parts)
    assert [(page.page, page.width, page.height) for page in pages] == [(1, 3, 2), (2, 4, 5)]
    assert [page.image_id for page in pages] == [image.image_id for image in pictures.images]
    assert [image.name for image in pictures.images] == ["a", "b"]
