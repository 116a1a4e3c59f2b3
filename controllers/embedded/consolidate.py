"""Consolidate: what the lessons of a category have in common, in the words of one of them.

1. Only lessons whose scopes agree and whose polarity is the same can support one another, and
   never lessons from both sides of a conflict the category has on record.
2. The statement that the most distinct questions yield (see `agreement`) becomes the guidance,
   verbatim from one lesson, where a second lesson says it as a whole; among equals one that names
   its scope, then the one that shares most key words, then the one whose whole wording the others
   know best (the medoid), then fewest figures, then the shortest.
3. *Cases.* A lesson of the same question that yields no part of the statement, contradicts none
   of it, and never mentions the mark that the statement names as its condition, speaks of the
   case without the mark: its statement joins the guidance as the other case, under its own
   condition, and supports it.
4. *Conflicts.* A lesson that contradicts the guidance stands on the other side of a conflict.
   Where supporters contradict one another in something else, a caution quotes both.
5. For a negative group the guidance is one lesson's whole guidance, so that what was judged wrong
   never stands alone as if it were advice.

Nothing shared gives an empty guidance and no support, which is a valid answer. All of it is ours;
the seed names the operation, not a method for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controllers.embedded.agreement import Ground, Voice, contradictions, ground, voice, yielded
from controllers.embedded.claims import Segment, claim_words, segments
from controllers.embedded.contrasts import contrasts, opposed
from controllers.embedded.disagreement import conflicts_with, disagreements, open_conflict
from controllers.embedded.scopes import names_in
from controllers.embedded.words import overlap, tokens
from epimem.protocols import ConsolidateRequest
from epimem.schema.proposal import Consolidate
from epimem.schema.text import LESSON_BYTES
from epimem.schema.tree import Conflict

MAX_CAUTIONS = 6
MAX_CASES = 2
SAME_QUESTION_MIN = 0.6
SAME_CAUTION_MIN = 0.8
WHOLE_MIN = 0.65
OTHER_CASE = "In the other case"


@dataclass(frozen=True)
class _Common:
    """A statement, the lesson it is from, the lessons that yield it, and its rank."""

    segment: Segment
    speaker: Voice
    supporters: tuple[Voice, ...]
    rank: tuple[float, ...]


def consolidate(request: ConsolidateRequest) -> Consolidate:
    """Return the common guidance of a category of lessons, its support and its conflicts."""
    voices = sorted(map(voice, request.lessons), key=lambda speaker: speaker.node_id)
    best: _Common | None = None
    for group in _groups(voices):
        found = _common_statement(group, request.node.conflicts)
        if found is not None and (best is None or found.rank > best.rank):
            best = found
    if best is None:
        # What the category has on record stays there; a second report of it would only blur it.
        found_open = () if request.node.conflicts else open_conflict(voices)
        return Consolidate(node_id=request.node.node_id, conflicts=found_open)
    related = [other for other in voices if other.scope.agrees(best.speaker.scope)]
    stored = request.node.conflicts
    cases = _cases(best, related, stored)
    supporters = sorted([*best.supporters, *cases], key=lambda speaker: speaker.node_id)
    others = [
        other
        for other in related
        if other not in supporters and not _stands_with(other, supporters, stored)
    ]
    guidance = _guidance(best, cases)
    return Consolidate(
        node_id=request.node.node_id,
        guidance=guidance,
        applies_when=_conditions(best.supporters),
        cautions=_cautions(supporters),
        supported_by=tuple(speaker.node_id for speaker in supporters),
        conflicts=conflicts_with(best.segment, best.speaker, supporters, others, guidance),
    )


def _groups(voices: Sequence[Voice]) -> list[list[Voice]]:
    """Return for each lesson the lessons that may support it; equal groups once."""
    groups: list[list[Voice]] = []
    for speaker in voices:
        group = [
            other
            for other in voices
            if other.polarity == speaker.polarity and other.scope.agrees(speaker.scope)
        ]
        if group not in groups:
            groups.append(group)
    return groups


def _common_statement(group: Sequence[Voice], stored: Sequence[Conflict]) -> _Common | None:
    """Return the statement of a group that the most distinct questions yield, None without two."""
    common = ground(group)
    best: _Common | None = None
    for speaker in group:
        against = {
            other.node_id: {one for _, one, _, _ in contradictions(speaker, other, common)}
            for other in group
            if other is not speaker
        }
        for segment in speaker.segments:
            open_ears = [
                other
                for other in group
                if other is not speaker and segment not in against[other.node_id]
            ]
            found = _supported(segment, speaker, open_ears, common, stored)
            if found is not None and (best is None or found.rank > best.rank):
                best = found
    return best


def _supported(
    segment: Segment,
    speaker: Voice,
    others: Sequence[Voice],
    common: Ground,
    stored: Sequence[Conflict],
) -> _Common | None:
    """Return a segment with the lessons that yield the best of its claims."""
    best: _Common | None = None
    for claim in segment.claims:
        shared = {other.node_id: yielded(claim, other, common)[1] for other in others}
        supporters = [speaker, *(other for other in others if shared[other.node_id])]
        supporters = _one_side(supporters, stored)
        questions = frozenset().union(*(item.questions for item in supporters))
        if speaker not in supporters or len(supporters) < 2 or len(questions) < 2:
            continue
        if not _occurs_again(segment, speaker, supporters, common):
            continue
        rank = (
            float(len(questions)),
            float(speaker.polarity == "positive"),
            float(bool(names_in(segment.text, speaker.scope.names))),
            float(sum(shared[item.node_id] for item in supporters if item is not speaker)),
            round(_familiarity(segment, supporters), 6),
            -float(sum(token[0].isdigit() for token in tokens(segment.text))),
            -float(len(segment.text)),
        )
        if best is None or rank > best.rank:
            best = _Common(segment, speaker, tuple(supporters), rank)
    return best


def _occurs_again(
    segment: Segment, speaker: Voice, supporters: Sequence[Voice], common: Ground
) -> bool:
    """Tell whether another supporter says the statement as a whole: all numbers, all words but one.

    Supporters yield one claim of it; a sentence that says more than they do is one lesson's word.
    """
    words = frozenset(claim_words(segment.text)) - common.subject
    numbers = frozenset().union(*(claim.numbers for claim in segment.claims))
    for other in supporters:
        missing = len(words - other.known)
        said = frozenset().union(*(claim.numbers for claim in other.claims))
        whole = missing <= 1 and missing <= (1 - WHOLE_MIN) * len(words)
        if other is not speaker and whole and numbers <= said:
            return True
    return False


def _one_side(supporters: Sequence[Voice], stored: Sequence[Conflict]) -> list[Voice]:
    """Return the supporters without those who stand against the majority in a stored conflict."""
    kept = list(supporters)
    for conflict in stored:
        first = [item for item in kept if item.node_id in conflict.first.items]
        second = [item for item in kept if item.node_id in conflict.second.items]
        if first and second:
            fewer = second if len(second) <= len(first) else first
            kept = [item for item in kept if item not in fewer]
    return kept


def _stands_with(other: Voice, supporters: Sequence[Voice], stored: Sequence[Conflict]) -> bool:
    """Tell whether a lesson is on one side with a supporter in a stored conflict."""
    named = {item.node_id for item in supporters}
    return any(
        other.node_id in side.items and not named.isdisjoint(side.items)
        for conflict in stored
        for side in (conflict.first, conflict.second)
    )


def _familiarity(segment: Segment, supporters: Sequence[Voice]) -> float:
    """Return the mean share of the segment's words that its supporters know, in [0, 1]."""
    words = frozenset(claim_words(segment.text))
    if not words:
        return 0.0
    return sum(len(words & item.known) / len(words) for item in supporters) / len(supporters)


