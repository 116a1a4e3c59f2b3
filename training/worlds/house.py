"""Houses: made-up publishers, each with a name, a colour, and conventions that nothing else states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from training.worlds.chance import chance
from training.worlds.topic import Topic

Color = tuple[int, int, int]

_FIRST = (
    "Bal", "Cor", "Dun", "El", "Fen", "Gar", "Hol", "Ister", "Jor", "Kal", "Lum", "Mur",
    "Nar", "Os", "Pel", "Quor", "Rav", "Sel", "Tor", "Ul", "Ver", "Wex", "Yar", "Zan",
)  # fmt: skip
_SECOND = (
    "a", "bera", "cano", "dera", "eno", "fira", "gola", "iva", "kora", "lemo", "mira", "nova",
    "oria", "pino", "rota", "sala", "tera", "uma", "vela", "wina", "xara", "yola", "zera",
)  # fmt: skip
_THIRD = ("n", "s", "l", "r", "th", "nd", "rk", "sk", "m", "ck", "lt", "nt", "x")
_KINDS = ("Press", "Trust", "Bureau", "Union", "Works", "Guild", "Board")
NAMES = len(_FIRST) * len(_SECOND) * len(_THIRD) * len(_KINDS)
"""How many names there are; numbers beyond begin anew."""
_STRIDE = 20_021
"""Has no divisor in common with `NAMES`: no name comes twice before all did; neighbours are unlike."""
_COLORS: tuple[Color, ...] = (
    (150, 24, 40), (0, 71, 150), (0, 110, 80), (110, 60, 140), (170, 90, 0), (70, 70, 70),
    (0, 110, 130), (140, 40, 110),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class House:
    """A publisher: its name, its colour, and by topic name the option that carries the meaning."""

    name: str
    color: Color
    options: Mapping[str, str]


def house_name(world: str, number: int, *, seed: int) -> str:
    """Return the name of this number in a world; numbers below `NAMES` have different names."""
    start = chance(world, "names", seed).randrange(NAMES)
    at = (start + number * _STRIDE) % NAMES
    at, kind = divmod(at, len(_KINDS))
    at, third = divmod(at, len(_THIRD))
    first, second = divmod(at, len(_SECOND))
    return f"{_FIRST[first]}{_SECOND[second]}{_THIRD[third]} {_KINDS[kind]}"


def draw_house(world: str, number: int, topics: Sequence[Topic], *, seed: int) -> House:
    """Return the house of this number with conventions drawn for it alone."""
    drawn = chance(world, "house", seed, number)
    return House(
        name=house_name(world, number, seed=seed),
        color=drawn.choice(_COLORS),
        options={topic.name: drawn.choice(list(topic.options)) for topic in topics},
    )
