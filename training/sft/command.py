"""`epimem train sft`: fine-tune a model for one of the two roles."""

from __future__ import annotations

from dataclasses import asdict
from typing import Literal

import click

from epimem.cli.options import checked_path, command
from epimem.cli.output import emit, note

LAUNCH_EXAMPLE = (
    "accelerate launch --num_processes 2 -m epimem train sft my-set my-run \\\n"
    "      --role tree_organizer --config qwen3-vl-2b-lora-1xh100"
)


@command(
    "sft",
    summary="Fine-tune the memory controller or the tree organizer on demonstrations.",
    text="DEMONSTRATIONS is a set that `epimem train demonstrations` finished; OUT is the folder of the "
    "run. Of the split train the operations of the role are learnt: the prompt that serving shows, "
    "then the reply, which alone counts. On the split dev whole replies are measured at every "
    "checkpoint; the best checkpoint is left, and training ends when it no longer gets better.\n\n"
    "--config names a preset or a TOML file; a preset says in its comments what it takes. --model "
    "names the base: a folder, a name of the hub, or the preset of a controller.\n\n"
    "--plan computes memory, steps and hours from the configuration of the base, and trains "
    "nothing; no weights and no GPU are needed.\n\n"
    "The same command goes on after Ctrl-C, a kill or a crash, from the last checkpoint. Several "
    "GPUs: start it with `accelerate launch`, as in the examples.\n\n"
    "OUT gets log.jsonl (a line per step), run.json (what the run is made of), aside.jsonl (what "
    "could not be learnt, and why), checkpoints, and in the end adapter/ or weights/. Prints one "
    "JSON line: path, step, steps, rows, padding, accuracy, aside.",
    examples=(
        "epimem train sft my-set my-run --role tree_organizer --config qwen3-vl-2b-lora-1xh100",
        "epimem train sft my-set --role memory_controller --config qwen3.5-2b-full-1xh100 --plan",
        LAUNCH_EXAMPLE,
    ),
)
@click.argument("demonstrations", metavar="DEMONSTRATIONS")
@click.argument("out", metavar="OUT", required=False)
@click.option(
    "--role",
    required=True,
    type=click.Choice(["memory_controller", "tree_organizer"]),
    help="Whose operations are learnt.",
)
@click.option(
    "--config", "settings", required=True, metavar="NAME_OR_FILE", help="Settings of the run."
)
@click.option("--model", metavar="PATH", help="The base.  [default: that of the settings]")
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="In place of the settings'.")
@click.option("--plan", "only_plan", is_flag=True, help="Say what it would take; train nothing.")
def sft(
    demonstrations: str,
    out: str | None,
    role: Literal["memory_controller", "tree_organizer"],
    settings: str,
    model: str | None,
    seed: int | None,
    only_plan: bool,  # noqa: FBT001 - a flag of click
) -> None:
    """Train, or plan, and print what came of it."""
    from training.demonstrations.store import DemonstrationSet
    from training.sft.config import load

    config = load(settings)
    if seed is not None:
        config = config.model_copy(update={"seed": seed})
    base = model or config.model
    if not base:
        raise click.UsageError("the settings name no model; name one with --model")
    if not (out or only_plan):
        raise click.UsageError("OUT is missing")
    found = DemonstrationSet.open(checked_path(demonstrations))
    if only_plan:
        from training.sft.sizes import planned

        plan = planned(config, found, base, role)
        for line in plan.lines():
            note(line)
        emit(plan.plain())
        return
    from training.sft.recipe import train
    from training.sft.tuning import World

    assert out is not None
    result = train(
        config,
        found,
        checked_path(out),
        model=base,
        role=role,
        tell=lambda text: note(f"epimem: {text}"),
    )
    if World().main:
        emit({**asdict(result), "path": str(result.path)})
