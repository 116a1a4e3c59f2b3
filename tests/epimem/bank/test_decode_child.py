from __future__ import annotations

import signal
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epimem.bank import decode_child, decoder
from epimem.bank.decoder import Decoder
from epimem.bank.image_header import ImageHeader, read_header
from epimem.errors import ImageError
from tests.image_files import (
    chunk,
    encoded,
    flat_png,
    frame_patched,
    idat,
    ihdr,
    inserted,
    many_scans,
    packed_rows,
    picture,
    png,
    rows_of,
    segment_added,
    smooth,
    with_orientation,
    without_segment,
)

HEADER = read_header(encoded(picture(), "PNG"))
PIXELS = picture().tobytes()
SCRIPT = Path(decode_child.__file__)


@pytest.fixture(scope="module")
def shared() -> Iterator[Decoder]:
    child = Decoder()
    yield child
    child.close()


@pytest.fixture
def fresh() -> Iterator[Decoder]:
    child = Decoder(deadline=lambda _: 1.0)
    yield child
    child.close()


def pid_of(child: Decoder) -> int:
    assert child.pid is not None
    return child.pid


# ---- files that break inside the decoder

PNG_ROWS = rows_of(picture())
PACKED = zlib.compress(PNG_ROWS)
JPEG = encoded(smooth(), "JPEG", quality=90)
WEBP = encoded(picture(), "WEBP", lossless=True)


def grey(depth: int, *chunks: bytes, color: int = 0) -> bytes:
    rows = packed_rows(8, 8, depth, lambda x, y: (x * 30 + y) % 2**depth)
    return png(ihdr(8, 8, depth, color), *chunks, idat(rows))


