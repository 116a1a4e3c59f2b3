"""The parent's side of the decoding child: start it, talk to it, bound it, replace it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from epimem.bank import decode_child as child
from epimem.bank.image_header import ImageHeader
from epimem.errors import BankBusyError, ImageError

# Ours: starting Python and importing Pillow takes 0.1 to 0.2 s on an idle machine.
START_S = 30.0
_SCRIPT = Path(child.__file__)
_REFUSALS = {
    "invalid_image": "image cannot be decoded whole, or has several frames",
    "image_too_big": "image needs more memory or time than the decoder may use",
}


def wall_budget(pixels: int) -> float:
    """Return the seconds after which a child is held to hang (ours: the CPU bound acts first)."""
    return 10.0 + 2.0 * child.cpu_budget(pixels)


@dataclass(frozen=True)
class Decoded:
    """Upright RGB pixels (`width * height * 3` bytes, or none for a crop) and their PNG."""

    width: int
    height: int
    pixels: bytearray
    png: bytes


class Decoder:
    """One persistent child process, started at first use, one image at a time.

    A child that dies is replaced and the image tried once more; one that hangs is killed. The
    caller always gets pixels or an `ImageError`.

    Args:
        deadline: seconds one image of so many pixels may take.
    """

    def __init__(self, *, deadline: Callable[[int], float] = wall_budget) -> None:
        self._deadline = deadline
        self._lock = threading.Lock()
        self._worker: _Worker | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the child, None while there is none."""
        return self._worker.process.pid if self._worker else None

    def admit(self, header: ImageHeader) -> Decoded:
        """Return pixels and PNG of an image."""
        return self._run(child.ADMIT, header, (0, 0, 0, 0), (0, 0))

    def decode(self, header: ImageHeader) -> Decoded:
        """Return the pixels of an image."""
        return self._run(child.DECODE, header, (0, 0, 0, 0), (0, 0))

    def crop(
        self, header: ImageHeader, box: tuple[int, int, int, int], output: tuple[int, int]
    ) -> Decoded:
        """Return the PNG of `box` (pixels, half-open), scaled where `output` is another size."""
        return self._run(child.CROP, header, box, output)

    def close(self) -> None:
        """End the child; a later call starts a new one."""
        with self._lock:
            self._drop()

    def _run(
        self,
        operation: bytes,
        header: ImageHeader,
        box: tuple[int, int, int, int],
        output: tuple[int, int],
    ) -> Decoded:
        """Run one job; raise `invalid_image`, `image_too_big` or, without a child, `not_ready`."""
        head = child.JOB.pack(
            operation,
            child.FORMATS.index(header.kind),
            header.width,
            header.height,
            *box,
            *output,
            len(header.body),
        )
        wanted = _Wanted(
            sizes={output} if operation == child.CROP else _both_ways(header),
            pixels=operation != child.CROP,
            png=operation != child.DECODE,
        )
        with self._lock:
            for last in (False, True):
                try:
                    return self._attempt(head, header, wanted)
                except _ChildDiedError as death:
                    if death.over_budget:
                        raise _refusal("image_too_big") from death
                    if last:
                        raise _refusal("invalid_image") from death
        raise AssertionError  # the second attempt returns or raises

    def _attempt(self, head: bytes, header: ImageHeader, wanted: _Wanted) -> Decoded:
        worker = self._ready_worker()
        until = time.monotonic() + self._deadline(header.width * header.height)
        try:
            worker.send(head, until)
            worker.send(header.body, until)
            answer = _read_answer(worker, wanted, until)
        except BaseException:
            # Also for a keyboard interrupt: a half-read answer would be taken for the next one.
            self._drop()
            raise
        if isinstance(answer, str):
            raise _refusal(answer)
        return answer

    def _ready_worker(self) -> _Worker:
        if self._worker is not None and not self._worker.usable:
            self._drop()
        if self._worker is None:
            self._worker = _start()
        return self._worker

    def _drop(self) -> None:
        if self._worker is not None:
            self._worker.stop()
            self._worker = None


@dataclass(frozen=True)
class _Wanted:
    """What an honest answer holds."""

    sizes: set[tuple[int, int]]
    pixels: bool
    png: bool


class _ChildDiedError(Exception):
    def __init__(self, *, over_budget: bool) -> None:
        super().__init__("the decoding child died")
        self.over_budget = over_budget


