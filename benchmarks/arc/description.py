"""The host's account of a task in words: the question that memory is asked.

Only demonstrations are read. Each sentence carries a word of its own and only what is noteworthy is
said, so that a text encoder and a lexical index can both tell tasks apart. There are no digits and
no names, because the bank blanks those in what it indexes. The features are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.arc.grids import (
    COLORS,
    Grid,
    Mask,
    background,
    colors_by_count,
    content,
    objects,
    panels,
    parts,
    period,
    touching,
)
from benchmarks.arc.programs import Demonstration

Pairs = Sequence[Demonstration]
Feature = tuple[str, Callable[[Grid], bool]]

_NUMBERS = ("no", "one", "two", "three")
_SIZE_OPENINGS = {
    "equal size": "Output and input have equal size",
    "smaller output": "The output is smaller than the input",
    "larger output": "The output is larger than the input",
    "varying size": "The output has a varying size",
}


def describe(demonstrations: Pairs) -> str:
    """Describe demonstrations in words: sizes, colors, changes, containment, looks, objects."""
    inputs = [given for given, _ in demonstrations]
    outputs = [made for _, made in demonstrations]
    sentences = [
        _size_sentence(demonstrations),
        *_color_sentences(demonstrations),
        *_change_sentences(demonstrations),
        _containment_sentence(demonstrations),
        _looks_sentence("input", inputs),
        *_object_sentences(inputs),
        _looks_sentence("output", outputs),
    ]
    return " ".join(f"{sentence}." for sentence in sentences if sentence)


def size_class(demonstrations: Pairs) -> str:
    """Return how output sizes relate to input sizes; the description holds these two words."""
    if _every(demonstrations, lambda given, made: given.shape == made.shape):
        return "equal size"
    if _every(demonstrations, lambda given, made: made.size < given.size):
        return "smaller output"
    if _every(demonstrations, lambda given, made: made.size > given.size):
        return "larger output"
    return "varying size"


def _every(pairs: Pairs, test: Callable[[Grid, Grid], bool]) -> bool:
    return all(test(given, made) for given, made in pairs)


def _size_sentence(pairs: Pairs) -> str:
    kind = size_class(pairs)
    opening = _SIZE_OPENINGS[kind]
    if kind == "equal size":
        return opening
    height = _ratio([(given.shape[0], made.shape[0]) for given, made in pairs])
    width = _ratio([(given.shape[1], made.shape[1]) for given, made in pairs])
    sides = f"both sides {height}" if height == width else f"height {height}, width {width}"
    return f"{opening}, {sides}{_thin_words([made for _, made in pairs])}"


def _ratio(sides: Sequence[tuple[int, int]]) -> str:
    """Return in words how output lengths follow from input lengths."""
    tests: tuple[tuple[str, Callable[[int, int], bool]], ...] = (
        ("unchanged", lambda given, made: made == given),
        ("doubled", lambda given, made: made == 2 * given),
        ("tripled", lambda given, made: made == 3 * given),
        ("squared", lambda given, made: made == given * given),
        ("halved", lambda given, made: given == 2 * made),
        ("halved without a middle line", lambda given, made: given == 2 * made + 1),
        ("divided by three", lambda given, made: given in {3 * made, 3 * made + 2}),
        ("multiplied by a varying factor", lambda given, made: made % given == 0),
    )
    for words, test in tests:
        if all(test(given, made) for given, made in sides):
            return words
    if len({made for _, made in sides}) == 1:
        return "fixed"
    return "shortened" if all(made < given for given, made in sides) else "irregular"


def _thin_words(outputs: Sequence[Grid]) -> str:
    if all(grid.size == 1 for grid in outputs):
        return ", down to a single cell"
    if all(grid.shape[0] == 1 for grid in outputs):
        return ", down to a single row"
    if all(grid.shape[1] == 1 for grid in outputs):
        return ", down to a single column"
    return ""


def _color_sentences(pairs: Pairs) -> list[str]:
    return [_palette_sentence(pairs), _count_sentence([len(_palette(given)) for given, _ in pairs])]


def _palette_sentence(pairs: Pairs) -> str:
    if _every(pairs, lambda given, made: _histogram(given) == _histogram(made)):
        return "Cells are only rearranged, every color keeps its count"
    fresh = [_palette(made) - _palette(given) for given, made in pairs]
    lost = [_palette(given) - _palette(made) for given, made in pairs]
    if not any(fresh):
        return "Some colors vanish" if all(lost) else "Output and input share their colors"
    if not all(fresh):
        return "Fresh colors appear at times"
    number = "One fresh color appears" if max(map(len, fresh)) == 1 else "Fresh colors appear"
    which = "always identical" if len(set(fresh)) == 1 else "changing between examples"
    return f"{number}, {which}{', while old colors vanish' if all(lost) else ''}"


def _count_sentence(counts: Sequence[int]) -> str:
    if len(set(counts)) == 1 and counts[0] < len(_NUMBERS):
        return f"The input uses {_NUMBERS[counts[0]]} colors"
    return "The input is colorful" if min(counts) >= len(_NUMBERS) else ""


def _palette(grid: Grid) -> frozenset[int]:
    return frozenset(np.unique(grid).tolist())


def _histogram(grid: Grid) -> list[int]:
    counts: list[int] = np.bincount(grid.ravel(), minlength=COLORS).tolist()
    return counts


def _change_sentences(pairs: Pairs) -> list[str]:
    """Say which cells change; only for tasks that keep the size."""
    if size_class(pairs) != "equal size":
        return []
    share = float(np.mean([(given != made).mean() for given, made in pairs]))
    said = [_share_sentence(share)]
    if _every(pairs, lambda given, made: not content(given)[given != made].any()):
        said.append("Background cells are painted, drawn content stays")
        said += _painted_sentences(pairs)
    elif _every(pairs, lambda given, made: bool((made == background(given))[given != made].all())):
        said.append("Cells are erased")
    elif _every(pairs, _repainted):
        said.append("Content keeps its shape and is repainted")
    elif _every(pairs, lambda given, made: bool(content(given).sum() == content(made).sum())):
        said.append("Content moves elsewhere")
    return said


def _share_sentence(share: float) -> str:
    for limit, words in ((0.1, "Hardly any cells change"), (0.3, "A minority of cells changes")):
        if share < limit:
            return words
    return "About half of the cells change" if share < 0.6 else "Nearly all cells change"


def _painted_sentences(pairs: Pairs) -> list[str]:
    said = []
    if _every(pairs, lambda given, made: bool(_enclosed(given)[given != made].all())):
        said.append("Painted cells are enclosed holes")
    elif _every(pairs, lambda given, made: bool(touching(content(given))[given != made].all())):
        said.append("Painted cells surround or touch content")
    if _every(pairs, lambda given, made: _straight(given != made)):
        said.append("Painted cells form straight lines")
    return said


def _repainted(given: Grid, made: Grid) -> bool:
    return bool((content(given) == (made != background(given))).all())


def _enclosed(grid: Grid) -> Mask:
    """Return the background cells that no path of background cells joins with the outside."""
    around = np.pad(~content(grid), 1, constant_values=True)
    result: Mask = (parts(around, corners=False) > 1)[1:-1, 1:-1]
    return result


def _straight(changed: Mask) -> bool:
    labels = parts(changed, corners=False)
    for label in range(1, int(labels.max()) + 1):
        rows, columns = np.nonzero(labels == label)
        if np.ptp(rows) and np.ptp(columns):
            return False
    return bool(changed.any())


def _containment_sentence(pairs: Pairs) -> str:
    if _every(pairs, lambda given, made: given.shape == made.shape):
        return ""
    if _every(pairs, _contains):
        return "The output is a cutout of the input"
    if _every(pairs, lambda given, made: _contains(content(given), content(made))):
        return "The output is a repainted cutout of the input"
    if _every(pairs, lambda given, made: _contains(made, given)):
        return "The input reappears whole inside the output"
    return ""


def _contains(large: Grid | Mask, small: Grid | Mask) -> bool:
    if small.shape[0] > large.shape[0] or small.shape[1] > large.shape[1]:
        return False
    windows = np.lib.stride_tricks.sliding_window_view(large, small.shape)
    return bool((windows == small).all(axis=(2, 3)).any())


def _looks_sentence(name: str, grids: Sequence[Grid]) -> str:
    looks: tuple[Feature, ...] = (
        ("is mirror symmetric from left to right", lambda grid: _symmetric(grid.T)),
        ("is mirror symmetric from top to bottom", _symmetric),
        ("repeats a tile", lambda grid: (period(grid), period(grid.T)) != grid.shape),
        ("is divided by separating lines into panels", lambda grid: panels(grid) is not None),
        ("has no black cells", lambda grid: bool((grid > 0).all())),
        ("has full stripes", lambda grid: _striped(grid) or _striped(grid.T)),
    )
    said = [words for words, test in looks if all(grid.size > 1 and test(grid) for grid in grids)]
    return f"The {name} {' and '.join(said)}" if said else ""


def _symmetric(grid: Grid) -> bool:
    return len(grid) > 1 and np.array_equal(grid, grid[::-1])


def _striped(grid: Grid) -> bool:
    return bool(((grid == grid[:, :1]).all(axis=1) & content(grid)[:, 0]).any())


def _object_sentences(inputs: Sequence[Grid]) -> list[str]:
    sizes = [objects(grid)[1].tolist() for grid in inputs]
    share = float(np.mean([content(grid).mean() for grid in inputs]))
    said = [_object_count([len(found) for found in sizes]), _object_sizes(sizes)]
    if all(_enclosed(grid).any() for grid in inputs):
        said.append("Shapes have enclosed holes")
    if all(len(colors_by_count(grid)) == 1 for grid in inputs):
        said.append("Content has a single color")
    if share < 0.25:
        said.append("The input is mostly empty")
    elif share > 0.7:
        said.append("The input is densely filled")
    return said


def _object_count(counts: Sequence[int]) -> str:
    if max(counts) == 1:
        return "There is a single object"
    if min(counts) > 1 and max(counts) <= 5:
        return "There are several objects"
    return "There are numerous scattered objects" if min(counts) > 5 else ""


def _object_sizes(sizes: Sequence[list[int]]) -> str:
    if not all(sizes):
        return ""
    if all(max(found) == 1 for found in sizes):
        return "Objects are lone dots"
    if all(min(found) == 1 and max(found) > 2 for found in sizes):
        return "Lone dots lie beside bigger objects"
    if all(len(found) > 1 and min(found) == max(found) for found in sizes):
        return "Objects are equally large"
    return ""
