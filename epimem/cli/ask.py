"""`epimem retrieve`, `feedback` and `explain`: a question, what became of it, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import click

from epimem.cli import records
from epimem.cli.early_encoder import EarlyEncoder
from epimem.cli.options import (
    Phase,
    bank_argument,
    checked_path,
    command,
    json_option,
    memory_controller_option,
    namespace_option,
    open_bank,
    phase_option,
    tree_organizer_option,
)
from epimem.cli.output import draw, draws, emit, note, visible, write
from epimem.errors import NotFoundError

if TYPE_CHECKING:
    from epimem.config import GateMode
    from epimem.memory import ExperienceMemory
    from epimem.schema.lesson import Authority, VerdictSource
    from epimem.schema.memory_input import Budget, MemoryInput

Mode = Literal["fused", "dense", "lexical"]
# As `epimem.schema.lesson` has them; that module is too heavy for `--help`.
GATES = ("adaptive", "always", "off")
AUTHORITIES = ("none", "observed", "reviewed", "owner")
VERDICT_SOURCES = ("oracle", "verifier", "peer", "self", "none")


@command(
    "retrieve",
    summary="Ask the bank: rules, one lesson, or nothing, for a question.",
    text="Prints the memory input as one JSON line: items, text (ready for a prompt), gate, crops, "
    "retrieval_id. With --text only the text. Nothing is a normal answer and prints no items. "
    "QUESTION - reads it from standard input.\n\n"
    "--crops DIR writes the crops as PNG files into DIR and prints their paths, one JSON line "
    "each (with --text on standard error). The images of a question are looked at for their ids "
    "only and are not stored.\n\n"
    "Works on a frozen or read-only bank. With --run-id the same run and reader get the same "
    "answer again. Tell the bank what came of it with feedback; see why with explain.",
    examples=(
        "epimem retrieve my-bank 'How many stations does the train call at?'",
        "epimem retrieve my-bank - --image map.png --crops crops --text < question.txt",
    ),
)
@bank_argument
@click.argument("question", metavar="QUESTION")
@click.option(
    "--image",
    "images",
    multiple=True,
    metavar="FILE",
    help="Image of the question, in page order; repeatable.",
)
@click.option("--family", default="", metavar="NAME", help="Task family; others are not selected.")
@namespace_option
@click.option("--reader", default="", metavar="NAME", help="The agent that will read the answer.")
@click.option("--run-id", metavar="ID", help="The run that asks: it gets one answer per reader.")
@click.option(
    "--k", type=click.IntRange(min=1), metavar="N", help="Candidates, at most 50.  [default: 20]"
)
@click.option(
    "--mode",
    type=click.Choice(get_args(Mode)),
    help="Recall by meaning and words, by meaning, or by words.",
)
@click.option(
    "--min-authority",
    type=click.Choice(AUTHORITIES),
    default="none",
    show_default=True,
    help="Lowest authority of what may be recalled.",
)
@click.option(
    "--exclude",
    multiple=True,
    metavar="ITEM",
    help="An item (node_id) of an earlier answer that did not help; repeatable.",
)
@click.option("--max-rules", type=int, metavar="N", help="Most rules.  [default: 3]")
@click.option("--max-lessons", type=int, metavar="N", help="0 or 1 lesson.  [default: 1]")
@click.option("--max-chars", type=int, metavar="N", help="Length of the text.  [default: 6000]")
@click.option("--max-images", type=int, metavar="N", help="Most crops.  [default: 4]")
@click.option("--max-pixels", type=int, metavar="N", help="Pixels a crop.  [default: 1048576]")
@click.option(
    "--gate",
    type=click.Choice(GATES),
    help="Whether crops go along: decided for each question, always, or never.  "
    "[default: that of the settings, adaptive]",
)
@memory_controller_option
@tree_organizer_option
@click.option("--crops", type=str, metavar="DIR", help="Write the crops into this folder.")
@click.option("--text", "as_text", is_flag=True, help="Print the rendered text only.")
def retrieve(  # noqa: PLR0913, PLR0917 - one parameter an option
    bank: Path,
    question: str,
    images: tuple[str, ...],
    family: str,
    namespace: str | None,
    reader: str,
    run_id: str | None,
    k: int | None,
    mode: Mode | None,
    min_authority: Authority,
    exclude: tuple[str, ...],
    gate: GateMode | None,
    memory_controller: str | None,
    tree_organizer: str | None,
    crops: str | None,
    as_text: bool,  # noqa: FBT001 - a flag of click
    **limits: int | None,
) -> None:
    """Retrieve and print the answer."""
    asked = records.read_text(question)
    folder = _writable_folder(crops) if crops is not None else None
    early = EarlyEncoder(bank, asked)
    ids = image_ids(images)
    opened = open_bank(
        bank,
        read_only=True,
        encoder=early.result(),
        memory_controller=memory_controller,
        tree_organizer=tree_organizer,
    )
    with opened as memory:
        answer = memory.retrieve(
            asked,
            images=ids,
            namespace=namespace,
            family=family,
            reader=reader,
            run_id=run_id,
            k=k,
            mode=mode,
            budget=_budget(memory.config.budget, limits),
            minimum_authority=min_authority,
            exclude=exclude,
            gate=gate,
        )
        _print_answer(answer, as_text=as_text)
        if folder is not None:
            _write_crops(memory, answer, folder, as_text=as_text)


def _budget(budget: Budget, limits: Mapping[str, int | None]) -> Budget:
    names = {f"max_{name}": name for name in ("chars", "images", "pixels")}
    given = {names.get(key, key): value for key, value in limits.items() if value is not None}
    return type(budget).read({**budget.model_dump(mode="json"), **given})


def _print_answer(answer: MemoryInput, *, as_text: bool) -> None:
    if answer.warning:
        note(f"epimem: warning: {answer.warning}")
    if not as_text:
        emit(answer)
    elif answer.text:
        write(visible(answer.text, keep="\n\t") + "\n")
    else:
        note("epimem: nothing in this bank applies")


def _writable_folder(crops: str) -> Path:
    """Make the folder for crops; a mistake in its name is one of usage, found before asking."""
    folder = checked_path(crops)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.BadParameter(
            f"no folder can be made at {folder}: {error.strerror}", param_hint="--crops"
        ) from error
    return folder


def _write_crops(
    memory: ExperienceMemory, answer: MemoryInput, folder: Path, *, as_text: bool
) -> None:
    for number, crop in enumerate(answer.crops, 1):
        path = folder / f"{number}-{crop.blob[:16]}.png"
        path.write_bytes(memory.crop_png(crop))
        if as_text:
            note(str(path))
        else:
            emit(
                {
                    "crop": str(path),
                    "node_id": crop.node_id,
                    "image_id": crop.image_id,
                    "region": crop.region.box,
                    "note": crop.note,
                }
            )


def image_ids(files: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of images, as a bank would give them, without a bank.

    Raises:
        ImageError: one is refused.
    """
    if not files:
        return ()
    from epimem.bank.decoder import Decoder
    from epimem.bank.image_header import read_header
    from epimem.schema.ids import image_id

    decoder = Decoder()
    found = []
    try:
        for _, data in records.image_files(files):
            decoded = decoder.admit(read_header(data))
            found.append(image_id(decoded.width, decoded.height, decoded.pixels))
    finally:
        decoder.close()
    return tuple(found)


