"""`epimem train demonstrations`: runs, worlds or worked examples become a checked set to learn from."""

from __future__ import annotations

from collections.abc import Sequence

import click

from epimem.cli.options import checked_path, command
from epimem.cli.output import emit
from epimem.cli.progress import progress

MIX = 4
DEADLINE_S = 300.0


@command(
    "demonstrations",
    summary="Make checked examples of what a controller should have said.",
    text="RUNS is a bank whose stored runs are used, or a file or folder of records as for "
    "`epimem contribute` (runs with their sealed outcomes; --format names an installed importer for "
    "other formats). --teacher is any controller spec: it derives lessons, revises notes after each "
    "attempt, builds small practice banks from what was found sound and is asked other questions of "
    "the same groups; so place, merge, split_lift, consolidate, select and gate are asked as a bank "
    "would ask them. The verdict of an outcome goes to the teacher. The reference answer goes into "
    "the checks, and to --reviser, which is asked once about what the teacher got wrong; it is in no "
    "file of OUT.\n\n"
    "Each answer passes five checks (schema, references, coverage, constraints, provenance) into "
    "OUT/demonstrations.jsonl, or is set aside in OUT/aside.jsonl with its reason. OUT/card.md counts "
    "them; OUT/splits.json deals groups into train, dev and test: what shares a practice bank or a "
    "picture is never in two.\n\n"
    "--world draws charts, tables or ledgers with exact answers, with no model and no runs; --observed "
    "reads worked examples with their lessons, runs and pictures from a folder. All three may go into "
    "one OUT.\n\n"
    "Ctrl-C stops; the same command goes on, and what was answered is not asked again. Ends with one "
    "JSON line: the card, what was gone through, and what asking cost.",
    examples=(
        "epimem train demonstrations my-bank demos --teacher openai:http://localhost:8000/v1#teacher",
        "epimem train demonstrations runs.jsonl demos --image pages --teacher embedded",
        "epimem train demonstrations demos --world charts,tables,ledgers --count 60 --seed 1",
    ),
)
@click.argument("paths", metavar="[RUNS] OUT", nargs=-1, required=True)
@click.option("--teacher", metavar="SPEC", help="Who answers; needed with RUNS.")
@click.option("--reviser", metavar="SPEC", help="Who mends what the teacher got wrong, once.")
@click.option(
    "--format",
    "format_name",
    default="jsonl",
    show_default=True,
    metavar="NAME",
    help="Format of RUNS where it is no bank: jsonl, or an installed importer.",
)
@click.option(
    "--image",
    "images",
    multiple=True,
    metavar="FILE",
    help="Image, or folder of images, that runs name by their ids; repeatable.",
)
@click.option("--world", metavar="NAMES", help="Worlds to draw, divided by commas.")
@click.option(
    "--count",
    type=click.IntRange(min=1),
    default=60,
    show_default=True,
    metavar="N",
    help="Demonstrations of each operation from each world.",
)
@click.option("--observed", metavar="DIR", help="Folder of worked examples (organizer.jsonl).")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Deals groups and questions, and draws worlds.",
)
@click.option(
    "--mix",
    type=click.IntRange(min=1),
    default=MIX,
    show_default=True,
    metavar="N",
    help="Groups that share a practice bank, and a split.",
)
@click.option(
    "--encoder",
    metavar="MODEL",
    help="Text encoder of the practice banks, or none for words alone. "
    "Default: all-MiniLM-L6-v2 where it is installed, else none.",
)
@click.option(
    "--deadline",
    type=click.FloatRange(min=0, min_open=True),
    default=DEADLINE_S,
    show_default=True,
    metavar="SECONDS",
    help="For one call of the teacher's or reviser's model.",
)
def demonstrations(  # noqa: PLR0913 - one parameter an option
    *,
    paths: tuple[str, ...],
    teacher: str | None,
    reviser: str | None,
    format_name: str,
    images: tuple[str, ...],
    world: str | None,
    count: int,
    observed: str | None,
    seed: int,
    mix: int,
    encoder: str | None,
    deadline: float,
) -> None:
    """Collect, finish the set and print what is in it."""
    *runs, out = _two(paths)
    worlds = tuple(name.strip() for name in (world or "").split(",") if name.strip())
    if runs and teacher is None:
        raise click.UsageError("RUNS need a --teacher")
    if not (runs or worlds or observed):
        raise click.UsageError("nothing to collect from: give RUNS, --world or --observed")
    if (teacher or reviser or images) and not runs:
        raise click.UsageError("--teacher, --reviser and --image go with RUNS")
    from training.demonstrations.jobs import Wanted, collected, encoder_of
    from training.demonstrations.store import DemonstrationSet

    wanted = Wanted(
        runs=checked_path(runs[0]) if runs else None,
        teacher=teacher or "",
        reviser=reviser,
        format_name=format_name,
        images=images,
        worlds=worlds,
        count=count,
        observed=checked_path(observed) if observed is not None else None,
        seed=seed,
        mix=mix,
        deadline_s=deadline,
    )
    with DemonstrationSet.create(checked_path(out)) as made, progress() as report:
        gone_through = collected(wanted, made, encoder_of(encoder), report)
        card = made.finish(seed)
    emit({"out": out, **card, **gone_through})


def _two(paths: Sequence[str]) -> Sequence[str]:
    if len(paths) > 2:
        raise click.UsageError("one RUNS and one OUT")
    return paths
