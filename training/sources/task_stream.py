"""A task stream on disk: what `epimem eval` reads, and what a harness solves to make runs.

    OUT/tasks.jsonl        {"id", "question", "reference", "images", "family", "group"}, one a line
    OUT/images/ID.png      each picture once, upright RGB, named by its image id
    OUT/references.jsonl   {"id", "references"}: all accepted answers, where there is more than one
    OUT/rejected.jsonl     rows that gave no task, with the reason

The stream grows by whole lines, so that a call that was stopped is simply made again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import ValidationError

from epimem.bank.decoder import Decoder
from epimem.bank.image_header import read_header
from epimem.build import Rejects
from epimem.errors import BankBusyError, ImageError, RecordError, StorageError
from epimem.evaluation.tasks import EvalTask
from epimem.schema.base import record_error
from epimem.schema.ids import image_id, sha256
from epimem.schema.text import TITLE_BYTES, clean_text
from training.demonstrations.lines import Appender, read_lines
from training.sources.question import RowError, SourceQuestion

TASKS, REFERENCES, REJECTED, IMAGES = "tasks.jsonl", "references.jsonl", "rejected.jsonl", "images"
GROUP_DIGITS = 24


@dataclass
class Written:
    """What came of the rows: tasks written now, met before, and rows set aside by reason."""

    written: int = 0
    known: int = 0
    set_aside: Counter[str] = field(default_factory=Counter)


class TaskStream:
    """Appends questions to a task stream; a question that stands in it already is passed over.

    Args:
        folder: made where it is missing.

    Raises:
        BankBusyError: another process writes it.
        RecordError: a line is no line of a stream.
        StorageError: it cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._decoder = Decoder()
        try:
            (folder / IMAGES).mkdir(parents=True, exist_ok=True)
            self._files = {TASKS: Appender(folder / TASKS, alone=True)}
        except BlockingIOError as error:
            raise BankBusyError(
                "another process writes this task stream", field=str(folder)
            ) from error
        except OSError as error:
            raise _unwritable(folder, error) from error
        if (folder / REFERENCES).exists():
            self._files[REFERENCES] = Appender(folder / REFERENCES)
        self._known = set(_ids(folder / TASKS))
        self._referred = set(_ids(folder / REFERENCES))

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, task_id: object) -> bool:
        return task_id in self._known

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._decoder.close()
        for each in self._files.values():
            each.close()

    def add(self, question: SourceQuestion) -> None:
        """Write a question with its pictures, the pictures first.

        Raises:
            RowError: it makes no task; `bad_image` where a picture is refused.
            StorageError: it cannot be written.
        """
        task = self._task(question)
        plain = {
            "id": task.id,
            "question": task.question,
            "reference": task.reference.get_secret_value(),
            "images": list(task.images),
            "family": task.family,
            "group": task.group,
        }
        if len(question.references) > 1 and task.id not in self._referred:
            self._append(REFERENCES, {"id": task.id, "references": list(question.references)})
            self._referred.add(task.id)
        self._append(TASKS, plain)
        self._known.add(task.id)

    def _task(self, question: SourceQuestion) -> EvalTask:
        names = tuple(self._keep(data) for data in question.images)
        group = clean_text(question.group).strip()
        if len(group.encode("utf-8")) > TITLE_BYTES:
            group = sha256(group.encode("utf-8"))[:GROUP_DIGITS]
        try:
            return EvalTask(
                id=question.id,
                question=clean_text(question.question),
                images=names,
                family=question.family,
                group=group or (Path(names[0]).stem[:GROUP_DIGITS] if names else ""),
                reference=clean_text(question.references[0]),  # sealed by the record
            )
        except ValidationError as error:
            found = record_error(error)
            raise RowError("missing_field", found.message, field=found.field) from error

    def _keep(self, data: bytes) -> str:
        """Store a picture; return its path relative to the folder."""
        try:
            decoded = self._decoder.admit(read_header(data))
        except ImageError as error:
            raise RowError("bad_image", f"{error.code}: {error.message}", field="image") from error
        name = f"{IMAGES}/{image_id(decoded.width, decoded.height, decoded.pixels)}.png"
        path = self._folder / name
        if not path.exists():
            part = path.with_suffix(".part")
            try:
                part.write_bytes(decoded.png)
                part.replace(path)
            except OSError as error:
                raise _unwritable(self._folder, error) from error
        return name

    def _append(self, name: str, value: Mapping[str, Any]) -> None:
        if name not in self._files:
            self._files[name] = Appender(self._folder / name)
        self._files[name].append(json.dumps(value, ensure_ascii=False).encode("utf-8"))


def write_tasks(
    folder: Path,
    rows: Iterable[Mapping[str, Any]],
    read: Callable[[Mapping[str, Any]], SourceQuestion],
    *,
    limit: int | None,
    progress: Callable[[str, int, int], None],
) -> Written:
    """Write the questions of rows until the stream holds `limit` tasks, or all of them for None.

    A row that gives no task is set aside by name and the others go on. Of rows with one id the first
    counts: a data set that repeats an id repeats the row.

    Raises:
        StorageError: the folder cannot be written, or the rows broke off.
    """
    report, met = Written(), 0
    rejects = Rejects(folder / REJECTED)
    with TaskStream(folder) as stream:
        rejects.path.unlink(missing_ok=True)
        try:
            for number, row in enumerate(rows, 1):
                if limit is not None and len(stream) >= limit:
                    break
                try:
                    question = read(row)
                    if question.id in stream:
                        report.known += 1
                    else:
                        stream.add(question)
                        report.written += 1
                except RowError as error:
                    report.set_aside[error.fault] += 1
                    rejects.add(str(error.field or ""), number, error.fault, error.message)
                met = number
                progress("questions", met, limit or 0)
        finally:
            rejects.close()
    return report


def _ids(path: Path) -> Iterator[str]:
    """Yield the ids of the lines of a file.

    Raises:
        RecordError: a line is no record with an id.
    """
    for number, plain in read_lines(path):
        if not isinstance(plain, dict) or not isinstance(plain.get("id"), str):
            raise RecordError("not a line of this stream", field=f"{path.name}:{number}")
        yield plain["id"]


def _unwritable(folder: Path, error: OSError) -> StorageError:
    return StorageError("the folder cannot be written", field=str(folder), hint=error.strerror)
