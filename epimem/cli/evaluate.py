"""`epimem eval`: whether a bank helps a solver, beside the controls without which no number counts."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from epimem.cli.options import (
    bank_argument,
    checked_path,
    command,
    json_option,
    memory_controller_option,
    namespace_option,
    open_bank,
    tree_organizer_option,
)
from epimem.cli.output import draw, draws, emit, note, visible
from epimem.cli.progress import progress

if TYPE_CHECKING:
    from epimem.evaluation import Difference, EvalResult, EvalVerdict
    from epimem.evaluation.report import ArmResult

# As `epimem.evaluation` has them; that package is too heavy for `--help`.
ARMS = ("none", "product", "flat", "shuffled", "wrong", "frequency", "oracle")
NEAREST = 8
DEADLINE_S = 120.0
STARTUP_S = 600.0
REPORT_NAME = "report.json"
ROWS_NAME = "results.jsonl"
DOES_NOT_COUNT = 1
SHOWN = 5
COLUMNS = ("solved", "product - arm", "seeds", "time", "tokens", "empty", "failed")


@command(
    "eval",
    summary="Measure whether a frozen bank helps a solver, beside its controls.",
    text='TASKS has one task a line: {"id", "question", "reference"}, with images (paths relative '
    "to the file), family and group where there are any. The reference goes to the scorer and "
    "nowhere else.\n\n"
    '--solver is a program that stays alive. It reads one JSON line a question, {"id", "task", '
    '"question", "images", "seed", "memory": {"text", "crops"} or null}, and prints one, {"id", '
    '"answer"}, with tokens_in and tokens_out if it counts them, or {"id", "error"}. The id is new '
    'in every request. --scorer works alike: {"id", "task", "answer", "reference"} to {"id", '
    '"right": true}; without it, equal texts are right.\n\n'
    "Arms: none; product, what the bank retrieves; flat, the same lessons without a tree; "
    "shuffled, lessons permuted over their index texts; wrong, what another question got; "
    "frequency, the most supported guidance whatever is asked; oracle, right if any of the "
    "nearest items alone is. A result counts only if product beats shuffled and frequency.\n\n"
    "The bank must be frozen and is not changed. Ctrl-C stops after the question under way; the "
    "same command goes on from there, and asks questions that failed again. Results are in WORK: "
    "results.jsonl as they come, report.json with everything at the end.\n\n"
    "Draws a table on a terminal, else prints one JSON line. Exit status 1: the run does not "
    "count, because the bank holds a reference, a canary, or a question or group of TASKS.",
    examples=(
        "epimem eval my-bank --tasks tasks.jsonl --solver 'python solve.py'",
        "epimem eval my-bank --tasks tasks.jsonl --solver 'python solve.py' --seeds 1",
    ),
)
@bank_argument
@click.option("--tasks", required=True, metavar="FILE", help="The task stream, JSON Lines.")
@click.option("--solver", required=True, metavar="COMMAND", help="Answers the questions.")
@click.option("--scorer", metavar="COMMAND", help="Judges the answers.  [default: equal texts]")
@click.option(
    "--arms",
    default=",".join(ARMS),
    metavar="NAMES",
    help="Some of the arms, divided by commas.  [default: all]",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    metavar="N",
    help="Runs, with seeds 0 to N-1. A claim needs 10; more may be added later.",
)
@namespace_option
@click.option("--reader", default="", metavar="NAME", help="The agent that reads the answers.")
@click.option(
    "--mode",
    type=click.Choice(["fused", "dense", "lexical"]),
    help="Recall by meaning and words, by meaning, or by words.",
)
@click.option(
    "--k", type=click.IntRange(min=1), metavar="N", help="Candidates, at most 50.  [default: 20]"
)
@click.option(
    "--nearest",
    type=click.IntRange(1, 50),
    default=NEAREST,
    show_default=True,
    metavar="N",
    help="Items that the oracle tries one by one.",
)
@click.option(
    "--deadline",
    type=click.FloatRange(min=0, min_open=True),
    default=DEADLINE_S,
    show_default=True,
    metavar="SECONDS",
    help="For one answer.",
)
@click.option(
    "--startup",
    type=click.FloatRange(min=0),
    default=STARTUP_S,
    show_default=True,
    metavar="SECONDS",
    help="More for the first answer after a start.",
)
@click.option(
    "--canary",
    "canaries",
    multiple=True,
    metavar="TEXT",
    help="A text that stands in the data set and nowhere else; repeatable.",
)
@memory_controller_option
@tree_organizer_option
@click.option("--work", metavar="DIR", help="Folder for results.  [default: PATH.eval]")
@json_option
def eval_(  # noqa: PLR0913, PLR0917 - one parameter an option
    bank: Path,
    tasks: str,
    solver: str,
    scorer: str | None,
    arms: str,
    seeds: int,
    namespace: str | None,
    reader: str,
    mode: Literal["fused", "dense", "lexical"] | None,
    k: int | None,
    nearest: int,
    deadline: float,
    startup: float,
    canaries: tuple[str, ...],
    memory_controller: str | None,
    tree_organizer: str | None,
    work: str | None,
    as_json: bool,  # noqa: FBT001 - a flag of click
) -> int:
    """Evaluate, print what was found, and return the exit status."""
    from epimem.evaluation import Asking, StandardArms, evaluate, exact_match, read_tasks, verdict
    from epimem.evaluation.commands import CommandScorer, CommandSolver
    from epimem.evaluation.guards import require_frozen

    stream = read_tasks(checked_path(tasks))
    asking = Asking(namespace=namespace, reader=reader, mode=mode, k=k)
    folder = checked_path(work) if work is not None else bank.with_name(bank.name + ".eval")
    names = [name.strip() for name in arms.split(",")]
    with ExitStack() as stack:
        memory = stack.enter_context(
            open_bank(
                bank,
                read_only=True,
                phase="evaluation",
                memory_controller=memory_controller,
                tree_organizer=tree_organizer,
            )
        )
        require_frozen(memory)
        setup = {
            "bank": memory.bank.bank_id,
            "state": memory.bank.state_digest(),
            "solver": solver,
            "scorer": scorer or "equal texts",
            "asked with": asking.plain(),
            "controllers": [
                memory.config.memory_controller.spec,
                memory.config.tree_organizer.spec,
            ],
            "nearest": nearest,
        }
        report = stack.enter_context(progress())
        made = stack.enter_context(
            StandardArms(
                memory, folder, names=names, asking=asking, nearest=nearest, progress=report
            )
        )
        result = evaluate(
            stream,
            stack.enter_context(CommandSolver(solver, deadline_s=deadline, startup_s=startup)),
            arms=made,
            scorer=exact_match
            if scorer is None
            else stack.enter_context(CommandScorer(scorer, deadline_s=deadline, startup_s=startup)),
            seeds=range(seeds),
            work=folder,
            setup=setup,
            canaries=canaries,
            progress=report,
        )
    found = {**result.model_dump(mode="json"), "verdict": verdict(result).model_dump(mode="json")}
    write_report(folder / REPORT_NAME, found)
    if draws(as_json):
        _draw(result, verdict(result))
    else:
        emit({key: value for key, value in found.items() if key != "rows"})
    return _told(result, folder)


def write_report(path: Path, found: Mapping[str, Any]) -> None:
    """Write the whole result beside its rows, at once or not at all."""
    from epimem.schema import strict_json

    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(strict_json.dumps(found) + b"\n")
    temporary.replace(path)


def _told(result: EvalResult, folder: Path) -> int:
    """Say what a reader must know besides the figures; return the exit status."""
    failed = sum(bool(row.error) for row in result.rows)
    if failed:
        example = next(row for row in result.rows if row.error)
        note(
            f"epimem: {failed} answers failed and count as wrong, such as {example.task} in "
            f"{example.arm}: {example.error}; the same command asks them again"
        )
    note(f"epimem: every question is in {folder / ROWS_NAME}, everything in {folder / REPORT_NAME}")
    if not result.leaks:
        return 0
    named = [f"{leak.task or 'data set'} ({leak.what} in {leak.where})" for leak in result.leaks]
    more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    note(
        "epimem: CONTAMINATED, this run does not count: the memory knows of "
        f"{', '.join(named[:SHOWN])}{more}"
    )
    return DOES_NOT_COUNT


def _draw(result: EvalResult, said: EvalVerdict) -> None:
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    # Without frames, so that the eight columns fit into eighty characters.
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("arm")
    for name in COLUMNS:
        table.add_column(name, justify="right")
    over = {difference.second: difference for difference in result.differences}
    for arm in sorted(result.arms, key=lambda arm: ARMS.index(arm.arm)):
        table.add_row(arm.arm, *_cells(arm, over.get(arm.arm)))
    seeds = len(result.arms[0].by_seed)
    head = (
        f"Questions solved of {result.arms[0].questions // seeds}, mean over {seeds} seeds; "
        "product - arm with its 95 % interval. Time and tokens: solver + memory over the solver alone."
    )
    claim = "The bank helps: product beats shuffled and frequency."
    text = claim if said.passed else "No claim is supported:"
    reasons = Padding(Text("\n".join(map(visible, said.reasons))), (0, 0, 0, 2))
    draw(
        Group(Text(head), "", table, "", Text(text, style="bold"), *([reasons] * (not said.passed)))
    )


def _cells(arm: ArmResult, over: Difference | None) -> tuple[str, ...]:
    against = above = ""
    if over is not None:
        questions = over.pairs / len(over.by_seed)
        low, high = over.low * questions, over.high * questions
        against = f"{over.mean_count:+.1f} [{low:+.1f}, {high:+.1f}]"
        above = f"{over.above}/{len(over.by_seed)}"
    costs = arm.costs
    return (
        f"{arm.mean:.1f} ± {arm.sd:.1f}",
        against,
        above,
        _over(costs.solver_time, costs.memory_time),
        _over(costs.solver_tokens, costs.memory_tokens),
        f"{arm.empty:.2f}",
        str(arm.errors),
    )


def _over(solver: float | None, memory: float | None) -> str:
    if solver is None or memory is None:
        return "-"
    return f"{solver:.2f}+{memory:.2f}"
