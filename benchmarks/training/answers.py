"""What a model chose and wrote, kept line by line, so that an interrupted run goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.training.choices import Scorer, best, chosen, lawful, written
from controllers.backends.base import Backend
from training.demonstrations.record import Demonstration

Tell = Callable[[str], None]
# Written together: a batch waits for its longest reply.
TOGETHER = 10


@dataclass(frozen=True)
class Answer:
    """One request answered: the choice that was wanted, and the one that came."""

    id: str
    operation: str
    group: str
    wanted: str
    chosen: str

    @property
    def right(self) -> bool:
        """Whether it is the one that was wanted."""
        return self.chosen == self.wanted


@dataclass(frozen=True)
class Written:
    """One reply without a schema held to: its text, and whether it is lawful as it stands."""

    id: str
    operation: str
    group: str
    text: str
    lawful: bool


def answered(
    demonstrations: Iterable[Demonstration], choose: Callable[[Demonstration], str]
) -> list[Answer]:
    """Return the answers of whoever chooses without a model."""
    return [_answer(each, choose(each)) for each in demonstrations]


def scored(
    path: Path, demonstrations: Sequence[Demonstration], scorer: Scorer, tell: Tell
) -> list[Answer]:
    """Return the answers of a model, those in the file as they stand there."""
    known = {line["id"]: Answer(**line) for line in _read(path)}
    with path.open("a", encoding="utf-8") as file:
        for number, each in enumerate(demonstrations, 1):
            if each.id in known:
                continue
            known[each.id] = _answer(each, best(scorer.scores(each)))
            _append(file, asdict(known[each.id]))
            if number % 20 == 0:
                tell(f"{path.stem}: {number} of {len(demonstrations)} answered")
    return [known[each.id] for each in demonstrations]


def wrote(
    path: Path, demonstrations: Sequence[Demonstration], backend: Backend, tell: Tell
) -> list[Written]:
    """Return what a model writes when nothing holds it to the schema, known lines as they stand."""
    known = {line["id"]: Written(**line) for line in _read(path)}
    missing = [each for each in demonstrations if each.id not in known]
    with path.open("a", encoding="utf-8") as file:
        for start in range(0, len(missing), TOGETHER):
            part = missing[start : start + TOGETHER]
            for each, text in zip(part, written(backend, part), strict=True):
                found = Written(each.id, each.operation, each.group, text, lawful(each, text))
                known[each.id] = found
                _append(file, asdict(found))
            tell(f"{path.stem}: {len(known)} of {len(demonstrations)} written")
    return [known[each.id] for each in demonstrations]


def _answer(demonstration: Demonstration, choice: str) -> Answer:
    operation, value = demonstration.operation, demonstration.value
    return Answer(
        demonstration.id, operation, demonstration.group, chosen(operation, value), choice
    )


def _append(file: Any, line: Mapping[str, Any]) -> None:
    file.write(json.dumps(line) + "\n")
    file.flush()


def _read(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file, one that a kill tore taken off it."""
    whole = []
    for text in path.read_text("utf-8").splitlines() if path.is_file() else ():
        try:
            whole.append(json.loads(text))
        except ValueError:
            break
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in whole), "utf-8")
    return whole