def _cases(best: _Common, related: Sequence[Voice], stored: Sequence[Conflict]) -> list[Voice]:
    """Return the lessons that speak of the case without the mark the statement names."""
    speaker = best.speaker
    if speaker.polarity == "negative":
        return []
    rest = [
        other
        for other in related
        if other.polarity == speaker.polarity and other not in best.supporters
    ]
    common = ground([*best.supporters, *rest])
    named = frozenset(claim_words(best.segment.text)) - common.subject
    named &= frozenset.intersection(*(item.known for item in best.supporters))
    named &= frozenset().union(*(item.conditions for item in best.supporters))
    found: list[Voice] = []
    for other in rest:
        stated = bool(other.applies_when and other.segments)
        alike = overlap(other.anchor, speaker.anchor) >= SAME_QUESTION_MIN
        objects = any(contradictions(item, other, common) for item in best.supporters)
        joins = other in _one_side([*best.supporters, *found, other], stored)
        if stated and alike and joins and not objects and named - other.known:
            found.append(other)
    return found[:MAX_CASES]


def _guidance(best: _Common, cases: Sequence[Voice]) -> str:
    if best.speaker.polarity == "negative":
        return best.speaker.guidance
    lines = [best.segment.text]
    for other in cases:
        condition = other.applies_when.rstrip(" .")
        lines.append(f"{OTHER_CASE} ({condition}): {other.segments[0].text}")
    text = "\n".join(lines)
    return text if len(text.encode("utf-8")) <= LESSON_BYTES else best.segment.text


def _conditions(supporters: Sequence[Voice]) -> str:
    """Return the conditions nearest to those of the other supporters (the medoid), verbatim."""
    stated = [item for item in supporters if item.applies_when]

    def rank(item: Voice) -> tuple[float, int]:
        nearness = sum(overlap(item.conditions, other.conditions) for other in stated)
        return round(nearness, 6), -len(item.applies_when)

    return max(stated, key=rank).applies_when if stated else ""


def _cautions(supporters: Sequence[Voice]) -> tuple[str, ...]:
    """Return disagreements, then the different cautions, a lesson after the other, at most six."""
    kept = disagreements(supporters)
    longest = max((len(item.cautions) for item in supporters), default=0)
    for place in range(longest):
        for item in supporters:
            if place < len(item.cautions) and _is_new(item.cautions[place], kept):
                kept.append(item.cautions[place])
    return tuple(kept[:MAX_CAUTIONS])


def _is_new(caution: str, kept: Sequence[str]) -> bool:
    return not any(caution == other or _says_the_same(caution, other) for other in kept)


def _says_the_same(one: str, other: str) -> bool:
    """Tell whether two cautions differ in their wording only, not in a number or a negation."""
    words, known = frozenset(claim_words(one)), frozenset(claim_words(other))
    both = words | known
    if not both or len(words & known) < SAME_CAUTION_MIN * len(both):
        return False
    left, right = ([c for part in segments(text) for c in part.claims] for text in (one, other))
    exact = {(c.kind, c.numbers, c.code) for c in left} == {
        (c.kind, c.numbers, c.code) for c in right
    }
    return exact and not opposed(contrasts(one), contrasts(other))
