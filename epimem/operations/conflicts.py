"""Conflicts of a category: how they open at Consolidation, and how they outlive a changing group.

`first` is always the side on which the category's present guidance stands. A model may report a
conflict; it can neither settle one nor make one disappear: stored conflicts outlive every proposal,
a split and a merge, so that the losing side does not come back by being written again. What no seed
says here is ours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from epimem.operations.base import authority_of, name
from epimem.operations.rules import question_keys
from epimem.schema.lesson import AUTHORITIES, Authority
from epimem.schema.proposal import Consolidate, Reason
from epimem.schema.text import folded
from epimem.schema.tree import Conflict, ConflictSide, Node

SideName = Literal["first", "second"]


@dataclass(frozen=True)
class Refusal:
    """Why a consolidation's conflicts cannot stand."""

    reason: Reason
    detail: str


def updated(
    node: Node, proposal: Consolidate, lessons: Sequence[Node]
) -> tuple[Conflict, ...] | Refusal:
    """Return the category's conflicts after a consolidation: the stored ones, joined by the new.

    A proposed conflict that shares its other side's lesson or statement with a stored one is the
    same conflict. A new one opens only where a lesson on the other side has at least the authority
    of the standing guidance; otherwise it is left out and the rest of the proposal holds.

    Args:
        node: the category as it stands.
        proposal: with `supported_by` already checked against `lessons`.
        lessons: the lessons of the category.
    """
    supporters = frozenset(proposal.supported_by)
    result: list[Conflict] = []
    for stored in node.conflicts:
        turned = _turned(stored, supporters, proposal.guidance)
        result.append(_with_items(turned, first=supporters))
    standing = standing_authority(node, proposal, lessons)
    for reported in proposal.conflicts:
        conflict = _turned(reported, supporters, proposal.guidance)
        refused = _check(conflict, proposal, lessons)
        if refused is not None:
            return refused
        same = [at for at, stored in enumerate(result) if _is_same(stored, conflict)]
        for at in same:
            result[at] = _with_items(
                result[at], first=conflict.first.items, second=conflict.second.items
            )
        if not same and _may_open(conflict, lessons, standing):
            result.append(_opened(conflict, proposal, lessons))
    torn = [c for c in result if set(c.first.items) & set(c.second.items)]
    if torn:
        return Refusal("contradiction", "a lesson stands on both sides of a conflict")
    return tuple(result)


def standing_authority(node: Node, proposal: Consolidate, lessons: Iterable[Node]) -> Authority:
    """Return the lowest authority over the lessons behind the guidance as it stands.

    Where there is none yet, those behind the proposed one count. Not the category's own authority:
    that falls with every lesson that is merely shown, and a challenger must not lower its own bar.
    """
    behind = set(node.supported_by) if node.guidance else set(proposal.supported_by)
    return authority_of(lesson for lesson in lessons if lesson.node_id in behind)


def concerning(conflicts: Iterable[Conflict], lesson_ids: Collection[str]) -> tuple[Conflict, ...]:
    """Return the conflicts in which one of these lessons takes a side: what a part inherits."""
    members = set(lesson_ids)
    return tuple(
        conflict
        for conflict in conflicts
        if members & {*conflict.first.items, *conflict.second.items}
    )


def joined(kept: Node, absorbed: Node, lessons: Iterable[Node]) -> tuple[Conflict, ...]:
    """Return the conflicts of a merged category; those of equal statements become one.

    Questions that the other category held already are known from now on: they are not news.
    """
    keys = question_keys(lessons)
    result: dict[tuple[str, str], Conflict] = {}
    for conflict in (*kept.conflicts, *absorbed.conflicts):
        pair = folded(conflict.first.statement), folded(conflict.second.statement)
        both = _combined(result[pair], conflict) if pair in result else conflict
        seen = {*both.first.later, *both.second.later}
        known = tuple(sorted({*both.known, *keys} - seen))
        result[pair] = both.model_copy(update={"known": known})
    return tuple(result.values())


