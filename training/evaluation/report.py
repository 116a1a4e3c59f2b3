"""From answers to a report: measures with intervals, differences, costs, by operation and controller."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import metadata
from itertools import combinations
from typing import Literal

from pydantic import Field

from controllers.prompts import VERSION
from epimem.schema.base import Record, StrictFloat, StrictInt
from training.demonstrations.record import VALUE_OF, Demonstration, OperationName
from training.evaluation.answers import Answer, Answers
from training.evaluation.ends import BenchLine
from training.evaluation.intervals import Estimate, Resampled
from training.evaluation.measures import BALANCED, Alike, score
from training.evaluation.subjects import Subject

COMPARED = ("accuracy", "balanced_accuracy", "region_iou")
Key = tuple[str, str]


class Line(Record):
    """One controller in one operation.

    `measures` are means over the demonstrations that have the number. `reasons` counts what was still
    refused after the re-ask, by reason; `failed` counts what got no reply at all. Seconds, tokens and
    calls are means per demonstration, those that failed left out.
    """

    controller: str
    measures: dict[str, Estimate]
    reasons: dict[str, StrictInt] = Field(default_factory=dict)
    failed: StrictInt = 0
    seconds: StrictFloat
    tokens_in: StrictFloat
    tokens_out: StrictFloat
    calls: StrictFloat


class Difference(Record):
    """How much higher the first controller is than the second in one measure, paired over groups."""

    first: str
    second: str
    measure: str
    over: Estimate


class Evaluated(Record):
    """Who was asked: its name in this report, and the fingerprint of what it is made of."""

    name: str
    fingerprint: str


class Unread(Record):
    """A line of the set that could not be read: its number from 1, the code of the fault, and why."""

    line: StrictInt
    code: str
    message: str


class OperationResult(Record):
    """All controllers in one operation."""

    operation: OperationName
    items: StrictInt
    groups: StrictInt
    lines: tuple[Line, ...]
    differences: tuple[Difference, ...]

    def line(self, controller: str) -> Line:
        """Return the line of a controller; KeyError where there is none."""
        return {line.controller: line for line in self.lines}[controller]

    def over(self, first: str, second: str, measure: str = "accuracy") -> Estimate:
        """Return a difference; KeyError where there is none."""
        found = {(it.first, it.second, it.measure): it.over for it in self.differences}
        return found[first, second, measure]


class Report(Record):
    """What an evaluation found.

    `controllers` are in the order named, floors last. `texts` says how texts
    were compared. `unread` are the lines of the set that could not be read. `seconds` is the wall time
    of this run of the command alone.
    """

    format: Literal["epimem-operation-report/1"] = "epimem-operation-report/1"
    split: str
    prompt_version: str = VERSION
    controllers: tuple[Evaluated, ...]
    texts: str
    operations: tuple[OperationResult, ...]
    benches: tuple[BenchLine, ...] = ()
    unread: tuple[Unread, ...] = ()
    versions: dict[str, str]
    seconds: StrictFloat = 0.0

    def operation(self, name: str) -> OperationResult:
        """Return the result of an operation; KeyError where there is none."""
        return {str(found.operation): found for found in self.operations}[name]


def summarize(
    subjects: Sequence[Subject],
    demonstrations: Sequence[Demonstration],
    answers: Answers,
    *,
    split: str,
    cosine: Alike | None = None,
    encoder: str = "",
    benches: Sequence[BenchLine] = (),
    unread: Sequence[Unread] = (),
    seconds: float = 0.0,
) -> Report:
    """Return the report of answers that are all there.

    Args:
        subjects: who was asked.
        demonstrations: what.
        answers: one for each of both.
        split: of the set.
        cosine: the likeness of two texts by an encoder, where there is one.
        encoder: its name.
        benches: what was found end to end.
        unread: lines of the set that could not be read.
        seconds: wall time.
    """
    by_operation: dict[OperationName, list[Demonstration]] = {}
    for demonstration in demonstrations:
        by_operation.setdefault(demonstration.operation, []).append(demonstration)
    return Report(
        split=split,
        controllers=tuple(Evaluated(name=it.name, fingerprint=it.fingerprint) for it in subjects),
        texts="token F1" + (f"; cosine of {encoder}" if cosine is not None else ""),
        operations=tuple(
            _operation(name, by_operation[name], subjects, answers, cosine)
            for name in VALUE_OF
            if name in by_operation
        ),
        benches=tuple(benches),
        unread=tuple(unread),
        versions={
            "epimem": metadata.version("epimem"),
            "python": platform.python_version(),
            "numpy": metadata.version("numpy"),
        },
        seconds=round(seconds, 3),
    )


def _operation(
    name: OperationName,
    asked: Sequence[Demonstration],
    subjects: Sequence[Subject],
    answers: Answers,
    cosine: Alike | None,
) -> OperationResult:
    columns: dict[Key, list[tuple[str, float]]] = {}
    given: dict[str, list[Answer]] = {}
    for subject in subjects:
        given[subject.name] = [answers[subject.fingerprint, it.id] for it in asked]
        for demonstration, answer in zip(asked, given[subject.name], strict=True):
            for measure, value in _numbers(demonstration, answer, cosine).items():
                column = columns.setdefault((subject.name, measure), [])
                column.append((demonstration.group, value))
    resampled = Resampled(columns)
    names = [subject.name for subject in subjects]
    return OperationResult(
        operation=name,
        items=len(asked),
        groups=len({it.group for it in asked}),
        lines=tuple(_line(it, given[it], columns, resampled) for it in names),
        differences=tuple(
            Difference(
                first=first,
                second=second,
                measure=measure,
                over=resampled.difference(
                    _keys(first, measure, resampled), _keys(second, measure, resampled)
                ),
            )
            for first, second in combinations(names, 2)
            for measure in COMPARED
            if _keys(first, measure, resampled)
        ),
    )


def _numbers(
    demonstration: Demonstration, answer: Answer, cosine: Alike | None
) -> Mapping[str, float]:
    """Return everything that is measured of one answer, by name."""
    measured = score(
        demonstration.operation,
        demonstration.request,
        demonstration.value,
        answer.typed(),
        cosine=cosine,
    )
    return {
        "valid_first": float(answer.valid_first),
        "valid": float(answer.valid),
        "accuracy": measured.accuracy,
        **measured.numbers,
    }


def _line(
    name: str, given: Sequence[Answer], columns: Mapping[Key, object], resampled: Resampled[Key]
) -> Line:
    own = [measure for controller, measure in columns if controller == name]
    keys = {measure: _keys(name, measure, resampled) for measure in (*own, *BALANCED)}
    replied = [answer for answer in given if not answer.failure]
    count = max(len(replied), 1)
    return Line(
        controller=name,
        measures={measure: resampled.estimate(*found) for measure, found in keys.items() if found},
        reasons=dict(Counter(str(it.reason) for it in replied if it.reason is not None)),
        failed=len(given) - len(replied),
        seconds=float(sum(it.seconds for it in replied)) / count,
        tokens_in=sum(it.tokens_in for it in replied) / count,
        tokens_out=sum(it.tokens_out for it in replied) / count,
        calls=sum(it.calls for it in replied) / count,
    )


def _keys(name: str, measure: str, resampled: Resampled[Key]) -> tuple[Key, ...]:
    """Return the columns of a measure; none where one of them, a class say, has no demonstration."""
    keys = tuple((name, part) for part in BALANCED.get(measure, (measure,)))
    return keys if all(key in resampled for key in keys) else ()
