"""When two lessons say the same, and when they cannot both hold; measure and bounds are ours.

*Yields.* A lesson yields a claim when one of its own claims has the same kind, no other number, no
other inline code and no opposed side (see `contrasts`), shares a key word, covers at least
`COVERAGE_MIN` of the claim's words by weight, and puts no other word in the place of one of them.
Words of the subject (scope and question) weigh half and count as covered, because every lesson
about that question is about them; key words are the rest, and one must be shared. Two words are
rivals when they stand beside the same word in the two claims ("white diamond", "white circle"); a
lesson that has a rival, or uses a key word of the claim under the other kind only, does not yield
it. Words that most topics of the group name ("marker") are no rivals.

*Contradicts.* Two claims contradict each other when the smaller shares at least `SAME_MIN` of its
words with the larger, a key word among them, and the kinds or the numbers differ, or they take
opposed sides, or one comes from a lesson that reports what was judged wrong, unless either lesson
also yields the other's claim. Claims that quote different inline code are alternatives, not
contradictions. Nor does it contradict "leave out the mark shown here" that the same words were judged
wrong with another region of a picture: they speak of another mark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from controllers.embedded.claims import Claim, Segment, claim_words, segments
from controllers.embedded.contrasts import opposed
from controllers.embedded.scopes import Scope, node_anchor, node_scope
from controllers.embedded.words import content_words, overlap
from epimem.schema.lesson import Polarity
from epimem.schema.tree import Node

COVERAGE_MIN = 0.6
SAME_MIN = 0.75
_SUBJECT_WEIGHT = 0.5


@dataclass(frozen=True)
class Voice:
    """A lesson as it speaks in a consolidation."""

    node_id: str
    polarity: Polarity
    guidance: str
    applies_when: str
    cautions: tuple[str, ...]
    questions: frozenset[str]
    scope: Scope
    anchor: frozenset[str]
    topic: frozenset[str]
    conditions: frozenset[str]
    known: frozenset[str]
    segments: tuple[Segment, ...]
    shown: frozenset[tuple[str, tuple[int, int, int, int]]] = frozenset()

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """All claims of the lesson in order."""
        return tuple(claim for segment in self.segments for claim in segment.claims)

    @cached_property
    def kinds(self) -> dict[str, frozenset[str]]:
        """For each word of a claim, the kinds of the claims that hold it."""
        found: dict[str, frozenset[str]] = {}
        for claim in self.claims:
            for word in claim.bag:
                found[word] = found.get(word, frozenset()) | {claim.kind}
        return found


@dataclass(frozen=True)
class Ground:
    """What a group of lessons has in common before any of them speaks: subject and topic words."""

    subject: frozenset[str]
    topics: frozenset[str]


def voice(node: Node) -> Voice:
    """Return the voice of a lesson node.

    A lesson with recorded statements speaks in those, so that template words are never compared; a
    negative one only in its first, which is the one that its guidance quotes.
    """
    lesson = node.lesson
    assert lesson is not None, "only lessons speak"
    index = node.index if node.index.text else lesson.index
    statements = lesson.statements[:1] if lesson.polarity == "negative" else lesson.statements
    spoken = "\n".join(item.text for item in statements) or lesson.guidance
    keys = frozenset(support.question_key for support in lesson.supports if support.question_key)
    notes = " ".join(item.note for item in lesson.evidence)
    return Voice(
        node_id=node.node_id,
        polarity=lesson.polarity,
        guidance=lesson.guidance,
        applies_when=lesson.applies_when,
        cautions=lesson.cautions,
        questions=keys or frozenset({lesson.question_key or node.node_id}),
        scope=node_scope(node),
        anchor=frozenset(content_words(node_anchor(node))),
        topic=frozenset(claim_words(index.topic)),
        conditions=frozenset(claim_words(lesson.applies_when)),
        known=frozenset(claim_words(f"{spoken}\n{lesson.applies_when}\n{notes}")),
        segments=segments(spoken),
        shown=frozenset((item.image_id, item.region.box) for item in lesson.evidence),
    )


def ground(voices: Sequence[Voice]) -> Ground:
    """Return the words of scope and question, and those of the topic, that most lessons have."""
    spoken = [
        speaker.anchor | {root for word in speaker.scope.words for root in claim_words(word)}
        for speaker in voices
    ]
    return Ground(_of_most(spoken), _of_most([speaker.topic for speaker in voices]))


def _of_most(sets: Sequence[frozenset[str]]) -> frozenset[str]:
    """Return the words that more than half of the sets hold."""
    seen = Counter(word for words in sets for word in words)
    return frozenset(word for word, count in seen.items() if 2 * count > len(sets))


def yielded(claim: Claim, speaker: Voice, common: Ground) -> tuple[float, int]:
    """Return how far a lesson yields a claim, in [0, 1], and how many key words they share."""
    key = claim.bag - common.subject
    if not key or _denies(speaker, key - common.topics, claim):
        return 0.0, 0
    best = (0.0, 0)
    for own in speaker.claims:
        if own.kind != claim.kind or own.partial != claim.partial:
            continue
        if opposed(claim.contrasts, own.contrasts):
            continue
        both = claim.bag & own.bag
        shared = key & both
        exact = claim.numbers <= own.numbers and claim.code in {(), own.code}
        if not shared or not exact:
            continue
        # Figures alone say nothing (two answers may be the same number), nor does one word of
        # advice; one word of what is to be left out does.
        single = shared == key and claim.kind != ""
        if not both - own.numbers or (len(both) < 2 and not single):
            continue
        covered = _coverage(claim, own, common)
        if covered >= COVERAGE_MIN and not _has_rival(claim, own, common):
            best = max(best, (covered, len(shared)))
    return best


def contradictions(
    left: Voice, right: Voice, common: Ground
) -> list[tuple[Claim, Segment, Claim, Segment]]:
    """Return the pairs of claims, with the segments that hold them, that cannot both hold."""
    found: list[tuple[Claim, Segment, Claim, Segment]] = []
    for one in left.segments:
        for claim in one.claims:
            for two in right.segments:
                found += [
                    (claim, one, other, two)
                    for other in two.claims
                    if _contradict(claim, left, other, right, common)
                ]
    return found


def _contradict(claim: Claim, left: Voice, other: Claim, right: Voice, common: Ground) -> bool:
    ours, theirs = frozenset(claim.words), frozenset(other.words)
    if claim.partial or other.partial or not (ours & theirs) - common.subject:
        return False
    if claim.code != other.code:
        return False
    if overlap(ours, theirs) < SAME_MIN or _has_rival(claim, other, common):
        return False
    if left.polarity != right.polarity:
        elsewhere = claim.points and other.points and _shows_other_places(left, right)
        return claim.kind == other.kind and claim.numbers == other.numbers and not elsewhere
    nested = claim.numbers <= other.numbers or other.numbers <= claim.numbers
    against = opposed(claim.contrasts, other.contrasts)
    if claim.kind == other.kind and nested and not against:
        return False
    return not (yielded(claim, right, common)[1] or yielded(other, left, common)[1])


def _shows_other_places(left: Voice, right: Voice) -> bool:
    """Tell whether both lessons rest on regions of pictures, and on none that the other has."""
    return bool(left.shown and right.shown) and left.shown.isdisjoint(right.shown)


def _denies(speaker: Voice, key: frozenset[str], claim: Claim) -> bool:
    """Tell whether a lesson uses a key word of the claim, but only under another kind."""
    return any(word in speaker.kinds and claim.kind not in speaker.kinds[word] for word in key)


def _coverage(claim: Claim, own: Claim, common: Ground) -> float:
    total = covered = 0.0
    for word in sorted(claim.bag):
        weight = _SUBJECT_WEIGHT if word in common.subject else 1.0
        total += weight
        covered += weight * (word in own.bag or word in common.subject)
    return covered / total


def _has_rival(claim: Claim, own: Claim, common: Ground) -> bool:
    """Tell whether one claim has another word in the place of a word of the other."""
    free = common.subject | common.topics
    ours = frozenset(claim.words) - own.bag - free
    theirs = frozenset(own.words) - claim.bag - free
    if not ours or not theirs:
        return False
    for mine, yours in ((claim.before, own.before), (claim.after, own.after)):
        for word in mine.keys() & yours.keys():
            if not ours.isdisjoint(mine[word]) and not theirs.isdisjoint(yours[word]):
                return True
    return False
