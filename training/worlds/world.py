"""A world: its family, its topics, and how a page of it is drawn."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from training.worlds.house import House
from training.worlds.page import Page
from training.worlds.topic import Topic

SIZES = ((320, 240), (400, 300), (480, 320), (560, 400), (640, 480))
"""Of pages in pixels (ours): small enough to look at whole, large enough to be read."""


@dataclass(frozen=True, eq=False)
class Order:
    """What is to be drawn.

    Attributes:
        house: whose page.
        topic: what its marks are about.
        want: an option that must be there.
        with_key: whether a key says which mark means what.
        size: width and height in pixels.
    """

    house: House
    topic: Topic
    want: str
    with_key: bool
    size: tuple[int, int]

    @property
    def own(self) -> str:
        """The option that carries the meaning for this house."""
        return self.house.options[self.topic.name]


@dataclass(frozen=True, eq=False)
class World:
    """A kind of page that houses print.

    Attributes:
        name: for commands.
        family: the task family of its questions.
        page: one page of it, in a word.
        topics: what its houses have conventions for.
        draw: draws a page.
    """

    name: str
    family: str
    page: str
    topics: tuple[Topic, ...]
    draw: Callable[[Order, random.Random], Page]

    @property
    def pages(self) -> str:
        """Several pages, in a word."""
        return f"{self.page}s"

    def new_page(
        self,
        house: House,
        topic: Topic,
        chance: random.Random,
        *,
        want: str | None = None,
        with_key: bool = False,
    ) -> Page:
        """Draw a page of a size drawn at random.

        Args:
            house: whose page.
            topic: what its marks are about.
            chance: of everything else.
            want: an option that must be on it, besides the house's own where the page has room for
                several; None: the house's own.
            with_key: whether a key says which mark means what.
        """
        order = Order(
            house,
            topic,
            want or house.options[topic.name],
            with_key=with_key,
            size=chance.choice(SIZES),
        )
        return self.draw(order, chance)


def dealt(order: Order, count: int, chance: random.Random) -> list[str]:
    """Return an option for each of `count` things in random order, empty for plain ones.

    There are one or two of the wanted option and of the house's own, one of another, and at least one
    plain one.

    Args:
        order: what is to be drawn.
        count: at least 5.
        chance: of numbers and order.
    """
    special = list(dict.fromkeys((order.want, order.own)))
    other = chance.choice([name for name in order.topic.options if name not in special])
    found = [*special, other]
    if count > 5 and chance.random() < 0.5:
        found.append(order.want)
    found += [""] * (count - len(found))
    chance.shuffle(found)
    return found
