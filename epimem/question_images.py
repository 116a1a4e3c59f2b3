"""The images of a question that is being refined: kept aside, never in a bank, gone with the question.

A frozen bank takes no image, and a question's own images are not experience; but the controller has to
see them, and crops are cut from them by the same code as everywhere.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path

from epimem.bank.blobs import BlobStore
from epimem.bank.decoder import Decoder
from epimem.bank.images import MARGIN, AdmittedImage, CutCrop, ImageStore, widened
from epimem.errors import EpimemError
from epimem.protocols import Picture
from epimem.schema.ids import sha256
from epimem.schema.region import Region
from epimem.schema.working_memory import VisualEvidence


class QuestionImages:
    """The images of one question in a temporary folder, which goes with this object or its process.

    Args:
        decoder: the decoding child, which outlives this object.
    """

    def __init__(self, decoder: Decoder) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="epimem-question-"))
        self._store = ImageStore(BlobStore(self._folder / "blobs"), decoder=decoder)
        self._known: dict[str, AdmittedImage] = {}
        self._remove = weakref.finalize(self, _remove, self._folder, os.getpid())

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
        shown = widened(evidence.region)
        return Picture(
            evidence.image_id,
            shown.x1 - shown.x0,
            shown.y1 - shown.y0,
            read=lambda pixels: _png(self.crop(evidence, pixels)),
        )

    def keep(self, png: bytes) -> str | None:
        """Keep a crop as long as the images; return its hash, None where it cannot be kept."""
        name = sha256(png)
        try:
            self.crop_path(name).write_bytes(png)
        except OSError:
            return None
        return name

    def crop_path(self, name: str) -> Path:
        """Return where a kept crop is, or would be."""
        return self._folder / f"{name}.png"

    def _cut(
        self, image_id: str, region: Region, max_pixels: int, *, margin: float
    ) -> CutCrop | None:
        try:
            blob = self._known[image_id].blob
            return self._store.crop(blob, region, margin=margin, max_pixels=max_pixels)
        except (EpimemError, KeyError):
            return None

    def close(self) -> None:
        """Delete the folder."""
        self._remove()


def _png(cut: CutCrop | None) -> bytes | None:
    return cut.png if cut is not None else None


def _remove(folder: Path, owner: int) -> None:
    # A process that was forked off leaves the folder to its parent.
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
