"""What a demonstration must pass before it is taken: five checks, each of which names what is wrong.

    schema       the value is one of the operation, and the reply that says it is read back as it
    references   every id and image that the value names is one that the request shows
    coverage     a split deals each child into exactly one part, of a lawful size
    constraints  a selection keeps to its bounds; a gate is asked only where there are crops
    provenance   teacher and runs are named, and no reference answer stands in what is learned

References, coverage and constraints are looked at before the reply is made, so that a demonstration is
set aside for the most telling reason: a reply cannot name a stranger at all. An empty selection, a Place
into a new category and a Merge of nothing are as valid as any other value.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

from controllers.prompts import OPERATIONS, Refused
from controllers.prompts.select import settled
from epimem.operations.rules import may_select
from epimem.protocols import GateRequest, SelectRequest, SplitRequest
from epimem.schema.memory_input import Candidate, Selection
from epimem.schema.proposal import SplitLift
from training.demonstrations.leaks import leaked
from training.demonstrations.record import REQUEST_OF, VALUE_OF, Demonstration, runs_named
from training.demonstrations.strangers import strangers

CheckName = Literal[
    "schema", "references", "coverage", "constraints", "provenance", "teacher", "image"
]
"""Why a demonstration was set aside; `teacher` (no value came) and `image` are found before a check."""


@dataclass(frozen=True)
class Problem:
    """The check that a demonstration did not pass, and why."""

    check: CheckName
    reason: str


def check(
    demonstration: Demonstration,
    *,
    references: Collection[str] = (),
    question: str = "",
    said: Collection[str] = (),
) -> Problem | None:
    """Return the first problem of a demonstration, None where it is sound.

    Args:
        demonstration: what to check.
        references: reference answers that only the teacher knew; neither the target nor the request may
            hold one. One shorter than 4 characters is looked for as a whole guidance only.
        question: the question as its source asks it; a reference that stands in it is no secret.
        said: what agents said before the reference was opened, such as the answer of the run; a
            reference that stands there may stand in the request, which shows it, but in no target.
    """
    problem = _kinds(demonstration)
    for validator in _BEFORE_PROVENANCE:
        problem = problem or validator(demonstration)
    return problem or provenance(demonstration, references, question=question, said=said)


def schema(demonstration: Demonstration) -> Problem | None:
    """Check that request and value are of the operation, and that the reply is read back as it."""
    problem = _kinds(demonstration)
    if problem is not None:
        return problem
    operation, request = OPERATIONS[demonstration.operation], demonstration.request
    try:
        reply = json.loads(json.dumps(operation.target(request, demonstration.value)))
        again = operation.parse(request, reply)
    except KeyError as error:
        return Problem("schema", f"the value names {error} which the request does not show")
    except (Refused, AssertionError, AttributeError) as error:
        return Problem("schema", f"the reply is refused: {error}")
    if again != demonstration.value:
        return Problem("schema", "the reply says another value")
    return None


def references(demonstration: Demonstration) -> Problem | None:
    """Check that every id and image of the value is one that the request shows."""
    found = strangers(demonstration.operation, demonstration.request, demonstration.value)
    return Problem("references", f"not shown: {', '.join(found[:3])}") if found else None


def coverage(demonstration: Demonstration) -> Problem | None:
    """Check that a split deals each child into one part of `min_group` to `capacity` children."""
    request, value = demonstration.request, demonstration.value
    if not isinstance(request, SplitRequest) or not isinstance(value, SplitLift):
        return None
    times = Counter(key for part in value.parts for key in part.child_ids)
    repeated = sorted(key for key, count in times.items() if count > 1)
    if repeated:
        return Problem("coverage", f"in two parts: {repeated[0]}")
    missing = [child.node_id for child in request.children if not times[child.node_id]]
    if missing:
        return Problem("coverage", f"{len(missing)} children in no part, {missing[0]} first")
    sizes = [len(part.child_ids) for part in value.parts]
    if len(sizes) < 2 or min(sizes) < request.min_group or max(sizes) > request.capacity:
        bounds = f"{request.min_group} to {request.capacity}"
        return Problem("coverage", f"parts of {sizes}; two or more of {bounds} are wanted")
    return None


def constraints(demonstration: Demonstration) -> Problem | None:
    """Check the bounds of a selection, and that a gate is asked about crops."""
    request, value = demonstration.request, demonstration.value
    if isinstance(request, GateRequest) and not any(request.crops.values()):
        return Problem("constraints", "a gate without crops is never asked")
    if isinstance(request, SelectRequest) and isinstance(value, Selection):
        fault = _selection_fault(request, value)
        return Problem("constraints", fault) if fault else None
    return None


def provenance(
    demonstration: Demonstration,
    references: Collection[str] = (),
    *,
    question: str = "",
    said: Collection[str] = (),
) -> Problem | None:
    """Check that teacher, source and runs are named, and that no reference leaked; see `check`."""
    origin = demonstration.provenance
    for name in ("teacher", "source", "prompt_version"):
        if not getattr(origin, name):
            return Problem("provenance", f"{name} is not named")
    runs = runs_named(demonstration.request, demonstration.value)
    unknown = [key for key in runs if key not in origin.run_ids]
    if unknown:
        return Problem("provenance", f"rests on a run that is not named: {unknown[0]}")
    found = leaked(demonstration, references, question=question, said=said)
    return Problem("provenance", found) if found else None


def _kinds(demonstration: Demonstration) -> Problem | None:
    name, value = demonstration.operation, demonstration.value
    if name not in REQUEST_OF:
        return Problem("schema", f"no such operation: {name}")
    if not isinstance(demonstration.request, REQUEST_OF[name]):
        return Problem("schema", f"{type(demonstration.request).__name__} is no request of {name}")
    fits = type(value) is int and value in {0, 1} if name == "gate" else _is(value, VALUE_OF[name])
    return None if fits else Problem("schema", f"{type(value).__name__} is no value of {name}")


def _is(value: object, kind: Any) -> bool:
    return isinstance(value, kind)


def _selection_fault(request: SelectRequest, value: Selection) -> str:
    """Return what a selection breaks, empty where it is lawful."""
    if settled(request) is not None:
        return "where no candidate may be chosen, a model is never asked"
    candidates = {each.node_id: each for each in request.candidates}
    unfit = [key for key in value.item_ids if not _may_choose(request, candidates.get(key))]
    if unfit:
        return f"may not be chosen: {unfit[0]}"
    lessons = (value.lesson_id,) if value.lesson_id is not None else ()
    kinds = {key: request.nodes[key].kind for key in value.item_ids}
    faults = {
        "a rule stands for the lesson": any(kinds[key] != "lesson" for key in lessons),
        "a lesson stands among the rules": any(kinds[key] == "lesson" for key in value.rule_ids),
        "a rule is chosen twice": len(set(value.rule_ids)) != len(value.rule_ids),
        f"more than {request.max_rules} rules": len(value.rule_ids) > request.max_rules,
        "a lesson is chosen, none is allowed": len(lessons) > request.max_lessons,
        "rules beside a lesson": request.strict and bool(value.rule_ids and lessons),
    }
    return next((fault for fault, found in faults.items() if found), "")


def _may_choose(request: SelectRequest, candidate: Candidate | None) -> bool:
    if candidate is None or candidate.node_id not in request.nodes:
        return False
    return candidate.passes and may_select(request.nodes[candidate.node_id])


_BEFORE_PROVENANCE = (references, coverage, constraints, schema)
