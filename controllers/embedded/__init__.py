"""Embedded controllers: both roles without a model, so that everything runs on a laptop and in CI.

Deterministic and extractive: what they write are sentences of the run, sentences of lessons, or
fixed templates around them. They read English best; see `words`, `claims` and `names` for what
they know of other languages.

    runs -> sentences -> statements -> derive        MemoryController
            anchors, scopes, names ----^   gate
    lessons -> claims -> agreement -> disagreement, consolidate, select, place, merge, split_lift
            term_weights ----------------------------^          TreeOrganizer
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epimem.protocols import MemoryController, TreeOrganizer


def load(
    *, place_min: float = 0.6, scope_min: float = 0.85, merge_min: float = 0.9
) -> tuple[MemoryController, TreeOrganizer]:
    """Return the two embedded controllers; the floors are those of `epimem.config.TreeConfig`."""
    from controllers.embedded.memory_controller import EmbeddedMemoryController
    from controllers.embedded.tree_organizer import EmbeddedTreeOrganizer

    organizer = EmbeddedTreeOrganizer(place_min=place_min, scope_min=scope_min, merge_min=merge_min)
    return EmbeddedMemoryController(), organizer
