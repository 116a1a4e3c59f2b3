"""Reading what a user hands in: our own records from files and standard input, images, texts.

    a run       {"schema": "epimem-run/1", ...}
    a lesson    {"guidance": ..., ...}
    a pair      {"run": {...}, "outcome": {...}}

Records stand one on a line (JSON Lines), or in one JSON document: a record, or a list of them.
Files are streamed; a line that cannot be read is handed on as refused, and the rest goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from epimem.cli.options import checked_path
from epimem.cli.output import is_terminal, note
from epimem.errors import NotFoundError, RecordError, StorageError
from epimem.schema import strict_json

if TYPE_CHECKING:
    from epimem.schema.lesson import LessonDraft
    from epimem.schema.outcome import SealedOutcome
    from epimem.schema.run import Run

STDIN = "-"
MAX_DOCUMENT = 64 * 1024 * 1024
MAX_TEXT = 16 * 1024 * 1024
MAX_IMAGE = 32 * 1024 * 1024
IMAGE_ENDINGS = frozenset({".png", ".jpg", ".jpeg", ".webp"})
Take = Literal["both", "runs", "lessons"]


@dataclass(frozen=True)
class Given:
    """One record of a user; `source` names file and line."""

    run: Run | None
    outcome: SealedOutcome | None
    lessons: tuple[LessonDraft, ...]
    source: str


@dataclass
class Refused:
    """One line or document that is set aside; `line` counts from 1 and is 0 for a whole file."""

    source: str
    line: int
    code: str
    message: str


def name_of(argument: str) -> str:
    """Return how a source is called in reports: the file's own name."""
    return "standard input" if argument == STDIN else Path(argument).name


def read_records(argument: str, *, lines: bool = False) -> Iterator[Given | Refused]:
    """Yield the records of a file, or of standard input for "-".

    Args:
        argument: as typed.
        lines: JSON Lines, whatever it looks like; told from the content otherwise.

    Raises:
        NotFoundError: no such file.
        StorageError: it cannot be read.
    """
    name = name_of(argument)
    with opened(argument) as stream:
        yield from _records(stream, name, lines=lines or argument.endswith((".jsonl", ".ndjson")))


def _records(stream: BinaryIO, name: str, *, lines: bool) -> Iterator[Given | Refused]:
    for number, data in _documents(stream, lines=lines):
        try:
            for place, value in _values(data):
                yield _read(value, f"{name}:{number}" if number else f"{name}{place}")
        except RecordError as error:
            yield Refused(name, number, error.code, str(error))


def _values(data: bytes) -> Iterator[tuple[str, Any]]:
    if len(data) > MAX_DOCUMENT:
        raise RecordError("record too large", code="too_large", limit=MAX_DOCUMENT)
    # Only a run may hold escapes that nothing can store: its reader replaces them visibly.
    value = strict_json.loads(data, max_depth=strict_json.RUN_DEPTH, keep_surrogates=True)
    if isinstance(value, list):
        yield from ((f"[{place}]", item) for place, item in enumerate(value))
    else:
        yield "", value


def _read(value: Any, source: str) -> Given:
    from epimem.schema.lesson import LessonDraft
    from epimem.schema.run import SCHEMA, Run

    if not isinstance(value, dict):
        raise RecordError("a run or a lesson is an object", got=type(value).__name__)
    if "run" in value and value.keys() <= {"run", "outcome"}:
        return _read_pair(value, source)
    if value.get("schema") == SCHEMA:
        return Given(Run.read(value), None, (), source)
    return Given(None, None, (LessonDraft.read(value),), source)


def _read_pair(value: dict[str, Any], source: str) -> Given:
    from epimem.schema.outcome import SealedOutcome
    from epimem.schema.run import Run

    run, outcome = value["run"], value.get("outcome")
    if not isinstance(run, dict) or not isinstance(outcome, dict | None):
        raise RecordError("`run` and `outcome` of a pair are objects")
    read = Run.read(run)
    sealed = SealedOutcome.read(outcome) if outcome is not None else None
    return Given(read, belonging(sealed, read), (), source)


