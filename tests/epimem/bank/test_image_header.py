from __future__ import annotations

import struct
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epimem.bank.image_header import MAX_PIXELS, read_header
from epimem.errors import ImageError
from tests.image_files import (
    SECRET,
    SIGNATURE,
    chunk,
    encoded,
    flat_png,
    frame_patched,
    idat,
    ihdr,
    inserted,
    picture,
    png,
    png_chunks,
    riff,
    rows_of,
    segment_added,
    smooth,
    with_orientation,
)

PNG = encoded(picture(), "PNG")
JPEG = encoded(smooth(), "JPEG")
WEBP = encoded(picture(), "WEBP", lossless=True)
ROWS = idat(rows_of(picture()))


def refusal(data: bytes, declared: str | None = None) -> ImageError:
    with pytest.raises(ImageError) as caught:
        read_header(data, declared=declared)
    return caught.value


OUTCOMES = {"taken", "invalid_image", "image_too_big", "unsupported_type", "remote_image_refused"}


def outcome(data: bytes) -> str:
    try:
        read_header(data)
    except ImageError as error:
        return error.code
    return "taken"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "png"),
        (JPEG, "jpeg"),
        (WEBP, "webp"),
        (encoded(picture(), "JPEG", progressive=True), "jpeg"),
        (encoded(picture().convert("CMYK"), "JPEG"), "jpeg"),
        (segment_added(JPEG, 0xE1, b"http://ns.adobe.com/xap/1.0/\0" + b"x" * 60_000), "jpeg"),
        (JPEG[:2] + b"\xff" * 1000 + JPEG[2:], "jpeg"),
        (encoded(picture(), "WEBP", quality=50), "webp"),
        (with_orientation(picture(), "WEBP", 6), "webp"),
    ],
)
def test_kind_and_size_are_read_from_the_bytes(data: bytes, kind: str) -> None:
    header = read_header(data)
    assert (header.kind, header.width, header.height) == (kind, 64, 48)


@pytest.mark.parametrize(
    "declared", ["image/png", "IMAGE/PNG", "image/png; q=1", "png", "image/x-png"]
)
def test_a_declared_type_that_agrees_is_taken(declared: str) -> None:
    assert read_header(PNG, declared=declared).kind == "png"


def test_a_declared_type_that_disagrees_is_refused() -> None:
    assert read_header(JPEG, declared="image/jpg").kind == "jpeg"
    for declared in ("image/jpeg", "image/gif", "image/svg+xml", "text/html", ""):
        assert refusal(PNG, declared).code == "invalid_image"
    assert refusal(WEBP, "image/png").code == "invalid_image"


