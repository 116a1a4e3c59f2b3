"""Real metro networks: cities, their lines, and segments of lines; construction and evaluation apart.

The networks are those of ReasonMap (MIT), read where the data lies beside the checkout. Cities are
split as a whole, once and for all seeds: no network is on both sides.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from epimem.schema.ids import sha256

FOLDER = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "reasonmap_stations"
SHORTEST, LONGEST = 6, 9
"""Stations of a segment (ours): few enough that every one is drawn large."""
# What the data adds to a name: the word for station, and in brackets what kind it is.
_SUFFIX = re.compile(r"(?:\s*[(\uff08][^()\uff08\uff09]*[)\uff09])*\s*\Z")
_STATION = re.compile(r"(?:\s+Station|\s+Staton|站)\Z")


@dataclass(frozen=True)
class City:
    """A network: its name and its lines, each a sequence of station names."""

    name: str
    lines: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Segment:
    """Consecutive stations of one line of a city, in the direction of travel."""

    city: str
    stations: tuple[str, ...]


@dataclass(frozen=True)
class Split:
    """Cities that runs come from, and cities that questions are asked about."""

    construction: tuple[City, ...]
    evaluation: tuple[City, ...]

    def __post_init__(self) -> None:
        ours, theirs = (
            {city.name for city in side} for side in (self.construction, self.evaluation)
        )
        assert ours.isdisjoint(theirs), f"on both sides: {sorted(ours & theirs)}"


def load_cities(folder: Path = FOLDER) -> tuple[City, ...]:
    """Return the cities in order of their names; a line too short for a segment is left out.

    Raises:
        FileNotFoundError: the data is not beside this checkout.
    """
    files = sorted(folder.glob("*/*.json"))
    if not files:
        raise FileNotFoundError(folder)
    cities = [_city(path.stem, json.loads(path.read_text("utf-8"))) for path in files]
    return tuple(sorted((city for city in cities if city.lines), key=lambda city: city.name))


def split_cities(cities: Sequence[City]) -> Split:
    """Return half of the cities for construction and half for evaluation, by a hash of the name."""
    order = sorted(cities, key=lambda city: sha256(f"metro split {city.name}".encode()))
    half = len(order) // 2
    return Split(tuple(order[:half]), tuple(order[half:]))


def development_split(split: Split) -> Split:
    """Return a split of the construction cities alone: what everything was developed with."""
    half = (len(split.construction) + 1) // 2
    return Split(split.construction[:half], split.construction[half:])


def segment(cities: Sequence[City], chance: random.Random) -> Segment:
    """Draw a city, a line of it, and consecutive stations on that line, either way."""
    city = chance.choice(cities)
    line = chance.choice(city.lines)
    length = chance.randint(SHORTEST, min(LONGEST, len(line)))
    start = chance.randrange(len(line) - length + 1)
    stations = line[start : start + length]
    return Segment(city.name, stations if chance.random() < 0.5 else stations[::-1])


def _city(name: str, lines: Mapping[str, Sequence[str]]) -> City:
    named = [tuple(dict.fromkeys(map(_bare, stations))) for stations in lines.values()]
    return City(name, tuple(line for line in named if len(line) >= SHORTEST))


def _bare(name: str) -> str:
    return _STATION.sub("", _SUFFIX.sub("", name)).strip() or name
