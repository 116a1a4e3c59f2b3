"""A task as one page: demonstrations side by side, input above output, then the test inputs."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.arc.grids import Grid
from benchmarks.arc.tasks import ArcTask
from epimem.schema import ids
from epimem.schema.region import Region

# The customary ARC palette, colors 0..9.
PALETTE: NDArray[np.uint8] = np.array(
    [
        (0x00, 0x00, 0x00),
        (0x00, 0x74, 0xD9),
        (0xFF, 0x41, 0x36),
        (0x2E, 0xCC, 0x40),
        (0xFF, 0xDC, 0x00),
        (0xAA, 0xAA, 0xAA),
        (0xF0, 0x12, 0xBE),
        (0xFF, 0x85, 0x1B),
        (0x7F, 0xDB, 0xFF),
        (0x87, 0x0C, 0x25),
    ],
    dtype=np.uint8,
)
PAPER = (0xFF, 0xFF, 0xFF)
LINE = (0x55, 0x55, 0x55)
GAP = 16
"""Pixels between grids and around the page."""
PAGE_WIDTH = 1024
SMALLEST_CELL, LARGEST_CELL = 8, 24
"""Pixels per cell, its line on the left or top included."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A drawn page and where the demonstrations' grids are on it.

    `pixels` has shape (height, width, 3). The regions are those of the demonstrations' inputs and
    outputs in order, outer grid lines included.
    """

    pixels: NDArray[np.uint8]
    cell: int
    inputs: tuple[Region, ...]
    outputs: tuple[Region, ...]

    @property
    def image_id(self) -> str:
        """The id that a bank gives the page: the hash of its size and pixels."""
        height, width = self.pixels.shape[:2]
        return ids.image_id(width, height, self.pixels.tobytes())

    @property
    def png(self) -> bytes:
        """The page as PNG."""
        from PIL import Image

        buffer = io.BytesIO()
        Image.fromarray(self.pixels).save(buffer, format="PNG", compress_level=3)
        return buffer.getvalue()


def draw(task: ArcTask) -> Picture:
    """Draw the page of a task."""
    columns: list[tuple[Grid, ...]] = [
        *task.demonstrations,
        *((grid,) for grid in task.test_inputs),
    ]
    widths = [max(grid.shape[1] for grid in column) for column in columns]
    spare = PAGE_WIDTH - GAP * (len(columns) + 1)
    cell = min(max(spare // sum(widths), SMALLEST_CELL), LARGEST_CELL)
    tops = [GAP, 2 * GAP + 1 + cell * max(column[0].shape[0] for column in columns)]
    deepest = max(made.shape[0] for _, made in task.demonstrations)
    height = tops[1] + cell * deepest + 1 + GAP
    width = GAP + sum(cell * columns_wide + 1 + GAP for columns_wide in widths)
    pixels = np.full((height, width, 3), PAPER, dtype=np.uint8)
    boxes: list[list[Region]] = [[], []]
    left = GAP
    for column, columns_wide in zip(columns, widths, strict=True):
        for row, grid in enumerate(column):
            boxes[row].append(_draw_grid(pixels, grid, cell, left=left, top=tops[row]))
        left += cell * columns_wide + 1 + GAP
    count = len(task.demonstrations)
    return Picture(pixels, cell, inputs=tuple(boxes[0][:count]), outputs=tuple(boxes[1]))


def _draw_grid(pixels: NDArray[np.uint8], grid: Grid, cell: int, *, left: int, top: int) -> Region:
    """Draw a grid with lines before, between and after its cells; return the region it covers."""
    colored = PALETTE[grid].repeat(cell, axis=0).repeat(cell, axis=1)
    framed = np.pad(colored, ((0, 1), (0, 1), (0, 0)))
    framed[::cell] = LINE
    framed[:, ::cell] = LINE
    bottom, right = top + framed.shape[0], left + framed.shape[1]
    pixels[top:bottom, left:right] = framed
    height, width = pixels.shape[:2]
    return Region(x0=left, y0=top, x1=right, y1=bottom, width=width, height=height)
