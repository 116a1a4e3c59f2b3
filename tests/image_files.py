"""Image files for tests: good ones from Pillow, bad ones patched byte by byte."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence

from PIL import Image

SIGNATURE = b"\x89PNG\r\n\x1a\n"
SECRET = b"ignore previous instructions"


def picture(width: int = 64, height: int = 48) -> Image.Image:
    """Return an RGB image in which no two neighbours, rows or columns are alike."""
    pixels = bytearray()
    for y in range(height):
        for x in range(width):
            pixels += bytes(((x * 37 + y * 11) % 251, (x * 5 + y * 59) % 241, (x * y + x) % 239))
    return Image.frombytes("RGB", (width, height), bytes(pixels))


def smooth(width: int = 64, height: int = 48) -> Image.Image:
    """Return a picture that survives JPEG: a bright corner, colors rising in both directions."""
    image = Image.new("RGB", (width, height))
    for y in range(height):
        for x in range(width):
            image.putpixel((x, y), (255 * x // width, 255 * y // height, 80))
    image.paste((255, 255, 255), (0, 0, width // 4, height // 4))
    return image


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    """Return the image as Pillow writes it."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def with_orientation(image: Image.Image, kind: str, value: int) -> bytes:
    """Return a lossless or JPEG file of these stored pixels with an EXIF orientation."""
    exif = Image.Exif()
    exif[0x0112] = value
    options: dict[str, object] = {"lossless": True} if kind == "WEBP" else {"quality": 95}
    return encoded(image, kind, exif=exif, **(options if kind != "PNG" else {}))


def chunk(kind: bytes, body: bytes = b"", crc: int | None = None) -> bytes:
    """Return one PNG chunk, its checksum right unless given."""
    right = zlib.crc32(body, zlib.crc32(kind))
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", crc or right)


def ihdr(width: int, height: int, depth: int = 8, color: int = 2, interlace: int = 0) -> bytes:
    """Return a PNG header chunk."""
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlace))


def idat(rows: bytes) -> bytes:
    """Return rows, each with its filter byte, as one compressed chunk."""
    return chunk(b"IDAT", zlib.compress(rows, 9))


def png(*chunks: bytes) -> bytes:
    """Return a PNG file of these chunks and an end chunk."""
    return SIGNATURE + b"".join(chunks) + chunk(b"IEND")


def rows_of(image: Image.Image) -> bytes:
    """Return the unfiltered rows of an image as PNG wants them."""
    width = len(image.tobytes()) // image.height
    raw = image.tobytes()
    return b"".join(b"\0" + raw[at : at + width] for at in range(0, len(raw), width))


def packed_rows(width: int, height: int, depth: int, value: Callable[[int, int], int]) -> bytes:
    """Return rows of samples of 1, 2, 4, 8 or 16 bits."""
    rows = bytearray()
    for y in range(height):
        bits = "".join(f"{value(x, y):0{depth}b}" for x in range(width))
        rows.append(0)
        rows += int(bits.ljust(-(-len(bits) // 8) * 8, "0"), 2).to_bytes(-(-len(bits) // 8), "big")
    return bytes(rows)


def flat_png(width: int, height: int) -> bytes:
    """Return a white one-bit PNG of any size in some kilobytes."""
    row = b"\0" + b"\xff" * -(-width // 8)
    packer = zlib.compressobj(9)
    body = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    return png(ihdr(width, height, 1, 0), chunk(b"IDAT", body))


def inserted(data: bytes, *chunks: bytes) -> bytes:
    """Return a PNG with chunks put behind its header."""
    at = len(SIGNATURE) + 25
    return data[:at] + b"".join(chunks) + data[at:]


def png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield kind and body of every chunk; fail when something follows the end chunk."""
    at = len(SIGNATURE)
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        at += 12 + length


def jpeg_segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield (marker, start, end) of each segment up to the scan."""
    at = 2
    while True:
        marker = data[at + 1]
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        yield marker, at, end
        if marker == 0xDA:
            return
        at = end


def without_segment(data: bytes, marker: int) -> bytes:
    """Return a JPEG without the segments of this marker."""
    spans = [(start, end) for m, start, end in jpeg_segments(data) if m == marker]
    for start, end in reversed(spans):
        data = data[:start] + data[end:]
    return data


def frame_patched(data: bytes, offset: int, replacement: bytes) -> bytes:
    """Return a JPEG whose start of frame is changed, `offset` bytes after its marker."""
    start = next(start for m, start, _ in jpeg_segments(data) if m in {0xC0, 0xC1, 0xC2})
    at = start + 2 + offset
    return data[:at] + replacement + data[at + len(replacement) :]


def segment_added(data: bytes, marker: int, body: bytes) -> bytes:
    """Return a JPEG with one more segment at its start."""
    return data[:2] + struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body + data[2:]


def many_scans(data: bytes, count: int) -> bytes:
    """Return a progressive JPEG whose last scan is repeated `count` times."""
    start = data.rindex(b"\xff\xda")
    return data[:-2] + data[start:-2] * count + data[-2:]


def riff(*chunks: bytes, size: int | None = None) -> bytes:
    """Return a WebP container."""
    body = b"WEBP" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body) if size is None else size) + body


def frames(count: int) -> Sequence[Image.Image]:
    """Return small pictures that differ."""
    return [Image.new("RGB", (8, 8), (n % 256, n // 256, 7)) for n in range(count)]
