"""One drawing of each world for all tests of this folder."""

import pytest

from training.worlds import WORLDS, demonstrations

SEED = 11
COUNT = 6
MORE = {"gate": 18, "update": 42, "place": 18, "select": 18}
"""Operations with many cases: so many more of each from one world."""


@pytest.fixture(scope="session")
def drawn():
    """All demonstrations of all worlds, with their pictures."""
    return [pair for name in WORLDS for pair in demonstrations(name, seed=SEED, count=COUNT)]


@pytest.fixture(scope="session")
def of(drawn):
    """Return the demonstrations of an operation."""
    found = {}
    for item, _ in drawn:
        found.setdefault(item.operation, []).append(item)
    for names in (("gate",), ("update",), ("place", "select")):
        more = demonstrations("charts", seed=SEED + 1, count=MORE[names[0]], operations=names)
        for item, _ in more:
            found[item.operation].append(item)
    return found.__getitem__
