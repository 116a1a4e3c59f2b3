"""What an encoded image says of itself, read before anything decodes it.

Pure byte work on PNG, JPEG and WebP (told apart by their first bytes, never by a name): the kind,
the size, and the bytes a decoder needs. A PNG is reduced to the chunks that make its pixels, so
that text and profile bombs, animation frames and whatever follows the picture reach no decoder.

Sources: PNG third edition, sections 5 and 11; ITU T.81, annex B; RFC 9649 (WebP).
"""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import dataclass
from typing import Literal

from epimem.errors import ImageError

Kind = Literal["png", "jpeg", "webp"]

MAX_ENCODED = 32 * 2**20
"""Bytes of an encoded image (design, section 8)."""
MAX_PIXELS = 100_000_000
"""Pixels of an image (design, section 8)."""
# Ours: real files have some hundred parts; reading millions would be slow.
MAX_PARTS = 65_536

_PNG = b"\x89PNG\r\n\x1a\n"
_PALETTE = 3
_PNG_CRITICAL = frozenset({b"IHDR", b"PLTE", b"IDAT", b"IEND"})
_PNG_KEPT = _PNG_CRITICAL | {b"tRNS", b"eXIf"}
# Start of frame, all kinds of coding: C0..CF without DHT (C4), JPG (C8) and DAC (CC).
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_FILL = re.compile(rb"\xff*")
_JPEG_BARE = frozenset({0x01, *range(0xD0, 0xD8)})

_TEXT_LIMIT = 2**17
_SCHEME = re.compile(rb"[a-z][a-z0-9+.-]{1,31}:\S", re.IGNORECASE)
_PATH = re.compile(rb"(~|\.{0,2}[/\\]|[a-z]:[/\\])", re.IGNORECASE)
_FILE_NAME = re.compile(rb".{1,4096}\.(png|jpe?g|webp|gif|tiff?|bmp|svg|avif|heic)", re.IGNORECASE)


@dataclass(frozen=True)
class ImageHeader:
    """Kind, size as stored (before any rotation), and the bytes for the decoder."""

    kind: Kind
    width: int
    height: int
    body: bytes


def read_header(data: bytes, *, declared: str | None = None) -> ImageHeader:
    """Return the header of one encoded still image.

    Args:
        data: the encoded image; what follows the picture is ignored.
        declared: the media type the sender gave, such as `image/png`, if any.

    Raises:
        ImageError: `image_too_big` over 100 megapixels; `remote_image_refused` for a URL, data URL
            or path; `unsupported_type` for another format; `invalid_image` for a damaged header,
            several frames, or a declared type that disagrees with the bytes.
    """
    kind = _kind(data)
    if declared is not None and _media_kind(declared) != kind:
        raise ImageError("the declared type is not what the bytes are", got=declared)
    try:
        header = _READERS[kind](data)
    except (struct.error, IndexError) as error:
        raise ImageError("the image header is cut short") from error
    if header.width < 1 or header.height < 1:
        raise ImageError("image has no pixels", got=f"{header.width}x{header.height}")
    pixels = header.width * header.height
    if pixels > MAX_PIXELS:
        raise ImageError(
            "image has too many pixels", code="image_too_big", got=pixels, limit=MAX_PIXELS
        )
    return header


def _kind(data: bytes) -> Kind:
    if data.startswith(_PNG):
        return "png"
    if data.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    if _is_reference(data):
        raise ImageError(
            "an image is handed in as its bytes, not as an address or path",
            code="remote_image_refused",
            hint="read the file and send its content",
        )
    if len(data) < 4:
        raise ImageError("image is empty or cut short", got=len(data))
    raise ImageError(
        "only PNG, JPEG and WebP images are taken",
        code="unsupported_type",
        hint="convert it to PNG",
    )


def _is_reference(data: bytes) -> bool:
    """Return whether the bytes are text that names an image elsewhere (or holds one as text)."""
    text = data[:_TEXT_LIMIT].lstrip(b"\x00\t\n\r\x0b\x0c \xef\xbb\xbf").rstrip()
    # A text file whose first line looks like "name:value" names nothing.
    address = re.match(rb"(?i)(data:|[a-z][a-z0-9+.-]*://)", text)
    if _SCHEME.match(text) and (address or not re.search(rb"[\r\n]", text)):
        return True
    one_line = len(data) <= _TEXT_LIMIT and not re.search(rb"[\x00-\x1f\x7f]", text)
    return one_line and bool(_PATH.match(text) or _FILE_NAME.fullmatch(text))


