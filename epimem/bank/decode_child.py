"""Decode images in a process of its own, under limits; started by `epimem.bank.decoder`.

Run by its path (`python -I decode_child.py`): nothing of epimem is imported here, and no folder of
the user is on the path, so neither can be shadowed. Constants and layouts below are imported by the
parent; Pillow is imported only in the child.

Protocol, integers big-endian. The child greets with one `H` frame, then for each job read from
standard input writes frames to standard output: kind (1 byte), length (4 bytes), payload.
    S  width, height of what follows (2 x uint32)
    P  a piece of the upright RGB pixels, row by row (operations A and D)
    N  a piece of the PNG of the same pixels (operations A and C)
    E  the job is done
    X  the job is refused; the payload is an error code of `epimem.errors`
"""

from __future__ import annotations

import io
import resource
import struct
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from PIL import Image

JOB = struct.Struct(">cBIIIIIIIIQ")
"""Operation, format, source size, box (x0, y0, x1, y1), output size, length of the data."""
FRAME = struct.Struct(">cI")
SIZE = struct.Struct(">II")
FORMATS = ("png", "jpeg", "webp")
ADMIT, DECODE, CROP = b"A", b"D", b"C"
HELLO, SIZED, PIXELS, PNG, END, REFUSED = b"H", b"S", b"P", b"N", b"E", b"X"

# Ours. A decoded picture takes 4 bytes a pixel and its upright RGB copy 4 more; a progressive JPEG
# needs 6 to 8 while it is decoded, an animated-capable WebP decoder 16 to 20. At 100 megapixels
# this allows 2.7 GiB above the interpreter.
MEMORY_BASE = 160 * 2**20
MEMORY_PER_PIXEL = 28
# Ours: at least four times what a 2-core laptop-class machine needs for the slowest kind.
CPU_BASE_S = 2.0
CPU_S_PER_MEGAPIXEL = 0.6
OPEN_FILES = 16
STRIP_PIXELS = 4_000_000
ORIENTATION = 0x0112
LONG = 4


def cpu_budget(pixels: int) -> float:
    """Return the CPU seconds one image of this size may take."""
    return CPU_BASE_S + CPU_S_PER_MEGAPIXEL * pixels / 1e6


class Refused(Exception):  # noqa: N818 - an answer, not a fault of this program
    """The image is refused with a code of `epimem.errors`."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class Job:
    """One request; `box` and `output` matter for a crop only."""

    operation: bytes
    kind: str
    size: tuple[int, int]
    box: tuple[int, int, int, int]
    output: tuple[int, int]
    data: bytes


class Frames:
    """Write frames; a file object as far as Pillow's encoders need one (`write`)."""

    def __init__(self, handle: BinaryIO) -> None:
        self._handle = handle

    def send(self, kind: bytes, payload: bytes = b"") -> None:
        """Write one frame."""
        self._handle.write(FRAME.pack(kind, len(payload)))
        self._handle.write(payload)

    def write(self, payload: bytes) -> int:
        """Write a piece of a PNG."""
        self.send(PNG, payload)
        return len(payload)

    def flush(self) -> None:
        """Hand on what is buffered."""
        self._handle.flush()


def main() -> None:
    """Serve jobs until standard input ends."""
    source, frames = sys.stdin.buffer, Frames(sys.stdout.buffer)
    _prepare()
    _limit_process()
    frames.send(HELLO)
    frames.flush()
    while (job := _read_job(source)) is not None:
        _limit_job(job)
        frames.send(*_answer(job, frames))
        frames.flush()
        del job  # its bytes must not count against the next one
        _lift_job_limits()


def _answer(job: Job, frames: Frames) -> tuple[bytes, bytes]:
    """Serve one job and return its last frame."""
    try:
        _serve(job, frames)
    except Refused as refusal:
        return REFUSED, refusal.code.encode()
    except MemoryError:
        return REFUSED, b"image_too_big"
    except Exception:  # noqa: BLE001 - the boundary: a decoder may raise anything on bad bytes
        return REFUSED, b"invalid_image"
    return END, b""


def _prepare() -> None:
    """Import Pillow and switch its own size guess off: the size was checked from the header."""
    from PIL import Image, JpegImagePlugin, MpoImagePlugin, PngImagePlugin, WebPImagePlugin

    assert JpegImagePlugin, MpoImagePlugin
    assert PngImagePlugin, WebPImagePlugin
    Image.MAX_IMAGE_PIXELS = None
    Image.preinit()


