"""A JSONL file whose lines belong to the lines of another one, by `task_id`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from epimem.errors import RecordError
from harness_adapters.documents import (
    FAULTS,
    MAX_DOCUMENT,
    Document,
    bounded,
    inside,
    lines,
    refusal,
)
from harness_adapters.importer import FieldTally, Refused

T = TypeVar("T")


class LineIndex:
    """The lines of `name` in `folder` by task; only ids and places are in memory.

    With `single`, a second line of a task is set aside.
    """

    def __init__(self, folder: Path, name: str, *, single: bool = False) -> None:
        self._folder = folder
        self._name = name
        self._single = single
        self._places: dict[str, list[tuple[int, int]]] = {}
        self._refused: list[Refused] = []
        path = folder / name
        self.present = path.exists() or path.is_symlink()
        if inside(folder, path):
            with path.open("rb") as file:
                for line, place, data in lines(file):
                    self._add(line, place, data)
        elif self.present:
            message = "not a regular file, or a link that leaves the folder"
            self._refused.append(Refused(name, 0, "invalid_field", message))

    def take(
        self, task_id: str, build: Callable[[dict[str, Any]], T], tally: FieldTally
    ) -> list[T]:
        """Build the records of a task and take its lines out; a faulty line is set aside."""
        found: list[T] = []
        for line, place in self._places.pop(task_id, []):
            with (self._folder / self._name).open("rb") as file:
                file.seek(place)
                document = Document(self._name, line, self._folder, file.readline(MAX_DOCUMENT + 1))
            try:
                value = document.parse_strictly()
                found.append(build(value))
            except FAULTS as error:
                self._refused.append(refusal(document, error))
                continue
            for name in value:
                tally.count(f"{Path(self._name).stem}.{name}", "mapped")
        return found

    def left(self) -> Iterator[Refused]:
        """Yield what was set aside, and the lines whose task no run had, by line."""
        unused = [
            Refused(self._name, line, "not_found", "no run of this task was imported")
            for places in self._places.values()
            for line, _ in places
        ]
        yield from sorted((*self._refused, *unused), key=lambda item: item.line)

    def _add(self, line: int, place: int, data: bytes) -> None:
        document = bounded(Document(self._name, line, self._folder, data))
        if isinstance(document, Refused):
            self._refused.append(document)
            return
        try:
            task_id = _task_id(document)
        except RecordError as error:
            self._refused.append(refusal(document, error))
            return
        places = self._places.setdefault(task_id, [])
        if places and self._single:
            message = "a second line for the same task"
            self._refused.append(Refused(self._name, line, "conflict", message))
            return
        places.append((line, place))


def _task_id(document: Document) -> str:
    task_id = document.parse_strictly().get("task_id")
    if not isinstance(task_id, str):
        raise RecordError("is a text", field="task_id")
    return task_id
