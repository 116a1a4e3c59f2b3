"""Which level a group has: category, summary or rule; and how conflicts open, close and count.

The seed names the inputs (support, failures, conflicts, evidence strength) and no thresholds; all
numbers here are ours. Everything is a function of counters: feedback moves counters, never support,
and what stops qualifying is demoted by calling `relevel` again. More `hurt`, more `used_wrong` and
more conflicts never raise a level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import Field

from epimem.operations import beta
from epimem.schema.base import Record, StrictInt
from epimem.schema.lesson import Support, VerdictSource
from epimem.schema.tree import Conflict, ConflictSide, Kind, Node

Level = Literal[0, 1, 2]
ConflictState = Literal["open", "first", "second"]

WEIGHTS: dict[VerdictSource, float] = {
    "oracle": 0.5,
    "verifier": 0.5,
    "peer": 0.3,
    "self": 0.15,
    "none": 0.05,
}
FULL_PER_ORGANISATION = 2
SUMMARY_SUPPORT = 2
RULE_SUPPORT = 4
RULE_STRENGTH = 0.5
RULE_QUANTILE = 0.1
RULE_LOWER_BOUND = 0.6
HARM_CERTAINTY = 0.9
HARM_BASE_VERDICTS = 20
HARM_USES = 10
HARM_WRONG = 2
LEAD = 3

_KINDS: dict[Level, Kind] = {0: "category", 1: "summary", 2: "rule"}


class Standing(Record):
    """What feedback says of one item, in distinct questions.

    `helped`, `hurt`: questions with that signal. `used_right`, `used_wrong`: verdicts of questions
    whose memory input held the item. `base_right`, `base_wrong`: verdicts of the same namespace and
    family without it.
    """

    helped: StrictInt = Field(default=0, ge=0)
    hurt: StrictInt = Field(default=0, ge=0)
    used_right: StrictInt = Field(default=0, ge=0)
    used_wrong: StrictInt = Field(default=0, ge=0)
    base_right: StrictInt = Field(default=0, ge=0)
    base_wrong: StrictInt = Field(default=0, ge=0)


def has_new_support(node: Node, supported: int) -> bool:
    """Tell whether a category is due for consolidation: two questions, then each quarter more (ours).

    That is at 2, 3, 4, 5, 7, 9, 12 and 15 questions: every step up to the level of a rule, and then
    fewer, so that the cost of a lesson does not grow with the category it falls into.
    """
    grown = node.consolidated_at + max(1, -(-node.consolidated_at // 4))
    return supported >= max(SUMMARY_SUPPORT, grown)


def supports_of(lessons: Iterable[Node]) -> tuple[Support, ...]:
    """Return the supports of these lessons; those that name no question count for nothing."""
    return tuple(
        support
        for node in lessons
        if node.lesson is not None
        for support in node.lesson.supports
        if support.question_key
    )


def support(lessons: Iterable[Node]) -> int:
    """Return the number of distinct questions whose runs yielded these lessons."""
    return _questions(supports_of(lessons))


def strength(supports: Iterable[Support]) -> float:
    """Return 1 - product over questions of (1 - w), in [0, 1).

    w is the question's best source weight; of each organisation the two largest count fully, the
    rest half. A question that several organisations saw is credited to the one where it then weighs
    most (ours; ties: fewest questions so far, then name). The order of supports is irrelevant.
    """
    claims: dict[str, dict[str, float]] = {}
    for item in supports:
        claim = claims.setdefault(item.question_key, {})
        weight = WEIGHTS[item.verdict_source]
        claim[item.organisation] = max(weight, claim.get(item.organisation, 0.0))
    credited: Counter[str] = Counter()
    doubt = 1.0
    # Strongest first; of equals, those that only one organisation can vouch for.
    for claim in sorted(claims.values(), key=_claim_order):
        weight, organisation = _best_credit(claim, credited)
        doubt *= 1.0 - weight
        credited[organisation] += 1
    return 1.0 - doubt


def _claim_order(claim: dict[str, float]) -> tuple[float, int, list[tuple[str, float]]]:
    return -max(claim.values()), len(claim), sorted(claim.items())


def _best_credit(claim: dict[str, float], credited: Counter[str]) -> tuple[float, str]:
    def order(organisation: str) -> tuple[float, int, str]:
        return -_credit(claim, credited, organisation), credited[organisation], organisation

    chosen = min(claim, key=order)
    return _credit(claim, credited, chosen), chosen


def _credit(claim: dict[str, float], credited: Counter[str], organisation: str) -> float:
    full = credited[organisation] < FULL_PER_ORGANISATION
    return claim[organisation] if full else claim[organisation] / 2


def lower_bound(supported: int, standing: Standing) -> float:
    """Return the 10 % quantile of Beta(1 + support + helped, 1 + hurt)."""
    return beta.quantile(RULE_QUANTILE, a=1 + supported + standing.helped, b=1 + standing.hurt)


def is_harmful(standing: Standing) -> bool:
    """Tell whether questions with the item went worse than those of its family without it.

    That is P(Beta(1 + used_right, 1 + used_wrong) < p0) > 0.9, with p0 = base_right / (base_right +
    base_wrong). Not asked before 20 verdicts without the item and 10 with it, nor (ours) before two
    wrong ones: at p0 near 1 the formula alone would condemn a perfect record.
    """
    base = standing.base_right + standing.base_wrong
    uses = standing.used_right + standing.used_wrong
    if base < HARM_BASE_VERDICTS or uses < HARM_USES or standing.used_wrong < HARM_WRONG:
        return False
    worse = beta.cdf(
        standing.base_right / base, a=1 + standing.used_right, b=1 + standing.used_wrong
    )
    return worse > HARM_CERTAINTY


def conflict_state(conflict: Conflict) -> ConflictState:
    """Return "open", or the side that holds.

    A review decides; else the side that leads by three later questions; else the side that was the
    last to lead so.
    """
    if conflict.settled is not None:
        return conflict.settled
    lead = len(set(conflict.first.later)) - len(set(conflict.second.later))
    if lead >= LEAD:
        return "first"
    if lead <= -LEAD:
        return "second"
    return conflict.leader or "open"


def level(
    supports: Iterable[Support], standing: Standing, conflicts: Iterable[Conflict] = ()
) -> Level:
    """Return 0 (category), 1 (summary) or 2 (rule) for guidance with these supports.

    Args:
        supports: the questions whose runs yielded the guidance.
        standing: the guidance's feedback counters.
        conflicts: those of its group, `first` being the side of the guidance.
    """
    supports = [item for item in supports if item.question_key]
    supported = _questions(supports)
    if supported < SUMMARY_SUPPORT:
        return 0
    if (
        supported >= RULE_SUPPORT
        and strength(supports) >= RULE_STRENGTH
        and all(conflict_state(conflict) == "first" for conflict in conflicts)
        and lower_bound(supported, standing) >= RULE_LOWER_BOUND
        and not is_harmful(standing)
    ):
        return 2
    return 1


def may_select(node: Node) -> bool:
    """Tell whether selection may hand this node out.

    A lesson may be; a bare category may not, nor a summary that lost a conflict.
    """
    if node.kind == "category":
        return False
    return all(conflict_state(conflict) != "second" for conflict in node.conflicts)


def relevel(node: Node, lessons: Sequence[Node], standing: Standing) -> Node:
    """Return the category with its level recomputed from its lessons, counters and conflicts.

    To be called after Consolidation, after feedback, and when a lesson gains support by folding.
    Guidance that no longer has two supports is taken back. A lesson is returned as it is.

    Args:
        node: a category of lessons, or a lesson.
        lessons: the lessons of the category.
        standing: the feedback counters of the category.
    """
    if node.kind == "lesson":
        return node
    conflicts = tuple(advance(conflict, lessons) for conflict in node.conflicts)
    if not node.guidance:
        return cleared(node, conflicts)
    supporters = [lesson for lesson in lessons if lesson.node_id in node.supported_by]
    reached = level(supports_of(supporters), standing, conflicts)
    if reached == 0:
        return cleared(node, conflicts)
    return node.model_copy(update={"kind": _KINDS[reached], "conflicts": conflicts})


def advance(conflict: Conflict, lessons: Iterable[Node]) -> Conflict:
    """Count the later questions of both sides, and note which side leads by three."""
    table = {lesson.node_id: lesson for lesson in lessons}
    counted = conflict.model_copy(
        update={
            "first": _counted(conflict.first, conflict, table),
            "second": _counted(conflict.second, conflict, table),
        }
    )
    state = conflict_state(counted.model_copy(update={"settled": None}))
    return counted.model_copy(update={"leader": None if state == "open" else state})


def question_keys(lessons: Iterable[Node]) -> set[str]:
    """Return the distinct question keys behind these lessons."""
    return {item.question_key for item in supports_of(lessons)}


def cleared(node: Node, conflicts: tuple[Conflict, ...] = ()) -> Node:
    """Return the node as a bare category: no guidance, these conflicts."""
    return node.model_copy(
        update={
            "kind": "category",
            "guidance": "",
            "guidance_polarity": "positive",
            "applies_when": "",
            "cautions": (),
            "supported_by": (),
            "conflicts": conflicts,
            "consolidated_at": 0,
        }
    )


def _counted(side: ConflictSide, conflict: Conflict, table: dict[str, Node]) -> ConflictSide:
    keys = question_keys(table[item] for item in side.items if item in table)
    later = set(side.later) | (keys - set(conflict.known))
    return side.model_copy(update={"later": tuple(sorted(later))})


def _questions(supports: Iterable[Support]) -> int:
    return len({item.question_key for item in supports})
