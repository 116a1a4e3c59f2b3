from __future__ import annotations

import gc
import os
import signal
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from epimem.bank import decode_child, decoder
from epimem.bank.decoder import Decoder
from epimem.bank.image_header import read_header
from epimem.errors import BankBusyError, ImageError
from tests.image_files import (
    chunk,
    encoded,
    ihdr,
    picture,
    png,
    smooth,
)

HEADER = read_header(encoded(picture(), "PNG"))
PIXELS = picture().tobytes()


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


def gone(pid: int | None) -> bool:
    assert pid is not None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def pid_of(child: Decoder) -> int:
    assert child.pid is not None
    return child.pid


# ---- children that die, hang or lie


def interfering(monkeypatch: pytest.MonkeyPatch, number: int, times: int) -> list[int]:
    """Send a signal to the child as soon as it has its job, so many times."""
    real = decoder._Worker.send
    struck: list[int] = []

    def send(worker: decoder._Worker, data: bytes, until: float) -> None:
        if len(data) != decode_child.JOB.size and len(struck) < times:
            struck.append(worker.process.pid)
            os.kill(worker.process.pid, number)
        real(worker, data, until)

    monkeypatch.setattr(decoder._Worker, "send", send)
    return struck


def test_a_child_killed_between_two_images_is_replaced(shared: Decoder) -> None:
    shared.admit(HEADER)
    old = pid_of(shared)
    os.kill(old, signal.SIGKILL)
    assert shared.admit(HEADER).pixels == PIXELS
    assert shared.pid != old
    assert gone(old)


