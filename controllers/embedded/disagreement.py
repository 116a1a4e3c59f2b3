"""What becomes of contradictions: conflicts with the guidance, and cautions about the rest.

A conflict has the guidance on its first side. A disagreement among lessons that all yield the
guidance is about something else, so it is not a conflict of the guidance; it is written down as a
caution that quotes both. Ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from controllers.embedded.agreement import Ground, Voice, contradictions, ground, yielded
from controllers.embedded.claims import Claim, Segment
from controllers.embedded.fitting import fitted
from epimem.schema.text import LESSON_BYTES
from epimem.schema.tree import Conflict, ConflictSide

MAX_CONFLICTS = 4
MAX_DISAGREEMENTS = 2
DISAGREE = "The lessons disagree here"


def conflicts_with(
    segment: Segment,
    speaker: Voice,
    supporters: Sequence[Voice],
    others: Sequence[Voice],
    guidance: str,
) -> tuple[Conflict, ...]:
    """Return the conflicts of the guidance with lessons that do not support it.

    Args:
        segment: the statement that became the guidance.
        speaker: the lesson it is from.
        supporters: the lessons that yield it.
        others: the remaining lessons of the same scope, of either polarity.
        guidance: the guidance as it will stand.
    """
    common = ground([*supporters, *others])
    first = ConflictSide(
        statement=guidance,
        applies_when=speaker.applies_when,
        items=tuple(item.node_id for item in supporters),
    )
    found: list[Conflict] = []
    taken: set[str] = set()
    for other in others:
        if other.node_id in taken:
            continue
        for _, one, theirs, two in contradictions(speaker, other, common):
            if one != segment:
                continue
            side = [item for item in others if item is other or _holds(item, theirs, other, common)]
            taken.update(item.node_id for item in side)
            found.append(Conflict(first=first, second=_side(other, two, side)))
            break
    return tuple(found[:MAX_CONFLICTS])


def open_conflict(voices: Sequence[Voice]) -> tuple[Conflict, ...]:
    """Return the first conflict among lessons that share no guidance, the larger side first.

    One at most: without a guidance nothing ties the sides of two conflicts together.
    """
    for at, left in enumerate(voices):
        for right in voices[at + 1 :]:
            if not left.scope.agrees(right.scope):
                continue
            related = [item for item in voices if item.scope.agrees(left.scope)]
            common = ground(related)
            for ours, one, theirs, two in contradictions(left, right, common):
                mine = [v for v in related if v is left or _holds(v, ours, left, common)]
                yours = [v for v in related if v is right or _holds(v, theirs, right, common)]
                first = _side(left, one, [v for v in mine if v not in yours])
                second = _side(right, two, [v for v in yours if v not in mine])
                if first.items and second.items:
                    larger_first = len(first.items) >= len(second.items)
                    sides = (first, second) if larger_first else (second, first)
                    return (Conflict(first=sides[0], second=sides[1]),)
    return ()


def disagreements(supporters: Sequence[Voice]) -> list[str]:
    """Return cautions that quote what the supporters of one guidance contradict each other in."""
    common = ground(supporters)
    found: dict[str, None] = {}
    for at, left in enumerate(supporters):
        for right in supporters[at + 1 :]:
            for _, one, _, two in contradictions(left, right, common):
                text = f"{DISAGREE}: “{one.text}” / “{two.text}”"
                found.setdefault(fitted(text, LESSON_BYTES))
    return list(found)[:MAX_DISAGREEMENTS]


def _holds(item: Voice, claim: Claim, speaker: Voice, common: Ground) -> bool:
    return item.polarity == speaker.polarity and yielded(claim, item, common)[1] > 0


def _side(speaker: Voice, segment: Segment, holders: Sequence[Voice]) -> ConflictSide:
    return ConflictSide(
        statement=segment.text,
        applies_when=speaker.applies_when,
        items=tuple(item.node_id for item in holders),
    )