def test_a_png_is_reduced_to_the_chunks_that_make_its_pixels() -> None:
    text = [chunk(kind, SECRET) for kind in (b"tEXt", b"zTXt", b"iTXt", b"iCCP", b"tIME", b"prVt")]
    kept = [chunk(b"eXIf", b"II*\0")]
    body = read_header(inserted(PNG, *text, *kept) + b"PK\3\4<html>").body
    assert [kind for kind, _ in png_chunks(body)] == [b"IHDR", b"eXIf", b"IDAT", b"IEND"]
    assert SECRET not in body
    assert read_header(PNG).body == PNG


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "invalid_image"),
        (b"\x89", "invalid_image"),
        (SIGNATURE, "invalid_image"),
        (SIGNATURE + ihdr(8, 8)[:20], "invalid_image"),
        (PNG[:-1], "invalid_image"),
        (PNG[: len(PNG) // 2], "invalid_image"),
        (PNG[:-12], "invalid_image"),
        (png(chunk(b"IHDR", ihdr(64, 48)[8:21], crc=1), ROWS), "invalid_image"),
        (png(ihdr(64, 48), chunk(b"IDAT", ROWS[8:-4], crc=1)), "invalid_image"),
        (png(ihdr(64, 48), chunk(b"tEXt", b"a\0b", crc=1), ROWS), "invalid_image"),
        (png(ihdr(64, 0), ROWS), "invalid_image"),
        (png(ihdr(0, 48), ROWS), "invalid_image"),
        (png(ihdr(2**31 - 1, 48), ROWS), "image_too_big"),
        (png(ihdr(2**32 - 1, 2**32 - 1), ROWS), "image_too_big"),
        (flat_png(20_000, 20_000), "image_too_big"),
        (flat_png(13_000, 13_000), "image_too_big"),
        (png(ihdr(10_000, 10_001), ROWS), "image_too_big"),
        (png(ihdr(64, 48), ihdr(8, 8), ROWS), "invalid_image"),
        (png(ROWS, ihdr(64, 48)), "invalid_image"),
        (png(chunk(b"CgBI", bytes(4)), ihdr(64, 48), ROWS), "invalid_image"),
        (png(chunk(b"IHDR", bytes(12)), ROWS), "invalid_image"),
        (png(ihdr(64, 48), chunk(b"CRIT"), ROWS), "invalid_image"),
        (png(ihdr(64, 48, color=3), ROWS), "invalid_image"),
        (png(ihdr(64, 48, color=3), chunk(b"PLTE", b"1234"), ROWS), "invalid_image"),
        (png(ihdr(64, 48, color=3), chunk(b"PLTE"), ROWS), "invalid_image"),
        (png(ihdr(64, 48, color=3), chunk(b"PLTE", bytes(771)), ROWS), "invalid_image"),
        (inserted(PNG, chunk(b"acTL", struct.pack(">II", 1000, 0))), "invalid_image"),
        (inserted(PNG, chunk(b"acTL", b"")), "invalid_image"),
        (inserted(PNG, chunk(b"fdAT", bytes(20))), "invalid_image"),
        (b"\xff\xd8\xff", "invalid_image"),
        (JPEG[:100], "invalid_image"),
        (JPEG[:2] + JPEG[JPEG.index(b"\xff\xda") :], "invalid_image"),
        (b"\xff\xd8\xff\xe0\0\x02x" + JPEG[2:], "invalid_image"),
        (frame_patched(JPEG, 3, b"\xff\xff\xff\xff"), "image_too_big"),
        (frame_patched(JPEG, 3, b"\0\0"), "invalid_image"),
        (frame_patched(JPEG, 5, b"\0\0"), "invalid_image"),
        (riff(), "invalid_image"),
        (riff(b"VP8L"), "invalid_image"),
        (riff(b"VP8L" + struct.pack("<IBI", 5, 0x2F, 2**28 - 1)), "image_too_big"),
        (riff(b"VP8L" + struct.pack("<IBI", 5, 0x2E, 0)), "invalid_image"),
        (riff(b"VP8X" + struct.pack("<II", 10, 0) + b"\xff" * 6), "image_too_big"),
        (riff(b"VP8X" + struct.pack("<II", 10, 0) + b"\0" * 5), "invalid_image"),
        (riff(b"VP8 " + bytes(14)), "invalid_image"),
        (riff(b"JUNK" + bytes(14)), "invalid_image"),
    ],
)
def test_damaged_headers_and_bombs_are_refused_by_name_and_fast(data: bytes, code: str) -> None:
    begun = time.monotonic()
    assert refusal(data).code == code
    assert time.monotonic() - begun < 1


def test_exactly_100_megapixels_pass_the_header() -> None:
    header = read_header(png(ihdr(10_000, 10_000), ROWS))
    assert header.width * header.height == MAX_PIXELS


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xd8\xff" + b"\xff" * (32 * 2**20 - 3),
        b"\xff\xd8" + b"\xff\xfe\0\2" * 2**23,
        SIGNATURE + ihdr(8, 8) + chunk(b"teSt") * 2_700_000,
    ],
    ids=["fill", "segments", "chunks"],
)
def test_millions_of_empty_parts_are_refused_fast(data: bytes) -> None:
    begun = time.monotonic()
    assert refusal(data).code == "invalid_image"
    assert time.monotonic() - begun < 1