@command(
    "feedback",
    summary="Tell the bank what became of a question it was asked.",
    text="A verdict counts for everything the answer held; --helped and --hurt name single items. "
    "A wrong answer alone hurts no item: --hurt takes the statement of the item that proved "
    "wrong. Feedback may lower a rule and never raises one; each question counts once. On a "
    "frozen bank it is kept beside the bank and changes nothing.\n\n"
    "Prints a receipt.",
    examples=(
        "epimem feedback my-bank RETRIEVAL_ID --verdict right --source verifier",
        "epimem feedback my-bank RETRIEVAL_ID --hurt NODE_ID='the red line stops there'",
    ),
)
@bank_argument
@click.argument("retrieval_id", metavar="RETRIEVAL_ID")
@click.option(
    "--verdict", type=click.Choice(["right", "wrong"]), help="Whether the question was solved."
)
@click.option(
    "--source",
    type=click.Choice(VERDICT_SOURCES),
    default="none",
    show_default=True,
    help="Who judged.",
)
@click.option("--helped", multiple=True, metavar="ID", help="An item that helped; repeatable.")
@click.option(
    "--hurt",
    multiple=True,
    metavar="ID=STATEMENT",
    help="An item and its statement that proved wrong; repeatable.",
)
@phase_option
def feedback(
    bank: Path,
    retrieval_id: str,
    verdict: Literal["right", "wrong"] | None,
    source: VerdictSource,
    helped: tuple[str, ...],
    hurt: tuple[str, ...],
    phase: Phase,
) -> None:
    """Give feedback and print the receipt."""
    contradicted = _contradicted(hurt)
    with open_bank(bank, phase=phase) as memory:
        emit(
            memory.feedback(
                retrieval_id, verdict=verdict, source=source, helped=helped, hurt=contradicted
            )
        )


