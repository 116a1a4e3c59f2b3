"""Where the command line meets the shell: exit statuses, one-line errors, closed pipes, Ctrl-C.

| status | when |
| --- | --- |
| 0 | done |
| 1 | done, but some of several records were refused |
| 2 to 9, 70 | `EpimemError.exit_code`; a wrong command or option is 2 |
| 130 | Ctrl-C |
| 141 | the reader of standard output went away, as for a program that SIGPIPE ends |
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import click

from epimem.cli import INTERRUPTED
from epimem.cli.output import OutputClosedError, note, one_line
from epimem.errors import EpimemError, StorageError

TRACEBACK = "EPIMEM_TRACEBACK"
USAGE = 2
PIPE_CLOSED = 141


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status; see `epimem.cli.main`."""
    closed = _open_missing()
    with _private_files():
        try:
            _require_output(closed)
            return _invoke(arguments)
        except KeyboardInterrupt:
            return _interrupted()
        except (OutputClosedError, SystemExit):
            # click leaves with SystemExit when its own output meets a closed pipe.
            _drop_output()
            return PIPE_CLOSED
        except Exception as error:  # noqa: BLE001 - the outermost boundary: no trace reaches a user
            return _fault(error)


def _require_output(closed: set[int]) -> None:
    if 1 in closed:
        raise StorageError(
            "standard output is closed", hint="send it to /dev/null if it is not wanted"
        )


def _invoke(arguments: Sequence[str] | None) -> int:
    from epimem.cli.program import program

    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    given = None if arguments is None else list(arguments)
    status = program.main(args=given, prog_name="epimem", standalone_mode=False)
    sys.stdout.flush()
    return status if isinstance(status, int) else 0


def _fault(error: Exception) -> int:
    if os.environ.get(TRACEBACK):
        import traceback

        traceback.print_exception(error)
    if isinstance(error, click.Abort):
        return _interrupted()
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        note(error.format_message())
        return USAGE
    if isinstance(error, click.ClickException):
        return _wrong_usage(error)
    found = _named(error)
    note(f"epimem: {found.code}: {one_line(_sentence(found))}")
    return found.exit_code


def _wrong_usage(error: click.ClickException) -> int:
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context is not None else "epimem"
    note(f"epimem: usage: {one_line(error.format_message())} ({command} --help)")
    return USAGE


def _named(error: Exception) -> EpimemError:
    """Return an error as one with a code; what has none is a bug of ours."""
    if isinstance(error, EpimemError):
        return error
    if isinstance(error, OSError):
        from epimem.bank.storage import storage_error

        return storage_error(error)
    return EpimemError(
        f"unexpected {type(error).__name__}: this is a bug in epimem or in a plugin",
        hint=f"set {TRACEBACK}=1 and run it again to see where",
    )


def _sentence(error: EpimemError) -> str:
    where = f" [{error.field}]" if error.field else ""
    got = f", got {error.got}" if error.got is not None else ""
    limit = f", limit {error.limit}" if error.limit is not None else ""
    hint = f" ({error.hint})" if error.hint else ""
    return f"{error.message}{where}{got}{limit}{hint}"


def _interrupted() -> int:
    if threading.current_thread() is threading.main_thread():
        # A second Ctrl-C while the interpreter ends must not print a trace either.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return INTERRUPTED


def _open_missing() -> set[int]:
    """Open the null device on those of the descriptors 0 to 2 that are closed; return them.

    Otherwise the next file opened, a bank's, would get that number and be printed into.
    """
    closed = set()
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            closed.add(descriptor)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    return closed


def _drop_output() -> None:
    """Send what is still buffered nowhere, so that nothing complains when the process ends."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.__stdout__.fileno() if sys.__stdout__ is not None else 1)
        os.close(null)


@contextmanager
def _private_files() -> Iterator[None]:
    """Let nobody else write the files that are made, whatever the umask of the caller."""
    before = os.umask(0o022)
    os.umask(before | 0o022)
    try:
        yield
    finally:
        os.umask(before)