def _limit_process() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))


def _limit_job(job: Job) -> None:
    """Set the memory and CPU bounds of this job; both are soft, so the next job can set its own."""
    pixels = job.size[0] * job.size[1]
    in_use = _address_space()
    room = MEMORY_BASE + 2 * len(job.data) + MEMORY_PER_PIXEL * pixels
    memory = resource.RLIM_INFINITY if in_use is None else in_use + room
    usage = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(usage.ru_utime + usage.ru_stime + cpu_budget(pixels)) + 1
    for which, value in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds)):
        hard = resource.getrlimit(which)[1]
        finite = [limit for limit in (value, hard) if limit != resource.RLIM_INFINITY]
        resource.setrlimit(which, (min(finite, default=resource.RLIM_INFINITY), hard))


def _lift_job_limits() -> None:
    for which in (resource.RLIMIT_AS, resource.RLIMIT_CPU):
        hard = resource.getrlimit(which)[1]
        resource.setrlimit(which, (hard, hard))


def _address_space() -> int | None:
    """Return the bytes of address space in use; None where the system does not tell.

    There only the bound on pixels holds memory down.
    """
    try:
        with open("/proc/self/statm", "rb") as handle:  # noqa: PTH123 - no pathlib needed here
            return int(handle.read().split()[0]) * resource.getpagesize()
    except OSError:
        return None


def _read_job(source: BinaryIO) -> Job | None:
    head = source.read(JOB.size)
    if len(head) < JOB.size:
        return None
    operation, kind, width, height, x0, y0, x1, y1, out_width, out_height, length = JOB.unpack(head)
    data = source.read(length)
    if len(data) < length:
        return None
    box, output = (x0, y0, x1, y1), (out_width, out_height)
    return Job(operation, FORMATS[kind], (width, height), box, output, data)


def _serve(job: Job, frames: Frames) -> None:
    image = _upright(_open(job), job)
    if job.operation == CROP:
        image = image.crop(job.box)
        if image.size != job.output:
            from PIL import Image

            image = image.resize(job.output, Image.Resampling.LANCZOS)
    frames.send(SIZED, SIZE.pack(*image.size))
    if job.operation != CROP:
        for top, bottom in _strips(*image.size):
            frames.send(PIXELS, image.crop((0, top, image.width, bottom)).tobytes())
    if job.operation != DECODE:
        image.info.clear()  # Pillow would carry a color profile over
        image.save(cast("BinaryIO", frames), "PNG", compress_level=6)


def _open(job: Job) -> Image.Image:
    """Return the decoded image; refuse what the header did not announce."""
    from PIL import Image

    image = Image.open(io.BytesIO(job.data), formats=(job.kind,))
    if getattr(image, "n_frames", 1) != 1 or image.size != job.size:
        raise Refused("invalid_image")
    image.load()
    if job.kind == "png" and job.operation == ADMIT:
        _check_png(job, image)
    return image


