"""What a grid is, and what the operations see in it: background, colors, objects, panels.

A grid is a uint8 array of shape (height, width), sides 1..30. Values 0..9 are the colors of ARC,
10..19 are *marks*: colors that an operation introduces and a fitted recoloring turns into real
ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

Grid = NDArray[np.uint8]
Mask = NDArray[np.bool_]

MAX_SIDE = 30
COLORS = 10
VALUES = 20

_EIGHT = ((-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1))
_FOUR = ((-1, 0), (0, -1), (0, 1), (1, 0))


def background(grid: Grid) -> int:
    """Return black where the grid has any, else the commonest value (the lowest at a tie)."""
    counts = np.bincount(grid.ravel(), minlength=VALUES)
    return 0 if counts[0] else int(counts.argmax())


def content(grid: Grid) -> Mask:
    """Return the mask of cells that are not background."""
    mask: Mask = grid != background(grid)
    return mask


def where(mask: Mask, yes: ArrayLike, no: ArrayLike) -> Grid:
    """Return a grid of `yes` where the mask holds and `no` elsewhere."""
    return np.asarray(np.where(mask, yes, no), dtype=np.uint8)


def colors_by_count(grid: Grid) -> list[int]:
    """Return the values on the background, commonest first, the lower value first at a tie."""
    counts = np.bincount(grid.ravel(), minlength=VALUES)
    counts[background(grid)] = 0
    return [int(value) for value in np.argsort(-counts, kind="stable") if counts[value]]


def objects(grid: Grid) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Number the objects of a grid and count their cells.

    An object is content that touches, also by corners; it may have several colors.

    Returns:
        labels: shape of the grid, 0 on the background, 1, 2, ... in scan order on the objects.
        sizes: cells per object, `sizes[0]` for object 1.
    """
    labels = parts(content(grid))
    return labels, np.bincount(labels.ravel())[1:]


def parts(mask: Mask, *, corners: bool = True) -> NDArray[np.int32]:
    """Number the connected parts of a mask 1, 2, ... in scan order; 0 elsewhere. Read-only."""
    return _parts(mask.tobytes(), mask.shape[0], mask.shape[1], corners)


@lru_cache(maxsize=4096)
def _parts(mask: bytes, height: int, width: int, corners: bool) -> NDArray[np.int32]:  # noqa: FBT001
    # One ring of closed cells around the grid makes every neighbor offset valid.
    stride = width + 2
    waiting = bytearray(stride * (height + 2))
    for row in range(height):
        start = (row + 1) * stride + 1
        waiting[start : start + width] = mask[row * width : (row + 1) * width]
    labels = np.zeros(len(waiting), dtype=np.int32)
    offsets = [row * stride + column for row, column in (_EIGHT if corners else _FOUR)]
    number = 0
    start = waiting.find(1)
    while start >= 0:
        number += 1
        cells = [start]
        waiting[start] = 0
        for cell in cells:  # grows while it is read: a breadth-first queue
            for offset in offsets:
                if waiting[cell + offset]:
                    waiting[cell + offset] = 0
                    cells.append(cell + offset)
        labels[cells] = number
        start = waiting.find(1, start)
    result = labels.reshape(height + 2, stride)[1:-1, 1:-1].copy()
    result.flags.writeable = False
    return result


def touching(mask: Mask) -> Mask:
    """Return the cells outside a mask that touch it, also by corners."""
    height, width = mask.shape
    ring = np.pad(mask, 1)
    near = np.zeros_like(mask)
    for row in range(3):
        for column in range(3):
            near |= ring[row : row + height, column : column + width]
    return near & ~mask


def separators(grid: Grid) -> tuple[Mask, Mask] | None:
    """Return which rows and columns are lines of one color that cut the grid into panels.

    The color is the commonest one on the background that fills a whole row or column.
    """
    for color in colors_by_count(grid):
        same = grid == color
        rows, columns = same.all(axis=1), same.all(axis=0)
        if (rows.any() or columns.any()) and not same.all():
            return rows, columns
    return None


def panels(grid: Grid) -> list[list[Grid]] | None:
    """Return the panels between separating lines, row by row; None with fewer than two panels."""
    lines = separators(grid)
    if lines is None:
        return None
    rows, columns = _gaps(lines[0]), _gaps(lines[1])
    if len(rows) * len(columns) < 2:
        return None
    return [[grid[row, column] for column in columns] for row in rows]


def _gaps(lines: Mask) -> list[slice]:
    """Return the runs of False."""
    edges = np.flatnonzero(np.diff(np.concatenate(([True], lines, [True])).astype(np.int8)))
    return [slice(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def period(grid: Grid) -> int:
    """Return the smallest divisor of the height after which all rows repeat, else the height."""
    height = len(grid)
    for step in range(1, height):
        if height % step == 0 and (grid[step:] == grid[:-step]).all():
            return step
    return height


def as_text(grids: Sequence[Grid]) -> str:
    """Return grids as rows of digits, an empty line between two grids."""
    return "\n\n".join(
        "\n".join("".join(str(value) for value in row) for row in grid.tolist()) for grid in grids
    )
