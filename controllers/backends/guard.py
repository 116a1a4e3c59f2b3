"""Runs a command that must not outlive the process which started it.

    python guard.py COMMAND ...        started with a pipe as standard input

The pipe ends when its other side closes it or dies, however it dies; then the command is asked to end,
and after ten seconds made to, with every process of its group. Run as a file, with the standard library
alone, by any Python.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time

GRACE_S = 10.0
BEAT_S = 0.2


def main() -> int:
    """Run the command; return its exit status where it ended by itself."""
    # Asking the group to end must not end the one who sees to it. A handler, since the command would
    # inherit that a signal is ignored.
    signal.signal(signal.SIGTERM, lambda *_: None)
    command = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)  # noqa: S603
    while command.poll() is None:
        readable, _, _ = select.select([0], [], [], BEAT_S)
        if readable and not os.read(0, 1024):
            break
    _end_group(command)
    return command.wait()


def _end_group(command: subprocess.Popen[bytes]) -> None:
    if os.getpgrp() != os.getpid():
        command.kill()  # not a group of our own: nobody else is to be hit
        return
    os.killpg(0, signal.SIGTERM)
    end = time.monotonic() + GRACE_S
    while command.poll() is None and time.monotonic() < end:
        time.sleep(BEAT_S)
    os.killpg(0, signal.SIGKILL)  # this process too


if __name__ == "__main__":
    sys.exit(main())
