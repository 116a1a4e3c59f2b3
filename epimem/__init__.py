"""Experience memory that agent systems share.

    from epimem import ExperienceMemory
    with ExperienceMemory.open("my-bank") as memory:
        answer = memory.retrieve("How many stations does the train call at?")

Names are loaded when they are first used, so that `import epimem` stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epimem.bank.bank import Bank
    from epimem.bank.intake import Caller
    from epimem.config import Config
    from epimem.errors import EpimemError
    from epimem.memory import ExperienceMemory
    from epimem.refine import Attempt, RefineResult
    from epimem.schema.lesson import Evidence, IndexText, LessonDraft
    from epimem.schema.memory_input import Budget, MemoryInput
    from epimem.schema.outcome import SealedOutcome
    from epimem.schema.receipt import Receipt
    from epimem.schema.region import Region
    from epimem.schema.run import Run
    from epimem.schema.working_memory import WorkingMemory

_HOMES = {
    "Attempt": "epimem.refine",
    "Bank": "epimem.bank.bank",
    "Budget": "epimem.schema.memory_input",
    "Caller": "epimem.bank.intake",
    "Config": "epimem.config",
    "EpimemError": "epimem.errors",
    "Evidence": "epimem.schema.lesson",
    "ExperienceMemory": "epimem.memory",
    "IndexText": "epimem.schema.lesson",
    "LessonDraft": "epimem.schema.lesson",
    "MemoryInput": "epimem.schema.memory_input",
    "Receipt": "epimem.schema.receipt",
    "RefineResult": "epimem.refine",
    "Region": "epimem.schema.region",
    "Run": "epimem.schema.run",
    "SealedOutcome": "epimem.schema.outcome",
    "WorkingMemory": "epimem.schema.working_memory",
}

__all__ = [
    "Attempt",
    "Bank",
    "Budget",
    "Caller",
    "Config",
    "EpimemError",
    "Evidence",
    "ExperienceMemory",
    "IndexText",
    "LessonDraft",
    "MemoryInput",
    "Receipt",
    "RefineResult",
    "Region",
    "Run",
    "SealedOutcome",
    "WorkingMemory",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'epimem' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
