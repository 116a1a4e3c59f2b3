"""Controllers by their specs: one entry point may fill one role or both."""

from __future__ import annotations

import pytest

from epimem import plugins
from epimem.config import Config, ControllerConfig
from epimem.errors import ConfigError, PluginError


class Closing:
    """A role that counts how often it was closed."""

    def __init__(self):
        self.closed = 0

    def close(self):
        self.closed += 1


class Point:
    """An entry point that remembers how it was called."""

    group = plugins.CONTROLLERS

    def __init__(self, name, *, roles=(True, True)):
        self.name = name
        self.roles = roles
        self.calls = []
        self.made = []

    def load(self):
        return self

    def __call__(self, *, memory_controller, tree_organizer, settings, deadline_s):
        self.calls.append((memory_controller, tree_organizer, settings, deadline_s))
        wanted = (memory_controller is not None, tree_organizer is not None)
        pairs = zip(wanted, self.roles, strict=True)
        pair = tuple(Closing() if asked and has else None for asked, has in pairs)
        self.made += [role for role in pair if role is not None]
        return pair


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


def filled(settings):
    """Load both roles."""
    roles = plugins.Controllers(None)
    return roles.memory_controller(settings), roles.tree_organizer(settings)


def test_one_entry_point_for_both_roles_is_called_once_with_both_arguments(points):
    settings = config("one:base+a", "one:base+b", deadlines=(5.0, 9.0))
    filled(settings)
    assert points["one"].calls == [("base+a", "base+b", settings.tree, 9.0)]


def test_two_entry_points_are_asked_for_one_role_each_when_it_is_needed(points):
    settings = config("one:x", "two", deadlines=(5.0, 9.0))
    roles = plugins.Controllers(None)
    roles.memory_controller(settings)
    assert points["one"].calls == [("x", None, settings.tree, 5.0)]
    assert points["two"].calls == []
    roles.tree_organizer(settings)
    roles.tree_organizer(settings)
    assert points["two"].calls == [(None, "", settings.tree, 9.0)]


def test_an_argument_may_hold_colons(points):
    filled(config("one:http://127.0.0.1:8000/v1#m", "two"))
    assert points["one"].calls[0][0] == "http://127.0.0.1:8000/v1#m"


@pytest.mark.parametrize(("first", "second"), [("one", "half"), ("half", "half")])
def test_a_role_that_an_entry_point_cannot_fill_is_named_and_the_other_closed(
    points, first, second
):
    assert set(points) == {"one", "two", "half"}
    with pytest.raises(PluginError, match="half has no tree organizer"):
        filled(config(first, second))
    made = points["half"].made
    assert [role.closed for role in made] == [1] * (first == "half")


def test_what_was_loaded_is_closed_and_what_was_given_is_not(points):
    settings = config("one", "two")
    given = (Closing(), Closing())
    roles = plugins.Controllers(given)
    roles.empty("tree_organizer")
    assert roles.memory_controller(settings) is given[0]
    loaded = roles.tree_organizer(settings)
    assert loaded is not given[1]
    roles.close()
    roles.close()
    assert ([role.closed for role in given], loaded.closed) == ([0, 0], 1)
    assert points["one"].calls == []


def test_a_role_filled_anew_leaves_the_other(points):
    settings = config("one:a", "one:b")
    roles = plugins.Controllers(None)
    first, organizer = roles.memory_controller(settings), roles.tree_organizer(settings)
    roles.empty("memory_controller")
    assert first.closed == 1
    assert roles.memory_controller(settings) is not first
    assert roles.tree_organizer(settings) is organizer
    assert organizer.closed == 0
    assert points["one"].calls[1][:2] == ("a", None)


def test_an_unknown_name_lists_those_there_are(points):
    assert points
    with pytest.raises(PluginError, match="half, one, two"):
        filled(config("three", "one"))


def test_the_embedded_controllers_take_no_argument():
    with pytest.raises(ConfigError, match="takes no argument"):
        filled(config("embedded:x", "embedded"))


def test_the_thresholds_of_the_bank_reach_the_embedded_organizer():
    settings = config("embedded", "embedded")
    tree = settings.tree.model_copy(update={"place_min": 0.11})
    _, organizer = filled(settings.model_copy(update={"tree": tree}))
    assert organizer.place_min == 0.11
