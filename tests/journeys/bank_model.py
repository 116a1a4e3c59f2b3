"""What a bank must hold, as plain dictionaries: the model that the rule machine compares with.

It knows lessons with their supports, runs, receipts, verdicts and signals, revoked texts, and what
was placed at each sequence number; nothing of trees, indexes, files or SQL.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from epimem.schema.ids import question_key
from epimem.schema.receipt import Receipt
from tests.journeys.brute_force import Ask

Key = tuple[str, str, tuple[str, ...], str]  # namespace, scope, audience, guidance
Support = tuple[str, str]  # question, contributor


@dataclass(frozen=True)
class Copy:
    """One support of a lesson: who gave it, and what it came from (a run, lessons)."""

    question: str
    contributor: str
    sources: frozenset[str] = frozenset()

    @property
    def name(self) -> Support:
        return self.question, self.contributor


@dataclass(frozen=True)
class ModelLesson:
    """A live lesson; its first copy is the lesson itself."""

    key: Key
    copies: tuple[Copy, ...]

    @property
    def supports(self) -> tuple[Support, ...]:
        return tuple(copy.name for copy in self.copies)


@dataclass
class ModelRun:
    """A run: its text and question, who gave it, and how far it has come."""

    number: int
    key: Key
    question: str
    contributor: str
    state: str = "queued"
    attempts: int = 0
    retry_at: float = 0


@dataclass(frozen=True)
class Kept:
    """What was answered to an idempotency key, and until when it is answered again."""

    body: tuple[str, bytes]
    receipt: Receipt
    expires: float


@dataclass
class Moment:
    """A state that can be gone back to: where lessons were, and the digest of the trees."""

    placed: dict[str, ModelLesson]
    waiting: frozenset[str]
    digest: str | None


@dataclass
class Model:
    """Everything that a bank must hold."""

    lessons: dict[str, ModelLesson] = field(default_factory=dict)
    placed: set[str] = field(default_factory=set)
    runs: dict[str, ModelRun] = field(default_factory=dict)
    blocked_texts: set[str] = field(default_factory=set)
    blocked_runs: set[int] = field(default_factory=set)
    receipts: dict[tuple[str, str], Kept] = field(default_factory=dict)
    verdicts: dict[tuple[str, str, str], tuple[str, str, frozenset[str]]] = field(
        default_factory=dict
    )
    signals: dict[tuple[str, str], str] = field(default_factory=dict)  # (item, question): who
    moments: dict[int, Moment] = field(default_factory=dict)
    snapshots: dict[str, int] = field(default_factory=dict)
    ever: set[str] = field(default_factory=set)
    # What folded copies ever came from: one that comes again is the same copy, and keeps it.
    sources: dict[tuple[str, Support], frozenset[str]] = field(default_factory=dict)

    # -- lessons -----------------------------------------------------------------------------------

    def same(self, key: Key) -> str | None:
        """Return the live lesson that says the same."""
        return next((name for name, one in self.lessons.items() if one.key == key), None)

    def status(self, key: Key, copy: Copy) -> str:
        """Return what handing in a lesson must come to."""
        if key[3] in self.blocked_texts:
            return "text_blocked"
        known = self.same(key)
        if known is None:
            return "stored"
        return "duplicate" if copy.name in self.lessons[known].supports else "folded"

    def take(self, key: Key, copy: Copy, node_id: str) -> None:
        """Take a lesson in under the id that the bank gave, as `status` says."""
        status = self.status(key, copy)
        if status == "stored":
            assert node_id not in self.ever, "ids are never used again"
            self.lessons[node_id] = ModelLesson(key, (copy,))
            self.ever.add(node_id)
        elif status == "folded":
            assert node_id == self.same(key)
            old, name = self.lessons[node_id], (node_id, copy.name)
            self.lessons[node_id] = replace(old, copies=(*old.copies, copy))
            self.sources[name] = self.sources.get(name, frozenset()) | copy.sources
        elif status == "duplicate":
            assert node_id == self.same(key)

    def keep(
        self, name: tuple[str, str], body: tuple[str, bytes], receipt: Receipt, expires: float
    ) -> None:
        """Remember a receipt under (contributor, key)."""
        self.receipts[name] = Kept(body, receipt, expires)

    # -- moments -----------------------------------------------------------------------------------

    def remember(self, seq: int, digest: str) -> None:
        """Keep the present as what the bank was at a sequence number."""
        placed = {key: self.lessons[key] for key in self.placed}
        waiting = frozenset(self.lessons.keys() - self.placed)
        self.moments[seq] = Moment(placed, waiting, digest)

    def all_at(self, seq: int) -> set[str]:
        """Return the lessons that there were, placed or waiting."""
        return {*self.moments[seq].placed, *self.moments[seq].waiting}

    def restore(self, seq: int) -> None:
        """Put placed lessons back as they were; those that came later wait."""
        moment = self.moments[seq]
        self.lessons.update(moment.placed)
        self.placed = set(moment.placed)

    # -- revocation --------------------------------------------------------------------------------

    def has_of(self, contributor: str) -> bool:
        """Return whether a contributor gave something that is still there."""
        given = {copy.contributor for one in self.lessons.values() for copy in one.copies}
        return contributor in given | {run.contributor for run in self.runs.values()}

    def reach(self, seeds: set[str], contributor: str | None) -> tuple[set[str], set[str]]:
        """Return the lessons and runs that revoking seeds takes away, seeds included."""
        gone = set(seeds)
        if contributor is not None:
            gone |= {k for k, run in self.runs.items() if run.contributor == contributor}
            gone |= {k for k, one in self.lessons.items() if _first(one) == contributor}
        while more := {
            key
            for key, one in self.lessons.items()
            if key not in gone and one.copies[0].sources & gone
        }:
            gone |= more
        return gone & self.lessons.keys(), gone & self.runs.keys()

    def revoke(self, seeds: set[str], contributor: str | None = None) -> set[str]:
        """Take the closure out, now and at every moment; return the lessons that went."""
        lessons, runs = self.reach(seeds, contributor)
        self.blocked_texts |= {self.lessons[key].key[3] for key in lessons}
        self.blocked_runs |= {self.runs[key].number for key in runs}
        gone = lessons | runs
        self.lessons = self._without(self.lessons, gone, contributor)
        self.placed -= gone
        for key in runs:
            del self.runs[key]
        for moment in self.moments.values():
            moment.placed = self._without(moment.placed, gone, contributor)
            moment.waiting -= gone
            moment.digest = None
        self.signals = {
            key: who
            for key, who in self.signals.items()
            if key[0] not in gone and who != contributor
        }
        self.verdicts = {
            key: (verdict, who, items - gone)
            for key, (verdict, who, items) in self.verdicts.items()
            if who != contributor
        }
        return lessons

    def _without(
        self, lessons: dict[str, ModelLesson], gone: set[str], contributor: str | None
    ) -> dict[str, ModelLesson]:
        """Return lessons without those that went, and without the copies that came from them."""
        kept = {}
        for key, one in lessons.items():
            copies = (
                copy
                for copy in one.copies[1:]
                if not self.sources[key, copy.name] & gone and copy.contributor != contributor
            )
            if key not in gone:
                kept[key] = replace(one, copies=(one.copies[0], *copies))
        return kept

    # -- feedback ----------------------------------------------------------------------------------

    def judge(
        self, ask: Ask, verdict: str, who: str, shown: tuple[str, ...], helped: tuple[str, ...]
    ) -> bool:
        """Count feedback; return whether any of it counts."""
        question = question_key(ask.text)
        name = (ask.namespace, question, ask.reader or "")
        new = name not in self.verdicts
        if new:
            self.verdicts[name] = (verdict, who, frozenset(shown))
        for node_id in helped:
            if (node_id, question) not in self.signals:
                self.signals[node_id, question] = who
                new = True
        return new

    def helped(self, node_id: str) -> int:
        """Return how many questions a lesson helped with."""
        return sum(key[0] == node_id for key in self.signals)

    def used(self, node_id: str, verdict: str) -> int:
        """Return how many questions of a verdict held a lesson."""
        found = {
            question
            for (_, question, _), (judged, _, items) in self.verdicts.items()
            if judged == verdict and node_id in items
        }
        return len(found)


def _first(one: ModelLesson) -> str:
    return one.copies[0].contributor
