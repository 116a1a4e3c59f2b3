"""Visual ablation: the same text, with crops removed, blanked, of another lesson, or cut elsewhere.

Crops are cut anew from the map they came from, as the bank cuts them (its margin included).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from epimem.evaluation import Handout, PublicTask, Retrieved
from epimem.schema.ids import sha256
from epimem.schema.memory_input import Crop

SHIFTS = (8, 16, 24, 32, 48)
"""By how many pixels to the right a crop is cut."""
Pixels = NDArray[np.uint8]
Ablate = Callable[[PublicTask, Handout], Handout]


def removed(task: PublicTask, given: Handout) -> Handout:
    """Return the handout without its crops."""
    del task
    return Handout(given.input.model_copy(update={"crops": (), "gate": 0}), (), given.seconds)


class Ablation:
    """Makes handouts with other pictures.

    Args:
        folder: takes the files.
        product: what the bank answers.
        sources: pixels of the construction maps by image id.
        tasks: of the seed, in whose answers a wrong crop is looked for.
    """

    def __init__(
        self,
        folder: Path,
        product: Retrieved,
        sources: Mapping[str, Pixels],
        tasks: Sequence[PublicTask],
    ) -> None:
        self._folder = folder
        self._product = product
        self._sources = sources
        self._tasks = tasks
        folder.mkdir(parents=True, exist_ok=True)

    def blanked(self, task: PublicTask, given: Handout) -> Handout:
        """Return the handout with white crops of the same size."""
        del task
        made = [np.full((crop.height, crop.width, 3), 255, np.uint8) for crop in given.input.crops]
        return self._with(given, given.input.crops, made)

    def swapped(self, task: PublicTask, given: Handout) -> Handout:
        """Return the handout with the crops of an answer that has no item in common with it."""
        own = {item.node_id for item in given.input.items}
        at = next(place for place, other in enumerate(self._tasks) if other.id == task.id)
        for other in (*self._tasks[at + 1 :], *self._tasks[:at]):
            answer = self._product.answer(other)
            if answer.crops and own.isdisjoint(item.node_id for item in answer.input.items):
                # They stand under the items of this answer, as if they had been theirs.
                names = [crop.node_id for crop in given.input.crops]
                pairs = list(zip(names, answer.input.crops, answer.crops, strict=False))
                crops = tuple(crop.model_copy(update={"node_id": name}) for name, crop, _ in pairs)
                input_ = given.input.model_copy(update={"crops": crops})
                return Handout(input_, tuple(path for _, _, path in pairs), given.seconds)
        return removed(task, given)

    def shifted(self, pixels: int) -> Ablate:
        """Return the ablation that cuts every crop so many pixels further to the right."""

        def ablate(task: PublicTask, given: Handout) -> Handout:
            del task
            made = [self._cut(crop, pixels) for crop in given.input.crops]
            return self._with(given, given.input.crops, made)

        return ablate

    def _cut(self, crop: Crop, shift: int) -> Pixels:
        """Return the pixels of a crop with its margin, moved to the right within the map."""
        source = self._sources[crop.image_id]
        region = crop.region
        margin = (crop.width - (region.x1 - region.x0)) // 2
        left = min(max(region.x0 - margin + shift, 0), region.width - crop.width)
        top = max(region.y0 - margin, 0)
        return source[top : top + crop.height, left : left + crop.width]

    def _with(self, given: Handout, crops: Sequence[Crop], made: Sequence[Pixels]) -> Handout:
        paths, renamed = [], []
        for crop, pixels in zip(crops, made, strict=True):
            name = sha256(pixels.tobytes() + repr(pixels.shape).encode())
            path = self._folder / f"{name}.png"
            if not path.exists():
                Image.fromarray(np.ascontiguousarray(pixels)).save(path)
            paths.append(path)
            renamed.append(crop.model_copy(update={"blob": name}))
        input_ = given.input.model_copy(update={"crops": tuple(renamed)})
        return Handout(input_, tuple(paths), given.seconds)
