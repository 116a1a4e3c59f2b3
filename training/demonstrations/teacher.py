"""The teacher in the place of the two controllers: it answers, and what it answers is judged and kept.

    request ─ known? ─┬─ yes ──────────────────────────────────────> the value of then
                      └─ no ─ teacher ─ judged ─┬─ sound ──────────> stored, handed on
                                                └─ reviser, once ─┬> stored, handed on
                                                                  └> set aside, no value

What is handed on is what a bank then works with, so that later requests rest on sound answers alone.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from controllers.prompts import OPERATIONS
from epimem.errors import EpimemError, ImageError, RecordError
from epimem.protocols import DeriveRequest, Reply, UpdateRequest
from epimem.schema.run import Run
from training.demonstrations.asking import Controllers, no_value
from training.demonstrations.checks import Problem
from training.demonstrations.intake import SourceRun
from training.demonstrations.judging import Sealed, id_of, problem_of, said_by_a_model
from training.demonstrations.record import (
    Demonstration,
    OperationName,
    Provenance,
    runs_named,
)
from training.demonstrations.store import DemonstrationSet


@dataclass
class Taught:
    """What came of the requests so far; `known` were answered before."""

    accepted: int = 0
    set_aside: int = 0
    revised: int = 0
    known: int = 0


class Teacher:
    """Answers requests with a teacher and a reviser, and puts what is sound into a set.

    Used by one journey at a time; what a journey's thread meets on the disk is raised by `settle`.

    Args:
        out: receives demonstrations.
        teacher: answers.
        reviser: is asked once about what the teacher got wrong; None: that is set aside.
        source: the name of the data, for provenance.
        seed: of grouping and splits, for provenance.

    Attributes:
        taught: counts.
        asking: the run whose question a bank is being asked, None at other times.
    """

    def __init__(
        self,
        out: DemonstrationSet,
        teacher: Controllers,
        reviser: Controllers | None,
        *,
        source: str,
        seed: int,
    ) -> None:
        self.taught = Taught()
        self.asking: SourceRun | None = None
        self._out = out
        self._teacher, self._reviser = teacher, reviser
        self._source, self._seed = source, seed
        self._known = {each.id: each.value for each in out.read()}
        self._group, self._runs = "", dict[str, SourceRun]()
        self._fault: EpimemError | None = None
        self._lock = threading.Lock()

    def turn_to(self, group: str, runs: Sequence[SourceRun]) -> None:
        """Let what follows belong to a group, whose runs these are."""
        self._group = group
        self._runs = {each.run.run_id: each for each in runs}

    def settle(self) -> None:
        """Raise what a thread met that ends the job.

        Raises:
            StorageError: the set cannot be written.
        """
        if self._fault is not None:
            raise self._fault

    def ask(self, operation: OperationName, requests: Sequence[Any]) -> list[Reply[Any]]:
        """Return one reply per request, in order; each is stored or set aside before this returns."""
        with self._lock:
            found: list[Reply[Any] | None] = [self._answered(operation, each) for each in requests]
            open_ = [at for at, reply in enumerate(found) if reply is None]
            replies = self._teacher.ask(operation, [requests[at] for at in open_])
            for at, reply in zip(open_, replies, strict=True):
                try:
                    found[at] = self._taken(operation, requests[at], reply)
                except EpimemError as error:
                    self._fault = error
                    raise
            return [reply for reply in found if reply is not None]

    # -- what needs no call ------------------------------------------------------------------------

    def _answered(self, operation: OperationName, request: Any) -> Reply[Any] | None:
        settled = OPERATIONS[operation].settled(request)
        if settled is not None:
            return Reply(settled)
        key = id_of(operation, self._group, request)
        if key not in self._out.done:
            return None
        self.taught.known += 1
        if key in self._known:
            return Reply(self._known[key])
        return no_value("set aside before")

    # -- judging and keeping -----------------------------------------------------------------------

    def _taken(self, operation: OperationName, request: Any, reply: Reply[Any]) -> Reply[Any]:
        found, problem = self._judged(operation, request, reply, reviser="")
        if problem is not None and self._reviser is not None:
            again = self._revised(self._reviser, operation, request)
            name = self._reviser.name_of(operation)
            found, second = self._judged(operation, request, again, reviser=name)
            said = f"{problem.reason}; revised: {second.reason}" if second is not None else ""
            problem = Problem(second.check, said) if second is not None else None
        problem = problem or self._stored(found)
        if problem is None and found is not None:
            self.taught.accepted += 1
            self.taught.revised += bool(found.provenance.reviser)
            self._known[found.id] = found.value
            return Reply(found.value)
        assert problem is not None
        key = id_of(operation, self._group, request)
        self._out.set_aside(key, operation, self._group, problem.check, problem.reason)
        self.taught.set_aside += 1
        return no_value(problem.reason)

    def _revised(self, reviser: Controllers, operation: OperationName, request: Any) -> Reply[Any]:
        run = self._run_of(request)
        return reviser.revise(
            operation,
            request,
            reference=run.reference if run is not None else "",
            verdict=run.queued.verdict if run is not None else "unknown",
        )

    def _judged(
        self, operation: OperationName, request: Any, reply: Reply[Any], *, reviser: str
    ) -> tuple[Demonstration | None, Problem | None]:
        apart = operation == "merge" and reply.reason is None
        if reply.value is None and not apart:
            return None, Problem("teacher", f"{reply.reason or 'no value'}: {reply.detail}")
        value = said_by_a_model(operation, request, reply.value)
        asked = self.asking.run.run_id if self.asking is not None else None
        runs = {*runs_named(request, value), *([asked] if asked is not None else [])}
        demonstration = Demonstration(
            id=id_of(operation, self._group, request),
            operation=operation,
            group=self._group,
            request=request,
            value=value,
            provenance=Provenance(
                teacher=self._teacher.name_of(operation),
                source=self._source,
                reviser=reviser,
                run_ids=tuple(sorted(runs)),
                seed=self._seed,
            ),
        )
        return demonstration, problem_of(demonstration, self._sealed(request, runs))

    def _sealed(self, request: Any, run_ids: set[str]) -> Sealed:
        known = [self._runs[key] for key in sorted(run_ids) if key in self._runs]
        one = self._run_of(request)
        return Sealed(
            references=tuple(each.reference for each in known if each.reference),
            questions=tuple(each.run.task.question for each in known),
            verdict=one.queued.verdict if one is not None else "unknown",
        )

    def _run_of(self, request: Any) -> SourceRun | None:
        """Return the one run that a request is about, None where it is about several."""
        run = request.run if isinstance(request, DeriveRequest) else None
        if isinstance(request, UpdateRequest) and isinstance(request.trace, Run):
            run = request.trace
        return self._runs.get(run.run_id) if run is not None else None

    def _stored(self, demonstration: Demonstration | None) -> Problem | None:
        """Store a demonstration; return why it cannot be, where the reason is its own."""
        assert demonstration is not None
        try:
            self._out.add(demonstration)
        except ImageError as error:
            return Problem("image", str(error))
        except RecordError as error:
            return Problem("schema", str(error))
        return None
