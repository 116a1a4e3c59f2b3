"""A finished set of demonstrations of all eight operations, in a few groups with images of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from controllers.prompts import OPERATIONS
from epimem.protocols import Derived
from tests.controllers.prompts import samples
from training.demonstrations.record import Demonstration, Provenance, runs_named
from training.demonstrations.store import DemonstrationSet

SHARES = {"train": 0.4, "dev": 0.2, "test": 0.4}
WIDTH, HEIGHT = 80, 60


def write_set(folder, groups: int = 10, operations=tuple(samples.REQUESTS)):
    """Write a set and return its folder; four groups of ten are held out for the test."""
    with DemonstrationSet.create(folder) as found:
        for number in range(groups):
            for operation in operations:
                for turn in range(2):
                    found.add(demonstration(found, operation, number, turn))
        found.finish(seed=0, shares=SHARES)
    return folder


def demonstration(found, operation: str, number: int, turn: int) -> Demonstration:
    """Return one demonstration of a group; those of turn 1 want something else than those of turn 0."""
    pixels = np.full((HEIGHT, WIDTH, 3), 10 * number + 5, dtype=np.uint8)
    pages = tuple(found.add_image(pixels + page, page) for page in (1, 2))
    request = shown(operation, f"{number}.{turn}", pages)
    value = (wanted if turn == 0 else otherwise)(operation, request)
    return Demonstration(
        f"{operation}-{number}-{turn}",
        operation,
        f"house {number}",
        request,
        value,
        Provenance(
            teacher="test", source="samples", run_ids=runs_named(request, value), seed=number
        ),
    )


def shown(operation: str, text: str, pages: tuple[Any, ...]) -> Any:
    """Return a request whose pictures can be read, and no others."""
    request = samples.REQUESTS[operation](text)
    if operation in {"derive", "update", "gate", "select"}:
        request = replace(request, pages=pages)
    if operation == "update":
        request = replace(
            request, crop=None, memory=request.memory.model_copy(update={"evidence": None})
        )
    if operation == "select":
        request = replace(request, crops={})
    return request


def wanted(operation: str, request: Any) -> Any:
    """Return the value of the sample reply."""
    return OPERATIONS[operation].parse(request, samples.REPLIES[operation])


def otherwise(operation: str, request: Any) -> Any:
    """Return another lawful value: where something may be empty, nothing."""
    if operation == "derive":
        return Derived((), nothing="the run shows nothing new")
    reply = {
        "update": {
            **samples.REPLIES["update"],
            "visual": "retain",
            "image": None,
            "box": None,
            "note": "",
            "gate": 0,
            "stop": True,
        },
        "gate": {"gate": 0},
        "place": {"category": "C1", "new": None, "under": None},
        "merge": {"merge": False, "title": ""},
        "split_lift": {
            "parts": [
                {"children": ["N1", "N2", "N3", "N4"], "title": "low", "index": None},
                {"children": ["N5", "N6", "N7", "N8"], "title": "high", "index": None},
            ]
        },
        "consolidate": {
            "guidance": "",
            "applies_when": "",
            "cautions": [],
            "supported_by": [],
            "conflicts": [],
            "title": "",
            "index": None,
        },
        "select": {"rules": [], "lesson": None},
    }
    return OPERATIONS[operation].parse(request, reply[operation])
