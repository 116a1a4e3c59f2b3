"""Arguments and options that several commands share, and how they open a bank."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from epimem.cli.output import note
from epimem.errors import NotFoundError, RecordError

if TYPE_CHECKING:
    from epimem.memory import ExperienceMemory
    from epimem.protocols import Encoder

F = TypeVar("F", bound=Callable[..., Any])
Decorator = Callable[[F], F]
Phase = Literal["construction", "evolution", "evaluation"]


class Command(click.Command):
    """A command whose help ends with examples that can be typed as they stand."""

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        del ctx
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"  {example}\n")


def command(
    name: str,
    *,
    summary: str,
    text: str,
    examples: Sequence[str],
    kind: type[Command] = Command,
) -> Callable[[Callable[..., Any]], Command]:
    """Return a decorator that makes a command.

    Args:
        name: as typed.
        summary: one line for the list of commands.
        text: what it does and when to use it; paragraphs divided by an empty line.
        examples: complete command lines.
        kind: class of the command.
    """
    return click.command(
        name,
        cls=kind,
        help=f"{summary}\n\n{text}",
        short_help=summary,
        examples=examples,
    )


class BankPath(click.ParamType):  # type: ignore[type-arg] # generic from click 8.4 on
    """The folder of a bank, refused by name where the system could not even look it up."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path."""
        if isinstance(value, Path):
            return value
        if not value:
            self.fail("the path of the bank is empty", param, ctx)
        return checked_path(value)


def checked_path(value: str) -> Path:
    """Return a path that the system can look up.

    Raises:
        RecordError: `invalid_text` where it is not UTF-8 or holds NUL, `too_large`.
    """
    if any("\ud800" <= character <= "\udfff" or character == "\0" for character in value):
        raise RecordError("a path must be UTF-8 text", code="invalid_text", field="PATH")
    try:
        Path(value).stat()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise RecordError(
                "the path is too long", code="too_large", field="PATH", got=len(os.fsencode(value))
            ) from error
    return Path(value)


bank_argument: Decorator[Any] = click.argument("bank", metavar="PATH", type=BankPath())
json_option: Decorator[Any] = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON Lines even on a terminal."
)
namespace_option: Decorator[Any] = click.option(
    "--namespace", metavar="NAME", help="Namespace; that of the bank's settings by default."
)
phase_option: Decorator[Any] = click.option(
    "--phase",
    type=click.Choice(["construction", "evolution", "evaluation"]),
    default="construction",
    show_default=True,
    help="What this call is part of. In evaluation, input that knows the reference is refused.",
)
image_option: Decorator[Any] = click.option(
    "--image",
    "images",
    multiple=True,
    metavar="FILE",
    help="Image (PNG, JPEG, WebP) or folder of images to store first; repeatable.",
)


memory_controller_option: Decorator[Any] = click.option(
    "--memory-controller",
    metavar="SPEC",
    help="Who derives lessons and gates crops: embedded, openai:URL#MODEL, "
    "transformers:PATH[+ADAPTER], vllm:PATH[+ADAPTER], scripted:FILE.  [default: that of the "
    "bank's settings, which begin with embedded]",
)
tree_organizer_option: Decorator[Any] = click.option(
    "--tree-organizer",
    metavar="SPEC",
    help="Who places, merges, splits, consolidates and selects; specs as for "
    "--memory-controller.  [default: that of the bank's settings, which begin with embedded]",
)


@dataclass(frozen=True)
class BankSettings:
    """What a new bank is made with; None where the default is wanted."""

    encoder: str | None
    namespace: str | None
    contributor: str | None
    organisation: str | None
    capacity: int | None
    memory_controller: str | None = None
    tree_organizer: str | None = None


_SETTINGS = (
    click.option(
        "--encoder",
        metavar="MODEL",
        help="Text encoder: a name, a folder, or none for lexical recall. "
        "Default: all-MiniLM-L6-v2 where it is installed, else none.",
    ),
    click.option("--namespace", metavar="NAME", help="Default namespace.  [default: default]"),
    click.option("--contributor", metavar="NAME", help="Who contributes.  [default: local]"),
    click.option(
        "--organisation", metavar="NAME", help="Whom the contributor works for.  [default: local]"
    ),
    click.option(
        "--capacity",
        type=int,
        metavar="N",
        help="Most children of a node of the tree, 7 to 64.  [default: 16]",
    ),
    memory_controller_option,
    tree_organizer_option,
)


def bank_settings(function: F) -> F:
    """Add the options a new bank is made with; they arrive as one `settings`."""

    @functools.wraps(function)
    def call(**given: Any) -> Any:
        names = BankSettings.__dataclass_fields__
        settings = BankSettings(**{name: given.pop(name) for name in names})
        return function(settings=settings, **given)

    result: Any = call
    for option in reversed(_SETTINGS):
        result = option(result)
    return result  # type: ignore[no-any-return]


def open_bank(
    bank: Path,
    *,
    read_only: bool = False,
    phase: Phase = "construction",
    encoder: Encoder | None = None,
    memory_controller: str | None = None,
    tree_organizer: str | None = None,
) -> ExperienceMemory:
    """Open a bank, with other controllers than those of its settings where some are given.

    Raises:
        NotFoundError: there is none; the message says which path was meant.
    """
    from epimem.memory import ExperienceMemory

    try:
        memory = ExperienceMemory.open(bank, read_only=read_only, phase=phase, encoder=encoder)
    except NotFoundError as error:
        raise NotFoundError(
            "no bank in this folder", got=str(bank), hint="`epimem init PATH` makes one"
        ) from error
    memory.use_controllers(memory_controller, tree_organizer)
    if memory.notice:
        note(f"epimem: {memory.notice}")
    return memory
