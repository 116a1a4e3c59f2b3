"""Drawing: fills, glyphs, strokes and words, as charts, tables and ledgers need them.

No key and no text of a page says which of them means what; that is the house's convention.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from math import hypot
from typing import TYPE_CHECKING

from epimem.schema.region import Region
from training.worlds.house import Color

if TYPE_CHECKING:
    from PIL import Image, ImageFont

PAPER: Color = (255, 255, 255)
INK: Color = (30, 30, 30)
GREY: Color = (150, 150, 150)
PALE: Color = (226, 226, 226)
SERIES: tuple[Color, ...] = ((70, 90, 120), (130, 80, 60), (60, 110, 80))
"""Of bars and lines; they mean nothing."""
Box = tuple[int, int, int, int]
Point = tuple[int, int]


class Pen:
    """Draws on a new white sheet.

    Args:
        width: pixels.
        height: pixels.
    """

    def __init__(self, width: int, height: int) -> None:
        from PIL import Image, ImageDraw

        self.image: Image.Image = Image.new("RGB", (width, height), PAPER)
        self._draw = ImageDraw.Draw(self.image)
        self.width, self.height = width, height

    def region(self, box: Box) -> Region:
        """Return a box as a region of this sheet, cut at its edges."""
        x0, y0, x1, y1 = box
        return Region(
            x0=max(x0, 0),
            y0=max(y0, 0),
            x1=min(x1, self.width),
            y1=min(y1, self.height),
            width=self.width,
            height=self.height,
        )

    def text(
        self, at: Point, words: str, *, size: int = 12, color: Color = INK, anchor: str = "la"
    ) -> Box:
        """Write words at a point (anchors as in Pillow); return the box that they cover."""
        font = _font(size)
        self._draw.text(at, words, fill=color, font=font, anchor=anchor)
        left, top, right, bottom = self._draw.textbbox(at, words, font=font, anchor=anchor)
        return int(left), int(top), int(right) + 1, int(bottom) + 1

    def line(self, points: Sequence[Point], *, color: Color = INK, width: int = 1) -> None:
        """Draw a line through points."""
        self._draw.line(list(points), fill=color, width=width)

    def frame(self, box: Box, *, color: Color = INK, width: int = 1) -> None:
        """Draw the outline of a half-open box."""
        self._draw.rectangle(_closed(box), outline=color, width=width)

    def fill(self, box: Box, look: str, color: Color) -> None:
        """Fill a half-open box: solid, hollow, hatched, crossed or dotted."""
        if look == "solid":
            self._draw.rectangle(_closed(box), fill=color)
            return
        x0, y0, x1, y1 = box
        self._draw.rectangle(_closed(box), fill=PAPER)
        if look in {"hatched", "crossed"}:
            self._slants(box, color, rising=True)
        if look == "crossed":
            self._slants(box, color, rising=False)
        if look == "dotted":
            for y in range(y0 + 4, y1 - 2, 6):
                for x in range(x0 + 4, x1 - 2, 6):
                    self._draw.rectangle((x - 1, y - 1, x, y), fill=color)
        self.frame(box, color=color, width=2)

    def _slants(self, box: Box, color: Color, *, rising: bool) -> None:
        """Draw slanted lines, six pixels apart, cut at the box."""
        x0, y0, x1, y1 = box
        for start in range(x0 - (y1 - y0), x1, 6):
            low, high = max(start, x0), min(start + (y1 - y0), x1 - 1)
            if low >= high:
                continue
            ends = (low - start, high - start)
            tops = [y1 - 1 - end if rising else y0 + end for end in ends]
            self._draw.line((low, tops[0], high, tops[1]), fill=color)

    def glyph(self, shape: str, at: Point, radius: int, color: Color = INK) -> Box:
        """Draw a small sign around a point; return the box that it covers."""
        x, y = at
        box = (x - radius, y - radius, x + radius, y + radius)
        if shape == "ring":
            self._draw.ellipse(box, outline=color, width=2)
        elif shape == "disc":
            self._draw.ellipse(box, fill=color)
        elif shape == "triangle":
            self._draw.polygon([(x, box[1]), (box[2], box[3]), (box[0], box[3])], fill=color)
        elif shape == "square":
            self._draw.rectangle(box, fill=color)
        elif shape == "cross":
            self._draw.line((box[0], box[1], box[2], box[3]), fill=color, width=2)
            self._draw.line((box[0], box[3], box[2], box[1]), fill=color, width=2)
        else:  # arrow
            self._draw.line((box[0], y, box[2], y), fill=color, width=2)
            self._draw.line((x, box[1], box[2], y, x, box[3]), fill=color, width=2)
        return box[0], box[1], box[2] + 1, box[3] + 1

    def stroke(self, points: Sequence[Point], style: str, color: Color) -> None:
        """Draw a line through points: plain, dashed, dotted, double or thick."""
        if style in {"plain", "thick"}:
            self.line(points, color=color, width=5 if style == "thick" else 2)
        elif style == "double":
            for shift in (-2, 2):
                self.line([(x, y + shift) for x, y in points], color=color)
        else:
            on, off = (8, 5) if style == "dashed" else (2, 4)
            for start, end in pairwise(points):
                self._pieces(start, end, on, off, color)

    def _pieces(self, start: Point, end: Point, on: int, off: int, color: Color) -> None:
        length = hypot(end[0] - start[0], end[1] - start[1])
        reached = 0.0
        while reached < length:
            ends = [
                (
                    round(start[0] + (end[0] - start[0]) * part / length),
                    round(start[1] + (end[1] - start[1]) * part / length),
                )
                for part in (reached, min(reached + on, length))
            ]
            self.line(ends, color=color, width=2)
            reached += on + off


@cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    from PIL import ImageFont

    return ImageFont.load_default(size)


def _closed(box: Box) -> Box:
    return box[0], box[1], box[2] - 1, box[3] - 1
