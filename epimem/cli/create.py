"""`epimem init`, and what `build` needs of it: a new bank from the options of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from epimem.cli.options import BankSettings, bank_argument, bank_settings, command
from epimem.cli.output import emit, note, slow
from epimem.errors import BankConflictError, ConfigError

if TYPE_CHECKING:
    from epimem.config import Config
    from epimem.memory import ExperienceMemory
    from epimem.protocols import Encoder

# What an interrupted `init` may have left in the folder; a new one goes over it.
_LEFTOVERS = frozenset({"blobs", "bank.db.new", "bank.db.new-journal", "bank.lock", "epimem.toml"})


@command(
    "init",
    summary="Make a new, empty bank in a folder.",
    text="Its settings are written to epimem.toml in the folder and can be changed there, all but "
    "the encoder: vectors of two encoders do not compare, and `epimem reembed` changes it.\n\n"
    "The encoder is exported once per machine, which takes about half a minute, and cached. "
    "Without the extra epimem[encoder] and without --encoder the bank gets none: recall is then "
    "lexical, by words only, and init says so.\n\n"
    "Prints one JSON line: path, bank_id, namespace, encoder, dimension.",
    examples=(
        "epimem init my-bank",
        "epimem init my-bank --contributor alice --organisation acme",
        "epimem init my-bank --encoder none",
    ),
)
@bank_argument
@bank_settings
def init(bank: Path, settings: BankSettings) -> None:
    """Make a bank and print what it is."""
    with make(bank, settings) as memory:
        identity = memory.bank.encoder
        emit(
            {
                "path": str(bank),
                "bank_id": memory.bank.bank_id,
                "namespace": memory.config.namespace,
                "encoder": identity.name if identity is not None else "none",
                "dimension": identity.dimension if identity is not None else 0,
            }
        )


def make(bank: Path, settings: BankSettings) -> ExperienceMemory:
    """Make a bank and return it opened.

    Raises:
        BankConflictError: `bank_exists`, or the folder holds other things.
        ConfigError: a setting is out of range, or the encoder that was asked for cannot be had.
    """
    from epimem.memory import ExperienceMemory

    _check_free(bank)
    config = _config(settings)
    encoder = _encoder(config.encoder.model, fall_back=settings.encoder is None)
    if encoder is None:
        lexical = config.encoder.model_copy(update={"model": "none"})
        config = config.model_copy(update={"encoder": lexical})
    return ExperienceMemory.create(bank, config, encoder=encoder)


def agree(memory: ExperienceMemory, settings: BankSettings) -> None:
    """Refuse settings that an existing bank does not have.

    Raises:
        BankConflictError: naming the first one that differs.
    """
    config, wanted = memory.config, _config(settings)
    pairs = {
        "encoder": (settings.encoder, config.encoder.model, wanted.encoder.model),
        "namespace": (settings.namespace, config.namespace, wanted.namespace),
        "contributor": (
            settings.contributor,
            config.caller.contributor,
            wanted.caller.contributor,
        ),
        "organisation": (
            settings.organisation,
            config.caller.organisation,
            wanted.caller.organisation,
        ),
        "capacity": (settings.capacity, config.tree.capacity, wanted.tree.capacity),
    }
    for name, (given, has, want) in pairs.items():
        if given is not None and has != want:
            raise BankConflictError(
                f"the bank has --{name} {has}",
                field=name,
                got=str(given),
                hint="leave the option out, or change it: epimem reembed"
                if name == "encoder"
                else "leave the option out, or change epimem.toml",
            )


def _check_free(bank: Path) -> None:
    from epimem.bank.database import FILE_NAME

    if (bank / FILE_NAME).exists():
        raise BankConflictError("a bank is here already", code="bank_exists", got=str(bank))
    if bank.exists() and not bank.is_dir():
        raise BankConflictError("a file is in the way", got=str(bank), hint="choose a new folder")
    if bank.is_dir() and {path.name for path in bank.iterdir()} - _LEFTOVERS:
        raise BankConflictError(
            "the folder holds other things", got=str(bank), hint="choose a new or empty folder"
        )


def _config(settings: BankSettings) -> Config:
    from epimem import config

    model = settings.encoder
    if model is not None and Path(model).is_dir():
        # The bank must find the model again from any folder.
        model = str(Path(model).resolve())
    caller = {"contributor": settings.contributor, "organisation": settings.organisation}
    values = {
        "namespace": settings.namespace,
        "caller": _given(caller),
        "encoder": _given({"model": model}),
        "tree": _given({"capacity": settings.capacity}),
        "memory_controller": _given({"spec": settings.memory_controller}),
        "tree_organizer": _given({"spec": settings.tree_organizer}),
    }
    return config.parse(_given(values))


def _given(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _encoder(model: str, *, fall_back: bool) -> Encoder | None:
    """Return the encoder of a new bank, exported where it was not yet; None for lexical recall."""
    if model == "none":
        return None
    try:
        with slow(f"preparing the text encoder {model} (exported once, then cached)"):
            from epimem.bank.encoder import load_encoder

            return load_encoder(model)
    except ConfigError as error:
        if not fall_back:
            raise
        note(
            f"epimem: no text encoder: {error.message}. Recall in this bank is lexical, by words "
            "only. For recall by meaning: pip install 'epimem[encoder]', then epimem reembed."
        )
        return None