def _media_kind(declared: str) -> str:
    name = declared.partition(";")[0].strip().lower().removeprefix("image/")
    return {"jpg": "jpeg", "pjpeg": "jpeg", "x-png": "png"}.get(name, name)


def _png(data: bytes) -> ImageHeader:
    chunks = _png_chunks(data)
    kind, body = chunks[0]
    if kind != b"IHDR" or len(body) != 13:
        raise ImageError("PNG does not start with its header")
    width, height, _, color = struct.unpack(">IIBB", body[:10])
    if color == _PALETTE and not any(kind == b"PLTE" for kind, _ in chunks):
        raise ImageError("PNG has no palette")
    kept = b"".join(_png_chunk(kind, body) for kind, body in chunks)
    return ImageHeader("png", width, height, _PNG + kept)


def _png_chunks(data: bytes) -> list[tuple[bytes, memoryview]]:
    """Return the chunks that make the pixels, every checksum up to IEND verified."""
    view = memoryview(data)
    kept: list[tuple[bytes, memoryview]] = []
    position = len(_PNG)
    for _ in range(MAX_PARTS):
        length, kind = struct.unpack_from(">I4s", data, position)
        end = position + 12 + length
        body = view[position + 8 : end - 4]
        (checksum,) = struct.unpack_from(">I", data, end - 4)
        if zlib.crc32(body, zlib.crc32(kind)) != checksum:
            raise ImageError("a PNG checksum is wrong")
        _check_png_chunk(kind, body, first=not kept)
        if kind in _PNG_KEPT:
            kept.append((kind, body))
        if kind == b"IEND":
            return kept
        position = end
    raise ImageError("PNG has too many chunks", limit=MAX_PARTS)


def _check_png_chunk(kind: bytes, body: memoryview, *, first: bool) -> None:
    if kind[0] & 0x20 == 0 and kind not in _PNG_CRITICAL:
        raise ImageError("PNG holds an unknown critical chunk")
    if (kind == b"IHDR") != first and kind in _PNG_KEPT:
        raise ImageError("PNG header is missing, late or repeated")
    if kind == b"PLTE" and (len(body) % 3 or not 0 < len(body) <= 768):
        raise ImageError("PNG palette has a wrong length", got=len(body))
    several = kind == b"acTL" and struct.unpack_from(">I", body)[0] != 1
    if several or kind == b"fdAT":
        raise ImageError("image has several frames", hint="send one frame")


def _png_chunk(kind: bytes, body: memoryview) -> bytes:
    checksum = zlib.crc32(body, zlib.crc32(kind))
    return struct.pack(">I", len(body)) + kind + bytes(body) + struct.pack(">I", checksum)


def _jpeg(data: bytes) -> ImageHeader:
    position = 2
    for _ in range(MAX_PARTS):
        if data[position] != 0xFF:
            raise ImageError("JPEG marker is missing")
        position = _FILL.match(data, position).end()  # type: ignore[union-attr] # always matches
        marker = data[position]
        position += 1
        if marker in _JPEG_BARE:
            continue
        if marker in {0xD9, 0xDA}:
            raise ImageError("JPEG has no frame header")
        (length,) = struct.unpack_from(">H", data, position)
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", data, position + 3)
            return ImageHeader("jpeg", width, height, data)
        position += max(length, 2)
    raise ImageError("JPEG has too many segments", limit=MAX_PARTS)


def _webp(data: bytes) -> ImageHeader:
    kind = data[12:16]
    if kind == b"VP8X":
        width = int.from_bytes(data[24:27], "little") + 1
        height = int.from_bytes(data[27:30], "little") + 1
        struct.unpack_from("B", data, 29)
    elif kind == b"VP8L":
        signature, bits = struct.unpack_from("<BI", data, 20)
        if signature != 0x2F:
            raise ImageError("WebP signature is wrong")
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    elif kind == b"VP8 ":
        if data[23:26] != b"\x9d\x01\x2a":
            raise ImageError("WebP start code is wrong")
        width, height = (side & 0x3FFF for side in struct.unpack_from("<HH", data, 26))
    else:
        raise ImageError("WebP holds no picture")
    return ImageHeader("webp", width, height, data)


_READERS = {"png": _png, "jpeg": _jpeg, "webp": _webp}
