"""Whether an opened bank can be read and written, and what waits in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epimem.errors import EpimemError
from epimem.service.messages import HealthAnswer

if TYPE_CHECKING:
    from epimem.memory import ExperienceMemory


def answer(memory: ExperienceMemory) -> HealthAnswer:
    """Probe a bank by writing and reading back, and say what waits in it."""
    bank = memory.bank
    fault = ""
    if bank.frozen is None and not bank.read_only:
        try:
            bank.probe()
        except EpimemError as error:
            fault = error.code
    backlog = bank.backlog()
    return HealthAnswer(
        bank_id=bank.bank_id,
        bank_seq=bank.head_seq,
        frozen=bank.frozen is not None,
        writable=not fault and bank.frozen is None and not bank.read_only,
        queued_runs=backlog.runs,
        oldest_queued_run_s=backlog.run_s,
        unplaced_lessons=backlog.lessons,
        oldest_unplaced_lesson_s=backlog.lesson_s,
        index_lag=memory.index_lag,
        fault=fault,
    )
