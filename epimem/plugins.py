"""Finding controllers and importers by packaging entry points, open to third parties."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from epimem.config import Config, TreeConfig
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


def load_controllers(config: Config) -> tuple[MemoryController, TreeOrganizer]:
    """Return both roles by the specs of the settings, `NAME` or `NAME:ARGUMENT`.

    NAME is an entry point: a function that takes the keywords `memory_controller` and `tree_organizer`
    (the argument where this entry point fills that role, "" where the spec has none, else None),
    `settings` (`epimem.config.TreeConfig`) and `deadline_s` (seconds one call of a model may take), and
    returns both roles, None for one it was not asked for. Where one entry point fills both roles it is
    called once, so that they can share a model or a server.

    Raises:
        PluginError: no such entry point, it needs a package that is missing, or it did not return what
            it was asked for.
        ConfigError: the argument is wrong.
    """
    controller, organizer = config.memory_controller, config.tree_organizer
    (first, left), (second, right) = _parts(controller.spec), _parts(organizer.spec)
    if first == second:
        deadline_s = max(controller.deadline_s, organizer.deadline_s)
        return _checked(_call(first, left, right, config.tree, deadline_s), first, first)
    filled, _ = _call(first, left, None, config.tree, controller.deadline_s)
    _, organized = _call(second, None, right, config.tree, organizer.deadline_s)
    return _checked((filled, organized), first, second)


def _parts(spec: str) -> tuple[str, str]:
    name, _, argument = spec.partition(":")
    return name, argument


def _call(
    name: str, left: str | None, right: str | None, settings: TreeConfig, deadline_s: float
) -> tuple[MemoryController | None, TreeOrganizer | None]:
    pair: tuple[MemoryController | None, TreeOrganizer | None] = load(CONTROLLERS, name)(
        memory_controller=left, tree_organizer=right, settings=settings, deadline_s=deadline_s
    )
    return pair


def _checked(
    pair: tuple[MemoryController | None, TreeOrganizer | None], first: str, second: str
) -> tuple[MemoryController, TreeOrganizer]:
    controller, organizer = pair
    if controller is None:
        raise PluginError(f"{first} has no memory controller", field="memory_controller")
    if organizer is None:
        raise PluginError(f"{second} has no tree organizer", field="tree_organizer")
    return controller, organizer
