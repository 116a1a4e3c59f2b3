"""`epimem run evochamber`: what is typed; the work stands in `start`, loaded when needed."""

from __future__ import annotations

from pathlib import Path

import click

from epimem.cli.options import command

TOKEN = "EPIMEM_TOKEN"  # noqa: S105 - the name of a variable


@command(
    "evochamber",
    summary="Solve a stream with a pool of agents that evolves, and share what it learns.",
    text="EvoChamber: for each task a team of an anchor, a complement and a scout, who work as the "
    "anchor chooses; after a failure or disagreement what the best know goes to the agents that lack "
    "it; every ten tasks the pool changes. With --bank, agents are shown what the bank has for them "
    "before a task, and runs, insights and structures are handed in (a server's token is read from "
    f"{TOKEN}).\n\n"
    "STREAM is a file of JSON Lines as `epimem stream` writes it: question, images, niche, checker, "
    "reference. --llm names the model: openai:MODEL@URL for any server that speaks the protocol of "
    "OpenAI (its key is read from OPENAI_API_KEY), or NAME[:ARGUMENT] of an entry point of the group "
    "epimem.llms.\n\n"
    "--set changes a setting, as theta=0.5; docs/evochamber.md lists them. --profile paper takes the "
    "documents literally. --without switches a part off, for ablations.\n\n"
    "Everything is kept in --folder, task by task; the same command goes on where it stopped. Prints "
    "one JSON line a task, then a summary: score, costs by phase, and relative to a single agent.",
    examples=(
        "epimem run evochamber --stream bbh.jsonl --llm openai:qwen3-8b@http://127.0.0.1:8000/v1",
        (
            "epimem run evochamber --stream math.jsonl --llm openai:qwen3-8b@http://127.0.0.1:8000/v1 "
            "--bank my-bank --group pool-1 --seed 42"
        ),
        (
            "epimem run evochamber --stream bbh.jsonl --llm mine --without codream "
            "--folder no-codream"
        ),
    ),
)
@click.option(
    "--stream",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Tasks, as lines of JSON.",
)
@click.option("--llm", required=True, metavar="SPEC", help="The model behind every agent.")
@click.option("--bank", metavar="BANK", help="A bank's folder or the URL of its server.")
@click.option("--namespace", metavar="NAME", help="Namespace of the bank.  [default: its own]")
@click.option(
    "--group",
    default="pool",
    show_default=True,
    metavar="NAME",
    help="Name of the pool, unique on a bank.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path("evochamber-run"),
    show_default=True,
    help="Where the run is kept.",
)
@click.option(
    "--profile",
    type=click.Choice(["default", "paper"]),
    default="default",
    show_default=True,
    help="Settings to begin with.",
)
@click.option(
    "--set", "changes", multiple=True, metavar="NAME=VALUE", help="A setting; repeatable."
)
@click.option(
    "--without",
    multiple=True,
    type=click.Choice(["selector", "structures", "codream", "lifecycle"]),
    help="Switch a part off; repeatable.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="For draws.")
@click.option(
    "--rewards",
    type=click.Choice(["checker", "agreement"]),
    default="checker",
    show_default=True,
    help="What the pool learns from; with agreement the checker only scores.",
)
@click.option(
    "--phase",
    type=click.Choice(["construction", "evolution", "evaluation"]),
    default="construction",
    show_default=True,
    help="Of a bank's folder. In evaluation it refuses what a checker said: --rewards agreement.",
)
@click.option(
    "--encoder",
    default="all-MiniLM-L6-v2",
    show_default=True,
    metavar="MODEL",
    help="Tells near-duplicates and finds what an agent knows.",
)
def evochamber(**given: object) -> int:
    """Solve, and return the exit status."""
    from harness_adapters.evochamber.start import Options, start

    options = Options(**given)  # type: ignore[arg-type] # click has checked the types
    return start(options)
