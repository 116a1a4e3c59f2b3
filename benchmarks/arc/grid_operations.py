"""The grid operations that programs are made of: pure functions, each with a plain name.

An operation takes a grid (see `grids`) and returns a new one with sides of 1..30 cells, or None
where it does not apply. It never changes its input. The list is ours: a general vocabulary of
turning, cropping, repeating, comparing, moving and filling, without a case for any single task.
`OPERATIONS` holds all of them, those of `cell_operations` included, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from benchmarks.arc import cell_operations as cells
from benchmarks.arc.grids import (
    MAX_SIDE,
    Grid,
    Mask,
    background,
    colors_by_count,
    content,
    objects,
    panels,
    period,
    where,
)

Operation = Callable[[Grid], Grid | None]

COMPARED = 13


def keep(grid: Grid) -> Grid:
    """Leave the grid as it is: the program is the recoloring alone."""
    return grid.copy()


def rotate_quarter(grid: Grid) -> Grid:
    """Turn clockwise by a quarter."""
    return np.rot90(grid, -1).copy()


def rotate_half(grid: Grid) -> Grid:
    """Turn by a half."""
    return np.rot90(grid, 2).copy()


def rotate_three_quarters(grid: Grid) -> Grid:
    """Turn clockwise by three quarters."""
    return np.rot90(grid).copy()


def mirror_left_right(grid: Grid) -> Grid:
    """Swap left and right."""
    return grid[:, ::-1].copy()


def mirror_top_bottom(grid: Grid) -> Grid:
    """Swap top and bottom."""
    return grid[::-1].copy()


def mirror_diagonal(grid: Grid) -> Grid:
    """Swap rows and columns."""
    return grid.T.copy()


def mirror_antidiagonal(grid: Grid) -> Grid:
    """Mirror along the diagonal from bottom left to top right."""
    return grid[::-1, ::-1].T.copy()


def crop_to_content(grid: Grid) -> Grid | None:
    """Cut out the box around everything that is not background."""
    return _box(grid, content(grid))


def crop_to_largest_object(grid: Grid) -> Grid | None:
    """Cut out the box around the object of most cells."""
    labels, sizes = objects(grid)
    return _box(grid, labels == 1 + int(sizes.argmax())) if len(sizes) else None


def crop_to_smallest_object(grid: Grid) -> Grid | None:
    """Cut out the box around the object of fewest cells."""
    labels, sizes = objects(grid)
    return _box(grid, labels == 1 + int(sizes.argmin())) if len(sizes) else None


def crop_to_rarest_color(grid: Grid) -> Grid | None:
    """Cut out the box around the rarest color on the background."""
    order = colors_by_count(grid)
    return _box(grid, grid == order[-1]) if order else None


def crop_to_commonest_color(grid: Grid) -> Grid | None:
    """Cut out the box around the commonest color on the background."""
    order = colors_by_count(grid)
    return _box(grid, grid == order[0]) if order else None


def take_left_half(grid: Grid) -> Grid | None:
    """Keep the left half; a middle column belongs to neither half."""
    return grid[:, : grid.shape[1] // 2].copy() if grid.shape[1] > 1 else None


def take_first_tile(grid: Grid) -> Grid | None:
    """Keep the smallest tile of which the grid is a repetition."""
    height, width = period(grid), period(grid.T)
    return None if (height, width) == grid.shape else grid[:height, :width].copy()


def drop_repeated_lines(grid: Grid) -> Grid:
    """Keep one of equal neighboring rows, and one of equal neighboring columns."""
    rows = np.append(True, (grid[1:] != grid[:-1]).any(axis=1))
    columns = np.append(True, (grid[:, 1:] != grid[:, :-1]).any(axis=0))
    kept: Grid = grid[rows][:, columns]
    return kept


def enlarge_twice(grid: Grid) -> Grid | None:
    """Draw every cell as a block of two by two."""
    return _enlarge(grid, 2)


def enlarge_thrice(grid: Grid) -> Grid | None:
    """Draw every cell as a block of three by three."""
    return _enlarge(grid, 3)


def enlarge_by_colors(grid: Grid) -> Grid | None:
    """Draw every cell as a block whose side is the number of colors on the background."""
    return _enlarge(grid, len(colors_by_count(grid)))


def tile_by_own_shape(grid: Grid) -> Grid | None:
    """Put a copy of the grid wherever the grid itself has content."""
    if max(grid.shape) ** 2 > MAX_SIDE:
        return None
    copies = np.kron(content(grid), np.ones_like(grid)).astype(np.bool_)
    return where(copies, np.tile(grid, grid.shape), background(grid))


def repeat_right(grid: Grid) -> Grid | None:
    """Put a copy to the right."""
    return np.hstack((grid, grid)) if 2 * grid.shape[1] <= MAX_SIDE else None


def repeat_below(grid: Grid) -> Grid | None:
    """Put a copy below."""
    return np.vstack((grid, grid)) if 2 * grid.shape[0] <= MAX_SIDE else None


def reflect_right(grid: Grid) -> Grid | None:
    """Put the mirror image to the right."""
    return np.hstack((grid, grid[:, ::-1])) if 2 * grid.shape[1] <= MAX_SIDE else None


def reflect_below(grid: Grid) -> Grid | None:
    """Put the mirror image below."""
    return np.vstack((grid, grid[::-1])) if 2 * grid.shape[0] <= MAX_SIDE else None


def reflect_both(grid: Grid) -> Grid | None:
    """Put mirror images to the right, below and across."""
    right = reflect_right(grid)
    return None if right is None else reflect_below(right)


def overlay_halves(grid: Grid) -> Grid | None:
    """Lay the first half over the second; the cut is across the longer side."""
    halves = _halves(grid)
    return None if halves is None else where(halves[0] > 0, halves[0], halves[1])


def mark_common_cells(grid: Grid) -> Grid | None:
    """Mark the cells where both halves have content, on black."""
    halves = _halves(grid)
    return None if halves is None else _marked((halves[0] > 0) & (halves[1] > 0))


def mark_differing_cells(grid: Grid) -> Grid | None:
    """Mark the cells where exactly one half has content, on black."""
    halves = _halves(grid)
    return None if halves is None else _marked((halves[0] > 0) ^ (halves[1] > 0))


def overlay_panels(grid: Grid) -> Grid | None:
    """Lay the panels between separating lines over each other, the first on top."""
    found = [panel for row in panels(grid) or () for panel in row]
    if len({panel.shape for panel in found}) != 1:
        return None
    result = found[0].copy()
    for panel in found[1:]:
        result = where(result > 0, result, panel)
    return result


def summarize_panels(grid: Grid) -> Grid | None:
    """Draw each panel between separating lines as one cell of its commonest color."""
    found = panels(grid)
    if found is None:
        return None
    commonest = [[np.bincount(panel.ravel()).argmax() for panel in row] for row in found]
    return np.array(commonest, dtype=np.uint8)


def list_colors(grid: Grid) -> Grid | None:
    """Draw the colors on the background as a column, commonest first."""
    order = colors_by_count(grid)
    return np.array(order, dtype=np.uint8)[:, None] if order else None


def take_commonest_color(grid: Grid) -> Grid | None:
    """Draw the commonest color on the background as a single cell."""
    order = colors_by_count(grid)
    return np.array([order[:1]], dtype=np.uint8) if order else None


def _box(grid: Grid, mask: Mask) -> Grid | None:
    rows = np.flatnonzero(mask.any(axis=1))
    columns = np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return None
    return grid[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].copy()


def _enlarge(grid: Grid, factor: int) -> Grid | None:
    if factor == 0 or max(grid.shape) * factor > MAX_SIDE:
        return None
    return grid.repeat(factor, axis=0).repeat(factor, axis=1)


def _halves(grid: Grid) -> tuple[Grid, Grid] | None:
    """Cut across the longer side; a middle line belongs to neither half. None for a square."""
    height, width = grid.shape
    if height == width:
        return None
    if width > height:
        return grid[:, : width // 2], grid[:, -(width // 2) :]
    return grid[: height // 2], grid[-(height // 2) :]


def _marked(mask: Mask) -> Grid:
    return where(mask, COMPARED, 0)


_ALL: tuple[Operation, ...] = (
    keep,
    rotate_quarter,
    rotate_half,
    rotate_three_quarters,
    mirror_left_right,
    mirror_top_bottom,
    mirror_diagonal,
    mirror_antidiagonal,
    crop_to_content,
    crop_to_largest_object,
    crop_to_smallest_object,
    crop_to_rarest_color,
    crop_to_commonest_color,
    take_left_half,
    take_first_tile,
    drop_repeated_lines,
    enlarge_twice,
    enlarge_thrice,
    enlarge_by_colors,
    tile_by_own_shape,
    repeat_right,
    repeat_below,
    reflect_right,
    reflect_below,
    reflect_both,
    overlay_halves,
    mark_common_cells,
    mark_differing_cells,
    overlay_panels,
    summarize_panels,
    list_colors,
    take_commonest_color,
    cells.fall_down,
    cells.fall_up,
    cells.remove_specks,
    cells.mark_objects_by_size,
    cells.outline_objects,
    cells.fill_enclosed,
    cells.connect_aligned,
    cells.bridge_aligned,
    cells.extend_rows,
    cells.extend_columns,
    cells.shoot_down,
    cells.complete_symmetry,
    cells.complete_tiling,
)

OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {operation.__name__: operation for operation in _ALL}
)
