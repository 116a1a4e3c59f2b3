"""The one table of a report: as Markdown, and drawn on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from training.evaluation.ends import BenchLine
from training.evaluation.intervals import Estimate
from training.evaluation.report import Line, OperationResult, Report
from training.evaluation.subjects import MEAN_REGION

COLUMNS = (
    "operation",
    "controller",
    "valid",
    "accuracy",
    "first - this",
    "other measures",
    "s",
    "tokens",
    "calls",
    "failed",
)
BRIEF = ("controller", "valid", "accuracy", "first - this", "s", "tokens")
_RIGHT = frozenset({"valid", "s", "tokens", "calls", "failed"})
# Shown in columns of their own, or parts of a balanced measure.
_ELSEWHERE = frozenset({"valid", "valid_first", "accuracy", "parent_right"})
_DOTS = "..."


def head(report: Report) -> str:
    """Return what a reader must know of the table, as text."""
    first = report.controllers[0].name
    return (
        f"Held-out groups of the split {report.split}, prompt version {report.prompt_version}. "
        "valid: lawful first replies, then after the one re-ask. Means with 95 % intervals, groups "
        f"resampled; first - this: accuracy of {first} minus that of the row, paired over groups. "
        f"Texts are compared by {report.texts}. s, tokens (in + out) and calls per demonstration."
    )


def markdown(report: Report) -> str:
    """Return the table as Markdown, under what a reader must know."""
    lines = [head(report), "", _markdown_row(COLUMNS)]
    lines.append(_markdown_row(["---:" if name in _RIGHT else "---" for name in COLUMNS]))
    lines += [_markdown_row(cells) for cells in rows(report)]
    return "\n".join(lines) + "\n"


def drawing(report: Report) -> Any:
    """Return the table for a terminal: a block for each operation, and then the benches."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    parts: list[Any] = [Text(head(report))]
    for result in report.operations:
        title = f"{result.operation}: {result.items} of {result.groups} groups"
        parts += ["", Text(title, style="bold"), _block(report, result)]
        parts += [
            Padding(
                Text(f"{line.controller}: {', '.join(_others(line, brief=True))}"), (0, 0, 0, 2)
            )
            for line in filter(_tells, result.lines)
        ]
    for bench in report.benches:
        title = f"{bench.bench}, {bench.controller}"
        parts += ["", Text(title, style="bold"), Padding(Text(_bench(bench)), (0, 0, 0, 2))]
    return Group(*parts)


def _block(report: Report, result: OperationResult) -> Any:
    from rich.table import Table
    from rich.text import Text

    # Without frames, so that the columns fit into eighty characters.
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    shown = [COLUMNS.index(name) for name in BRIEF]
    for name in BRIEF:
        table.add_column(name, justify="right" if name in _RIGHT else "left", overflow="fold")
    for line in filter(_tells, result.lines):
        cells = ("", *_cells(report, result, line))
        table.add_row(*(Text(cells[at]) for at in shown))
    return table


def rows(report: Report) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each operation and controller, then of each bench and controller."""
    for result in report.operations:
        for at, line in enumerate(filter(_tells, result.lines)):
            title = f"{result.operation} ({result.items} of {result.groups} groups)"
            yield ("" if at else title, *_cells(report, result, line))
    before = ""
    for bench in report.benches:
        name = bench.bench if bench.bench != before else ""
        empty = ("", "", "")
        yield (name, bench.controller, *empty, _bench(bench), *empty, str(int(bool(bench.failure))))
        before = bench.bench


def _bench(bench: BenchLine) -> str:
    if bench.failure:
        return f"no result: {bench.failure}"
    found = (f"{it.name} {_with_interval(it.value, it.low, it.high)}" for it in bench.measures)
    return "; ".join(found)


def _tells(line: Line) -> bool:
    """Say whether a line differs from that of the other constant: where there are regions."""
    return line.controller != MEAN_REGION or "region_iou" in line.measures


def _cells(report: Report, result: OperationResult, line: Line) -> tuple[str, ...]:
    measures = line.measures
    first = report.controllers[0].name
    over = "" if line.controller == first else _estimate(result.over(first, line.controller), "+")
    return (
        line.controller,
        f"{measures['valid_first'].mean:.2f} {measures['valid'].mean:.2f}",
        _estimate(measures["accuracy"]),
        over,
        "; ".join(_others(line)),
        f"{line.seconds:.2g}",
        f"{line.tokens_in:.0f} + {line.tokens_out:.0f}",
        f"{line.calls:.1f}",
        str(line.failed),
    )


def _others(line: Line, *, brief: bool = False) -> Iterator[str]:
    for name, found in line.measures.items():
        if name in _ELSEWHERE or "right_of_" in name:
            continue
        value = f"{found.mean:.2f}" if brief else _estimate(found)
        yield f"{name.replace('_', ' ')} {value}"


def _estimate(found: Estimate, sign: str = "") -> str:
    return _with_interval(found.mean, found.low, found.high, sign)


def _with_interval(mean: float, low: float | None, high: float | None, sign: str = "") -> str:
    if low is None or high is None:
        return f"{mean:{sign}.3g}" if abs(mean) >= 10 else f"{mean:{sign}.2f}"
    form = f"{sign}.3g" if abs(mean) >= 10 else f"{sign}.2f"
    return f"{mean:{form}} [{low:{form}}, {high:{form}}]"


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', _DOTS) for cell in cells)} |"
