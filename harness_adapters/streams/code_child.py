"""Run a reply's code and one statement under limits; started by `harness_adapters.streams.code`.

    python -I -B code_child.py JOB RESULT

JOB and RESULT are open descriptors: the first holds a word, the statement and the code, divided by NUL;
the word is written to the second after everything ran. Nothing of epimem is imported here.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys

MEMORY = 1 << 30
OUTPUT = 1 << 20
CPU_S = 12
FILES = 32
PROCESSES = 32
FIRST_USER, USERS = 60_000, 5_000  # a user for each test, so that PROCESSES bounds it alone
KEEP_RIGHTS, MAY_READ = 8, 1 << 2  # PR_SET_KEEPCAPS, CAP_DAC_READ_SEARCH
NEW_PROCESSES, NEW_NETWORK = 0x20000000, 0x40000000  # CLONE_NEWPID, CLONE_NEWNET


def main() -> None:
    """Limit this process, run the code in a child of its own, and end as that ended."""
    job, result = map(int, sys.argv[1:3])
    word, statement, source = os.fdopen(job, "rb").read().decode("utf-8").split("\0", 2)
    _limit()
    _shut_in()
    _leave_root()
    # Compiled and looked up before anything of the reply runs: it may replace what stands in `builtins`.
    run, write, leave = exec, os.write, os._exit
    try:
        parts = [compile(source, "reply.py", "exec")]
        if statement:
            parts.append(compile(statement, "test.py", "exec"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        leave(1)
    # The first process of a new space: with its end everything in there ends.
    pid = os.fork()
    if pid:
        _, status = os.waitpid(pid, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    done = False
    try:
        names: dict[str, object] = {"__name__": "__main__"}
        for part in parts:
            run(part, names)
        sys.stdout.flush()
        done = True
    except SystemExit as error:
        # A program may end itself; a statement that was to run after it did not.
        done = not statement and error.code in (None, 0)
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - whatever the code raises: it has not passed
        done = False
    if done:
        write(result, word.encode())
    leave(0 if done else 1)


def _limit() -> None:
    for what, most in (
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_FSIZE, OUTPUT),
        (resource.RLIMIT_NOFILE, FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # too much output ends it


def _shut_in() -> None:
    """Leave network and process table, and bound the number of processes, where the system permits."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(NEW_PROCESSES | NEW_NETWORK) != 0:
        library.unshare(0x10000000 | NEW_PROCESSES | NEW_NETWORK)  # with CLONE_NEWUSER: not root
    resource.setrlimit(resource.RLIMIT_NPROC, (PROCESSES, PROCESSES))


def _leave_root() -> None:
    """Become nobody where this is root, whom no limit on processes binds and who may change every file.

    The right to read is kept: the interpreter may lie in a folder that only root may enter. Stays root
    where the system has no such user.
    """
    if os.geteuid() != 0:
        return
    library = ctypes.CDLL(None)
    user = FIRST_USER + os.getpid() % USERS
    with contextlib.suppress(OSError):
        os.chown(".", user, user)
        library.prctl(KEEP_RIGHTS, 1, 0, 0, 0)
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        # Effective, permitted and inheritable rights, in two halves (capset(2), version 3).
        rights = (ctypes.c_uint32 * 6)(MAY_READ, MAY_READ, 0, 0, 0, 0)
        library.capset((ctypes.c_uint32 * 2)(0x20080522, 0), rights)


if __name__ == "__main__":
    main()
