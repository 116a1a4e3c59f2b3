"""Controllers by their specs: one entry point may fill one role or both."""

from __future__ import annotations

import pytest

from epimem import plugins
from epimem.config import Config, ControllerConfig
from epimem.errors import ConfigError, PluginError
from epimem.testing import ScriptedMemoryController, ScriptedTreeOrganizer


class Point:
    """An entry point that remembers how it was called."""

    group = plugins.CONTROLLERS

    def __init__(self, name, *, roles=(True, True)):
        self.name = name
        self.roles = roles
        self.calls = []

    def load(self):
        return self

    def __call__(self, *, memory_controller, tree_organizer, settings, deadline_s):
        self.calls.append((memory_controller, tree_organizer, settings, deadline_s))
        wanted = (memory_controller is not None, tree_organizer is not None)
        made = (ScriptedMemoryController(), ScriptedTreeOrganizer())
        pairs = zip(made, wanted, self.roles, strict=True)
        return tuple(role if asked and has else None for role, asked, has in pairs)


@pytest.fixture
def points(monkeypatch):
    made = {name: Point(name) for name in ("one", "two")}
    made["half"] = Point("half", roles=(True, False))
    monkeypatch.setattr(plugins, "entry_points", lambda group: list(made.values()))  # noqa: ARG005
    return made


def config(first, second, *, deadlines=(60.0, 60.0)):
    return Config(
        memory_controller=ControllerConfig(spec=first, deadline_s=deadlines[0]),
        tree_organizer=ControllerConfig(spec=second, deadline_s=deadlines[1]),
    )


def test_one_entry_point_for_both_roles_is_called_once_with_both_arguments(points):
    settings = config("one:base+a", "one:base+b", deadlines=(5.0, 9.0))
    plugins.load_controllers(settings)
    assert points["one"].calls == [("base+a", "base+b", settings.tree, 9.0)]


def test_two_entry_points_are_asked_for_one_role_each(points):
    settings = config("one:x", "two", deadlines=(5.0, 9.0))
    plugins.load_controllers(settings)
    assert points["one"].calls == [("x", None, settings.tree, 5.0)]
    assert points["two"].calls == [(None, "", settings.tree, 9.0)]


def test_an_argument_may_hold_colons(points):
    plugins.load_controllers(config("one:http://127.0.0.1:8000/v1#m", "two"))
    assert points["one"].calls[0][0] == "http://127.0.0.1:8000/v1#m"


@pytest.mark.parametrize(("first", "second"), [("one", "half"), ("half", "half")])
def test_a_role_that_an_entry_point_cannot_fill_is_named(points, first, second):
    assert set(points) == {"one", "two", "half"}
    with pytest.raises(PluginError, match="half has no tree organizer"):
        plugins.load_controllers(config(first, second))


def test_an_unknown_name_lists_those_there_are(points):
    assert points
    with pytest.raises(PluginError, match="half, one, two"):
        plugins.load_controllers(config("three", "one"))


def test_the_embedded_controllers_take_no_argument():
    with pytest.raises(ConfigError, match="takes no argument"):
        plugins.load_controllers(config("embedded:x", "embedded"))


def test_the_thresholds_of_the_bank_reach_the_embedded_organizer():
    settings = config("embedded", "embedded")
    tree = settings.tree.model_copy(update={"place_min": 0.11})
    _, organizer = plugins.load_controllers(settings.model_copy(update={"tree": tree}))
    assert organizer.place_min == 0.11
