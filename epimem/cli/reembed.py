"""`epimem reembed`: another text encoder for a bank, or vectors for lessons that have none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from epimem.cli.options import Phase, bank_argument, command, open_bank, phase_option
from epimem.cli.output import emit, note, slow
from epimem.cli.progress import progress

if TYPE_CHECKING:
    from epimem.protocols import Encoder


@command(
    "reembed",
    summary="Give a bank another text encoder, or vectors to lessons that have none.",
    text="Vectors of two encoders do not compare, so a bank has one. With --encoder this makes the "
    "vectors of another one, beside those in use: readers and contributors go on with the old "
    "encoder, and what they add meanwhile is caught up with. Then one commit lets everybody use the "
    "new one, open programs too, epimem.toml follows, and the old vectors are deleted. A program "
    "that cannot load the new encoder says so by name; it never compares vectors of two.\n\n"
    "Without --encoder, lessons that were contributed without vectors (their receipt said "
    "`searchable: lexical`) get those of the bank's encoder.\n\n"
    "Interrupted or killed, the bank serves the old encoder, or the new one, and the same command "
    "goes on. One at a time: a second one is told so. It waits for a maintainer at work. The "
    "database grows by the size of the vectors, and that room is used again later.\n\n"
    "Prints one JSON line: encoder, dimension, changed, encoded (nodes with new vectors), filled "
    "(nodes that had none), damaged, seq.",
    examples=(
        "epimem reembed my-bank --encoder all-MiniLM-L6-v2",
        "epimem reembed my-bank --encoder models/my-encoder",
        "epimem reembed my-bank --encoder none",
        "epimem reembed my-bank",
    ),
)
@bank_argument
@click.option(
    "--encoder",
    "model",
    metavar="MODEL",
    help="Text encoder: a name, a folder, or none for lexical recall. Default: the bank's own.",
)
@phase_option
def reembed(bank: Path, model: str | None, phase: Phase) -> None:
    """Change the encoder or fill in vectors, and print what became of it."""
    if model is not None and Path(model).is_dir():
        # The bank must find the model again from any folder.
        model = str(Path(model).resolve())
    with open_bank(bank, phase=phase) as memory:
        memory.bank.refuse_read_only()
        encoder = _loaded(model) if model is not None else None
        with progress() as report:
            done = memory.reembed(model, encoder=encoder, progress=report)
        if memory.notice:
            note(f"epimem: {memory.notice}")
    emit(done.model_dump())


def _loaded(model: str) -> Encoder | None:
    """Return the encoder, exported where it was not yet."""
    from epimem.bank.encoder import load_encoder

    with slow(f"preparing the text encoder {model} (exported once, then cached)"):
        return load_encoder(model)
