"""The commands of `epimem`, in the order in which a newcomer meets them; others can be installed."""

from __future__ import annotations

import click

from epimem.cli import INTERRUPTED, installed
from epimem.cli.ask import explain, feedback, retrieve
from epimem.cli.construct import build, ingest, maintain
from epimem.cli.contribute import contribute, import_runs
from epimem.cli.create import init
from epimem.cli.evaluate import eval_
from epimem.cli.history import diff, freeze, restore, revoke, snapshot
from epimem.cli.reembed import reembed
from epimem.cli.report import check, log, stats
from epimem.cli.review import review
from epimem.cli.serve import mcp, serve, token
from epimem.cli.show import show

COMMANDS = (
    init,
    build,
    retrieve,
    feedback,
    explain,
    show,
    contribute,
    import_runs,
    ingest,
    maintain,
    reembed,
    stats,
    log,
    check,
    snapshot,
    diff,
    restore,
    freeze,
    revoke,
    serve,
    mcp,
    token,
    review,
    eval_,
)


class Program(click.Group):
    """The group of all commands; lists them in their own order."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which a newcomer meets the commands, installed ones last."""
        del ctx
        own = [command.name or "" for command in COMMANDS]
        return [*own, *(name for name in installed.names() if name not in own)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command of ours, or else one that another package brings."""
        return super().get_command(ctx, cmd_name) or installed.find(cmd_name)

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; Ctrl-C ends it without a word of click's."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None


program = Program(
    "epimem",
    commands=list(COMMANDS),
    help="Experience memory that agent systems share: lessons with visual evidence, organized as "
    "a tree.\n\n"
    "A bank is a folder. Results are JSON Lines on standard output; progress and remarks go to "
    "standard error. `epimem COMMAND --help` explains a command.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
program = click.version_option(package_name="epimem", prog_name="epimem")(program)
