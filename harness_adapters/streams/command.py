"""`epimem stream`: what is typed; the builders are loaded when needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from epimem.cli.options import command
from epimem.cli.output import emit

if TYPE_CHECKING:
    from harness_adapters.streams.task import StreamTask

F = TypeVar("F")


@click.group("stream", short_help="Make streams of tasks for methods that learn as they go.")
def stream() -> None:
    """Make and check streams: files of JSON Lines with a question, a niche and a checker each.

    `epimem run evochamber --stream FILE` solves one.
    """


def _shared(function: F) -> F:
    options = (
        click.option(
            "--out", required=True, type=click.Path(path_type=Path), metavar="FILE", help="Written."
        ),
        click.option("--seed", type=int, default=0, show_default=True, help="For what is drawn."),
        click.option(
            "--shuffle", is_flag=True, help="Mix the niches.  [default: one after the other]"
        ),
    )
    result: Any = function
    for option in reversed(options):
        result = option(result)
    return result  # type: ignore[no-any-return]


_each = click.option(
    "--each", type=click.IntRange(min=1), metavar="N", help="Tasks of every niche.  [default: all]"
)


@command(
    "bbh",
    summary="Make a stream of BIG-Bench Hard.",
    text="FOLDER holds its JSON files, as the repository suzgunmirac/BIG-Bench-Hard has them. Niches "
    "are its 27 tasks.",
    examples=("epimem stream bbh BIG-Bench-Hard/bbh --each 20 --shuffle --out bbh.jsonl",),
)
@click.argument("folder", type=click.Path(path_type=Path))
@_each
@_shared
def bbh(folder: Path, *, each: int | None, out: Path, seed: int, shuffle: bool) -> int:
    """Write it, and return the exit status."""
    from harness_adapters.streams import bbh as builder

    return _write(builder.tasks(folder), out, seed, each=each, shuffle=shuffle)


@command(
    "gsm8k",
    summary="Make a stream of GSM8K.",
    text="FILE is its test.jsonl or train.jsonl, as the repository openai/grade-school-math has them. "
    "One niche; the number after #### is the reference.",
    examples=("epimem stream gsm8k test.jsonl --each 300 --out gsm8k.jsonl",),
)
@click.argument("file", type=click.Path(path_type=Path))
@_each
@_shared
def gsm8k(file: Path, *, each: int | None, out: Path, seed: int, shuffle: bool) -> int:
    """Write it, and return the exit status."""
    from harness_adapters.streams import gsm8k as builder

    return _write(builder.tasks(file), out, seed, each=each, shuffle=shuffle)


@command(
    "gym",
    summary="Make a stream of generated tasks of reasoning-gym.",
    text="NAMES are data sets of the package, each a niche; it makes and marks the tasks.",
    examples=("epimem stream gym leg_counting spell_backward --each 50 --shuffle --out gym.jsonl",),
)
@click.argument("names", nargs=-1, required=True)
@click.option(
    "--each",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    metavar="N",
    help="Tasks of every data set.",
)
@_shared
def gym(names: tuple[str, ...], *, each: int, out: Path, seed: int, shuffle: bool) -> int:
    """Write it, and return the exit status."""
    from harness_adapters.streams import gym as builder

    return _write(builder.tasks(names, each, seed), out, seed, each=None, shuffle=shuffle)


@command(
    "paper",
    summary="Make a stream that EvoChamber was measured on.",
    text="STREAM is hard-math (382 tasks), hard-code (586, HumanEval's 164 among them) or aflow (600). "
    "The data sets are loaded from the hub with the package datasets. What the paper does not say "
    "which tasks it took is drawn by --seed.",
    examples=("epimem stream paper hard-math --out hard-math.jsonl",),
)
@click.argument("name", metavar="STREAM", type=click.Choice(["hard-math", "hard-code", "aflow"]))
@_shared
def paper(name: str, *, out: Path, seed: int, shuffle: bool) -> int:
    """Write it, and return the exit status."""
    from harness_adapters.streams import papers

    return _write(papers.tasks(name, seed), out, seed, each=None, shuffle=shuffle)


@command(
    "check",
    summary="Check a stream and count its tasks.",
    text="Reads every line, and lets every checker see an empty reply, so that what a task lacks shows "
    "now. Prints one JSON line: tasks by niche and by checker.",
    examples=("epimem stream check bbh.jsonl",),
)
@click.argument("file", type=click.Path(path_type=Path))
def check_stream(file: Path) -> int:
    """Check it, and return the exit status."""
    from harness_adapters.streams.checkers import check
    from harness_adapters.streams.task import read_stream

    tasks = list(read_stream(file))
    for task in tasks:
        check(task, "")
    emit(_counts(tasks))
    return 0


def _write(
    tasks: Iterable[StreamTask], out: Path, seed: int, *, each: int | None, shuffle: bool
) -> int:
    from epimem.bank.derived import write_whole
    from epimem.bank.storage import storage_error
    from harness_adapters.streams.sampling import per_niche, shuffled
    from harness_adapters.streams.task import lines

    found = list(tasks) if each is None else per_niche(tasks, each, seed)
    found = shuffled(found, seed) if shuffle else found
    try:
        write_whole(out, list(lines(found)))
    except OSError as error:
        raise storage_error(error) from error
    emit({"file": str(out), **_counts(found)})
    return 0


def _counts(tasks: Iterable[StreamTask]) -> dict[str, Any]:
    listed = list(tasks)
    return {
        "tasks": len(listed),
        "niches": dict(Counter(task.niche for task in listed)),
        "checkers": dict(Counter(task.checker for task in listed)),
    }


for _member in (bbh, gsm8k, gym, paper, check_stream):
    stream.add_command(_member)