def test_an_image_whose_child_is_killed_is_tried_once_more(
    shared: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    struck = interfering(monkeypatch, signal.SIGKILL, 1)
    assert shared.admit(HEADER).pixels == PIXELS
    assert shared.pid not in struck


@pytest.mark.parametrize(
    ("number", "code", "tries"),
    [(signal.SIGSEGV, "invalid_image", 2), (signal.SIGXCPU, "image_too_big", 1)],
)
def test_an_image_that_kills_every_child_is_refused_and_the_next_one_works(
    shared: Decoder, monkeypatch: pytest.MonkeyPatch, number: int, code: str, tries: int
) -> None:
    with monkeypatch.context() as patch:
        struck = interfering(patch, number, 9)
        with pytest.raises(ImageError) as caught:
            shared.admit(HEADER)
    assert caught.value.code == code
    assert len(struck) == tries
    assert all(map(gone, struck))
    assert shared.admit(HEADER).pixels == PIXELS


def test_a_child_that_hangs_is_killed_at_the_deadline(
    fresh: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        struck = interfering(patch, signal.SIGSTOP, 1)
        begun = time.monotonic()
        with pytest.raises(ImageError) as caught:
            fresh.admit(HEADER)
    assert caught.value.code == "image_too_big"
    assert 0.9 < time.monotonic() - begun < 5
    assert gone(struck[0])
    assert fresh.admit(HEADER).pixels == PIXELS


def test_a_child_that_never_reads_cannot_block_the_sender(
    fresh: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    interfering(monkeypatch, signal.SIGSTOP, 1)
    noise = zlib.compress(os.urandom(6_000_000), 0)  # more than a pipe holds
    with pytest.raises(ImageError):
        fresh.admit(read_header(png(ihdr(1, 1), chunk(b"IDAT", noise))))


def test_an_interrupted_caller_never_gets_another_images_answer(
    shared: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(decoder, "_read_answer", interrupt)
        with pytest.raises(KeyboardInterrupt):
            shared.admit(HEADER)
    other = read_header(encoded(smooth(), "PNG"))
    assert shared.admit(other).pixels == smooth().tobytes()


LIAR = """
import os, signal, struct, sys
def say(kind, body=b"", length=None):
    size = len(body) if length is None else length
    sys.stdout.buffer.write(struct.pack(">cI", kind, size) + body)
    sys.stdout.buffer.flush()
say(b"H")
sys.stdin.buffer.read(1)
SIZE = struct.pack(">II", 64, 48)
{lie}
sys.stdin.buffer.read()
"""
LIES = [
    'say(b"E")',
    'say(b"S", struct.pack(">II", 65, 48))',
    'say(b"S", struct.pack(">II", 2**31, 2**31))',
    'say(b"S", SIZE); say(b"E")',
    'say(b"S", SIZE); say(b"S", SIZE)',
    'say(b"S", SIZE); say(b"P", bytes(9217))',
    'say(b"S", SIZE); say(b"P", b"", 2**32 - 1)',
    'say(b"S", SIZE); say(b"P", bytes(9216)); say(b"E")',
    'say(b"S", SIZE); say(b"P", bytes(9216)); say(b"N", b"", 2**31)',
    'say(b"P", bytes(9))',
    'say(b"N", bytes(9))',
    'say(b"X", b"bank_frozen")',
    'say(b"X", b"\\xff" * 20)',
    'say(b"?", bytes(9))',
    'say(b"S", SIZE); os.close(1)',
    "os._exit(0)",
]


@pytest.mark.parametrize("lie", LIES)
def test_a_child_that_lies_is_not_believed(
    tmp_path: Path, fresh: Decoder, monkeypatch: pytest.MonkeyPatch, lie: str
) -> None:
    script = tmp_path / "liar.py"
    script.write_text(LIAR.format(lie=lie))
    monkeypatch.setattr(decoder, "_SCRIPT", script)
    with pytest.raises(ImageError) as caught:
        fresh.admit(HEADER)
    assert caught.value.code == "invalid_image"
    assert fresh.pid is None


@pytest.mark.parametrize("program", ["/bin/false", "/bin/cat", "/nonexistent/python"])
def test_a_child_that_cannot_be_started_says_so_and_is_no_fault_of_the_image(
    fresh: Decoder, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(decoder, "START_S", 0.3)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", program)
        with pytest.raises(BankBusyError) as caught:
            fresh.admit(HEADER)
    assert caught.value.code == "not_ready"
    monkeypatch.undo()
    assert fresh.admit(HEADER).pixels == PIXELS


# ---- one child, many callers


def test_one_child_serves_many_images_one_after_another(
    shared: Decoder, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = time.monotonic()
    first = Decoder()
    first.admit(HEADER)
    cold = time.monotonic() - begun
    first.close()
    shared.admit(HEADER)
    before = shared.pid
    begun = time.monotonic()
    for _ in range(100):
        assert shared.admit(HEADER).pixels == PIXELS
    warm = (time.monotonic() - begun) / 100
    assert shared.pid == before
    with capsys.disabled():
        sys.stdout.write(
            f"\nfirst image {cold * 1e3:.0f} ms, each further one {warm * 1e3:.2f} ms\n"
        )


def test_threads_share_the_child_without_mixing_answers(shared: Decoder) -> None:
    sources = [picture(16 + n, 9) for n in range(8)]
    headers = [read_header(encoded(source, "PNG")) for source in sources]
    shared.admit(HEADER)
    before = shared.pid
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(shared.admit, headers * 5))
    wanted = [source.tobytes() for source in sources] * 5
    assert [answer.pixels for answer in answers] == wanted
    assert shared.pid == before


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork_each_process_has_its_own_child(fresh: Decoder) -> None:
    fresh.admit(HEADER)
    before = fresh.pid
    child = os.fork()
    if child == 0:
        status = 1
        try:
            same = fresh.admit(HEADER).pixels == PIXELS and fresh.pid != before
            fresh.close()
            status = 0 if same else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert fresh.admit(HEADER).pixels == PIXELS
    assert fresh.pid == before


@pytest.mark.parametrize("end", [Decoder.close, lambda _: None])
def test_closing_or_forgetting_a_decoder_ends_its_child(end: Callable[[Decoder], None]) -> None:
    child = Decoder()
    child.admit(HEADER)
    pid = child.pid
    end(child)
    end(child)
    del child
    gc.collect()
    assert gone(pid)


def test_a_closed_decoder_starts_again_when_asked(fresh: Decoder) -> None:
    fresh.admit(HEADER)
    fresh.close()
    assert fresh.pid is None
    assert fresh.admit(HEADER).pixels == PIXELS