def _contradicted(given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in given:
        node_id, _, statement = item.partition("=")
        if not node_id or not statement.strip():
            raise click.UsageError("--hurt takes ID=STATEMENT")
        if node_id in found:
            raise click.UsageError(f"--hurt names {node_id} twice")
        found[node_id] = statement
    return found


@command(
    "explain",
    summary="Show why a retrieval answered as it did.",
    text="Every candidate with its dense, lexical and fused score, whether it passed the floor, "
    "what selection said of it, and whether it was chosen; then the gate. The last retrieval of "
    "this bank is taken where no RETRIEVAL_ID is given.\n\n"
    "Draws a table on a terminal, else prints one JSON line for the retrieval, then one for each "
    "candidate.",
    examples=("epimem explain my-bank", "epimem explain my-bank RETRIEVAL_ID --json"),
)
@bank_argument
@click.argument("retrieval_id", metavar="[RETRIEVAL_ID]", required=False)
@json_option
def explain(bank: Path, retrieval_id: str | None, as_json: bool) -> None:  # noqa: FBT001
    """Show one logged retrieval."""
    with open_bank(bank, read_only=True) as memory:
        found = memory.explain(retrieval_id)
        if found is None:
            raise NotFoundError(
                "no such retrieval in the log of this bank", hint="`epimem retrieve` makes one"
            )
        candidates = found["candidates"]
        names = _names(memory, [candidate["node_id"] for candidate in candidates])
    rows = [
        {"rank": rank, "title": names.get(candidate["node_id"], ""), **candidate}
        for rank, candidate in enumerate(candidates, 1)
    ]
    if draws(as_json):
        _draw_explanation(found, rows)
        return
    emit({key: value for key, value in found.items() if key != "candidates"})
    for row in rows:
        emit(row)


def _names(memory: ExperienceMemory, ids: Sequence[str]) -> dict[str, str]:
    """Return what to call the items: title, topic or the start of the guidance."""
    from epimem.cli.show import heading

    return {key: heading(node) for key, node in memory.bank.nodes(ids).items()}


def _draw_explanation(found: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    answer = found["answer"]
    table = Table(expand=True)
    for name in ("#", "dense", "lexical", "fused", "floor"):
        table.add_column(name, no_wrap=True)
    table.add_column("item and verdict", ratio=1, overflow="fold")
    for row in rows:
        item = Text(
            visible(f"{row['kind']}: {row['title']}"), style="bold" if row["chosen"] else ""
        )
        chosen = "chosen; " if row["chosen"] else ""
        item.append(f"\n{chosen}{visible(row['verdict'])}", style="not bold")
        item.append(f"\n{visible(row['node_id'])}", style="not bold dim")
        table.add_row(
            str(row["rank"]),
            _score(row.get("dense")),
            _score(row.get("lexical")),
            _score(row.get("rank_score", 0.0)),
            "passed" if row.get("passes") else "below",
            item,
        )
    about = (
        f"retrieval {found['retrieval_id']} at {found['at']}, bank at {found['bank_seq']}, "
        f"namespace {found['namespace']}"
        + (f", family {found['family']}" if found["family"] else "")
        + (f", reader {found['reader']}" if found["reader"] else "")
        + (f", run {found['run_id']}" if found["run_id"] else "")
    )
    crops = len(answer.get("crops", ()))
    end = (
        f"recall {answer.get('searchable', 'lexical')}; {len(found['items'])} chosen; "
        f"gate {answer.get('gate', 0)} ({crops} crops go along)"
    )
    parts = [Text(visible(about)), table if rows else Text("no candidates"), Text(end)]
    if answer.get("warning"):
        parts.append(Text(visible(f"warning: {answer['warning']}")))
    draw(Group(*parts))


def _score(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
