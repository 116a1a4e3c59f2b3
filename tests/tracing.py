"""Run an operation on a bank in a child whose system calls strace records or turns into a kill.

The child is forked from this process and waits until strace is attached, so that no interpreter has
to start for each run. What it acknowledges it appends to a file.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

Say = Callable[[str], None]
Operation = Callable[[Path, Say], None]
PR_SET_PTRACER, ANY = 0x59616D61, ctypes.c_ulong(-1)


@dataclass
class Traced:
    """How the child ended, what it had acknowledged, and the log of its calls."""

    killed: bool
    acknowledged: list[str]
    log: str


def require_strace() -> None:
    """Skip the test where there is no strace; continuous integration has to have it."""
    if shutil.which("strace") is None:
        if os.environ.get("CI"):
            pytest.fail("strace is not installed")
        pytest.skip("strace is not installed")


def traced(operation: Operation, folder: Path, said: Path, options: Sequence[str]) -> Traced:
    """Run `operation` on a copy of a bank under strace.

    Args:
        operation: called with the folder and a function that acknowledges a line.
        folder: of the bank.
        said: the file of acknowledgements, made anew; the log goes beside it.
        options: of strace: what to trace and inject.
    """
    said.write_bytes(b"")
    log = said.with_suffix(".strace")
    log.unlink(missing_ok=True)
    waiting, ready = os.pipe()
    child = os.fork()
    if child == 0:
        _run(operation, folder, said, waiting)
    os.close(waiting)
    command = ["strace", "-f", "-y", "-qq", "-o", str(log), *options, "-p", str(child)]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        _await_attached(child, tracer)
        os.write(ready, b"g")
        _, status = os.waitpid(child, 0)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    finally:
        os.close(ready)
        tracer.communicate()
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert killed or os.waitstatus_to_exitcode(status) == 0, f"the child ended with {status}"
    return Traced(killed, said.read_text().split(), log.read_text() if log.exists() else "")


def _run(operation: Operation, folder: Path, said: Path, waiting: int) -> None:
    """Be the child: wait for the tracer, do the work, and end without any of pytest's cleaning up."""
    status = 70
    try:
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ANY, 0, 0, 0)
        descriptor = os.open(said, os.O_WRONLY | os.O_APPEND)
        os.read(waiting, 1)
        operation(folder, lambda line: _say(descriptor, line))
        status = 0
    finally:
        os._exit(status)


def _say(descriptor: int, line: str) -> None:
    # Not `write`, which tests inject errors into.
    os.writev(descriptor, [f"{line}\n".encode()])


def _await_attached(child: int, tracer: subprocess.Popen[bytes]) -> None:
    """Wait until the kernel names a tracer of the child."""
    while True:
        status = Path(f"/proc/{child}/status").read_text()
        if f"TracerPid:\t{tracer.pid}\n" in status:
            return
        if tracer.poll() is not None:
            _, said = tracer.communicate()
            pytest.skip(f"tracing is not permitted here: {said.decode()[:200]}")
