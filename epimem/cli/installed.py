"""Commands that other packages bring: `epimem train`, say, by packaging entry points.

An entry point of the group `epimem.commands` names a click command or group and is called as
`epimem NAME`. One that cannot be imported is listed with the reason, and costs the others nothing.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

import click

from epimem.errors import PluginError

GROUP = "epimem.commands"


def names() -> tuple[str, ...]:
    """Return the names of the installed commands, sorted."""
    return tuple(sorted({point.name for point in entry_points(group=GROUP)}))


def find(name: str) -> click.Command | None:
    """Return an installed command, None where there is none of that name."""
    found = next(iter(entry_points(group=GROUP, name=name)), None)
    return None if found is None else _loaded(found)


def _loaded(point: EntryPoint) -> click.Command:
    try:
        command = point.load()
    except (ImportError, AttributeError) as error:
        return _broken(point, error)
    assert isinstance(command, click.Command), f"{point.value} is no click command"
    return command


def _broken(point: EntryPoint, error: Exception) -> click.Command:
    """Return a command in the place of one that cannot be loaded: it only says why."""
    fault = PluginError(
        f"the command {point.name} cannot be loaded: {error}",
        got=point.value,
        hint="install again what brings it, with the extra that its documentation names",
    )

    def tell() -> None:
        raise fault

    summary = f"(cannot be loaded: {type(error).__name__})"
    return click.Command(point.name, callback=tell, short_help=summary, help=str(fault))
