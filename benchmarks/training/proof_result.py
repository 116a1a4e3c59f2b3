"""The result of a proof: intervals over groups, the lines that were laid down, a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.training.answers import Answer, Written
from benchmarks.training.intervals import Interval, over_groups

LEAST_GAIN, LEAST_LAWFUL = 0.05, 0.9
CONSTANTS = ("first candidate", "nothing")
JUDGED = "place"


def compared(
    answers: Mapping[str, Sequence[Answer]], said: Mapping[str, Sequence[Written]]
) -> dict[str, Any]:
    """Return what was measured and whether it passes.

    Args:
        answers: by who answered, over the same requests: "untrained", "trained", `CONSTANTS`, others.
        said: what was written, by who wrote.
    """
    operations = list(dict.fromkeys(each.operation for each in answers["trained"]))
    measured = {name: _operation(name, answers) for name in operations}
    lawful = {who: _share(found) for who, found in said.items()}
    return {
        "operations": measured,
        "lawful": lawful,
        "written": {who: len(found) for who, found in said.items()},
        "passed": _passed(measured[JUDGED], lawful),
    }


def table(results: Mapping[int, Mapping[str, Any]]) -> str:
    """Return the results by seed as tables in Markdown."""
    lines = []
    for seed, result in sorted(results.items()):
        lines += [f"Seed {seed}: {'passed' if result['passed'] else 'NOT passed'}", ""]
        lines += [*_accuracies(result["operations"]), ""]
        lines += ["| lawful replies without a schema | |", "| --- | --- |"]
        lines += [
            f"| {who} | {share:.2f} of {result['written'][who]} |"
            for who, share in result["lawful"].items()
        ]
        lines += [""]
    return "\n".join(lines)


def _operation(operation: str, answers: Mapping[str, Sequence[Answer]]) -> dict[str, Any]:
    by_who = {
        who: [each for each in found if each.operation == operation]
        for who, found in answers.items()
    }
    better = max(CONSTANTS, key=lambda who: sum(each.right for each in by_who[who]))
    trained = by_who["trained"]
    return {
        "n": len(trained),
        "groups": len({each.group for each in trained}),
        "accuracy": {who: asdict(_accuracy(found)) for who, found in by_who.items()},
        "nothing": {
            who: sum(each.chosen == "nothing" for each in found) / len(found)
            for who, found in by_who.items()
        },
        "gain": asdict(_lead(trained, by_who["untrained"])),
        "over constant": asdict(_lead(trained, by_who[better])),
        "over random labels": (
            asdict(_lead(trained, by_who["random labels"])) if "random labels" in by_who else None
        ),
        "over threshold": asdict(_lead(trained, by_who["threshold on likeness"])),
    }


def _passed(place: Mapping[str, Any], lawful: Mapping[str, float]) -> bool:
    return (
        place["gain"]["low"] >= LEAST_GAIN
        and place["over constant"]["low"] > 0
        and lawful["trained"] >= LEAST_LAWFUL
        and lawful["trained"] > lawful["untrained"]
    )


def _accuracy(answers: Sequence[Answer]) -> Interval:
    return over_groups(_by_group(answers, lambda place: float(answers[place].right)))


def _lead(ours: Sequence[Answer], theirs: Sequence[Answer]) -> Interval:
    """Return the difference over the same requests, pair by pair."""
    assert [each.id for each in ours] == [each.id for each in theirs]
    return over_groups(
        _by_group(ours, lambda place: float(ours[place].right) - float(theirs[place].right))
    )


def _by_group(answers: Sequence[Answer], value: Callable[[int], float]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for place, each in enumerate(answers):
        found.setdefault(each.group, []).append(value(place))
    return found


def _share(found: Sequence[Written]) -> float:
    return sum(each.lawful for each in found) / len(found)


def _accuracies(operations: Mapping[str, Any]) -> list[str]:
    names = list(operations)
    heads = [f"{name} (n {operations[name]['n']})" for name in names]
    lines = [f"| | {' | '.join(heads)} |", f"| --- |{' --- |' * len(names)}"]
    for who in operations[names[0]]["accuracy"]:
        cells = [_shown(operations[name]["accuracy"][who]) for name in names]
        lines.append(f"| {who} | {' | '.join(cells)} |")
    for lead in ("gain", "over constant", "over random labels", "over threshold"):
        if operations[names[0]][lead] is not None:
            cells = [_shown(operations[name][lead], sign="+") for name in names]
            lines.append(f"| trained, {lead} | {' | '.join(cells)} |")
    return lines


def _shown(interval: Mapping[str, float], sign: str = "") -> str:
    return (
        f"{interval['mean']:{sign}.2f} [{interval['low']:{sign}.2f}, {interval['high']:{sign}.2f}]"
    )
