"""The host: it reads its map, and from memory a lesson with its crops; then it counts.

Every station is a stop unless the host knows a marker that means closed: from the legend of its own map
where one is printed, else from a lesson that says that stations with the marker it shows are not
stopped at, and from the marker that most of that lesson's crops show. It knows no convention.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from benchmarks.metro.reading import read_crop_file, read_map_file
from benchmarks.metro.shapes import Shape
from epimem.evaluation import Handout, PublicTask
from epimem.schema.memory_input import Item

_SAYS_CLOSED = re.compile(
    r"clos|leav\w* .{0,60}\bout|not? (?:a )?(?:stop|served|count)|without stopping|skip|exclud|omit"
    r"|pass",
    re.IGNORECASE,
)


def solver_of(rate: float = 0.0) -> Callable[[PublicTask, Handout | None, int], str]:
    """Return the host that takes a marker for another one at this rate."""

    def solve(task: PublicTask, memory: Handout | None, seed: int) -> str:
        reading = read_map_file(task.images[0], rate=rate, seed=seed)
        closed = reading.closed
        if not reading.has_legend:
            closed = closed_marker(memory, rate=rate, seed=seed) if memory is not None else None
        return str(reading.stops(closed))

    return solve


def closed_marker(memory: Handout, *, rate: float = 0.0, seed: int = 0) -> Shape | None:
    """Return the marker that the crops of a memory input show as closed; of equals the first.

    Only crops of items count that say so in words; what was judged wrong is no such item.
    """
    saying = {item.node_id for item in saying_closed(memory)}
    seen: Counter[Shape] = Counter()
    for crop, path in zip(memory.input.crops, memory.crops, strict=True):
        if crop.node_id in saying:
            shape = read_crop_file(path, rate=rate, seed=seed)
            seen.update([shape] if shape is not None else [])
    return seen.most_common(1)[0][0] if seen else None


def saying_closed(memory: Handout) -> tuple[Item, ...]:
    """Return the items that say in words that some stations are not stopped at."""
    return tuple(
        item
        for item in memory.input.items
        if item.polarity == "positive" and _SAYS_CLOSED.search(item.guidance)
    )
