"""Operations that keep the size of the grid and move, remove, mark or complete its cells.

The contract is that of `grid_operations`, which lists these together with the others.
"""

from __future__ import annotations

import numpy as np

from benchmarks.arc.grids import Grid, background, content, objects, parts, touching, where

FILLED, OUTLINED, BRIDGED = 10, 11, 12
SIZE_RANKS = (14, 15, 16, 17)


def fall_down(grid: Grid) -> Grid:
    """Let the cells of every column fall to the bottom."""
    order = np.argsort(content(grid), axis=0, kind="stable")
    return np.take_along_axis(grid, order, axis=0)


def fall_up(grid: Grid) -> Grid:
    """Let the cells of every column rise to the top."""
    return fall_down(grid[::-1])[::-1].copy()


def remove_specks(grid: Grid) -> Grid | None:
    """Remove the objects of a single cell."""
    labels, sizes = objects(grid)
    small = np.append(False, sizes == 1)
    return where(small[labels], background(grid), grid) if small.any() else None


def mark_objects_by_size(grid: Grid) -> Grid | None:
    """Mark each object by the rank of its size, largest first; up to four different sizes."""
    labels, sizes = objects(grid)
    distinct = np.unique(sizes)[::-1]
    if not 1 <= len(distinct) <= len(SIZE_RANKS):
        return None
    ranks = np.searchsorted(-distinct, -sizes)
    marks = np.append(0, np.array(SIZE_RANKS)[ranks])
    return where(labels > 0, marks[labels], grid)


def outline_objects(grid: Grid) -> Grid:
    """Mark the background cells that touch content, also by corners."""
    return where(touching(content(grid)), OUTLINED, grid)


def fill_enclosed(grid: Grid) -> Grid | None:
    """Mark the background cells from which no path of background cells, side by side, leads out."""
    labels = parts(np.pad(~content(grid), 1, constant_values=True), corners=False)
    enclosed = (labels > 1)[1:-1, 1:-1]
    return where(enclosed, FILLED, grid) if enclosed.any() else None


def connect_aligned(grid: Grid) -> Grid:
    """Draw lines in their own color between cells of one color in one row or column."""
    return _connected(grid, None)


def bridge_aligned(grid: Grid) -> Grid:
    """Mark the cells between cells of one color in one row or column."""
    return _connected(grid, BRIDGED)


def extend_rows(grid: Grid) -> Grid:
    """Fill every row that has a single color on the background with that color."""
    highest = np.where(content(grid), grid, 0).max(axis=1)
    lowest = np.where(content(grid), grid, 255).min(axis=1)
    return where((highest == lowest)[:, None], highest[:, None], grid)


def extend_columns(grid: Grid) -> Grid:
    """Fill every column that has a single color on the background with that color."""
    return extend_rows(grid.T).T.copy()


def shoot_down(grid: Grid) -> Grid:
    """Let every cell draw a line downwards over the background."""
    mask = content(grid)
    rows = np.maximum.accumulate(np.where(mask, np.arange(len(grid))[:, None], 0), axis=0)
    return np.take_along_axis(grid, rows, axis=0)


def complete_symmetry(grid: Grid) -> Grid:
    """Fill background cells from their mirror images across both axes."""
    empty = background(grid)
    result = grid
    for mirrored in (grid[:, ::-1], grid[::-1], grid[::-1, ::-1]):
        result = where(result == empty, mirrored, result)
    return result


def complete_tiling(grid: Grid) -> Grid | None:
    """Fill the black cells of a grid that otherwise repeats one tile."""
    height, width = _lag(grid), _lag(grid.T)
    rows, columns = np.indices(grid.shape)
    place = (rows % height) * width + columns % width
    tile = np.zeros(height * width, dtype=np.uint8)
    np.maximum.at(tile, place.ravel(), grid.ravel())
    result: Grid = tile[place]
    known = grid > 0
    if known.all() or not tile.all() or (result != grid)[known].any():
        return None
    return result


def _lag(grid: Grid) -> int:
    """Return the smallest step after which rows agree wherever neither cell is black."""
    for step in range(1, len(grid)):
        above, below = grid[:-step], grid[step:]
        if ((above == below) | (above == 0) | (below == 0)).all():
            return step
    return len(grid)


def _connected(grid: Grid, mark: int | None) -> Grid:
    """Fill between neighbors in rows, then in columns; a column's line lies on top."""
    across = _between(grid)
    down = _between(grid.T).T
    colors = where(down > 0, down, across)
    filled = colors > 0
    return where(filled, colors if mark is None else mark, grid)


def _between(grid: Grid) -> Grid:
    """Return, for each background cell, the color of its nearest content on both sides of its row.

    It is 0 where the sides differ or one has no content, and on content.
    """
    mask = content(grid)
    places = np.arange(grid.shape[1])
    before = np.maximum.accumulate(np.where(mask, places, -1), axis=1)
    after = np.minimum.accumulate(np.where(mask, places, len(places))[:, ::-1], axis=1)[:, ::-1]
    inside = ~mask & (before >= 0) & (after < len(places))
    left = np.take_along_axis(grid, np.maximum(before, 0), axis=1)
    right = np.take_along_axis(grid, np.minimum(after, len(places) - 1), axis=1)
    return where(inside & (left == right), left, 0)
