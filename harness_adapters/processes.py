"""A harness as a process: started without input, bounded in time, its words kept."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from epimem.errors import ControllerError


def ended(
    words: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float,
    log: Path,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return what it wrote; its children end with it.

    Args:
        words: the program and its arguments.
        cwd: where it works.
        env: added to the environment.
        timeout_s: after which it is ended.
        log: gets what it wrote, errors last.

    Raises:
        ControllerError: it is not there, or took too long.
    """
    try:
        process = subprocess.Popen(  # noqa: S603 - the program that the user named
            words,
            cwd=cwd,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise ControllerError(
            f"{words[0]} cannot be started: {error.strerror}", hint="install it, or name its path"
        ) from error
    try:
        out, err = process.communicate(timeout=timeout_s)
    except BaseException as error:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        log.write_text(out + err, "utf-8")
        if isinstance(error, subprocess.TimeoutExpired):
            raise ControllerError(f"{words[0]} took longer than {timeout_s:g} s") from error
        raise
    log.write_text(out + err, "utf-8")
    return subprocess.CompletedProcess(words, process.returncode, out, err)
