"""The command line: `epimem COMMAND PATH ...`, each command a few lines over the facade.

    boundary     arguments in, exit status out; every fault becomes one line on standard error
    program      the list of commands
    create contribute construct ask show report history      the commands, by journey
    options records progress output                          what they share
    reference    writes docs/cli.md from the commands

Results are JSON Lines on standard output, everything else goes to standard error. Nothing heavy is
imported until a command runs.
"""

from __future__ import annotations

from collections.abc import Sequence

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; nothing is raised.

    Args:
        arguments: without the program's name; those of this process by default.
    """
    try:
        from epimem.cli.boundary import run

        return run(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
