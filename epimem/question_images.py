"""The images of questions that are being refined: kept aside, never in a bank, gone when closed.

A frozen bank takes no image, and a question's own images are not experience; but the controller has to
see them, and crops are cut from them by the same code as everywhere.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from epimem.bank.blobs import BlobStore
from epimem.bank.images import MARGIN, AdmittedImage, CutCrop, ImageStore
from epimem.errors import EpimemError
from epimem.protocols import Picture
from epimem.schema.region import Region
from epimem.schema.working_memory import VisualEvidence


class QuestionImages:
    """A store of images in a temporary folder, with a decoding child of its own."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="epimem-question-"))
        self._store = ImageStore(BlobStore(self._folder / "blobs"))
        self._known: dict[str, AdmittedImage] = {}

    def add(self, data: bytes) -> AdmittedImage:
        """Check and keep one image.

        Raises:
            ImageError: refused by format, size or content.
        """
        image = self._store.admit(data)
        self._known[image.image_id] = image
        return image

    def page(self, image: AdmittedImage, number: int) -> Picture:
        """Return an image as a page of its question."""
        whole = Region.whole(image.width, image.height)
        return Picture(
            image.image_id,
            image.width,
            image.height,
            page=number,
            read=lambda pixels: _png(self._cut(image.image_id, whole, pixels, margin=0.0)),
        )

    def crop(self, evidence: VisualEvidence, max_pixels: int) -> CutCrop | None:
        """Cut the region that a memory points to; None where it cannot be had."""
        return self._cut(evidence.image_id, evidence.region, max_pixels, margin=MARGIN)

    def crop_picture(self, evidence: VisualEvidence) -> Picture:
        """Return that region as a picture for a controller."""
        region = evidence.region
        return Picture(
            evidence.image_id,
            region.x1 - region.x0,
            region.y1 - region.y0,
            read=lambda pixels: _png(self.crop(evidence, pixels)),
        )

    def _cut(
        self, image_id: str, region: Region, max_pixels: int, *, margin: float
    ) -> CutCrop | None:
        try:
            blob = self._known[image_id].blob
            return self._store.crop(blob, region, margin=margin, max_pixels=max_pixels)
        except (EpimemError, KeyError):
            return None

    def close(self) -> None:
        """End the decoding child and delete the folder."""
        self._store.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _png(cut: CutCrop | None) -> bytes | None:
    return cut.png if cut is not None else None
