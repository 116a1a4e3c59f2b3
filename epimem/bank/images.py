"""Source images and the crops cut from them.

An image enters once: refused by name or decoded in a limited child, turned upright, flattened on
white and kept as a lossless PNG under the hash of its bytes; `image_id` names its pixels. Crops are
cut from that PNG when asked for and are never stored here.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from epimem.bank.blobs import BlobStore
from epimem.bank.decoder import Decoder
from epimem.bank.image_header import MAX_ENCODED, read_header
from epimem.errors import ImageError
from epimem.schema.ids import image_id, sha256
from epimem.schema.region import Region

MARGIN = 0.02
"""Margin of a crop as a share of the image's longer side (ours: 20 steps of the 0..1000 scale)."""


@dataclass(frozen=True)
class AdmittedImage:
    """An image as stored: the name of its pixels, upright size, PNG blob, hash as handed in."""

    image_id: str
    width: int
    height: int
    blob: str
    original_sha256: str


@dataclass(frozen=True)
class CutCrop:
    """A crop: its PNG and size, and the region of the source it shows (margin included)."""

    png: bytes
    width: int
    height: int
    region: Region


class ImageStore:
    """Admit source images and cut crops; close it to end the decoding child.

    Args:
        blobs: where the PNGs are kept.
        decoder: the decoding child; by default one of its own, started at the first image.
    """

    def __init__(self, blobs: BlobStore, *, decoder: Decoder | None = None) -> None:
        self._blobs = blobs
        self._decoder = decoder or Decoder()

    def admit(self, data: bytes, *, declared: str | None = None) -> AdmittedImage:
        """Check, decode and store one still image; the same pixels always get the same `image_id`.

        EXIF orientation is applied once, transparency is flattened on white, depth is reduced to 8
        bits a channel (the high byte), color profiles are dropped, not applied (ours). Metadata
        and whatever follows the picture are not stored.

        Args:
            data: PNG, JPEG or WebP, at most 32 MiB and 100 megapixels.
            declared: the media type the sender gave, if any.

        Raises:
            ImageError: `invalid_image`, `image_too_big`, `unsupported_type`,
                `remote_image_refused`; `invalid_field` for something that is no bytes at all.
            BankBusyError: `not_ready` when no decoding child can be started.
            StorageError, BankFrozenError: from the blob store.
        """
        encoded = _encoded(data)
        decoded = self._decoder.admit(read_header(encoded, declared=declared))
        return AdmittedImage(
            image_id=image_id(decoded.width, decoded.height, decoded.pixels),
            width=decoded.width,
            height=decoded.height,
            blob=self._blobs.put(decoded.png),
            original_sha256=sha256(encoded),
        )

    def pixels(self, blob: str) -> tuple[int, int, bytes]:
        """Return (width, height, RGB bytes row by row) of a stored image.

        Raises:
            NotFoundError, BankCorruptError: from the blob store.
        """
        decoded = self._decoder.decode(read_header(self._blobs.get(blob)))
        return decoded.width, decoded.height, bytes(decoded.pixels)

    def crop(
        self, blob: str, region: Region, *, margin: float = MARGIN, max_pixels: int
    ) -> CutCrop:
        """Cut a region out of a stored image.

        Args:
            blob: the stored PNG.
            region: on the upright image; carries the size of that image.
            margin: added on each side, as a share 0..1 of the image's longer side, clipped to the
                image.
            max_pixels: at most so many pixels come back. Up to there they equal the source; above,
                the crop is scaled down (Lanczos) and keeps its proportions to the pixel.

        Raises:
            ImageError: `invalid_field` when the region was made for an image of another size, or
                `margin` or `max_pixels` is out of range.
            NotFoundError, BankCorruptError: from the blob store.
        """
        if not 0.0 <= margin <= 1.0:
            raise ImageError("margin is a share 0..1", code="invalid_field", field="margin")
        if max_pixels < 1:
            raise ImageError(
                "a crop has at least one pixel", code="invalid_field", field="max_pixels"
            )
        header = read_header(self._blobs.get(blob))
        if (region.width, region.height) != (header.width, header.height):
            raise ImageError(
                "the region belongs to an image of another size",
                code="invalid_field",
                field="region",
                got=f"{region.width}x{region.height}",
            )
        cut = widened(region, margin)
        decoded = self._decoder.crop(header, cut.box, fitted(cut, max_pixels))
        return CutCrop(png=decoded.png, width=decoded.width, height=decoded.height, region=cut)

    def close(self) -> None:
        """End the decoding child; a later call starts a new one."""
        self._decoder.close()


def fitted(region: Region, max_pixels: int) -> tuple[int, int]:
    """Return the size at which a region has at most `max_pixels` pixels, its own if that fits."""
    width, height = region.x1 - region.x0, region.y1 - region.y0
    if width * height <= max_pixels:
        return width, height
    scale = math.sqrt(max_pixels / (width * height))
    # A side thinner than a pixel keeps one; the other then takes what is left.
    new_width = min(max(1, int(width * scale)), max_pixels)
    new_height = min(max(1, int(height * scale)), max_pixels // new_width)
    return min(new_width, max_pixels // new_height), new_height


def widened(region: Region, margin: float = MARGIN) -> Region:
    """Return a region with a margin on each side, clipped to its image."""
    extra = round(margin * max(region.width, region.height))
    return Region(
        x0=max(0, region.x0 - extra),
        y0=max(0, region.y0 - extra),
        x1=min(region.width, region.x1 + extra),
        y1=min(region.height, region.y1 + extra),
        width=region.width,
        height=region.height,
    )


def _encoded(data: object) -> bytes:
    if isinstance(data, str | os.PathLike):
        raise ImageError(
            "an image is handed in as its bytes, not as an address or path",
            code="remote_image_refused",
            hint="read the file and send its content",
        )
    if not isinstance(data, bytes | bytearray | memoryview):
        raise ImageError(
            "an image is handed in as bytes",
            code="invalid_field",
            field="image",
            got=type(data).__name__,
        )
    size = data.nbytes if isinstance(data, memoryview) else len(data)
    if size > MAX_ENCODED:
        raise ImageError("image file is too big", code="image_too_big", got=size, limit=MAX_ENCODED)
    return bytes(data)
