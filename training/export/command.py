"""`epimem train export`: what a run learnt, as a folder that can be served and passed on."""

from __future__ import annotations

import click

from epimem.cli.options import checked_path, command, json_option
from epimem.cli.output import draw, draws, emit, note


@command(
    "export",
    summary="Write the adapter or merged weights of a run, with a card and the commands that serve it.",
    text="RUN is the folder of a finished `epimem train sft`; OUT is a new folder. Written are adapter/ "
    "(after a run with LoRA), merged/ (with --merge, and after a run of all weights: weights in the "
    "type of the base, processor, tokenizer and chat template), MODEL_CARD.md and export.json.\n\n"
    "Only safetensors are read; pickled weights are refused. The base must be the one that the run "
    "was trained on, and the prompts those of this release. --demonstrations and --report put the "
    "counts of the data and the table of an evaluation into the card.\n\n"
    "Prints on a terminal the commands that serve the export, else one JSON line: out, role, base, "
    "fingerprint, prompt_version, commands.",
    examples=(
        "epimem train export my-run my-adapter --report report.json",
        "epimem train export my-run my-model --merge --demonstrations my-set",
    ),
)
@click.argument("run", metavar="RUN")
@click.argument("out", metavar="OUT")
@click.option("--merge", is_flag=True, help="Also write the base with the adapter in its weights.")
@click.option(
    "--model",
    metavar="PATH",
    help="The base: a folder, a name of the hub or a preset.  [default: where the run found it]",
)
@click.option("--demonstrations", metavar="DIR", help="The set that the run was trained on.")
@click.option("--report", metavar="FILE", help="A report of epimem train evaluate.")
@json_option
def export(
    run: str,
    out: str,
    merge: bool,  # noqa: FBT001 - a flag of click
    model: str | None,
    demonstrations: str | None,
    report: str | None,
    as_json: bool,  # noqa: FBT001
) -> None:
    """Export, and print what serves it."""
    from training.export.export import export as write

    found = write(
        checked_path(run),
        checked_path(out),
        merge=merge,
        model=model,
        demonstrations=None if demonstrations is None else checked_path(demonstrations),
        report=None if report is None else checked_path(report),
        tell=lambda text: note(f"epimem: {text}"),
    )
    note(f"epimem: {found.role} on {found.base} is in {found.out}; MODEL_CARD.md says more")
    if not draws(as_json):
        emit(found.plain())
        return
    for name, commands in found.commands.items():
        draw(f"{name}:")
        for line in commands.plain().values():
            draw(f"  {line}")
