"""The four marker shapes: how they are drawn, and how a silhouette is told from the others.

A silhouette is compared with one template a shape, both scaled to the same square, by the share of
pixels they have in common (intersection over union).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Shape = Literal["circle", "square", "triangle", "diamond"]
SHAPES = cast("tuple[Shape, ...]", get_args(Shape))
Mask = NDArray[np.bool_]
LEAST_MATCH = 0.5
"""A silhouette that no template covers better than this is no marker."""
_TEMPLATE_RADIUS = 24
_SQUARE = 24


def outline(shape: Shape, x: float, y: float, radius: float) -> list[tuple[float, float]]:
    """Return the corners of a marker that fills a circle of this radius around (x, y)."""
    if shape == "circle":
        turns = [math.tau * step / 40 for step in range(40)]
        corners = [(math.cos(turn), math.sin(turn)) for turn in turns]
    elif shape == "square":
        corners = [(-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)]
    elif shape == "triangle":
        corners = [(0.0, -1.0), (1.0, 0.8), (-1.0, 0.8)]
    else:
        corners = [(0.0, -1.1), (1.1, 0.0), (0.0, 1.1), (-1.1, 0.0)]
    return [(x + radius * dx, y + radius * dy) for dx, dy in corners]


def recognized(silhouette: Mask) -> Shape | None:
    """Return the shape whose template covers a silhouette best, None where none does.

    Args:
        silhouette: of any size, shape (height, width).
    """
    if not silhouette.any():
        return None
    seen = _squared(silhouette)
    scores = {shape: _in_common(seen, _template(shape)) for shape in SHAPES}
    best = max(scores, key=lambda shape: scores[shape])
    return best if scores[best] >= LEAST_MATCH else None


@cache
def _template(shape: Shape) -> Mask:
    size = 4 * _TEMPLATE_RADIUS
    canvas = Image.new("L", (size, size))
    middle = size / 2
    ImageDraw.Draw(canvas).polygon(outline(shape, middle, middle, _TEMPLATE_RADIUS), fill=255)
    return _squared(np.asarray(canvas) > 0)


def _squared(mask: Mask) -> Mask:
    """Return what is set in a mask, cut out and scaled to the square of the templates."""
    rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    cut = mask[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    picked = [np.arange(_SQUARE) * size // _SQUARE for size in cut.shape]
    return cut[np.ix_(*picked)]


def _in_common(one: Mask, other: Mask) -> float:
    return float((one & other).sum() / (one | other).sum())
