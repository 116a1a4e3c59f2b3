"""Code of a reply against tests, each in a limited child process of its own.

A child has 10 seconds, 1 GiB of memory, 1 MiB of output, an empty folder, no environment, and, where the
system lets it, neither network nor sight of other processes; where this is root, it is not, and cannot
change root's files. It can read what this program can read, a stream with its references among it.

A test is a statement run after the code, or an input with the output that is wanted. Code that ends
early, prints a result, replaces builtins or leaves processes behind passes nothing by it. But code and
statement share one interpreter: an object that equals everything passes an `assert`, and so does code
that searches the frames of this program for the word that says "passed".
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from epimem.schema.base import Record
from epimem.schema.text import RunText
from harness_adapters.streams import code_child

SECONDS = 10.0
_SCRIPT = Path(code_child.__file__)


class Test(Record):
    """One test: a statement to run after the code, or an input and the output wanted.

    Attributes:
        kind: which of the two.
        text: the statement, or the input.
        output: wanted, compared word by word.
    """

    __test__ = False  # not one of pytest's

    kind: Literal["statement", "output"]
    text: RunText
    output: RunText = ""


def share_passed(source: str, tests: Sequence[Test], seconds: float = SECONDS) -> float:
    """Return the share of the tests that code passes, in [0, 1].

    Args:
        source: Python.
        tests: at least one.
        seconds: for all of them together; what is not run by then is not passed.
    """
    left, passed = seconds, 0
    for test in tests:
        if left <= 0:
            break
        began = os.times().elapsed
        passed += _passes(source, test, left)
        left -= os.times().elapsed - began
    return passed / len(tests)


def _passes(source: str, test: Test, seconds: float) -> bool:
    word = secrets.token_hex(16)
    statement = test.text if test.kind == "statement" else ""
    job = f"{word}\0{statement}\0{source}".encode("utf-8", "replace")
    with tempfile.TemporaryDirectory(prefix="epimem-code-") as folder:
        paths = {name: Path(folder) / name for name in ("job", "input", "output", "result")}
        paths["job"].write_bytes(job)
        paths["input"].write_bytes(test.text.encode("utf-8", "replace"))
        work = Path(folder) / "work"
        work.mkdir()
        ended = _run(paths, work, seconds)
        if not ended:
            return False
        if test.kind == "statement":
            return paths["result"].read_bytes() == word.encode()
        printed = paths["output"].read_bytes().decode("utf-8", "replace")
        return printed.split() == test.output.split()


def _run(paths: dict[str, Path], work: Path, seconds: float) -> bool:
    """Run a child to its end; False where it took too long or ended badly. Nothing of it is left."""
    with (
        paths["job"].open("rb") as job,
        paths["input"].open("rb") as given,
        paths["output"].open("wb") as output,
        paths["result"].open("wb") as result,
    ):
        handed = (job.fileno(), result.fileno())
        words = [sys.executable, "-I", "-B", str(_SCRIPT), *map(str, handed)]
        process = subprocess.Popen(  # noqa: S603 - our own script
            words,
            stdin=given,
            stdout=output,
            stderr=subprocess.DEVNULL,
            cwd=work,
            env={},
            pass_fds=handed,
            start_new_session=True,
        )
        try:
            return process.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
