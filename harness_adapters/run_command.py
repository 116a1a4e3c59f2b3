"""`epimem run`: what is typed; what is done stands in `harness_adapters.running`, loaded when needed."""

from __future__ import annotations

from pathlib import Path

import click

from epimem.cli.options import command
from harness_adapters.run_methods import RunCommand

TOKEN = "EPIMEM_TOKEN"  # noqa: S105 - the name of a variable


@command(
    "run",
    kind=RunCommand,
    summary="Solve questions with a harness that is shown the bank.",
    text="For each question the bank is asked once; images, then crops, then the memory, then the "
    "question go to one session of the harness; its run is handed in. BANK is a folder, or the URL "
    f"of a server, whose token is read from the variable {TOKEN}. HARNESS is codex, dsh, camel, or "
    "one that is installed.\n\n"
    "--set gives the harness what it needs: for codex program, home, overrides (TOML, repeatable); "
    "for dsh provider, model, endpoint, key_env, python; for camel endpoint, model, key_env, "
    "python.\n\n"
    "A file of tasks has one JSON object a line: question, images, family, task_id. A task that was "
    "handed in is not solved again when the same command is run once more.\n\n"
    "Prints one JSON line a question: run_id, answer, items, crops, receipt. Exit status 1: some "
    "failed.\n\n"
    "A method in place of HARNESS has options of its own: `epimem run evochamber --help`.",
    examples=(
        "epimem run codex my-bank 'How many stations?' --image map.png",
        "epimem run codex my-bank --tasks tasks.jsonl --set 'overrides=model=\"gpt-5\"'",
        (
            "epimem run dsh http://127.0.0.1:8765 'How many?' "
            "--set endpoint=http://127.0.0.1:8000/v1 --set provider=local --set model=qwen"
        ),
    ),
)
@click.argument("harness", metavar="HARNESS")
@click.argument("bank", metavar="BANK")
@click.argument("question", metavar="[QUESTION]", required=False)
@click.option(
    "--tasks", type=click.Path(path_type=Path), metavar="FILE", help="Questions, as lines of JSON."
)
@click.option(
    "--image",
    "images",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="An image of the question; repeatable, in page order.",
)
@click.option("--family", default="", metavar="NAME", help="Task family of the question.")
@click.option("--namespace", metavar="NAME", help="Namespace of the bank.  [default: its own]")
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path("epimem-runs"),
    show_default=True,
    help="Where each run gets a folder of its own.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="For the harness; repeatable."
)
@click.option("--keep-out", is_flag=True, help="Hand no run in.")
def run(
    harness: str,
    bank: str,
    question: str | None,
    *,
    tasks: Path | None,
    images: tuple[Path, ...],
    family: str,
    namespace: str | None,
    folder: Path,
    settings: tuple[str, ...],
    keep_out: bool,
) -> int:
    """Solve, and return the exit status."""
    if (question is None) == (tasks is None):
        raise click.UsageError("give either a QUESTION or --tasks")
    from harness_adapters import running

    return running.run(
        running.harness_of(harness, settings),
        running.bank_of(bank, TOKEN),
        running.read(tasks) if tasks else running.single(question or "", family, images),
        folder=folder.resolve(),
        namespace=namespace,
        contribute=not keep_out,
        repeatable=tasks is not None,
    )
