"""Finding controllers and importers by packaging entry points, open to third parties."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal, get_args

from epimem.config import Config, ControllerConfig
from epimem.errors import PluginError
from epimem.protocols import MemoryController, TreeOrganizer

CONTROLLERS = "epimem.controllers"
IMPORTERS = "epimem.importers"
Role = Literal["memory_controller", "tree_organizer"]


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


def load_role(config: Config, role: Role, *, both: bool) -> dict[Role, Any]:
    """Return what fills a role by its spec in the settings, `NAME` or `NAME:ARGUMENT`.

    NAME is an entry point: a function that takes the keywords `memory_controller` and `tree_organizer`
    (the argument where this entry point is to fill that role, "" where the spec has none, else None),
    `settings` (`epimem.config.TreeConfig`) and `deadline_s` (seconds one call of a model may take), and
    returns both roles, None for one it was not asked for. Where one entry point fills both roles and
    both are wanted, it is called once, so that they can share a model or a server.

    Args:
        config: the settings.
        role: what is needed.
        both: the other role is not filled yet either, and may come along.

    Raises:
        PluginError: no such entry point, it needs a package that is missing, or it did not return what
            it was asked for.
        ConfigError: the argument is wrong.
    """
    name, argument = _parts(_section(config, role).spec)
    other: Role = "tree_organizer" if role == "memory_controller" else "memory_controller"
    theirs, beside = _parts(_section(config, other).spec)
    arguments: dict[Role, str | None] = {role: argument, other: None}
    if both and theirs == name:
        arguments[other] = beside
    wanted = [key for key, value in arguments.items() if value is not None]
    made = load(CONTROLLERS, name)(
        **arguments,
        settings=config.tree,
        deadline_s=max(_section(config, key).deadline_s for key in wanted),
    )
    filled: dict[Role, Any] = dict(zip(get_args(Role), made, strict=True))
    missing = next((key for key in wanted if filled[key] is None), None)
    if missing is not None:
        for there in filled.values():
            close(there)
        raise PluginError(f"{name} has no {missing.replace('_', ' ')}", field=missing)
    return {key: filled[key] for key in wanted}


class Controllers:
    """The two roles of an opened bank, each loaded when it is first needed.

    Args:
        given: used instead of those that the settings name; the giver closes them.
    """

    def __init__(self, given: tuple[MemoryController, TreeOrganizer] | None) -> None:
        self._filled: dict[Role, Any] = {}
        self._loaded: set[Role] = set()
        if given is not None:
            self._filled = dict(zip(get_args(Role), given, strict=True))

    def memory_controller(self, config: Config) -> MemoryController:
        """Return who derives, gates and updates."""
        controller: MemoryController = self._get("memory_controller", config)
        return controller

    def tree_organizer(self, config: Config) -> TreeOrganizer:
        """Return who places, merges, splits, consolidates and selects."""
        organizer: TreeOrganizer = self._get("tree_organizer", config)
        return organizer

    def _get(self, role: Role, config: Config) -> Any:
        if role not in self._filled:
            made = load_role(config, role, both=not self._filled)
            self._filled.update(made)
            self._loaded.update(made)
        return self._filled[role]

    def empty(self, role: Role) -> None:
        """Let a role be loaded anew; one that was loaded here is closed."""
        gone = self._filled.pop(role, None)
        if role in self._loaded:
            self._loaded.discard(role)
            close(gone)

    def close(self) -> None:
        """End what was loaded here."""
        for role in get_args(Role):
            if role in self._loaded:
                self.empty(role)


def close(role: object) -> None:
    """End what a controller holds, where it can be ended (a server, say)."""
    end = getattr(role, "close", None)
    if end is not None:
        end()


def _section(config: Config, role: Role) -> ControllerConfig:
    section: ControllerConfig = getattr(config, role)
    return section


def _parts(spec: str) -> tuple[str, str]:
    name, _, argument = spec.partition(":")
    return name, argument
