"""Gates and updates from the world of charts, drawn for a small model that learns to see."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from PIL import Image

from controllers.prompts import OPERATIONS
from epimem.bank.images import fitted
from epimem.protocols import Picture, UpdateRequest
from epimem.schema.region import Region
from training.demonstrations.record import Demonstration
from training.sft.rows import reply
from training.worlds import demonstrations

WORLD = "charts"
PIXELS = 49_152  # of an image at most (ours): 256 x 192, 48 tokens


@dataclass(frozen=True)
class Counts:
    """How many demonstrations: `gates`, updates with a region to point to, and `others` without one."""

    gates: int
    regions: int
    others: int


def drawn(counts: Counts, seed: int) -> list[Demonstration]:
    """Return demonstrations; other seeds have other houses, so that none stands in two seeds."""
    return [*_taken(_gates(seed), counts.gates), *_updates(counts, seed)]


def texts(found: Sequence[Demonstration]) -> Iterator[str]:
    """Yield what is read and said in demonstrations."""
    for each in found:
        for message in OPERATIONS[each.operation].render(each.request).messages:
            yield message.text
        yield reply(each)


def with_pictures(found: Demonstration, change: Callable[[Picture], Picture]) -> Demonstration:
    """Return a demonstration whose pictures are changed."""
    request = found.request
    changed: dict[str, Any] = {"pages": tuple(map(change, request.pages))}
    if isinstance(request, UpdateRequest) and request.crop is not None:
        changed["crop"] = change(request.crop)
    return replace(found, request=replace(request, **changed))


def small(picture: Picture) -> Picture:
    """Return a picture that is shown in at most `PIXELS`; its size in words stays what it is."""
    return replace(picture, read=lambda most: picture.read(min(most, PIXELS)))


def blank(picture: Picture) -> Picture:
    """Return a picture of the same size that shows nothing."""

    def read(most: int) -> bytes:
        shown = fitted(Region.whole(picture.width, picture.height), min(most, PIXELS))
        buffer = io.BytesIO()
        Image.new("RGB", shown, "white").save(buffer, "PNG")
        return buffer.getvalue()

    return replace(picture, read=read)


def _gates(seed: int) -> Iterator[Demonstration]:
    return (it for it, _ in demonstrations(WORLD, seed=seed, count=10**6, operations=("gate",)))


def _updates(counts: Counts, seed: int) -> list[Demonstration]:
    """Return updates with and without a region, in the order in which they were drawn."""
    found: list[Demonstration] = []
    room = {True: counts.regions, False: counts.others}
    for each, _ in demonstrations(WORLD, seed=seed, count=10**6, operations=("update",)):
        if not any(room.values()):
            break
        points = each.value.evidence is not None
        if room[points]:
            room[points] -= 1
            found.append(with_pictures(each, small))
    return found


def _taken(source: Iterator[Demonstration], count: int) -> list[Demonstration]:
    return [with_pictures(each, small) for each, _ in zip(source, range(count), strict=False)]
