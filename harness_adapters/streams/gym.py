"""reasoning-gym: tasks made by its generators and marked by its scorers; niche = data set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from epimem.errors import PluginError, RecordError
from epimem.schema import strict_json
from harness_adapters.streams.task import StreamTask


def tasks(names: Sequence[str], count: int, seed: int) -> Iterator[StreamTask]:
    """Yield so many tasks of each data set.

    Args:
        names: of data sets.
        count: of each.
        seed: the same one gives the same tasks.

    Raises:
        PluginError: the library is not installed.
        RecordError: it has no such data set, or an entry that JSON cannot hold.
    """
    try:
        import reasoning_gym
    except ImportError as error:
        raise PluginError(
            "the package reasoning-gym is not installed", hint="pip install 'epimem[gym]'"
        ) from error
    for name in names:
        try:
            made = reasoning_gym.create_dataset(name, size=count, seed=seed)
        except (ValueError, AssertionError) as error:  # one that needs more than a name
            raise RecordError(
                "reasoning-gym has no such data set", field="name", got=name
            ) from error
        for number in range(count):
            entry = _plain(made[number], name)
            _check_scorer(made, made[number], entry, name)
            yield StreamTask(
                task_id=f"gym-{name}-{seed}-{number}",
                niche=name,
                question=entry["question"],
                checker="gym",
                reference={"dataset": name, "entry": entry},
            )


def _plain(entry: object, name: str) -> dict[str, str]:
    """Return an entry as its scorer can still read it after it was JSON.

    Raises:
        RecordError: it holds something that JSON cannot.
    """
    try:
        back = strict_json.loads(strict_json.dumps(entry))
    except (TypeError, ValueError, RecordError) as error:
        raise RecordError("this data set cannot be kept as JSON", field="name", got=name) from error
    if not isinstance(back, dict):
        raise RecordError("this data set cannot be kept as JSON", field="name", got=name)
    return back


def _check_scorer(made: Any, before: Any, after: Any, name: str) -> None:
    """Refuse a data set whose scorer no longer knows its own answer (arc_agi compares tuples).

    Raises:
        RecordError: so it is.
    """
    answer = before["answer"]
    if answer is not None and made.score_answer(answer, after) < made.score_answer(answer, before):
        raise RecordError("this data set cannot be marked once it was JSON", field="name", got=name)
