"""Pages and pictures: what was drawn, where the marks are, and PNGs for whoever looks."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from epimem.bank.images import MARGIN, fitted, widened
from epimem.protocols import Picture
from epimem.schema import ids
from epimem.schema.region import Region
from training.worlds.house import House
from training.worlds.topic import Mark, Topic

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True, eq=False)
class Page:
    """A drawn page of one house on one topic. Regions are exact, in pixels of the image.

    Attributes:
        house: whose page it is.
        topic: what its marks are about.
        subject: what its figures are of; stands in the question.
        image: RGB.
        marks: the things that the answer is made of, in reading order.
        header: where the house's name stands.
        spare: where nothing is printed.
        key: where a key is printed that says which mark means what; None: there is none.
    """

    house: House
    topic: Topic
    subject: str
    image: Image.Image
    marks: tuple[Mark, ...]
    header: Region
    spare: Region
    key: Region | None

    @cached_property
    def picture(self) -> Picture:
        """The whole page, as page 1 of a question."""
        return picture_of(self.image, page=1)

    @property
    def image_id(self) -> str:
        """The id that a bank gives the page."""
        return self.picture.image_id

    def crop(self, region: Region) -> Picture:
        """Return a region as a bank delivers it: with a margin, under the id of the page."""
        return picture_of(self.image.crop(widened(region, MARGIN).box), source=self.image_id)

    def marked(self, option: str) -> tuple[Mark, ...]:
        """Return the marks with this option."""
        return tuple(mark for mark in self.marks if mark.option == option)

    def answer(self, option: str | None = None) -> str:
        """Return the answer, by default that of the house's own convention."""
        own = self.house.options[self.topic.name]
        return self.topic.answer(self.marks, own if option is None else option)


def picture_of(image: Image.Image, *, page: int = 0, source: str = "") -> Picture:
    """Return an RGB image as a picture; its PNG is made when somebody looks.

    Args:
        image: what is shown.
        page: its number in the question, 0 for a crop.
        source: the id of the image that a crop was cut from.
    """
    width, height = image.size

    def read(max_pixels: int) -> bytes:
        shown = image
        if width * height > max_pixels:
            shown = image.resize(fitted(Region.whole(width, height), max_pixels))
        buffer = io.BytesIO()
        shown.save(buffer, format="PNG")
        return buffer.getvalue()

    image_id = source or ids.image_id(width, height, image.tobytes())
    return Picture(image_id, width=width, height=height, page=page, read=read)
