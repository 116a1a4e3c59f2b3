"""The sheet that pages of all worlds share: header, body, and above or below it a strip for a key."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from epimem.schema.region import Region
from training.worlds.page import Page
from training.worlds.pen import GREY, INK, PAPER, Box, Pen
from training.worlds.topic import Mark, Topic
from training.worlds.world import Order

SPECKS = 0.01
"""Share of pixels that are specks (ours): some in the smallest crop, none in the way of reading."""
SPECK_GREYS = (236, 253)
HEADER = 46
STRIP = 30
"""Height that is kept free for a key, above the body or below it."""
Sample = Callable[[Pen, Box, str], Box]
"""Draws the mark of an option into a box of the key; returns what it covers."""


class Sheet(Pen):
    """A sheet with the name of a house and a title on it; `body` is what is left for the page.

    Args:
        order: gives house and size.
        title: what the page is about.
        chance: of whether a key stands above the body or below it. A sheet without a key has the same
            empty strip, so that where the body stands does not tell whether there is one.
    """

    def __init__(self, order: Order, title: str, chance: random.Random) -> None:
        super().__init__(*order.size)
        house = order.house
        self.frame((0, 0, self.width, 5), color=house.color, width=5)
        left, top, right, bottom = self.text((12, 9), house.name, size=14, color=house.color)
        self.header: Region = self.region((left - 2, top - 2, right + 2, bottom + 2))
        self.text((12, 28), title, size=12)
        above = chance.random() < 0.5
        self._strip = HEADER if above else self.height - STRIP
        top = HEADER + STRIP if above else HEADER
        self.body: Box = (12, top, self.width - 12, top + self.height - HEADER - STRIP)

    @property
    def spare(self) -> Region:
        """Where nothing is printed: the right end of the head."""
        return self.region((self.width - 52, 8, self.width - 12, 26))

    def grain(self, chance: random.Random) -> None:
        """Put faint specks on the empty paper, so that no two pages have a crop in common."""
        from PIL import Image

        shown = np.array(self.image)
        specks = np.random.default_rng(chance.getrandbits(64))
        count = int(SPECKS * self.width * self.height)
        rows = specks.integers(0, self.height, count)
        columns = specks.integers(0, self.width, count)
        empty = (shown[rows, columns] == PAPER).all(axis=1)
        greys = specks.integers(*SPECK_GREYS, count)[empty]
        shown[rows[empty], columns[empty]] = greys[:, None]
        self.image.paste(Image.fromarray(shown))

    def key(self, topic: Topic, option: str, chance: random.Random, sample: Sample) -> Region:
        """Print a key: the mark of an option, the mark of another one, and what they mean.

        It stands at the left end of its strip or at the right one.
        """
        other = chance.choice([name for name in topic.options if name != option])
        entries = [(option, topic.key[0]), (other, topic.key[1])]
        chance.shuffle(entries)
        left, top = 12, self._strip + 3
        right = _key_entries(Pen(self.width, self.height), (left, top), entries, sample)
        if chance.random() < 0.5:
            left = max(left, left + self.width - 12 - right)
        right = _key_entries(self, (left, top), entries, sample)
        box = (left, top, right, top + 24)
        self.frame(box, color=GREY)
        return self.region(box)


def _key_entries(
    pen: Pen, at: tuple[int, int], entries: Sequence[tuple[str, str]], sample: Sample
) -> int:
    """Write marks and what they mean in a row; return where its frame ends."""
    x, top = at[0] + 8, at[1]
    for name, words in entries:
        covered = sample(pen, (x, top + 6, x + 20, top + 18), name)
        x = pen.text((covered[2] + 6, top + 5), words, size=11, color=INK)[2] + 18
    return x - 8


def finished(
    order: Order,
    sheet: Sheet,
    chance: random.Random,
    subject: str,
    marks: Sequence[Mark],
    samples: Mapping[str, Sample],
) -> Page:
    """Return the page that was drawn on a sheet, with its key where one is ordered.

    Args:
        order: what was to be drawn.
        sheet: with everything on it but the key.
        chance: of the order of the key's entries.
        subject: as the question names it.
        marks: what was drawn.
        samples: by topic name, what draws a mark in a key.
    """
    key = None
    if order.with_key:
        key = sheet.key(order.topic, order.own, chance, samples[order.topic.name])
    sheet.grain(chance)
    return Page(
        house=order.house,
        topic=order.topic,
        subject=subject,
        image=sheet.image,
        marks=tuple(marks),
        header=sheet.header,
        spare=sheet.spare,
        key=key,
    )
