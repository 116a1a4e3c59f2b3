"""The methods that `epimem run` knows beside single harnesses: each has options of its own."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from epimem.cli.options import Command

METHODS: Mapping[str, str] = {"evochamber": "harness_adapters.evochamber.command"}
"""What is typed after `epimem run`, and the module that has a command of that name."""


class RunCommand(Command):
    """A command that hands over to a method where its first word names one."""

    @property
    def members(self) -> dict[str, Command]:
        """The methods' commands by name."""
        return {name: method(name) for name in METHODS}

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Return the context of the command that is meant."""
        if args and args[0] in METHODS:
            command = method(args[0])
            return command.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


def method(name: str) -> Command:
    """Return a method's command."""
    found: Command = getattr(import_module(METHODS[name]), name)
    return found