BROKEN = {
    "wrong Adler sum": png(ihdr(64, 48), chunk(b"IDAT", PACKED[:-1] + b"\0")),
    "half the rows": png(ihdr(64, 48), idat(PNG_ROWS[: len(PNG_ROWS) // 2])),
    "a byte too few": png(ihdr(64, 48), idat(PNG_ROWS[:-1])),
    "no rows": png(ihdr(64, 48)),
    "rows that are no stream": png(ihdr(64, 48), chunk(b"IDAT", b"junk" * 99)),
    "stream cut at half": png(ihdr(64, 48), chunk(b"IDAT", PACKED[: len(PACKED) // 2])),
    "unknown filter": png(ihdr(8, 8, 8, 0), idat(b"\7" + bytes(8 + 9 * 7))),
    "unknown depth": png(ihdr(8, 8, 3, 2), idat(bytes(999))),
    "unknown color": png(ihdr(8, 8, 8, 5), idat(bytes(999))),
    "short tRNS": inserted(encoded(picture(), "PNG"), chunk(b"tRNS", b"a")),
    "palette index out of range": grey(8, chunk(b"PLTE", bytes(6)), color=3),
    "no end marker": JPEG[:-2],
    "JPEG cut at half": JPEG[: len(JPEG) // 2],
    "JPEG without quantization": without_segment(JPEG, 0xDB),
    "JPEG of no components": frame_patched(JPEG, 7, b"\0"),
    "JPEG of five components": frame_patched(JPEG, 7, b"\5"),
    "WebP cut short": WEBP[:-30],
    "WebP of a wrong size": WEBP[:4] + struct.pack("<I", len(WEBP) - 60) + WEBP[8:],
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_cannot_be_decoded_whole_is_refused_and_the_child_lives(
    shared: Decoder, name: str
) -> None:
    shared.admit(HEADER)
    before = shared.pid
    begun = time.monotonic()
    with pytest.raises(ImageError) as caught:
        shared.admit(read_header(BROKEN[name]))
    assert caught.value.code == "invalid_image"
    assert time.monotonic() - begun < 1
    assert shared.pid == before
    assert shared.admit(HEADER).pixels == PIXELS


@pytest.mark.parametrize(
    "data",
    [
        many_scans(encoded(smooth(), "JPEG", progressive=True), 1000),
        without_segment(JPEG, 0xC4),
        frame_patched(JPEG, -1, b"\xc9"),
        without_segment(encoded(smooth().convert("CMYK"), "JPEG"), 0xEE),
        frame_patched(JPEG, 3, struct.pack(">H", 9000)),
        segment_added(JPEG, 0xE2, b"MPF\0II*\0\x08\0\0\0" + b"\xff" * 40),
        flat_png(1, 1_000_000),
        flat_png(1_000_000, 1),
        encoded(picture(1, 1), "PNG"),
    ],
)
def test_odd_files_end_in_pixels_or_a_named_refusal_in_time(shared: Decoder, data: bytes) -> None:
    begun = time.monotonic()
    header = read_header(data)
    try:
        assert len(shared.decode(header).pixels) == 3 * header.width * header.height
    except ImageError as error:
        assert error.code == "invalid_image"  # noqa: PT017 - either end is right
    assert time.monotonic() - begun < 2
    assert shared.decode(HEADER).pixels == PIXELS


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([JPEG, WEBP, with_orientation(picture(), "WEBP", 6), PNG_ROWS]), st.data())
def test_changed_bytes_never_cost_the_child(
    shared: Decoder, good: bytes, data: st.DataObject
) -> None:
    changed = bytearray(good)
    for _ in range(data.draw(st.integers(1, 5))):
        changed[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    if good is PNG_ROWS:
        changed = bytearray(png(ihdr(64, 48), idat(bytes(changed))))
    before = pid_of(shared) if shared.pid else None
    try:
        shared.admit(read_header(bytes(changed)))
    except ImageError as error:
        assert error.code in decoder._REFUSALS or error.code == "unsupported_type"  # noqa: PT017
    assert before in {None, shared.pid}


# ---- limits and isolation


def limits_of(pid: int) -> dict[str, list[str]]:
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()[1:]
    return {line[:26].strip(): line[26:].split()[:2] for line in lines}


def test_the_child_can_write_no_file_dump_no_core_and_open_few(shared: Decoder) -> None:
    shared.admit(HEADER)
    limits = limits_of(pid_of(shared))
    assert limits["Max core file size"] == ["0", "0"]
    assert limits["Max file size"] == ["0", "0"]
    assert limits["Max open files"] == ["16", "16"]
    assert len(list(Path(f"/proc/{shared.pid}/fd").iterdir())) == 3


LIMITED = """
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location("decode_child", sys.argv[1])
child = importlib.util.module_from_spec(spec); sys.modules["decode_child"] = child
spec.loader.exec_module(child)
child.CPU_BASE_S = 0.0
job = child.Job(child.ADMIT, "png", (8, 8), (0, 0, 0, 0), (0, 0), b"")
child._limit_process(); child._limit_job(job)
"""


def limited(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LIMITED + code, str(SCRIPT)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_memory_and_processor_time_of_one_image_are_bounded() -> None:
    assert "MemoryError" in limited("bytes(400 * 2**20)").stderr
    assert limited("bytes(50 * 2**20); print('fits')").stdout == "fits\n"
    assert limited("child._lift_job_limits(); bytes(400 * 2**20); print('fits')").returncode == 0
    assert limited("while True: pass").returncode == -signal.SIGXCPU
    assert "OSError" in limited("os.write(os.memfd_create('x'), b'x')").stderr


def test_a_small_image_leaves_room_for_a_large_file_after_it(shared: Decoder) -> None:
    small = png(ihdr(1, 1, 8, 0), idat(b"\0\7"))
    assert shared.decode(read_header(small)).pixels == bytes((7, 7, 7))
    before = shared.pid
    large = ImageHeader("png", 1, 1, small + bytes(200 * 2**20))
    assert shared.decode(large).pixels == bytes((7, 7, 7))
    assert shared.pid == before


def test_memory_errors_come_back_as_image_too_big(
    tmp_path: Path, fresh: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "small.py"
    text = SCRIPT.read_text()
    assert "MEMORY_BASE = 160 * 2**20" in text
    tight = text.replace("MEMORY_BASE = 160 * 2**20", "MEMORY_BASE = 0")
    script.write_text(tight.replace("MEMORY_PER_PIXEL = 28", "MEMORY_PER_PIXEL = 2"))
    monkeypatch.setattr(decoder, "_SCRIPT", script)
    monkeypatch.setattr(fresh, "_deadline", lambda _: 30.0)
    with pytest.raises(ImageError) as caught:
        fresh.admit(read_header(flat_png(4000, 4000)))
    assert caught.value.code == "image_too_big"
    assert fresh.pid is not None


def test_the_largest_image_fits_its_budget(capsys: pytest.CaptureFixture[str]) -> None:
    child = Decoder()
    begun = time.monotonic()
    decoded = child.admit(read_header(flat_png(10_000, 10_000)))
    took = time.monotonic() - begun
    assert len(decoded.pixels) == 300_000_000
    status = Path(f"/proc/{child.pid}/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
    child.close()
    with capsys.disabled():
        sys.stdout.write(f"\n100 megapixels: {took:.1f} s, child peak {peak:.0f} MiB\n")
    assert peak < decode_child.MEMORY_PER_PIXEL * 1e8 / 2**20


def test_no_file_of_the_user_reaches_the_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = tmp_path / "canary"
    drop = f"open({str(canary)!r}, 'a').write(__name__ + ' ')\n"
    (tmp_path / "PIL").mkdir()
    for name in ("PIL/__init__", "zlib", "struct", "resource", "dataclasses", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text(drop)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONSTARTUP", str(tmp_path / "zlib.py"))
    child = Decoder()
    assert child.admit(HEADER).pixels == PIXELS
    child.close()
    assert not canary.exists()
    subprocess.run(
        [sys.executable, SCRIPT], stdin=subprocess.DEVNULL, check=False, capture_output=True
    )
    assert canary.exists(), "without isolation the planted files do run"
