"""What a reader sees in the pixels of a map or a crop: template match, nothing else.

A reader makes mistakes at a stated rate: each marker is taken for one of the other shapes with that
chance, drawn from the seed and the place of the marker, so that the same look errs the same way.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from benchmarks.metro.maps import INK, LEGEND_COLOR, word_mask
from benchmarks.metro.operators import OPERATORS
from benchmarks.metro.shapes import SHAPES, Mask, Shape, recognized

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Reading:
    """A map as it was read: operator by its frame, markers from left to right, closed by the legend.

    None stands for a marker that no template fits, and for a legend that is not there.
    """

    operator: str
    markers: tuple[Shape | None, ...]
    has_legend: bool
    closed: Shape | None

    def stops(self, closed: Shape | None) -> int:
        """Return the number of markers that are not of the closed shape."""
        return sum(shape != closed for shape in self.markers) if closed else len(self.markers)


def read_map(pixels: Pixels) -> Reading:
    """Read a map without any mistake that the templates do not make."""
    legend = _legend_box(pixels)
    markers = _is(pixels, INK)
    closed = None
    if legend is not None:
        rows, columns = legend
        closed = _closed_by_legend(pixels[rows, columns])
        markers[rows, columns] = False
    read = tuple(recognized(markers[:, columns]) for columns in _stretches(markers, axis=0))
    return Reading(_operator(pixels), read, has_legend=legend is not None, closed=closed)


def read_map_file(path: Path | str, *, rate: float = 0.0, seed: int = 0) -> Reading:
    """Read a map from its file, with mistakes at this rate."""
    return with_mistakes(_read_file(str(path)), rate=rate, stamp=f"{seed} {Path(path).name}")


def with_mistakes(reading: Reading, *, rate: float, stamp: str) -> Reading:
    """Return a reading in which each marker is mistaken with this chance, the legend's too."""
    chance = random.Random(f"metro misread {stamp}")
    markers = tuple(_mistaken(shape, rate, chance) for shape in reading.markers)
    return Reading(
        reading.operator, markers, reading.has_legend, _mistaken(reading.closed, rate, chance)
    )


def read_crop_file(path: Path | str, *, rate: float = 0.0, seed: int = 0) -> Shape | None:
    """Return the shape of the marker in a crop; None where there is none to be seen."""
    shape = _read_crop(str(path))
    return _mistaken(shape, rate, random.Random(f"metro misread {seed} {Path(path).name}"))


@lru_cache(maxsize=65536)
def _read_file(path: str) -> Reading:
    return read_map(_pixels(path))


@lru_cache(maxsize=65536)
def _read_crop(path: str) -> Shape | None:
    ink = _is(_pixels(path), INK)
    pieces = [ink[:, columns] for columns in _stretches(ink, axis=0)]
    return recognized(max(pieces, key=lambda piece: int(piece.sum()))) if pieces else None


def _pixels(path: str) -> Pixels:
    with Image.open(path) as opened:
        return np.array(opened.convert("RGB"))


def _mistaken(shape: Shape | None, rate: float, chance: random.Random) -> Shape | None:
    """Return another shape with this chance. Draws twice whatever comes of it."""
    errs = chance.random() < rate
    other = chance.choice([other for other in SHAPES if other != shape])
    return other if shape is not None and errs else shape


def _is(pixels: Pixels, color: tuple[int, int, int]) -> Mask:
    found: Mask = (pixels == np.array(color, dtype=np.uint8)).all(axis=2)
    return found


def _operator(pixels: Pixels) -> str:
    corner = tuple(int(value) for value in pixels[2, 2])
    return next((item.name for item in OPERATORS if item.color == corner), "")


def _legend_box(pixels: Pixels) -> tuple[slice, slice] | None:
    """Return rows and columns inside the border of the legend."""
    border = _is(pixels, LEGEND_COLOR)
    if not border.any():
        return None
    rows, columns = (np.flatnonzero(border.any(axis=axis)) for axis in (1, 0))
    return slice(int(rows[0]) + 1, int(rows[-1])), slice(int(columns[0]) + 1, int(columns[-1]))


def _closed_by_legend(box: Pixels) -> Shape | None:
    """Return the shape in whose row the word "closed" stands."""
    ink, words = _is(box, INK), _is(box, LEGEND_COLOR)
    wanted = word_mask("closed")
    for rows in _stretches(ink, axis=1):
        grown = slice(max(0, rows.start - 4), rows.stop + 4)
        if _holds(words[grown], wanted):
            return recognized(ink[rows])
    return None


def _holds(area: Mask, wanted: Mask) -> bool:
    rows, columns = (np.flatnonzero(area.any(axis=axis)) for axis in (1, 0))
    if not len(rows):
        return False
    cut = area[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return cut.shape == wanted.shape and bool((cut == wanted).all())


def _stretches(mask: Mask, axis: int) -> Iterator[slice]:
    """Yield the runs of columns (axis 0) or rows (axis 1) in which something is set."""
    some = np.asarray(mask.any(axis=axis), dtype=np.int8)
    edges = np.flatnonzero(np.diff(some, prepend=0, append=0))
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        yield slice(int(start), int(stop))
