"""Demonstrations for tests: the samples of the prompts, with pictures that can be read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from controllers.prompts import OPERATIONS
from epimem.protocols import Picture
from tests.controllers.prompts import samples
from training.demonstrations.record import Demonstration, OperationName, Provenance, runs_named

SIZES = {1: (40, 30), 2: (20, 60)}


def pixels(width: int, height: int, seed: int = 0) -> np.ndarray:
    """Return noise: no two images of one size are alike."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def drawn(made: Any, seed: int = 0) -> tuple[Picture, Picture]:
    """Return the two pages of the samples, stored in a set."""
    return tuple(
        made.add_image(np.full((height, width, 3), seed * 2 + page, np.uint8), page)
        for page, (width, height) in SIZES.items()
    )


def request(name: OperationName, pages: tuple[Picture, ...] = (), text: str = "") -> Any:
    """Return the sample request of an operation that shows these pages, its crops among them."""
    made = samples.REQUESTS[name](text)
    crop = replace(pages[0], page=0) if pages else None
    changes: dict[str, Any] = {"pages": pages} if hasattr(made, "pages") else {}
    if hasattr(made, "crop"):
        changes["crop"] = crop
    if name == "select":
        changes["crops"] = {key: (crop,) * bool(pages) for key in made.crops}
    return replace(made, **changes)


def demonstration(
    name: OperationName, asked: Any, value: Any = ..., *, key: str = "", group: str = "g"
) -> Demonstration:
    """Return a demonstration; without a value, of that which the sample reply says."""
    if value is ...:
        reply = samples.REPLIES[name]
        if name in {"derive", "update"} and not asked.pages:
            reply = _without_pages(name, reply)
        value = OPERATIONS[name].parse(asked, reply)
    origin = Provenance(teacher="test", source="samples", run_ids=runs_named(asked, value))
    return Demonstration(key or name, name, group, asked, value, origin)


def _without_pages(name: str, reply: dict[str, Any]) -> dict[str, Any]:
    if name == "update":
        return {**reply, "visual": "retain", "image": None, "box": None, "note": ""}
    return {"lessons": [{**lesson, "evidence": []} for lesson in reply["lessons"]], "nothing": ""}
