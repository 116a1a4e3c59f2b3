"""What the commands print: JSON Lines on standard output, text for people on standard error.

Text of items may come from anybody. Whatever a terminal would act on instead of showing is written
as a visible escape, in text and in JSON alike.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any

from epimem.schema import strict_json

if TYPE_CHECKING:
    from rich.console import Console

    from epimem.schema.base import Record

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"
# What JSON need not escape and a terminal may act on: C1 controls, and marks of direction.
_ACTIVE = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
SLOW_S = 1.0


class OutputClosedError(Exception):
    """Nobody reads standard output any more."""


def visible(text: str, *, keep: str = "") -> str:
    r"""Return text with every control and format character as an escape such as `\x1b`.

    Args:
        text: from anywhere.
        keep: characters to leave as they are, such as a newline in running text.
    """
    if text.isprintable():
        return text
    return "".join(
        character if character in keep or not _acts(character) else _escape(character)
        for character in text
    )


def _acts(character: str) -> bool:
    return unicodedata.category(character) in _HIDDEN and character not in _JOINERS


def _escape(character: str) -> str:
    point = ord(character)
    if point > 0xFFFF:
        return f"\\U{point:08x}"
    return f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}"


def one_line(text: str) -> str:
    """Return text on one line, with visible escapes."""
    return visible(" ".join(text.split()))


def emit(value: Record | Mapping[str, Any]) -> None:
    """Print one JSON line on standard output, canonical, as UTF-8 whatever the locale.

    Raises:
        OutputClosedError: the reader is gone.
        OSError: standard output cannot be written for another reason.
    """
    data = strict_json.dumps(value) if isinstance(value, Mapping) else value.canonical()
    text = _ACTIVE.sub(lambda found: f"\\u{ord(found.group()):04x}", data.decode("utf-8"))
    write(text + "\n")


def write(text: str) -> None:
    """Print text on standard output as UTF-8.

    Raises:
        OutputClosedError: the reader is gone.
        OSError: standard output cannot be written for another reason.
    """
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError as error:
        raise OutputClosedError from error


def note(text: str) -> None:
    """Tell the person at the terminal something, on standard error; not read by programs."""
    with suppress(OSError, ValueError):
        sys.stderr.write(visible(text, keep="\n") + "\n")
        sys.stderr.flush()


def is_terminal(stream: IO[Any] | None) -> bool:
    """Say whether a stream is open and a terminal."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def draws(as_json: bool) -> bool:  # noqa: FBT001 - the value of the option --json
    """Say whether a command should draw for a person instead of printing JSON Lines."""
    return not as_json and is_terminal(sys.stdout)


def console(*, stderr: bool = False) -> Console:
    """Return a console that prints text as it is: no markup, no emoji codes, no highlighting."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, markup=False, emoji=False, highlight=False)


def draw(drawing: Any) -> None:
    """Print a drawing of rich on standard output.

    Raises:
        OutputClosedError: the reader is gone.
    """
    try:
        console().print(drawing)
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise OutputClosedError from error


@contextmanager
def slow(text: str) -> Iterator[None]:
    """Say on standard error what takes so long, once it has taken a second."""
    if is_terminal(sys.stderr):
        with console(stderr=True).status(one_line(text)):
            yield
        return
    import threading

    timer = threading.Timer(SLOW_S, note, [f"epimem: {text}"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