@pytest.mark.parametrize(
    "data",
    [
        encoded(picture(), "GIF"),
        b"GIF89a" + b"\xff" * 20,
        encoded(picture(), "TIFF"),
        b"II*\0\x08\0\0\0" + b"\1\0" * 40,
        encoded(picture(), "BMP"),
        encoded(picture(), "ICO"),
        encoded(picture(), "DDS"),
        encoded(picture(), "AVIF"),
        encoded(picture(), "PPM"),
        encoded(picture(), "JPEG2000"),
        encoded(picture(), "PDF"),
        b"8BPS\0\1" + bytes(40),
        b"SIMPLE  =                    T" + b" " * 2850,
        b"\x1f\x8b\x08" + bytes(60),
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BeginBinary: 99999999\n",
        b"icns\0\0\0\x10" + bytes(8),
        b"\0\0\0\x18ftypheic" + bytes(12),
        b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        b"<?xml version='1.0'?><svg/>",
        b"<!DOCTYPE html><html><body>picture</body></html>",
        b"PK\3\4" + bytes(40),
        picture().tobytes(),
        b"iVBORw0KGgoAAAANSUhEUgAAAEAAAAAwCAIAAAAuKetI",
        b"iVBO Rw0K Ggo= ===",
        b" " + PNG,
    ],
)
def test_other_formats_whatever_their_name_are_unsupported(data: bytes) -> None:
    error = refusal(data, declared="image/png")
    assert error.code == "unsupported_type"
    assert "PNG" in str(error.hint)


REFERENCES = [
    "http://example.com/a.png",
    "https://example.com/a.png",
    "HTTPS://EXAMPLE.COM/A",
    "file:///etc/passwd",
    "file://host/share/a.png",
    "ftp://example.com/a",
    "gopher://example.com",
    "data:image/png;base64,iVBORw0KGgo=",
    "data:image/svg+xml,<svg/>",
    "blob:https://example.com/1234",
    "javascript:alert(1)",
    "dict://127.0.0.1:11211/",
    "ldap://127.0.0.1",
    "unix:/var/run/docker.sock",
    "   http://example.com/a.png",
    "\t\nhttp://example.com/a.png",
    "\0http://example.com/a.png",
    "http://exam\nple.com/a.png",
    "http://exam\0ple.com/a.png",
    "http://127.0.0.1/",
    "http://0177.0.0.1/",
    "http://2130706433/",
    "http://[::ffff:127.0.0.1]/",
    "http://169.254.169.254/latest/meta-data",
    "http://user:password@example.com/",
    "http://xn--exmple-cua.com/",
    "http://\uff45xample.com/",
    "http://" + "a." * 1000 + "com/",
    "http://example.com/" + "a" * 100_000,
    "\ufeffhttp://example.com/a.png",
    "images/a.png",
    "a.JPEG",
    "./a",
    "../../etc/passwd",
    "/dev/zero",
    "/proc/self/environ",
    "~/a",
    "~root/a.png",
    "C:\\pictures\\a.png",
    "\\\\server\\share\\a.png",
]


@pytest.mark.parametrize("reference", REFERENCES)
def test_an_address_or_path_in_place_of_bytes_is_refused_unread(reference: str) -> None:
    error = refusal(reference.encode())
    assert error.code == "remote_image_refused"
    assert "example" not in str(error)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda tail: SIGNATURE + tail))
def test_any_bytes_give_a_header_or_a_named_refusal(data: bytes) -> None:
    assert outcome(data) in OUTCOMES


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([PNG, JPEG, WEBP]), st.data())
def test_a_file_with_changed_bytes_gives_a_header_or_a_named_refusal(
    good: bytes, data: st.DataObject
) -> None:
    changed = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, min(len(good) - 1, 200)))] = data.draw(st.integers(0, 255))
    cut = bytes(changed[: data.draw(st.integers(0, len(good)))])
    assert outcome(cut) in OUTCOMES
