"""`epimem train`: from runs to served adapters in three commands, each imported when it is called."""

from __future__ import annotations

from importlib import import_module

import click

# In the order of the work.
COMMANDS = {
    "demonstrations": "training.demonstrations.command",
    "questions": "training.sources.command",
    "sft": "training.sft.command",
    "evaluate": "training.evaluation.command",
    "export": "training.export.command",
}


class Training(click.Group):
    """The group of the training commands; lists them in the order of the work."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the work."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, imported now; each module names its command as the user does."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(COMMANDS[cmd_name]), cmd_name)
        return command


train = Training(
    "train",
    help="Fine-tune the two controllers on your own runs.\n\n"
    "demonstrations turns runs, or worlds drawn by the program, into checked examples of what a "
    "controller should have said; sft trains the memory controller or the tree organizer on them; "
    "evaluate compares controllers on groups that were held out; export writes an adapter or merged "
    "weights with a card and the command that serves them.",
    short_help="Fine-tune the two controllers: demonstrations, sft, evaluate, export.",
)
