"""Whether a value is one that a controller should have given: the checks, and what the verdict says."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Literal

from controllers.prompts import OPERATIONS, Refused
from epimem.operations import update
from epimem.protocols import DeriveRequest, UpdateRequest
from epimem.schema.ids import sha256
from epimem.schema.proposal import Rejection
from epimem.schema.working_memory import Update
from training.demonstrations.checks import Problem, check
from training.demonstrations.codec import to_plain
from training.demonstrations.record import (
    Demonstration,
    OperationName,
    Provenance,
    texts_of,
)

ID_DIGITS = 32
_NOBODY = Provenance(teacher="", source="")


@dataclass(frozen=True)
class Sealed:
    """What is known of the runs behind a request, and is shown to nobody.

    Attributes:
        references: their reference answers.
        questions: as they were asked.
        verdict: on the one run that the request is about, "unknown" where it is about several.
    """

    references: tuple[str, ...] = field(default=(), repr=False)
    questions: tuple[str, ...] = ()
    verdict: Literal["right", "wrong", "unknown"] = "unknown"


def id_of(operation: OperationName, group: str, request: Any) -> str:
    """Return the id of a demonstration: a hash of what is asked, the same whenever it is asked."""
    asked = to_plain(Demonstration("", operation, group, request, None, _NOBODY))["request"]
    text = json.dumps([operation, group, asked], sort_keys=True, ensure_ascii=True)
    return sha256(text.encode("ascii"))[:ID_DIGITS]


def said_by_a_model(operation: OperationName, request: Any, value: Any) -> Any:
    """Return a value as a model would have given it: what a reply cannot say is filled in by code.

    A value that no reply can say is returned as it is, for the checks to name.
    """
    prompts = OPERATIONS[operation]
    try:
        return prompts.parse(request, json.loads(json.dumps(prompts.target(request, value))))
    except (Refused, KeyError, AttributeError, AssertionError, TypeError):
        return value


def problem_of(demonstration: Demonstration, sealed: Sealed) -> Problem | None:
    """Return why a demonstration is not to be learned from, None where it is."""
    problem = check(
        demonstration,
        references=sealed.references,
        question="\n".join(sealed.questions),
        said=_said(demonstration.request),
    )
    if problem is None and isinstance(demonstration.value, Update):
        return _unsuccessful(demonstration.request, demonstration.value, sealed.verdict)
    return problem


def _said(request: Any) -> Collection[str]:
    """Return what agents had said before anybody opened the reference: the run, and other questions."""
    if isinstance(request, DeriveRequest):
        return [*texts_of(request.run), *request.batch]
    return list(texts_of(request.trace)) if isinstance(request, UpdateRequest) else ()


def _unsuccessful(
    request: UpdateRequest, value: Update, verdict: Literal["right", "wrong", "unknown"]
) -> Problem | None:
    """Return why an update did not do what it is for: code refuses it, or it stops on a wrong answer.

    A right answer that is not recognised costs another attempt, a wrong one that is taken costs the
    question; both are set aside, for `stop` is what the update is to learn (ours).
    """
    sizes = {page.image_id: (page.width, page.height) for page in request.pages}
    applied = update.apply(request.memory, value, pages=sizes, visual=request.visual)
    if isinstance(applied, Rejection):
        return Problem("constraints", f"code refuses the update: {applied.detail}")
    if verdict != "unknown" and value.stop != (verdict == "right"):
        what = (
            "stops on an answer that was judged wrong" if value.stop else "does not see it is right"
        )
        return Problem("teacher", what)
    return None
