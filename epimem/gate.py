"""The visual gate: whether crops go along with the text of a memory input.

The controller decides ("adaptive", the seed's form). "always" and "off" decide without it: they
are there to be compared with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from epimem import calls, pictures
from epimem.bank.bank import Bank
from epimem.bank.costs import Costs
from epimem.config import GateMode
from epimem.errors import ControllerError, RecordError
from epimem.protocols import GateRequest, MemoryController
from epimem.schema.lesson import Evidence
from epimem.schema.memory_input import Item
from epimem.schema.receipt import Usage


@dataclass(frozen=True)
class GateDecision:
    """1 where crops go along; a warning where the controller failed (the gate then stays shut)."""

    value: Literal[0, 1] = 0
    warning: str = ""
    usage: Usage = field(default_factory=Usage)


def checked_mode(mode: GateMode) -> GateMode:
    """Return a mode that there is.

    Raises:
        RecordError: there is no such mode.
    """
    if mode not in get_args(GateMode):
        raise RecordError(f"one of {', '.join(get_args(GateMode))}", field="gate", got=mode)
    return mode


def decide(
    bank: Bank,
    controller: MemoryController,
    question: str,
    image_ids: Sequence[str],
    items: Sequence[Item],
    evidence: Mapping[str, Sequence[Evidence]],
    *,
    mode: GateMode,
    deadline_s: float,
) -> GateDecision:
    """Decide on the question and the descriptions of the items, where there is evidence at all."""
    if not any(evidence.values()) or mode == "off":
        return GateDecision()
    if mode == "always":
        return GateDecision(1)
    request = GateRequest(
        question=question,
        question_images=len(image_ids),
        items=tuple(items),
        crops={key: len(found) for key, found in evidence.items()},
        notes={key: tuple(item.note for item in found) for key, found in evidence.items()},
        pages=pictures.stored_pages(bank, image_ids),
    )
    try:
        reply = calls.ask(
            Costs(bank),
            "memory controller",
            controller,
            "gate",
            [request],
            kind=int,
            deadline_s=deadline_s,
        )[0]
    except ControllerError as error:
        return GateDecision(warning=str(error))
    warning = f"gate gave nothing usable: {reply.reason}" if reply.value is None else ""
    return GateDecision(1 if reply.value == 1 else 0, warning, reply.usage)
