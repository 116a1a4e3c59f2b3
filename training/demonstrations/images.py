"""The pictures of a set of demonstrations: PNGs under the id of their pixels, read when looked at."""

from __future__ import annotations

import io
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epimem.bank.decoder import Decoded, Decoder
from epimem.bank.image_header import MAX_ENCODED, MAX_PIXELS, ImageHeader, read_header
from epimem.bank.images import fitted
from epimem.errors import EpimemError, ImageError, NotFoundError
from epimem.protocols import Picture
from epimem.schema.ids import image_id, sha256
from epimem.schema.region import Region
from training.demonstrations.writing import replace

_NAME = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class StoredImage:
    """Reads one stored PNG; it holds a path alone, so that it can be sent to another process."""

    path: Path

    @property
    def name(self) -> str:
        """The id of its pixels."""
        return self.path.stem

    def __call__(self, max_pixels: int) -> bytes | None:
        """Return the image as PNG, scaled as a bank scales its pictures; None where it is gone."""
        try:
            header = self.header()
            whole = Region.whole(header.width, header.height)
            return _decoder().crop(header, whole.box, fitted(whole, max_pixels)).png
        except EpimemError:
            return None

    def header(self) -> ImageHeader:
        """Return the header, every checksum of the file verified.

        Raises:
            NotFoundError: there is no such file.
            ImageError: it is no PNG, or is damaged.
        """
        try:
            data = self.path.read_bytes()
        except (FileNotFoundError, IsADirectoryError) as error:
            raise NotFoundError(
                "the image is not in the set", field="images", got=self.path.name
            ) from error
        except OSError as error:
            raise ImageError(
                f"the image cannot be read: {error.strerror}", field="images", got=self.path.name
            ) from error
        if len(data) > MAX_ENCODED:
            raise ImageError(
                "image file is too big", code="image_too_big", got=len(data), limit=MAX_ENCODED
            )
        return read_header(data, declared="image/png")

    def check(self) -> None:
        """Decode the whole image and compare its pixels with its name.

        Raises:
            NotFoundError, ImageError: also where it holds other pixels.
        """
        found = _decoder().decode(self.header())
        if image_id(found.width, found.height, found.pixels) != self.name:
            raise ImageError("the image has other pixels than its name says", got=self.name)


class ImageFolder:
    """The images of one set.

    Args:
        folder: where the PNGs stand; made when the first one is put in.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: dict[str, str] = {}

    def reader(self, name: str) -> StoredImage:
        """Return what reads the image of this name; nothing is opened.

        Raises:
            NotFoundError: this is no name of an image.
        """
        if not _NAME.fullmatch(name):
            raise NotFoundError("no such image", field="images", got=name)
        return StoredImage(self._folder / f"{name}.png")

    def add(self, image: bytes | ArrayLike, page: int = 0) -> Picture:
        """Store an image and return it as a picture.

        Args:
            image: PNG, JPEG or WebP; or pixels as an array of shape (height, width, 3), 8 bits each.
            page: its number in the question, 0 for a crop.

        Raises:
            ImageError: it cannot be taken.
        """
        found = _admitted(image) if isinstance(image, bytes) else _encoded(image)
        name = image_id(found.width, found.height, found.pixels)
        self._write(name, found.png)
        return Picture(name, found.width, found.height, page, self.reader(name))

    def keep(self, picture: Picture) -> str:
        """Store what a picture shows, unless it is there already, and return the name of its pixels.

        Raises:
            ImageError: it is gone, damaged, or of another size than it says.
        """
        held = _NAME.fullmatch(picture.image_id) and self.reader(picture.image_id).path
        if picture.page and held and held.exists():
            return picture.image_id  # a page bears the name of its own pixels
        png = picture.png(MAX_PIXELS)
        if png is None:
            raise ImageError("a picture cannot be read", field="request", got=picture.image_id)
        digest = sha256(png)
        if digest not in self._names:
            self._names[digest] = self._kept(picture, png)
        return self._names[digest]

    def _kept(self, picture: Picture, png: bytes) -> str:
        found = self.add(png)
        if (found.width, found.height) != (picture.width, picture.height):
            raise ImageError(
                f"a picture said to be {picture.width} x {picture.height} has another size",
                field="request",
                got=f"{found.width}x{found.height}",
            )
        return found.image_id

    def _write(self, name: str, png: bytes) -> None:
        with suppress(EpimemError):
            self.reader(name).header()
            return  # a sound copy is there
        self._folder.mkdir(exist_ok=True)
        replace(self.reader(name).path, png)


def stored_name(picture: Picture) -> str:
    """Return the name under which the PNG of a picture from a set is stored."""
    assert isinstance(picture.read, StoredImage)
    return picture.read.name


@cache
def _decoder() -> Decoder:
    return Decoder()


def _admitted(data: bytes) -> Decoded:
    if len(data) > MAX_ENCODED:
        raise ImageError(
            "image file is too big", code="image_too_big", got=len(data), limit=MAX_ENCODED
        )
    return _decoder().admit(read_header(data))


def _encoded(image: ArrayLike) -> Decoded:
    from PIL import Image

    pixels: Any = np.asarray(image)
    if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8 or not pixels.size:
        raise ImageError(
            "pixels are an array of shape (height, width, 3) of 8-bit numbers",
            code="invalid_field",
            got=f"{pixels.shape} {pixels.dtype}",
        )
    height, width = pixels.shape[:2]
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return Decoded(width, height, bytearray(pixels.tobytes()), buffer.getvalue())
