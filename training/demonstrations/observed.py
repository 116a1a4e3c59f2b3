"""Worked examples of a strong model, in a folder with its runs, lessons and pictures, as demonstrations.

The examples (place, merge, split_lift, consolidate, select with gate) rest on lessons that were written
with the reference in view. That is what the bank of such a construction holds, so the examples are
learned from as they are. As targets of derive the same lessons would teach a controller to know what it
was never shown: they fit only an offline prompt that shows the reference, and are set aside as such.

The examples show lessons of nearly all houses beside one another, so that all of them are one group:
they stand in one split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from epimem.errors import ImageError, RecordError
from epimem.protocols import Encoder
from epimem.schema.ids import sha256
from training.demonstrations.judging import ID_DIGITS, Sealed, id_of, problem_of, said_by_a_model
from training.demonstrations.observed_lessons import (
    EXAMPLES,
    ObservedLessons,
    contributed,
    lines_of,
    new_bank,
)
from training.demonstrations.observed_requests import made, rules_of
from training.demonstrations.observed_selections import Example, Made
from training.demonstrations.record import ROLE_OF, Demonstration, Provenance, runs_named
from training.demonstrations.store import DemonstrationSet

Progress = Callable[[str, int, int], None]
TEACHER = "observed"
IN_VIEW = (
    "written with the reference in view: a target of an offline prompt that shows it, and no other"
)


def observe(
    source: Path,
    out: DemonstrationSet,
    work: Path,
    *,
    encoder: Encoder | None,
    progress: Progress,
) -> dict[str, int]:
    """Put the examples of a folder into a set; return counts by what became of them.

    An example that does not hold is set aside with its reason, and the others go on.

    Args:
        source: has runs.jsonl, lessons.jsonl, organizer.jsonl and the pictures.
        out: receives demonstrations.
        work: folder for the bank that the lessons are put into.
        encoder: for likenesses; None: a stand-in that compares words.
        progress: called with (phase, done, total).

    Raises:
        NotFoundError: the folder lacks a file.
        RecordError: a line is no JSON object.
        StorageError: the set cannot be written.
    """
    examples = list(lines_of(source / EXAMPLES))
    group = f"observed {source.name}"
    with new_bank(work / "observed", encoder) as memory:
        lessons = contributed(source, memory, encoder)
        receiver = _Receiver(out, group, source.name)
        receiver.lessons(lessons)
        receiver.examples(examples, lessons, progress)
    return dict(receiver.counts)


class _Receiver:
    def __init__(self, out: DemonstrationSet, group: str, source: str) -> None:
        self.counts = {"accepted": 0, "set_aside": 0, "known": 0}
        self._out, self._group, self._source = out, group, source

    def lessons(self, lessons: ObservedLessons) -> None:
        """Set the lessons aside as targets of derive."""
        for task_id in (*lessons.nodes, *lessons.refused):
            reason = lessons.refused.get(task_id, IN_VIEW)
            check: Any = "schema" if task_id in lessons.refused else "provenance"
            self._set_aside(self._key("derive", task_id), "derive", check, reason)

    def examples(
        self, examples: Sequence[Example], lessons: ObservedLessons, progress: Progress
    ) -> None:
        """Take examples, one after the other."""
        rules = rules_of(examples, lessons)
        for number, example in enumerate(examples, 1):
            operation: Any = example.get("op")
            try:
                for found in made(example, lessons, rules):
                    self._take(found)
            except RecordError as error:
                known: Any = operation if operation in ROLE_OF else "place"
                key = self._key("example", str(number), str(example))
                self._set_aside(key, known, "schema", str(error))
            progress("observed", number, len(examples))

    def _take(self, found: Made) -> None:
        operation, request, given = found
        key = id_of(operation, self._group, request)
        if key in self._out.done:
            self.counts["known"] += 1
            return
        value = said_by_a_model(operation, request, given)
        demonstration = Demonstration(
            id=key,
            operation=operation,
            group=self._group,
            request=request,
            value=value,
            provenance=Provenance(
                teacher=TEACHER, source=self._source, run_ids=runs_named(request, value)
            ),
        )
        problem = problem_of(demonstration, Sealed())
        if problem is not None:
            self._set_aside(key, operation, problem.check, problem.reason)
            return
        try:
            self._out.add(demonstration)
        except ImageError as error:
            self._set_aside(key, operation, "image", str(error))
        else:
            self.counts["accepted"] += 1

    def _set_aside(self, key: str, operation: Any, check: Any, reason: str) -> None:
        if key in self._out.done:
            self.counts["known"] += 1
            return
        self._out.set_aside(key, operation, self._group, check, reason)
        self.counts["set_aside"] += 1

    def _key(self, *parts: str) -> str:
        return sha256("\n".join((self._group, *parts)).encode("utf-8"))[:ID_DIGITS]
