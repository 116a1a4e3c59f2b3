"""A stream of tasks: JSON Lines, each a question and, apart from it, what a checker needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from epimem.errors import NotFoundError, RecordError
from epimem.schema import strict_json
from epimem.schema.base import Record
from epimem.schema.text import NameText, RunText

MAX_LINE = 8 * 1024 * 1024


class StreamTask(Record):
    """One line of a stream.

    Attributes:
        task_id: unique in the stream.
        niche: subdomain that the task is of.
        question: what a solver is asked; with `images` all that it may see.
        images: files, counted from the folder of the stream, in page order.
        checker: who says what a reply is worth; see `harness_adapters.streams.checkers`.
        reference: what the checker needs: an answer, alternatives, tests. Never shown to a solver.
    """

    task_id: NameText
    niche: NameText
    question: RunText = Field(min_length=1)
    images: tuple[str, ...] = ()
    checker: NameText
    reference: Any = Field(repr=False)


def read_stream(path: Path) -> Iterator[StreamTask]:
    """Yield the tasks of a file.

    Raises:
        NotFoundError: there is no such file.
        RecordError: a line is no task, a task id comes twice, or there is no task; names the line.
    """
    if not path.is_file():
        raise NotFoundError("no such stream", got=str(path), hint="`epimem stream` makes one")
    seen: set[str] = set()
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                task = _task(line, number)
                if task.task_id in seen:
                    raise RecordError(
                        "a task id comes twice", field=f"line {number}", got=task.task_id
                    )
                seen.add(task.task_id)
                yield task
    if not seen:
        raise RecordError("the stream is empty", got=str(path))


def _task(line: bytes, number: int) -> StreamTask:
    if len(line) > MAX_LINE:
        raise RecordError("the line is too long", code="too_large", field=f"line {number}")
    try:
        return StreamTask.read(strict_json.loads(line, keep_surrogates=True))
    except RecordError as error:
        raise RecordError(
            f"line {number} of the stream: {error.message}",
            code=error.code,
            field=error.field,
            got=error.got,
        ) from error


def lines(tasks: Iterable[StreamTask]) -> Iterator[bytes]:
    """Yield tasks as the lines of a file."""
    return (task.canonical() + b"\n" for task in tasks)
