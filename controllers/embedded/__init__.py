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
    from epimem.config import TreeConfig
    from epimem.protocols import MemoryController, TreeOrganizer


def load(
    *,
    memory_controller: str | None,
    tree_organizer: str | None,
    settings: TreeConfig,
    deadline_s: float,
) -> tuple[MemoryController, TreeOrganizer]:
    """Return the two embedded controllers; they take no argument and need no time.

    Raises:
        ConfigError: something stands after "embedded:".
    """
    from controllers.embedded.memory_controller import EmbeddedMemoryController
    from controllers.embedded.tree_organizer import EmbeddedTreeOrganizer
    from epimem.errors import ConfigError

    del deadline_s
    for argument in (memory_controller, tree_organizer):
        if argument:
            raise ConfigError("takes no argument", field="embedded", got=argument)
    organizer = EmbeddedTreeOrganizer(
        place_min=settings.place_min, scope_min=settings.scope_min, merge_min=settings.merge_min
    )
    return EmbeddedMemoryController(), organizer
