"""Updates of question-level memory: the runs of one question are its attempts, one after the other.

The memory starts empty. After each attempt the teacher revises it, code applies what it accepts, and the
next attempt meets the memory as it then stands, as in `epimem.refine`; evidence is shown as its crop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from epimem import pictures
from epimem.operations import update
from epimem.protocols import UpdateRequest
from epimem.refine import MAX_ATTEMPTS
from epimem.schema.proposal import Rejection
from epimem.schema.working_memory import Update, WorkingMemory
from training.demonstrations.grouping import Bundle
from training.demonstrations.intake import RunSource, SourceRun
from training.demonstrations.teacher import Teacher

Progress = Callable[[str, int, int], None]
BATCH = 16
"""Updates of one call (ours): between calls a job may be stopped."""


@dataclass
class _Question:
    """One question on its way through its attempts."""

    attempts: Sequence[SourceRun]
    memory: WorkingMemory = field(default_factory=WorkingMemory)
    done: int = 0

    @property
    def goes_on(self) -> bool:
        # After the last attempt that there may be, nothing is revised.
        return not self.memory.stop and self.done < min(len(self.attempts), MAX_ATTEMPTS - 1)


def revise_memories(
    bundle: Bundle, source: RunSource, teacher: Teacher, progress: Progress
) -> None:
    """Ask for an update after each attempt of each question; first attempts together, then second ones.

    Args:
        bundle: its runs are the attempts.
        source: has the images.
        teacher: has been turned to this bundle.
        progress: called with (phase, done, total) between batches.

    Raises:
        StorageError: the set cannot be written.
    """
    questions: dict[str, list[SourceRun]] = {}
    for group in bundle.groups:
        for run in group.runs:
            questions.setdefault(run.run.task.question_key, []).append(run)
    open_ = [_Question(attempts) for attempts in questions.values()]
    done = 0
    while open_ := [question for question in open_ if question.goes_on]:
        for at in range(0, len(open_), BATCH):
            batch = open_[at : at + BATCH]
            _revise(batch, source, teacher)
            done += len(batch)
            progress("update", done, 0)


def _revise(batch: Sequence[_Question], source: RunSource, teacher: Teacher) -> None:
    requests = [_request(question, source) for question in batch]
    replies = teacher.ask("update", requests)
    teacher.settle()
    for question, request, reply in zip(batch, requests, replies, strict=True):
        question.done += 1
        if reply.value is not None:
            question.memory = _applied(request, reply.value)


def _request(question: _Question, source: RunSource) -> UpdateRequest:
    run = question.attempts[question.done].run
    evidence = question.memory.evidence
    return UpdateRequest(
        question=run.task.question,
        pages=source.pages(run),
        memory=question.memory,
        answer=run.answer.text,
        trace=run,
        attempt=question.done + 1,
        left=MAX_ATTEMPTS - question.done - 1,
        crop=pictures.crop(source.bank, evidence) if evidence is not None else None,
    )


def _applied(request: UpdateRequest, value: Update) -> WorkingMemory:
    sizes = {page.image_id: (page.width, page.height) for page in request.pages}
    found = update.apply(request.memory, value, pages=sizes, visual=request.visual)
    # The teacher hands on nothing that code refuses.
    return request.memory if isinstance(found, Rejection) else found