class _Worker:
    """A running child with its two pipes, both without blocking on our side."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self._owner = os.getpid()
        self._input, self._output = process.stdin.fileno(), process.stdout.fileno()
        os.set_blocking(self._input, False)
        os.set_blocking(self._output, False)
        self.stop = weakref.finalize(self, _stop, process, self._owner)

    @property
    def usable(self) -> bool:
        """Whether it lives and was started by this process, not by one that forked us."""
        return self._owner == os.getpid() and self.process.poll() is None

    def send(self, data: bytes, until: float) -> None:
        rest = memoryview(data)
        while rest:
            self._wait(self._input, select.POLLOUT, until)
            try:
                rest = rest[os.write(self._input, rest) :]
            except BlockingIOError:
                continue
            except BrokenPipeError as error:
                raise self._death() from error

    def read_into(self, view: memoryview, until: float) -> None:
        while view:
            self._wait(self._output, select.POLLIN, until)
            try:
                count = os.readv(self._output, [view])
            except BlockingIOError:
                continue
            if count == 0:
                raise self._death()
            view = view[count:]

    def read(self, length: int, until: float) -> bytes:
        data = bytearray(length)
        self.read_into(memoryview(data), until)
        return bytes(data)

    def _wait(self, descriptor: int, event: int, until: float) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
            raise _refusal("image_too_big")

    def _death(self) -> _ChildDiedError:
        try:
            code = self.process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            code = 0  # it closed its pipes and lives on
        return _ChildDiedError(over_budget=code == -signal.SIGXCPU)


def _start() -> _Worker:
    try:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and file
            [sys.executable, "-I", str(_SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",
            start_new_session=True,  # Ctrl-C is the parent's business
        )
    except OSError as error:
        raise _not_started() from error
    worker = _Worker(process)
    try:
        hello = worker.read(child.FRAME.size, time.monotonic() + START_S)
    except (_ChildDiedError, ImageError) as error:
        worker.stop()
        raise _not_started() from error
    assert hello == child.FRAME.pack(child.HELLO, 0)
    return worker


def _stop(process: subprocess.Popen[bytes], owner: int) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    if owner == os.getpid():
        process.kill()
        process.wait()


def _read_answer(worker: _Worker, wanted: _Wanted, until: float) -> Decoded | str:
    """Return what the child made of the image, or the code of its refusal.

    The child is not trusted: sizes, order and amount of what it sends are checked.
    """
    size: tuple[int, int] | None = None
    pixels, png, filled, limit = bytearray(), [], 0, 0
    while True:
        kind, length = child.FRAME.unpack(worker.read(child.FRAME.size, until))
        if kind == child.SIZED and size is None and length == child.SIZE.size:
            size = child.SIZE.unpack(worker.read(length, until))
            _require(size in wanted.sizes)
            pixels = bytearray(3 * size[0] * size[1] * wanted.pixels)
            limit = _png_bound(*size) * wanted.png
        elif kind == child.PIXELS and filled + length <= len(pixels):
            worker.read_into(memoryview(pixels)[filled : filled + length], until)
            filled += length
        elif kind == child.PNG and length <= limit:
            png.append(worker.read(length, until))
            limit -= length
        elif kind == child.END and size is not None:
            _require(filled == len(pixels) and bool(png) == wanted.png)
            return Decoded(*size, pixels, b"".join(png))
        else:
            code = worker.read(length, until).decode("ascii", "replace") if length < 64 else ""
            _require(kind == child.REFUSED and code in _REFUSALS)
            return code


def _png_bound(width: int, height: int) -> int:
    raw = (3 * width + 1) * height
    return raw + raw // 100 + 2**17


def _both_ways(header: ImageHeader) -> set[tuple[int, int]]:
    return {(header.width, header.height), (header.height, header.width)}


def _require(condition: bool) -> None:  # noqa: FBT001 - reads as a sentence
    if not condition:
        raise _refusal("invalid_image")


def _refusal(code: str) -> ImageError:
    return ImageError(_REFUSALS[code], code=code)


def _not_started() -> BankBusyError:
    return BankBusyError(
        "the image decoder could not be started",
        code="not_ready",
        hint="check that Pillow is installed and that processes can be started",
    )
