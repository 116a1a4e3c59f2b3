"""Maps as the project draws them: a frame in the operator's colour, a line, markers, names, a legend.

Nothing in a map's pixels says which marker means closed, but for the legend where one is printed.
"""

from __future__ import annotations

import io
import random
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from benchmarks.metro.networks import Segment
from benchmarks.metro.operators import Operator
from benchmarks.metro.shapes import SHAPES, Mask, Shape, outline
from epimem.schema import ids
from epimem.schema.region import Region

WIDTH, HEIGHT = 720, 260
FRAME = 10
PAPER = (255, 255, 255)
INK = (25, 25, 25)
"""Of markers, and of nothing else on a map."""
NAME_COLOR = (130, 130, 130)
LEGEND_COLOR = (70, 70, 120)
"""Of the legend's border and words."""
LINE_COLORS = ((200, 60, 60), (60, 140, 200), (90, 170, 90), (180, 110, 200))
SMALLEST, LARGEST = 9, 12
"""Radius of a marker in pixels."""
SPACING = 74
LEGEND_ROW = 26
WORDS = ("open", "closed")
_PADDING = 3
_NAME_CHARACTERS = 12


@dataclass(frozen=True, eq=False)
class MetroMap:
    """A drawn map. What it shows is known to whoever drew it; a reader has its pixels only.

    `markers` are the shapes in the direction of travel, `regions` where they are (padded by a few
    pixels), `frame` a corner of the frame, `foot` where the map is empty.
    """

    segment: Segment
    operator: Operator
    legend: bool
    markers: tuple[Shape, ...]
    pixels: NDArray[np.uint8]
    regions: tuple[Region, ...]
    frame: Region
    foot: Region

    @property
    def image_id(self) -> str:
        """The id that a bank gives the map: the hash of its size and pixels."""
        return ids.image_id(WIDTH, HEIGHT, self.pixels.tobytes())

    @property
    def png(self) -> bytes:
        """The map as PNG."""
        buffer = io.BytesIO()
        Image.fromarray(self.pixels).save(buffer, format="PNG", compress_level=1)
        return buffer.getvalue()


def draw_map(
    segment: Segment, operator: Operator, chance: random.Random, *, closed: Shape | None = None
) -> MetroMap:
    """Draw a segment with markers drawn at random.

    Args:
        segment: its stations, left to right.
        operator: gives the frame.
        chance: of markers, sizes, colours and the course of the line.
        closed: printed as closed in a legend; None: no legend.
    """
    canvas = Image.new("RGB", (WIDTH, HEIGHT), PAPER)
    pen = ImageDraw.Draw(canvas)
    # One bit a pixel: what is drawn is found again exactly.
    pen.fontmode = "1"
    for inset in range(FRAME):
        pen.rectangle((inset, inset, WIDTH - 1 - inset, HEIGHT - 1 - inset), outline=operator.color)
    radius = chance.randint(SMALLEST, LARGEST)
    markers = _markers(len(segment.stations), chance)
    places = _course(len(markers), chance)
    pen.line(places, fill=chance.choice(LINE_COLORS), width=5)
    for place, shape, name in zip(places, markers, segment.stations, strict=True):
        pen.polygon(outline(shape, *place, radius), fill=INK)
        pen.text((place[0] - 24, place[1] + 22), name[:_NAME_CHARACTERS], NAME_COLOR, _font(11))
    if closed is not None:
        _draw_legend(pen, closed, chance)
    return MetroMap(
        segment=segment,
        operator=operator,
        legend=closed is not None,
        markers=markers,
        pixels=np.array(canvas),
        regions=tuple(_around(x, y, radius + _PADDING) for x, y in places),
        frame=Region(x0=0, y0=0, x1=24, y1=24, width=WIDTH, height=HEIGHT),
        foot=Region(x0=40, y0=170, x1=100, y1=220, width=WIDTH, height=HEIGHT),
    )


def word_mask(word: str) -> Mask:
    """Return the pixels of a word of the legend, cut to what is set."""
    return _word_mask(word)


@cache
def _word_mask(word: str) -> Mask:
    canvas = Image.new("L", (80, 30))
    pen = ImageDraw.Draw(canvas)
    pen.fontmode = "1"
    pen.text((4, 4), word, 255, _font(13))
    mask = np.asarray(canvas) > 0
    rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    return mask[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def _draw_legend(pen: ImageDraw.ImageDraw, closed: Shape, chance: random.Random) -> None:
    """Print all shapes in a box, in random order, each with its meaning beside it."""
    shapes = chance.sample(SHAPES, len(SHAPES))
    left, top = WIDTH - FRAME - 110, HEIGHT - FRAME - 10 - LEGEND_ROW * len(shapes)
    pen.rectangle((left, top, WIDTH - FRAME - 8, HEIGHT - FRAME - 6), fill=PAPER)
    pen.rectangle((left, top, WIDTH - FRAME - 8, HEIGHT - FRAME - 6), outline=LEGEND_COLOR)
    for row, shape in enumerate(shapes):
        middle = top + LEGEND_ROW * row + LEGEND_ROW // 2
        pen.polygon(outline(shape, left + 20, middle, 9), fill=INK)
        pen.text((left + 44, middle - 8), WORDS[shape == closed], LEGEND_COLOR, _font(13))


def _markers(count: int, chance: random.Random) -> tuple[Shape, ...]:
    """Draw the shapes of a map, two different ones at least."""
    markers = tuple(chance.choice(SHAPES) for _ in range(count))
    return markers if len(set(markers)) > 1 else _markers(count, chance)


def _course(count: int, chance: random.Random) -> list[tuple[int, int]]:
    """Return where the stations are: evenly from left to right, up and down by chance."""
    left = FRAME + 44
    height = chance.randint(60, 80)
    places = []
    for at in range(count):
        height = min(max(height + chance.randint(-18, 18), 44), 92)
        places.append((left + SPACING * at, height))
    return places


def _around(x: int, y: int, reach: int) -> Region:
    return Region(
        x0=x - reach, y0=y - reach, x1=x + reach, y1=y + reach, width=WIDTH, height=HEIGHT
    )


@cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
