"""`epimem train evaluate`: controllers beside each other, operation by operation, on held-out groups."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from epimem.cli.options import checked_path, command, json_option
from epimem.cli.output import draw, draws, emit, note
from epimem.cli.progress import progress

if TYPE_CHECKING:
    from training.evaluation.measures import Alike
    from training.evaluation.report import Report

DEFAULT_ENCODER = "all-MiniLM-L6-v2"
DEADLINE_S = 120.0
SHOWN = 5
BENCH_EXAMPLE = (
    "epimem train evaluate my-set --controllers embedded --report r.json --table r.md \\\n"
    "      --bench 'python -m benchmarks.metro.experiment --seeds 0'"
)


@command(
    "evaluate",
    summary="Compare controllers on the held-out groups of a set, operation by operation.",
    text="DEMONSTRATIONS is a set that `epimem train demonstrations` finished. Every controller named "
    "gets the requests of one split, as a bank would put them, and what it says is measured against "
    "what the set holds: lawful replies, the parent of place, the decision of merge and gate, the "
    "partition of split_lift (adjusted Rand index), support of consolidate, choice of select with "
    "empty ones apart, overlap of regions, likeness of guidance, time and tokens.\n\n"
    "--controllers takes the specs of a bank's settings: embedded, transformers:BASE, "
    "transformers:BASE+ADAPTER, vllm:BASE+ADAPTER, openai:URL#MODEL, scripted:FILE; and teacher, "
    "the values of the set. Constant predictors are always added: they answer without looking. "
    "All are compared with the first one named; intervals draw whole groups anew.\n\n"
    "--bench runs a harness end to end with each controller. COMMAND gets --memory-controller SPEC "
    '--tree-organizer SPEC --folder DIR --results FILE and writes FILE: {"format": '
    '"epimem-bench/1", "bench": NAME, "measures": [{"name", "value", "low", "high"}]}. With '
    "--role the other controller is embedded.\n\n"
    "Ctrl-C stops after the batch under way; the same command goes on from there, since answers lie "
    "in FILE.answers.jsonl. What fails is counted as wrong, and asked again by the same command.\n\n"
    "Draws a table on a terminal, else prints the report as one JSON line.",
    examples=(
        "epimem train evaluate my-set --controllers embedded --controllers teacher --report r.json",
        "epimem train evaluate my-set --controllers vllm:qwen3-vl-2b+my-run/adapter --report r.json",
        BENCH_EXAMPLE,
    ),
)
@click.argument("demonstrations", metavar="DEMONSTRATIONS")
@click.option(
    "--controllers",
    required=True,
    multiple=True,
    metavar="SPEC",
    help="A controller, or teacher; repeatable. The first is compared with all others.",
)
@click.option(
    "--split",
    type=click.Choice(["train", "dev", "test"]),
    default="test",
    show_default=True,
    help="Whose groups are asked about.",
)
@click.option(
    "--role",
    type=click.Choice(["memory_controller", "tree_organizer", "both"]),
    default="both",
    show_default=True,
    help="Whose operations are asked about.",
)
@click.option("--report", required=True, metavar="FILE", help="Takes the report as JSON.")
@click.option("--table", metavar="FILE.md", help="Takes the table as Markdown.")
@click.option(
    "--bench",
    "benches",
    multiple=True,
    metavar="COMMAND",
    help="Runs a harness end to end; repeatable.",
)
@click.option(
    "--deadline",
    type=click.FloatRange(min=0, min_open=True),
    default=DEADLINE_S,
    show_default=True,
    metavar="SECONDS",
    help="For one call of a model.",
)
@click.option(
    "--encoder",
    metavar="MODEL",
    help="Text encoder for the likeness of guidance, besides token F1; none: without.  "
    f"[default: {DEFAULT_ENCODER} where it is installed]",
)
@json_option
def evaluate(
    demonstrations: str,
    controllers: tuple[str, ...],
    split: Literal["train", "dev", "test"],
    role: Literal["memory_controller", "tree_organizer", "both"],
    report: str,
    table: str | None,
    benches: tuple[str, ...],
    deadline: float,
    encoder: str | None,
    as_json: bool,  # noqa: FBT001 - a flag of click
) -> None:
    """Evaluate, write the report, and print it."""
    from training.evaluation.run import ROLES, run
    from training.evaluation.table import drawing, markdown

    path = checked_path(report)
    written = checked_path(table) if table is not None else None
    cosine = _cosine(encoder)
    with progress() as told:
        found = run(
            checked_path(demonstrations),
            controllers,
            path,
            split=split,
            roles=ROLES if role == "both" else (role,),
            benches=benches,
            deadline_s=deadline,
            cosine=cosine,
            progress=told,
            tell=lambda text: note(f"epimem: {text}"),
        )
    _replace(path, found.model_dump_json(indent=1) + "\n")
    if written is not None:
        _replace(written, markdown(found))
    if draws(as_json):
        draw(drawing(found))
    else:
        emit(found.model_dump(mode="json"))
    _tell(found, path)


def _cosine(model: str | None) -> tuple[str, Alike] | None:
    """Return the encoder asked for; the default one only where it is installed."""
    from epimem.bank.encoder import load_encoder
    from epimem.errors import ConfigError
    from epimem.evaluation.side_banks import RememberingEncoder

    try:
        loaded = load_encoder(model or DEFAULT_ENCODER)
    except ConfigError:
        if model is not None:
            raise
        return None
    if loaded is None:
        return None
    known = RememberingEncoder(loaded)

    def cosine(first: str, second: str) -> float:
        vectors: Any = known.encode([first, second])
        return float(vectors[0] @ vectors[1])

    return loaded.name, cosine


def _replace(path: Path, text: str) -> None:
    """Write a file at once or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def _tell(report: Report, path: Path) -> None:
    """Say what a reader must know besides the figures."""
    for line in report.unread[:SHOWN]:
        note(f"epimem: line {line.line} of the set was not read: {line.code}: {line.message}")
    if len(report.unread) > SHOWN:
        note(f"epimem: and {len(report.unread) - SHOWN} more lines")
    for name in (it.name for it in report.controllers):
        failed = sum(result.line(name).failed for result in report.operations)
        if failed:
            note(
                f"epimem: {failed} requests to {name} failed and count as wrong; the same command "
                "asks them again"
            )
    for bench in report.benches:
        if bench.failure:
            note(f"epimem: {bench.bench} with {bench.controller}: {bench.failure}")
    note(f"epimem: the report is in {path}")
