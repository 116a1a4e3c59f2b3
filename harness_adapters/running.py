"""Questions one after the other through a harness with memory: what `epimem run` does."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from epimem import plugins
from epimem.cli.output import emit, note, one_line
from epimem.errors import ConfigError, EpimemError, RecordError
from epimem.schema import strict_json
from epimem.schema.base import Record
from epimem.schema.ids import sha256
from harness_adapters.client import Client
from harness_adapters.harness import HARNESSES, Driven, Driver, Harness

SOME_FAILED = 1


class Task(Record):
    """One line of a file of tasks; paths of images count from the file."""

    question: str
    images: tuple[str, ...] = ()
    family: str = ""
    task_id: str = ""


Todo = tuple[Task, tuple[Path, ...]]


def run(
    harness: Harness,
    bank: Client,
    todo: Iterable[Todo],
    *,
    folder: Path,
    namespace: str | None,
    contribute: bool,
    repeatable: bool,
) -> int:
    """Solve tasks, print a line of JSON for each, and return the exit status.

    Args:
        harness: solves.
        bank: asked, and closed at the end.
        todo: tasks with the files of their images.
        folder: where each run gets a folder.
        namespace: of the bank; None for its own.
        contribute: whether runs are handed in.
        repeatable: tasks that were handed in before are not solved again.
    """
    failed = 0
    with bank:
        driver = Driver(bank, harness, folder, namespace, contribute=contribute)
        for number, (task, pages) in enumerate(todo, 1):
            run_id = _run_id(harness.name, task, number) if repeatable else None
            failed += not _solve(driver, task, pages, run_id, number)
    return SOME_FAILED if failed else 0


def single(question: str, family: str, images: tuple[Path, ...]) -> list[Todo]:
    """Return one question as what there is to do."""
    return [(Task(question=question, family=family), images)]


def bank_of(bank: str, variable: str, *, contributor: str | None = None) -> Client:
    """Return the client of a folder, or of a server whose token a variable holds.

    Args:
        bank: a path or a URL.
        variable: holds the token.
        contributor: who contributes to a folder; as in its settings where None.

    Raises:
        ConfigError: there is no token.
    """
    if not bank.startswith(("http://", "https://")):
        return Client.local(bank, contributor=contributor)
    token = os.environ.get(variable)
    if not token:
        raise ConfigError(f"a server needs a token in the variable {variable}", field="BANK")
    return Client.http(bank, token)


def _solve(
    driver: Driver, task: Task, pages: tuple[Path, ...], run_id: str | None, number: int
) -> bool:
    """Drive one task; a harness that fails costs that task alone."""
    marker = driver.folder / run_id / "handed-in.json" if run_id is not None else None
    if marker is not None and marker.is_file():
        note(f"epimem: task {number} was handed in before")
        emit(strict_json.loads(marker.read_bytes()))
        return True
    try:
        done = driver.drive(
            task.question,
            [path.resolve() for path in pages],
            family=task.family,
            task_id=task.task_id,
            run_id=run_id,
        )
    except EpimemError as error:
        note(f"epimem: task {number}: {one_line(str(error))}")
        return False
    if done.fault:
        note(f"epimem: task {number}: solved without memory: {one_line(done.fault)}")
    told = _told(done)
    if marker is not None and done.receipt is not None:
        marker.write_bytes(strict_json.dumps(told))
    emit(told)
    return True


def _told(done: Driven) -> dict[str, Any]:
    return {
        "run_id": done.run_id,
        "answer": done.answer,
        "retrieval_id": done.given.retrieval_id,
        "items": [item.node_id for item in done.given.items],
        "crops": len(done.given.crops),
        "receipt": done.receipt.plain() if done.receipt is not None else None,
    }


def _run_id(harness: str, task: Task, number: int) -> str:
    """Return the id of a task's run: the same whenever the file is run through this harness."""
    return f"{harness}-{number}-{sha256(task.canonical())[:24]}"


def read(path: Path) -> Iterator[Todo]:
    """Yield the tasks of a file of lines of JSON.

    Raises:
        RecordError: a line is none; names it.
    """
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            task = Task.read(line)
        except RecordError as error:
            raise RecordError(
                f"line {number} of the tasks: {error.message}", code=error.code, field=error.field
            ) from error
        yield task, tuple(path.parent / name for name in task.images)


def harness_of(name: str, settings: Sequence[str]) -> Any:
    """Return an installed harness with KEY=VALUE settings.

    Raises:
        PluginError: none of that name.
        ConfigError: a setting that it does not have, or one that it needs and is not given.
    """
    made = plugins.load(HARNESSES, name)
    parameters = inspect.signature(made).parameters
    return made(**_arguments(settings, parameters))


def _arguments(
    settings: Sequence[str], parameters: Mapping[str, inspect.Parameter]
) -> dict[str, Any]:
    """Return KEY=VALUE settings as the arguments of a harness, by the types that it states.

    Raises:
        ConfigError: a key that it does not have, or one that it needs and is not given.
    """
    found: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if key not in parameters or not equals:
            known = ", ".join(parameters)
            raise ConfigError("no such setting of this harness", got=key, hint=f"it has {known}")
        kind = str(parameters[key].annotation)
        if kind.startswith("Sequence"):
            found[key] = (*found.get(key, ()), value)
        elif kind == "float":
            found[key] = _number(key, value)
        else:
            found[key] = Path(value) if "Path" in kind else value
    empty = inspect.Parameter.empty
    missing = [name for name, it in parameters.items() if it.default is empty and name not in found]
    if missing:
        needed = ", ".join(missing)
        raise ConfigError(f"the harness needs --set {needed}=...", field="set")
    return found


def _number(key: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ConfigError("a number is needed", field=key, got=value) from None