def belonging(outcome: SealedOutcome | None, run: Run) -> SealedOutcome | None:
    """Return an outcome after making sure that it is of this run.

    Raises:
        RecordError: it is of another.
    """
    if outcome is not None and outcome.run_id != run.run_id:
        raise RecordError("the outcome is of another run", field="outcome.run_id")
    return outcome


def _documents(stream: BinaryIO, *, lines: bool) -> Iterator[tuple[int, bytes]]:
    """Yield (line, bytes) of JSON Lines, or (0, bytes) of one document; too long ones are cut."""
    numbered = _lines(stream)
    head = [item for _, item in zip(range(2), numbered, strict=False)]
    if lines or len(head) < 2 or _look_like_lines(head[0][1], head[1][1]):
        yield from head
        yield from numbered
        return
    start = b"".join(data for _, data in head)
    yield 0, start + stream.read(MAX_DOCUMENT + 1)


def _look_like_lines(first: bytes, second: bytes) -> bool:
    first = first.strip()
    if first.startswith(b"["):
        return False
    return (first.startswith(b"{") and first.endswith(b"}")) or second.startswith(b"{")


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    number = 0
    while data := stream.readline(MAX_DOCUMENT + 1):
        number += 1
        rest = data
        while rest and not rest.endswith(b"\n"):
            rest = stream.readline(MAX_DOCUMENT + 1)
        if data.strip():
            yield number, data


def count_lines(argument: str) -> int:
    """Return how many records a JSON Lines file has, 0 where that cannot be told beforehand."""
    if argument == STDIN or not Path(argument).is_file():
        return 0
    with opened(argument) as stream:
        return sum(1 for line in stream if not line.isspace())


def taken(records: Iterator[Given | Refused], take: Take) -> Iterator[Given | Refused]:
    """Leave out what is not wanted: runs or lessons."""
    for record in records:
        unwanted = isinstance(record, Given) and (
            (take == "runs" and record.run is None) or (take == "lessons" and not record.lessons)
        )
        if not unwanted:
            yield record


@contextmanager
def opened(argument: str) -> Iterator[BinaryIO]:
    """Open a file that was named on the command line, or standard input for "-".

    Raises:
        NotFoundError: no such file.
        StorageError: it cannot be read.
    """
    if argument == STDIN:
        yield _standard_input()
        return
    path = checked_path(argument)
    try:
        stream = path.open("rb")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError("no such file", got=argument) from error
    except IsADirectoryError as error:
        raise RecordError("this is a folder, a file is wanted", got=argument) from error
    except OSError as error:
        raise StorageError("the file cannot be opened", got=argument) from error
    with stream:
        yield stream


def _standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise RecordError("standard input is closed", field="-")
    if is_terminal(sys.stdin):
        note("epimem: reading from this terminal; Ctrl-D ends the input")
    return sys.stdin.buffer


def read_text(argument: str) -> str:
    """Return a text that was given as an argument, or on standard input for "-".

    Raises:
        RecordError: `invalid_text`, not UTF-8; `too_large`.
    """
    if argument != STDIN:
        return argument
    data = _standard_input().read(MAX_TEXT + 1)
    if len(data) > MAX_TEXT:
        raise RecordError("the text is too long", code="too_large", limit=MAX_TEXT)
    try:
        return data.decode("utf-8").strip("\r\n")
    except UnicodeDecodeError as error:
        raise RecordError("not UTF-8", code="invalid_text", field="-", got=error.start) from error


def image_files(arguments: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield (name, bytes) of image files; a folder gives those with an image's ending, by name.

    Raises:
        NotFoundError: no such file, or no image in a folder.
        StorageError: one cannot be read.
    """
    for argument in arguments:
        folder = checked_path(argument)
        if argument != STDIN and folder.is_dir():
            found = sorted(
                path for path in folder.iterdir() if path.suffix.lower() in IMAGE_ENDINGS
            )
            if not found:
                raise NotFoundError("no PNG, JPEG or WebP in this folder", got=argument)
            names = [str(path) for path in found]
        else:
            names = [argument]
        for name in names:
            with opened(name) as stream:
                yield name_of(name), stream.read(MAX_IMAGE + 1)
