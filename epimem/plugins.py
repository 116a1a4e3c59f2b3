"""Finding controllers and importers by packaging entry points, open to third parties."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from epimem.errors import PluginError
from epimem.protocols import MemoryController, TreeOrganizer

CONTROLLERS = "epimem.controllers"
IMPORTERS = "epimem.importers"


def names(group: str) -> tuple[str, ...]:
    """Return the names that are installed in a group, sorted."""
    return tuple(sorted({point.name for point in entry_points(group=group)}))


def load(group: str, name: str) -> Any:
    """Return the object an entry point names.

    Raises:
        PluginError: none of that name, or it cannot be imported; lists those there are.
    """
    found = [point for point in entry_points(group=group) if point.name == name]
    if not found:
        there = ", ".join(names(group)) or "none"
        raise PluginError(f"no {group} named {name!r}", got=name, hint=f"installed: {there}")
    return _import(found[0])


def _import(point: EntryPoint) -> Any:
    try:
        return point.load()
    except ImportError as error:
        raise PluginError(
            f"{point.name} needs a package that is not installed: {error.name}",
            hint="install the extra that the README names for it",
        ) from error


def load_controllers(spec: str, **options: object) -> tuple[MemoryController, TreeOrganizer]:
    """Return both roles of a controller spec; the part before ":" names the entry point."""
    name, _, argument = spec.partition(":")
    make = load(CONTROLLERS, name)
    if argument:
        options["argument"] = argument
    pair: tuple[MemoryController, TreeOrganizer] = make(**options)
    return pair
