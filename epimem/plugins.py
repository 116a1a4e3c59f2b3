"""Finding controllers and importers by packaging entry points, open to third parties."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from epimem.config import TreeConfig
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


def load_controllers(spec: str, settings: TreeConfig) -> tuple[MemoryController, TreeOrganizer]:
    """Return both roles of a controller spec; the part before ":" names the entry point.

    An entry point is a function that takes the floors of likeness as keywords `place_min`,
    `scope_min` and `merge_min`, and what stands after ":" as `argument` where there is something.
    """
    name, _, argument = spec.partition(":")
    make = load(CONTROLLERS, name)
    options: dict[str, object] = {
        "place_min": settings.place_min,
        "scope_min": settings.scope_min,
        "merge_min": settings.merge_min,
    }
    if argument:
        options["argument"] = argument
    pair: tuple[MemoryController, TreeOrganizer] = make(**options)
    return pair