def _combined(one: Conflict, other: Conflict) -> Conflict:
    """Join two records of one conflict; where they name different winners, there is none."""
    sides = {
        "first": _side_with(one.first, other.first.items, later=other.first.later),
        "second": _side_with(one.second, other.second.items, later=other.second.later),
    }
    known = {"known": (*one.known, *other.known)}
    winners = {
        "settled": _agreed(one.settled, other.settled),
        "leader": _agreed(one.leader, other.leader),
    }
    return one.model_copy(update={**sides, **known, **winners})


def _agreed(one: SideName | None, other: SideName | None) -> SideName | None:
    if one is None or other is None:
        return one or other
    return one if one == other else None


def _turned(conflict: Conflict, supporters: frozenset[str], guidance: str) -> Conflict:
    """Return the conflict with the guidance's side first: by lessons, else by its statement."""
    on_first = bool(supporters & set(conflict.first.items))
    on_second = bool(supporters & set(conflict.second.items))
    if not on_first and not on_second:
        on_second = bool(guidance) and folded(guidance) == folded(conflict.second.statement)
    if on_first or not on_second:
        return conflict
    return conflict.model_copy(
        update={
            "first": conflict.second,
            "second": conflict.first,
            "settled": _other(conflict.settled),
            "leader": _other(conflict.leader),
        }
    )


def _check(conflict: Conflict, proposal: Consolidate, lessons: Sequence[Node]) -> Refusal | None:
    present = {lesson.node_id for lesson in lessons}
    strange = sorted({*conflict.first.items, *conflict.second.items} - present)
    if strange:
        return Refusal("unknown_id", f"not a lesson of the category: {name(strange[0])}")
    if conflict.settled is not None:
        return Refusal("authority", "only a review settles a conflict")
    if not conflict.second.items or not conflict.second.statement:
        return Refusal("schema", "a conflict needs a statement and a lesson on its other side")
    if not proposal.guidance and not (conflict.first.items and conflict.first.statement):
        return Refusal("schema", "without guidance a conflict needs both its sides")
    if set(conflict.second.items) & set(proposal.supported_by):
        return Refusal("contradiction", "a supporting lesson stands on the other side")
    return None


def _is_same(stored: Conflict, reported: Conflict) -> bool:
    return bool(set(stored.second.items) & set(reported.second.items)) or (
        folded(stored.second.statement) == folded(reported.second.statement)
    )


def _may_open(conflict: Conflict, lessons: Iterable[Node], standing: Authority) -> bool:
    others = set(conflict.second.items)
    return any(
        AUTHORITIES.index(authority_of((lesson,))) >= AUTHORITIES.index(standing)
        for lesson in lessons
        if lesson.node_id in others
    )


def _opened(conflict: Conflict, proposal: Consolidate, lessons: Iterable[Node]) -> Conflict:
    return Conflict(
        first=ConflictSide(
            statement=proposal.guidance or conflict.first.statement,
            applies_when=proposal.applies_when or conflict.first.applies_when,
            items=tuple(sorted({*conflict.first.items, *proposal.supported_by})),
        ),
        second=conflict.second.model_copy(
            update={"items": tuple(sorted(set(conflict.second.items))), "later": ()}
        ),
        known=tuple(sorted(question_keys(lessons))),
    )


def _with_items(
    conflict: Conflict, *, first: Iterable[str] = (), second: Iterable[str] = ()
) -> Conflict:
    return conflict.model_copy(
        update={
            "first": _side_with(conflict.first, first),
            "second": _side_with(conflict.second, second),
        }
    )


def _side_with(
    side: ConflictSide, items: Iterable[str], *, later: Iterable[str] = ()
) -> ConflictSide:
    return side.model_copy(
        update={
            "items": tuple(sorted({*side.items, *items})),
            "later": tuple(sorted({*side.later, *later})),
        }
    )


def _other(side: SideName | None) -> SideName | None:
    if side is None:
        return None
    return "second" if side == "first" else "first"
