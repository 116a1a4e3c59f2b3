"""Pictures for controllers: pages and crops of evidence, read only when a controller looks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from epimem.bank.bank import Bank
from epimem.bank.images import MARGIN, widened
from epimem.errors import EpimemError
from epimem.protocols import Picture
from epimem.schema.lesson import Evidence
from epimem.schema.region import Region
from epimem.schema.run import Page
from epimem.schema.working_memory import VisualEvidence


def pages(bank: Bank, found: Iterable[Page]) -> tuple[Picture, ...]:
    """Return the pages of a run as pictures, in page order."""
    return tuple(
        _picture(bank, page.image_id, Region.whole(page.width, page.height), page=page.page)
        for page in found
    )


def stored_pages(bank: Bank, image_ids: Sequence[str]) -> tuple[Picture, ...]:
    """Return those images of a question that the bank has, numbered by their place in the question."""
    if not image_ids:
        return ()
    sizes = bank.image_sizes(image_ids)
    return tuple(
        _picture(bank, image_id, Region.whole(*sizes[image_id]), page=number)
        for number, image_id in enumerate(image_ids, 1)
        if image_id in sizes
    )


def crops(bank: Bank, evidence: Mapping[str, Sequence[Evidence]]) -> dict[str, tuple[Picture, ...]]:
    """Return the evidence of each item as pictures, with the margin that delivered crops have."""
    return {key: tuple(crop(bank, item) for item in found) for key, found in evidence.items()}


def crop(bank: Bank, item: Evidence | VisualEvidence) -> Picture:
    """Return one region of a stored image as a picture."""
    return _picture(bank, item.image_id, item.region, margin=MARGIN)


def _picture(
    bank: Bank, image_id: str, region: Region, *, page: int = 0, margin: float = 0.0
) -> Picture:
    def read(max_pixels: int) -> bytes | None:
        try:
            blob = bank.image(image_id)
            return bank.images.crop(blob, region, margin=margin, max_pixels=max_pixels).png
        except EpimemError:  # gone, damaged, or of another size than the record says
            return None

    shown = widened(region, margin)
    return Picture(
        image_id,
        width=shown.x1 - shown.x0,
        height=shown.y1 - shown.y0,
        page=page,
        read=read,
    )
