"""Regions: integer pixels (x0, y0, x1, y1), half-open, on the upright source image.

The 0..1000 scale exists only in prompts and foreign records. The conversion round-trips: a region
that came from a 0..1000 box is written as a box that gives the same region again, at any size.
"""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from epimem.errors import ImageError
from epimem.schema.base import Record, StrictInt

SCALE = 1000


class Region(Record):
    """A rectangle on an image of `width` x `height` pixels; 0 <= x0 < x1 <= width, likewise y."""

    x0: StrictInt
    y0: StrictInt
    x1: StrictInt
    y1: StrictInt
    width: StrictInt
    height: StrictInt

    @model_validator(mode="after")
    def _inside(self) -> Self:
        if not (0 <= self.x0 < self.x1 <= self.width and 0 <= self.y0 < self.y1 <= self.height):
            raise ValueError("region does not lie inside its image")
        return self

    @property
    def box(self) -> tuple[int, int, int, int]:
        """(x0, y0, x1, y1) in pixels."""
        return self.x0, self.y0, self.x1, self.y1

    @classmethod
    def whole(cls, width: int, height: int) -> Self:
        """Return the region that covers the whole image."""
        return cls(x0=0, y0=0, x1=width, y1=height, width=width, height=height)

    @classmethod
    def from_scaled(cls, box: tuple[int, int, int, int], width: int, height: int) -> Self:
        """Return the smallest pixel region that covers a 0..1000 box, at least one pixel wide.

        Raises:
            ImageError: `invalid_field` when the box is not four integers, is empty, reversed or
                outside 0..1000, or when the image has no pixels.
        """
        whole = len(box) == 4 and all(type(edge) is int for edge in box)
        if not (whole and 0 <= box[0] < box[2] <= SCALE and 0 <= box[1] < box[3] <= SCALE):
            raise ImageError(
                "region must satisfy 0 <= x0 < x1 <= 1000 and 0 <= y0 < y1 <= 1000",
                code="invalid_field",
                field="region",
                got=str(box),
            )
        if width < 1 or height < 1:
            raise ImageError(
                "image has no pixels", code="invalid_field", field="image", got=f"{width}x{height}"
            )
        left, right = _span(box[0], box[2], width)
        top, bottom = _span(box[1], box[3], height)
        return cls(x0=left, y0=top, x1=right, y1=bottom, width=width, height=height)

    def to_scaled(self) -> tuple[int, int, int, int]:
        """Return the 0..1000 box that `from_scaled` turns back into this region, where one exists.

        One exists for every region that `from_scaled` made; for any region on sides up to 500 px;
        and for regions of at least two pixels on sides up to 1000 px. Else the box is a smallest
        one whose region covers this one.
        """
        left, right = _scaled(self.x0, self.x1, self.width)
        top, bottom = _scaled(self.y0, self.y1, self.height)
        return left, top, right, bottom


def _span(low: int, high: int, size: int) -> tuple[int, int]:
    """Return the pixels that low..high on the scale touch; never empty, as low < high."""
    return low * size // SCALE, -(-high * size // SCALE)


def _scaled(start: int, end: int, size: int) -> tuple[int, int]:
    """Return the box edges whose rounding outwards gives start..end back, if there are any."""
    if size <= SCALE:
        # Several edges may give a pixel; the nearest inside leave the most room between the two.
        low = -(-start * SCALE // size)
        high = end * SCALE // size
    else:
        # At most one edge gives a pixel: the largest low that covers start, the smallest high
        # that covers end.
        low = ((start + 1) * SCALE - 1) // size
        high = (end - 1) * SCALE // size + 1
    return low, max(high, low + 1)
