"""What `epimem run evochamber` does: options in, a run in its folder, its report."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from epimem.bank.encoder import load_encoder
from epimem.cli.options import Phase, open_bank
from epimem.cli.output import emit, note, one_line
from epimem.cli.progress import progress
from epimem.errors import ConfigError, EpimemError, NotFoundError, PluginError
from epimem.protocols import Encoder
from epimem.schema import strict_json
from epimem.schema.ids import sha256
from harness_adapters import llm
from harness_adapters.client import Client
from harness_adapters.evochamber import report
from harness_adapters.evochamber.chamber import Chamber, Episode
from harness_adapters.evochamber.command import TOKEN
from harness_adapters.evochamber.problem import Mark, Problem
from harness_adapters.evochamber.running import Folder, run, summary
from harness_adapters.evochamber.settings import Part, Profile, Settings, settings_of
from harness_adapters.evochamber.sharing import Sharing
from harness_adapters.running import bank_of
from harness_adapters.streams.checkers import check
from harness_adapters.streams.task import StreamTask, read_stream

FAILED = 1


@dataclass(frozen=True)
class Options:
    """What was typed; see the command's help."""

    stream: Path
    llm: str
    bank: str | None
    namespace: str | None
    group: str
    folder: Path
    profile: Profile
    changes: tuple[str, ...]
    without: tuple[Part, ...]
    seed: int
    rewards: str
    phase: Phase
    encoder: str


def start(options: Options) -> int:
    """Run a pool, and return the exit status: 1 where a model or bank failed, to be gone on with."""
    tasks = list(read_stream(options.stream))
    settings = settings_of(
        options.profile, **{**changed(options.changes), "without": options.without}
    )
    problems = [problem_of(task, options.stream.parent, options.rewards) for task in tasks]
    _check_images(problems, options.stream.parent)
    folder = Folder(options.folder)
    with ExitStack() as stack:
        encoder = _encoder(options.encoder)
        model = llm.load(options.llm)
        sharing = _sharing(options, model.name, stack) if options.bank else None
        stack.enter_context(folder.opened(_setup(options, model.name, settings, tasks)))
        if sharing is not None:
            sharing.run_name = folder.run_name
        chamber = Chamber(settings, model, encoder, seed=options.seed, sharing=sharing)
        return _run(chamber, problems, folder, settings)


def _check_images(problems: Sequence[Problem], folder: Path) -> None:
    """Refuse a stream before any work where an image of a task is not there, or not beside the stream.

    A stream may come from somebody else, and an image goes to the server of a model.

    Raises:
        NotFoundError: names the task and the file.
    """
    home = folder.resolve()
    for problem in problems:
        for path in problem.images:
            if not (path.resolve().is_relative_to(home) and path.is_file()):
                raise NotFoundError(
                    "an image of the stream is not in its folder",
                    field=problem.task_id,
                    got=str(path),
                )


def _run(chamber: Chamber, problems: Sequence[Problem], folder: Folder, settings: Settings) -> int:
    try:
        with progress() as told:
            run(chamber, problems, folder, told=lambda each: emit(line(each)), progress=told)
    except EpimemError as error:
        note(f"epimem: {error.code}: {one_line(str(error))}")
        note("epimem: the same command goes on from here")
        return FAILED
    finally:
        episodes = folder.episodes()
        emit(summary(episodes))
        _draw(episodes, folder, settings)
    return 0


def _draw(episodes: Sequence[Episode], folder: Folder, settings: Settings) -> None:
    """Draw the report; without the library for pictures the run is none the worse."""
    try:
        report.draw(report.signals(episodes, window=settings.window), folder.path / "report")
    except PluginError as error:
        note(f"epimem: no report is drawn: {one_line(str(error))}")


def line(episode: Episode) -> dict[str, Any]:
    """Return what is printed of a task."""
    return {
        "task": episode.number,
        "task_id": episode.task_id,
        "niche": episode.niche,
        "team": list(episode.team),
        "structure": episode.structure,
        "score": episode.score,
        "codream": episode.fired,
        "insights": len(episode.insights),
        "recipients": len(episode.recipients),
        "events": [f"{event.kind} {event.agent}" for event in episode.events],
    }


def changed(given: Sequence[str]) -> dict[str, Any]:
    """Return NAME=VALUE settings as plain data: a number or null where it is one, else a text.

    Raises:
        ConfigError: one is not of this form.
    """
    changes: dict[str, Any] = {}
    for each in given:
        name, sign, value = each.partition("=")
        if not sign or not name:
            raise ConfigError("a setting is NAME=VALUE", field="--set", got=each)
        try:
            changes[name] = strict_json.loads(value)
        except EpimemError:
            changes[name] = value
    return changes


def problem_of(task: StreamTask, folder: Path, rewards: str) -> Problem:
    """Return a task of a stream as the pool sees it; every reply is checked once.

    Args:
        task: with the reference, which stays in the checker.
        folder: that paths of images count from.
        rewards: "checker" or "agreement".
    """

    @lru_cache(maxsize=64)
    def mark(reply: str) -> Mark:
        found = check(task, reply)
        return Mark(found.reward, found.answer)

    return Problem(
        task_id=task.task_id,
        niche=task.niche,
        question=task.question,
        mark=mark,
        images=tuple(folder / name for name in task.images),
        source="oracle" if rewards == "checker" else "self",
    )


def _setup(
    options: Options, model: str, settings: Settings, tasks: Sequence[StreamTask]
) -> dict[str, Any]:
    """Return what names a run: the model by its name, since a server may move."""
    stream = b"\n".join(task.canonical() for task in tasks)
    return {
        "stream": sha256(stream),
        "llm": model,
        "bank": options.bank or "",
        "namespace": options.namespace or "",
        "group": options.group,
        "seed": options.seed,
        "rewards": options.rewards,
        "encoder": options.encoder,
        "settings": settings.plain(),
    }


def _encoder(name: str) -> Encoder:
    found = load_encoder(name)
    if found is None:
        raise ConfigError("a pool needs a text encoder", field="--encoder", got=name)
    return found


def _sharing(options: Options, model: str, stack: ExitStack) -> Sharing:
    return Sharing(
        _client(options, stack),
        options.group,
        options.folder / "crops",
        namespace=options.namespace,
        backbone=model,
    )


def _client(options: Options, stack: ExitStack) -> Client:
    """Open the bank: a folder in the phase that was asked for; a server's token has one of its own."""
    assert options.bank is not None
    if options.bank.startswith(("http://", "https://")):
        return stack.enter_context(bank_of(options.bank, TOKEN))
    memory = stack.enter_context(open_bank(Path(options.bank), phase=options.phase))
    return stack.enter_context(Client.local(memory, contributor=options.group))
