"""A pool over a stream, in a folder: every task is on the disk before the bank hears of it.

    run.json         what the run is: a folder goes on with the same run only
    state.json       the pool, and what is still to be sent to the bank
    episodes.jsonl   one line a task

After a task its line is written, then the state, then the bank is written to. Whatever is interrupted,
the next start finds the last state that is whole, sends again what may not have been sent (which has no
effect where it was), and goes on with the next task.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from epimem.bank.derived import write_whole
from epimem.bank.storage import storage_error
from epimem.errors import BankBusyError, BankConflictError, ConfigError
from epimem.schema import strict_json
from epimem.schema.ids import uuid7
from harness_adapters.evochamber.chamber import Chamber, Episode
from harness_adapters.evochamber.problem import Problem
from harness_adapters.llm import Spent

Progress = Callable[[str, int, int], None]
DEPTH = strict_json.RUN_DEPTH + 8
"""A run that waits to be sent stands a few levels deep in the state."""


class Folder:
    """The folder of one run; use it inside `opened`.

    Args:
        path: of the folder.

    Attributes:
        run_name: unique, the same whenever this folder is gone on with; known inside `opened`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run_name = ""

    @contextmanager
    def opened(self, setup: Mapping[str, Any]) -> Iterator[None]:
        """Hold the folder for one process, and for one run.

        Args:
            setup: plain JSON data that names the run: stream, model, settings, bank.

        Raises:
            BankBusyError: another process works in it.
            BankConflictError: it holds another run.
            ConfigError: it is a file.
            StorageError: it cannot be written to.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError("this is no folder", field="--folder", got=str(self.path))
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with (self.path / "lock").open("a+b") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError as error:
                    raise BankBusyError(
                        "another process works in this folder", got=str(self.path)
                    ) from error
                self._claim(setup)
                yield
        except OSError as error:
            raise storage_error(error) from error

    def restore(self, chamber: Chamber) -> None:
        """Make a pool what it was after the last task that is whole, and send what it had to send.

        Raises:
            RecordError: the state is of other settings, or damaged.
        """
        path = self.path / "state.json"
        if not path.is_file():
            self._cut(0)
            return
        state = strict_json.loads(path.read_bytes(), max_depth=DEPTH, keep_surrogates=True)
        chamber.restore(state)
        self._cut(chamber.tasks)
        chamber.send()

    def keep(self, chamber: Chamber, episode: Episode) -> None:
        """Write a task's line, then the pool as it is after it."""
        with (self.path / "episodes.jsonl").open("ab") as file:
            file.write(episode.canonical() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        write_whole(self.path / "state.json", [strict_json.dumps(chamber.state())])

    def episodes(self) -> list[Episode]:
        """Return the tasks so far."""
        path = self.path / "episodes.jsonl"
        lines = path.read_bytes().splitlines() if path.is_file() else []
        return [Episode.read(line) for line in lines]

    def _claim(self, setup: Mapping[str, Any]) -> None:
        path = self.path / "run.json"
        if not path.is_file():
            write_whole(path, [strict_json.dumps({**setup, "name": uuid7()})])
        known = strict_json.loads(path.read_bytes())
        self.run_name = str(known.get("name"))
        other = [name for name in setup if known.get(name) != setup[name]]
        if other:
            raise BankConflictError(
                f"this folder holds a run with another {', '.join(other)}",
                field="--folder",
                got=str(self.path),
                hint="go on with the same options, or give another folder",
            )

    def _cut(self, tasks: int) -> None:
        """Drop lines of tasks that the state does not know of."""
        path = self.path / "episodes.jsonl"
        if not path.is_file():
            return
        lines = path.read_bytes().splitlines(keepends=True)
        if len(lines) != tasks or not all(line.endswith(b"\n") for line in lines):
            write_whole(path, lines[:tasks])


def run(
    chamber: Chamber,
    problems: Sequence[Problem],
    folder: Folder,
    *,
    told: Callable[[Episode], None] = lambda _: None,
    progress: Progress = lambda *_: None,
) -> list[Episode]:
    """Solve what of a stream is not solved yet; return all its tasks.

    Args:
        chamber: the pool, as it begins.
        problems: the stream.
        folder: opened.
        told: called with each task once it is on the disk.
        progress: called with (phase, done, total); may raise to stop.

    Raises:
        ControllerError: the model gave no reply; what was solved before is kept.
        EpimemError: the bank refused something or could not be reached.
    """
    folder.restore(chamber)
    progress("tasks", chamber.tasks, len(problems))
    for problem in problems[chamber.tasks :]:
        episode = chamber.solve(problem)
        folder.keep(chamber, episode)
        chamber.send()
        told(episode)
        progress("tasks", chamber.tasks, len(problems))
    return folder.episodes()


def summary(episodes: Sequence[Episode]) -> dict[str, Any]:
    """Return what a run came to: score, costs by what they were for, and relative to a single agent.

    A single agent is taken to cost one "solve" call a task, of this run's mean cost.
    """
    spent: dict[str, Spent] = {}
    for episode in episodes:
        for tag, cost in episode.spent.items():
            spent.setdefault(tag, Spent()).add(Spent.read(cost))
    total = Spent()
    for each in spent.values():
        total.add(each)
    alone = spent.get("solve", Spent())
    tasks = len(episodes)
    return {
        "tasks": tasks,
        "score": _ratio(sum(each.score for each in episodes), tasks),
        "insights": sum(len(each.insights) for each in episodes),
        "agents": episodes[-1].pool if episodes else 0,
        "spent": {tag: each.plain() for tag, each in sorted(spent.items())},
        "tokens_over_single": _ratio(total.tokens * alone.calls, alone.tokens * tasks),
        "time_over_single": _ratio(total.time_s * alone.calls, alone.time_s * tasks),
        "own_ms_a_task": _ratio(1000 * sum(each.own_s for each in episodes), tasks),
    }


def _ratio(value: float, by: float) -> float | None:
    return round(value / by, 4) if by else None
