"""`epimem train questions`: the questions of a public data set as a task stream."""

from __future__ import annotations

from pathlib import Path

import click

from epimem.cli.options import checked_path, command
from epimem.cli.output import emit, note
from epimem.cli.progress import progress
from epimem.errors import ConfigError

NAMES = (
    "ShadenA/MathNet",
    "Zhiqiang007/MathV360K",
    "HuggingFaceM4/ChartQA",
    "lmms-lab/ChartQA",
    "lmms-lab/DocVQA:DocVQA",
    "lmms-lab/DocVQA:InfographicVQA",
    "ibm-granite/ChartNet:reasoning",
)


@command(
    "questions",
    summary="Write the questions of a public data set as tasks to collect runs on.",
    text=f"HUB_ID is one of {', '.join(NAMES)}. Its rows are streamed from the hub, or read from a "
    "local copy (--folder); nothing else is downloaded.\n\n"
    'OUT/tasks.jsonl has one task a line: {"id", "question", "reference", "images", "family", '
    '"group"}, the stream that `epimem eval` reads. A harness solves the questions (the reference '
    "is not for it) and hands its runs to `epimem contribute` or `epimem train demonstrations`. "
    "Where a question has several accepted answers, OUT/references.jsonl has all of them. The group "
    "(a document, a competition, else the picture) keeps what belongs together in one split.\n\n"
    "A row without a field, an answer or a readable picture is set aside in OUT/rejected.jsonl by "
    "name, and the rest goes on. Ctrl-C stops; the same command goes on.\n\n"
    "Prints one JSON line: the data set and its terms, tasks written, met before and in the stream, "
    "rows set aside by reason.",
    examples=(
        "epimem train questions HuggingFaceM4/ChartQA chartqa --limit 500",
        "epimem train questions lmms-lab/DocVQA:DocVQA docvqa --folder copies/DocVQA",
        "epimem train questions Zhiqiang007/MathV360K mathv --images data_images",
    ),
)
@click.argument("hub_id", metavar="HUB_ID")
@click.argument("out", metavar="OUT")
@click.option(
    "--split",
    metavar="NAME",
    help="Split of the data set.  [default: train, or the one that has answers]",
)
@click.option("--folder", metavar="DIR", help="A local copy to read in place of the hub.")
@click.option(
    "--images",
    metavar="DIR",
    help="Folder of pictures, for a data set that names them by path (MathV360K, unpacked).",
)
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="Stop when the stream holds N tasks."
)
def questions(
    hub_id: str,
    out: str,
    split: str | None,
    folder: str | None,
    images: str | None,
    limit: int | None,
) -> None:
    """Write the stream and print what came of the rows."""
    from training.sources import hub
    from training.sources.task_stream import TaskStream, write_tasks

    source = hub.source(hub_id)
    if source.images_apart and images is None:
        raise ConfigError(
            "this data set keeps its pictures apart",
            field="--images",
            hint="unpack its data_images.zip and name the folder",
        )
    apart = checked_path(images) if images is not None else None
    copy = checked_path(folder) if folder is not None else None
    target: Path = checked_path(out)
    note(f"epimem: {source.name}: terms of the data: {source.licence}")
    rows = hub.rows(source, folder=copy, split=split or source.split)
    with progress() as report:
        written = write_tasks(
            target, rows, lambda row: source.read(row, apart), limit=limit, progress=report
        )
    with TaskStream(target) as stream:
        total = len(stream)
    emit(
        {
            "data": source.name,
            "licence": source.licence,
            "written": written.written,
            "known": written.known,
            "tasks": total,
            "set_aside": dict(sorted(written.set_aside.items())),
        }
    )