def _check_png(job: Job, image: Image.Image) -> None:
    """Refuse a PNG with fewer rows or palette entries than its pixels need.

    Pillow fills both up without a word.
    """
    unpacker, missing, colors = zlib.decompressobj(), png_raw_size(job.data), 256
    for kind, start, end in _png_chunks(job.data):
        if kind == b"PLTE":
            colors = (end - start) // 3
        piece = job.data[start:end] if kind == b"IDAT" else b""
        while piece and missing > 0:
            missing -= len(unpacker.decompress(piece, STRIP_PIXELS))
            piece = unpacker.unconsumed_tail
    if missing > 0 or (image.mode == "P" and any(image.histogram()[colors:])):
        raise Refused("invalid_image")


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield kind, start and end of the chunks of a PNG whose checksums the parent verified."""
    position = 8
    while position < len(data):
        length, kind = struct.unpack_from(">I4s", data, position)
        yield kind, position + 8, position + 8 + length
        position += 12 + length


def png_raw_size(data: bytes) -> int:
    """Return the bytes of all rows of a PNG with their filter bytes (PNG, sections 7.2 and 8.2)."""
    width, height, depth, color = struct.unpack_from(">IIBB", data, 16)
    bits = depth * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]
    passes = _ADAM7 if data[28] else ((0, 0, 1, 1),)
    total = 0
    for x, y, step_x, step_y in passes:
        columns, rows = -(-(width - x) // step_x), -(-(height - y) // step_y)
        if columns > 0 and rows > 0:
            total += rows * (1 + -(-columns * bits // 8))
    return total


# First column and row of each pass, then its steps.
_ADAM7 = (
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
)


def _upright(image: Image.Image, job: Job) -> Image.Image:
    """Return the image as 8-bit RGB on white, turned upright by its EXIF orientation."""
    from PIL import Image

    turn = _TURNS.get(orientation(image.info.get("exif", b"")))
    key = _color_key(image, job)
    if image.mode == "RGB" and key is None:
        flat = image
    else:
        flat = Image.new("RGB", image.size)
        for top, bottom in _strips(*image.size):
            strip = image.crop((0, top, image.width, bottom))
            flat.paste(_flatten(strip, key), (0, top))
    return flat if turn is None else flat.transpose(Image.Transpose(turn))


# EXIF orientation to the number of Pillow's transposition that undoes it.
_TURNS = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}


def orientation(exif: bytes) -> int:
    """Return the orientation 1..8 of EXIF data; 1 where it has none or cannot be read.

    Only the first directory is looked at (TIFF 6.0, section 2), so that loops do no harm.
    """
    tiff = exif.removeprefix(b"Exif\0\0")
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(tiff[:4])
    if order is None:
        return 1
    try:
        (start,) = struct.unpack_from(order + "I", tiff, 4)
        (count,) = struct.unpack_from(order + "H", tiff, start)
        for entry in range(start + 2, start + 2 + 12 * count, 12):
            tag, kind = struct.unpack_from(order + "HH", tiff, entry)
            if tag == ORIENTATION:
                value = struct.unpack_from(order + ("I" if kind == LONG else "H"), tiff, entry + 8)
                return int(value[0])
    except struct.error:
        pass
    return 1


def _color_key(image: Image.Image, job: Job) -> tuple[int, ...] | None:
    """Return the byte of each band that a PNG's tRNS chunk makes transparent, if it names one.

    Grey of 16 bits gives (high, low). Pillow keeps only the high bytes of 16-bit RGB, so there the
    key is compared by these.
    """
    named = image.info.get("transparency")
    if named is None or image.mode not in {"1", "L", "I;16", "RGB"}:
        return None
    depth = job.data[24]  # of the PNG header
    if image.mode == "I;16":
        return named >> 8, named & 255
    if image.mode == "RGB":
        return tuple(value >> (depth - 8) for value in named)
    return (named * {2: 85, 4: 17}.get(depth, 1),)


def _flatten(strip: Image.Image, key: tuple[int, ...] | None) -> Image.Image:
    """Return a strip as 8-bit RGB; what is transparent shows white."""
    from PIL import Image

    if strip.mode in {"RGBA", "LA"} or (strip.mode == "P" and "transparency" in strip.info):
        clear = strip.convert("RGBA")
        flat = Image.new("RGB", strip.size, "white")
        flat.paste(clear, mask=clear.getchannel("A"))
        return flat
    if strip.mode == "I;16":
        raw = strip.tobytes()
        bands = [Image.frombytes("L", strip.size, raw[offset::2]) for offset in (1, 0)]
        flat = bands[0].convert("RGB")
    else:
        bands = list((strip.convert("L") if strip.mode == "1" else strip).split())
        flat = strip.convert("RGB")
    if key is not None:
        flat.paste("white", mask=_matching(bands, key))
    return flat


def _matching(bands: list[Image.Image], key: tuple[int, ...]) -> Image.Image:
    """Return a mask of the pixels whose bands all equal the key."""
    from PIL import Image, ImageChops

    mask = Image.new("L", bands[0].size, 255)
    for band, wanted in zip(bands, key, strict=True):
        mask = ImageChops.darker(mask, band.point([255 * (v == wanted) for v in range(256)]))
    return mask


def _strips(width: int, height: int) -> Iterator[tuple[int, int]]:
    """Yield (top, bottom) of strips of some million pixels, so that copies stay small."""
    rows = max(1, STRIP_PIXELS // width)
    for top in range(0, height, rows):
        yield top, min(top + rows, height)


if __name__ == "__main__":
    main()
