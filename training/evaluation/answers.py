"""What controllers answered, kept as JSON Lines so that an evaluation can go on where it stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from epimem.errors import BankBusyError, RecordError
from epimem.schema.base import Record, StrictFloat, StrictInt
from epimem.schema.proposal import Reason
from training.demonstrations.codec import read_value
from training.demonstrations.lines import Appender, read_lines
from training.demonstrations.record import OperationName
from training.evaluation.measures import NO_VALUE


class Answer(Record):
    """What one controller said to one demonstration.

    `controller` is its fingerprint, `id` that of the demonstration. `value` is plain JSON data of the
    operation's value, None also where `reason` says why there is none. `failure` says why nothing was
    said at all: such an answer counts as wrong, and the same command asks again. Seconds are wall
    time; in a batch, the share of one.
    """

    controller: str
    id: str
    operation: OperationName
    value: Any = None
    reason: Reason | None = None
    detail: str = ""
    failure: str = ""
    calls: StrictInt = 0
    tokens_in: StrictInt = 0
    tokens_out: StrictInt = 0
    seconds: StrictFloat | StrictInt = 0

    @property
    def key(self) -> tuple[str, str]:
        """What makes an answer one of its kind."""
        return self.controller, self.id

    @property
    def valid(self) -> bool:
        """Whether the reply was lawful, the first one or the one after the re-ask."""
        return self.reason is None and not self.failure

    @property
    def valid_first(self) -> bool:
        """Whether the first reply was lawful; a controller without a model makes no calls."""
        return self.valid and self.calls <= 1

    def typed(self) -> Any:
        """Return the value as its type, `NO_VALUE` where there is none.

        Raises:
            RecordError: the stored value is not of this operation.
        """
        return read_value(self.operation, self.value) if self.valid else NO_VALUE


def _read(plain: Any) -> Answer:
    if not isinstance(plain, dict):
        raise RecordError("a JSON object is wanted", code="bad_json")
    answer = Answer.read(plain)
    answer.typed()
    return answer


class Answers:
    """The answers of an evaluation in a file; two processes cannot write one file.

    Args:
        path: of the file; made where it is missing. A last line that a crash cut off is dropped.

    Raises:
        BankBusyError: another evaluation writes this file.
        RecordError: a line is no answer; names file and line.
    """

    def __init__(self, path: Path) -> None:
        self._found: dict[tuple[str, str], Answer] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._file: Appender | None = Appender(path, alone=True)
        except BlockingIOError as error:
            raise BankBusyError(
                "another evaluation is at work on this report", field=path.name
            ) from error
        try:
            self._load(path)
        except BaseException:
            self.close()
            raise

    def _load(self, path: Path) -> None:
        for number, plain in read_lines(path):
            try:
                answer = _read(plain)
            except RecordError as error:
                raise RecordError(
                    "not an answer of an evaluation",
                    field=f"{path.name}:{number}",
                    hint="delete the file to ask everything anew",
                ) from error
            self._found[answer.key] = answer

    def __contains__(self, key: object) -> bool:
        return key in self._found

    def __getitem__(self, key: tuple[str, str]) -> Answer:
        return self._found[key]

    def add(self, answer: Answer) -> None:
        """Keep an answer; it is in the file when this returns, unless it failed.

        Raises:
            StorageError: `storage_full` or `storage_failed`.
        """
        self._found[answer.key] = answer
        if self._file is not None and not answer.failure:
            self._file.append(answer.canonical())

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
