"""Revocation on random derivation graphs against brute force, and a byte search of every file."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from epimem.bank import revocation
from epimem.bank.bank import Bank
from epimem.bank.intake import Caller, fold_id
from epimem.bank.side import Side
from epimem.config import CallerConfig, Config
from epimem.errors import AccessError, BankError, EpimemError, NotFoundError
from epimem.memory import ExperienceMemory
from epimem.protocols import ConsolidateRequest, Derived, DeriveRequest, PlaceRequest, Reply
from epimem.schema.atif import ContentPart, ImageSource
from epimem.schema.lesson import Evidence, IndexText, LessonDraft, Statement
from epimem.schema.memory_input import Selection
from epimem.schema.outcome import SealedOutcome
from epimem.schema.proposal import Accepted, Consolidate, Place
from epimem.schema.region import Region
from epimem.schema.run import Page, Run
from epimem.schema.tree import Node
from epimem.testing import (
    ScriptedMemoryController,
    ScriptedTreeOrganizer,
    first_candidate,
    nearest_or_new,
    small_run,
)
from tests.image_files import encoded, picture
from tests.journeys.crash import (
    ENCODER,
    LIMITS,
    SETTINGS,
    new_bank,
    problems,
    run_ingest,
    run_maintain,
    vectorize,
)

GRAPHS = 16
OPERATOR = Caller("operator", "org")
# The second name is one that JSON escapes and LIKE would misread; the third is trusted less.
CALLERS = (
    Caller("alice", "red"),
    Caller('zoë "z" 100%_', "blue"),
    Caller("carol", "red", authority="none"),
)
SIZES = ((64, 48), (40, 40), (30, 50), (20, 20))


# ---- a bank whose derivations are known


@dataclass
class Fold:
    """A copy that was folded into a lesson."""

    vertex: str
    lesson_id: str
    by: str
    words: set[str]
    told: bool


@dataclass
class Orchard:
    """A bank that grows at random, and beside it everything about it that revocation must know.

    Every text holds a word of its own. `sources` says which vertices (lessons, runs, folded copies) a
    word came from; `edges` are (child, parent) pairs over lessons, runs, folded copies, inner nodes.
    """

    bank: Bank
    chance: random.Random
    images: list[str]
    count: int = 0
    sources: dict[str, set[str]] = field(default_factory=dict)
    edges: set[tuple[str, str]] = field(default_factory=set)
    by: dict[str, str] = field(default_factory=dict)
    lessons: dict[str, LessonDraft] = field(default_factory=dict)
    runs: dict[str, tuple[Run, SealedOutcome]] = field(default_factory=dict)
    folds: list[Fold] = field(default_factory=list)
    users: dict[str, set[str]] = field(default_factory=dict)
    judged: list[tuple[str, str, str]] = field(default_factory=list)
    awaited: list[tuple[LessonDraft, str]] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    dropped: list[LessonDraft | tuple[Run, SealedOutcome]] = field(default_factory=list)
    lost_images: set[str] = field(default_factory=set)

    def word(self, *sources: str) -> str:
        self.count += 1
        word = f"zq{self.count:04d}y"
        self.sources[word] = set(sources)
        return word

    def seen_with(self, vertex: str) -> set[str]:
        """Return a lesson and the copies that have told it something by now."""
        return {vertex} | {f.vertex for f in self.folds if f.lesson_id == vertex and f.told}

    # -- growing

    def grow(self) -> None:
        for _ in range(self.chance.randint(2, 4)):
            self.add_run()
        run_ingest(self.bank, ScriptedMemoryController(derive=self._derive))
        for _ in range(self.chance.randint(5, 8)):
            self.add_lesson()
        for _ in range(self.chance.randint(1, 3)):
            self.fold()
        self.maintain()
        for _ in range(self.chance.randint(2, 5)):
            self.chance.choice((self.add_lesson, self.fold, self.judge))()
        self.maintain()

    def add_run(self) -> None:
        number, caller = len(self.runs), self.chance.choice(CALLERS)
        run_id = f"run-{number:06d}"
        run = small_run(number, answer=f"the answer {self.word(run_id)}", house="mill")
        shown = self.chance.sample(range(len(self.images)), self.chance.randint(0, 2))
        pages = tuple(
            Page(page=at, image_id=self.images[i], width=SIZES[i][0], height=SIZES[i][1])
            for at, i in enumerate(shown, 1)
        )
        task = run.task.model_copy(
            update={"pages": pages, "question": f"how many {self.word(run_id)}?"}
        )
        run = run.model_copy(update={"task": task})
        outcome = SealedOutcome(
            run_id=run_id, verdict="right", source="verifier", reference=self.word(run_id)
        )
        receipt = self.bank.add_run(run, outcome, caller=caller, namespace="n")
        assert receipt.status == "queued"
        self.runs[run_id], self.by[run_id] = (run, outcome), caller.contributor
        for i in shown:
            self.users.setdefault(self.images[i], set()).add(run_id)

    def _derive(self, request: DeriveRequest) -> Derived:
        run_id = request.run.run_id
        drafts = [self._draft(f"derived-{run_id}-{n}") for n in range(self.chance.randint(0, 2))]
        # The ids come with the commit; until then the words hang on a name of ours.
        self.awaited += [(draft, run_id) for draft in drafts]
        return Derived(tuple(drafts), nothing="nothing here")

    def _claim_derived(self) -> None:
        waiting = {
            node.lesson.guidance: node.node_id
            for node in self.bank.inbox("n", limit=1000)
            if node.lesson is not None
        }
        for draft, run_id in self.awaited:
            node_id = waiting[draft.guidance]
            self._note_lesson(node_id, draft, self.by[run_id])
            self.edges.add((node_id, run_id))
        self.awaited.clear()

    def _draft(self, vertex: str, parents: Sequence[str] = ()) -> LessonDraft:
        house = self.chance.choice(("mill house", "barn", "chapel of the hill"))
        evidence = []
        if self.chance.random() < 0.6:
            evidence.append(self._evidence(vertex))
        word = lambda: self.word(vertex)  # noqa: E731
        return LessonDraft(
            guidance=f"Count the {word()} ones",
            applies_when=f"when {word()}",
            cautions=(f"beware of {word()}",),
            body=f"at length: {word()}",
            title=f"title {word()}",
            index=IndexText(
                topic=f"counting {word()}", scope=house, question_anchor=f"how many in the {house}?"
            ),
            evidence=tuple(evidence),
            statements=(Statement(text=f"said {word()}"),),
            tags=(word(),),
            question_key=f"question {self.count}",
            verdict_source=self.chance.choice(("oracle", "peer", "self")),
            parents=tuple(parents),
        )

    def _evidence(self, vertex: str) -> Evidence:
        at = self.chance.randrange(len(self.images) - 1)
        width, height = SIZES[at]
        x, y = self.count % (width - 1), self.count // width % (height - 1)
        region = Region(x0=x, y0=y, x1=x + 1, y1=y + 1, width=width, height=height)
        return Evidence(image_id=self.images[at], region=region, note=f"see {self.word(vertex)}")

    def add_lesson(self) -> None:
        self._claim_derived()
        caller = self.chance.choice(CALLERS)
        known = [*self.lessons, *self._inner()]
        parents = self.chance.sample(known, min(len(known), self.chance.choice((0, 0, 1, 2))))
        draft = self._draft("new", parents)
        vectors = vectorize([draft.index])[0]
        receipt = self.bank.add_lesson(draft, vectors, caller=caller, namespace="n")
        assert receipt.status == "stored"
        assert receipt.id is not None
        self._note_lesson(receipt.id, draft, caller.contributor)
        for parent in parents:
            self.edges |= {(receipt.id, seen) for seen in self.seen_with(parent)}

    def _inner(self) -> list[str]:
        tree = self.bank.tree("n")
        return [n.node_id for n in tree.walk() if n.level > 0] if tree else []

    def _note_lesson(self, node_id: str, draft: LessonDraft, by: str) -> None:
        for word in words_in(draft):
            self.sources[word] = {node_id}
        self.lessons[node_id], self.by[node_id] = draft, by
        for item in draft.evidence:
            self.users.setdefault(item.image_id, set()).add(node_id)

    def fold(self) -> None:
        self._claim_derived()
        node_id, caller = self.chance.choice(sorted(self.lessons)), self.chance.choice(CALLERS)
        lesson = self.bank.node(node_id).lesson
        assert lesson is not None
        vertex = "coming"
        evidence = (self._evidence(vertex),) if self.chance.random() < 0.5 else ()
        cautions = (f"mind {self.word(vertex)}",) if self.chance.random() < 0.5 else ()
        parents = self.chance.sample(sorted(self.lessons), self.chance.choice((0, 0, 1)))
        runs = self.chance.sample(sorted(self.runs), self.chance.choice((0, 1)))
        draft = LessonDraft(
            guidance=lesson.guidance,
            applies_when=lesson.applies_when,
            body=lesson.body,
            family=lesson.family,
            index=IndexText(scope=lesson.index.scope),
            evidence=evidence,
            cautions=cautions,
            question_key=f"question {self.count} again {len(self.folds)}",
            verdict_source="peer",
            parents=tuple(parents),
            run_ids=tuple(runs),
        )
        receipt = self.bank.add_lesson(draft, None, caller=caller, namespace="n")
        assert (receipt.status, receipt.id) == ("folded", node_id)
        self._note_fold(node_id, draft, caller)

    def _note_fold(self, node_id: str, draft: LessonDraft, caller: Caller) -> None:
        lesson = self.bank.node(node_id).lesson
        assert lesson is not None
        vertex = fold_id(node_id, lesson.supports[-1])
        words = {w for w, sources in self.sources.items() if sources == {"coming"}}
        taken = {word for word in words if word in lesson.canonical().decode()}
        for word in words:
            self.sources[word] = {vertex}
        own = {e.authority for e in (self.bank.node(p) for p in draft.parents)} | {caller.authority}
        if "none" in own and lesson.authority != "none":
            assert not taken, "nobody speaks in the name of a higher authority"
        else:
            assert taken == words
        for word in words - taken:
            del self.sources[word]
        for parent in draft.parents:
            self.edges |= {(vertex, seen) for seen in self.seen_with(parent)}
        self.edges |= {(vertex, run_id) for run_id in draft.run_ids}
        if taken:
            for item in draft.evidence:
                self.users.setdefault(item.image_id, set()).add(vertex)
        self.folds.append(Fold(vertex, node_id, caller.contributor, taken, bool(taken)))

    def judge(self) -> None:
        if not self.lessons:
            return
        node_id, caller = self.chance.choice(sorted(self.lessons)), self.chance.choice(CALLERS)
        word = self.word("judged")
        self.bank.add_signal(
            node_id,
            f"judged {self.count}",
            "hurt",
            caller=caller,
            source="peer",
            detail=f"not so: {word}",
        )
        self.judged.append((word, node_id, caller.contributor))

    def maintain(self) -> None:
        self._claim_derived()
        organizer = ScriptedTreeOrganizer(place=self._place, consolidate=self._consolidate)
        real = self.bank.commit_operation

        def recorded(lease: Any, accepted: Accepted, **options: Any) -> int:
            for child, parents in accepted.written_from.items():
                for parent in parents:
                    self.edges |= {(child, seen) for seen in self.seen_with(parent)}
            return real(lease, accepted, **options)

        self.bank.commit_operation = recorded  # type: ignore[method-assign]
        try:
            run_maintain(self.bank, organizer)
        finally:
            self.bank.commit_operation = real  # type: ignore[method-assign]

    def _place(self, request: PlaceRequest) -> Place | Reply[Place]:
        lesson = request.lesson.lesson
        assert lesson is not None
        if self.chance.random() < 0.2:
            # A bad reply that quotes what it was shown, in part.
            raw = f"I think {lesson.cautions[0][-9:]} and {lesson.body[-9:]} matter"
            return Reply(value=None, reason="schema", detail=lesson.title[-9:], raw=raw)
        place = nearest_or_new(request)
        if place.new is None:
            return place
        word = self.word(*self.seen_with(request.lesson.node_id))
        return place.model_copy(update={"new": place.new.model_copy(update={"title": word})})

    def _consolidate(self, request: ConsolidateRequest) -> Consolidate:
        shown = set[str]().union(*(self.seen_with(node.node_id) for node in request.lessons))
        quoted = request.lessons[-1].lesson
        assert quoted is not None
        return Consolidate(
            node_id=request.node.node_id,
            guidance=f"All say {self.word(*shown)}",
            cautions=quoted.cautions[-1:],
            applies_when=f"if {self.word(*shown)}",
            supported_by=tuple(node.node_id for node in request.lessons),
        )

    # -- brute force

    def closure(self, target: str, name: str) -> set[str]:
        if target == "contributor":
            reached = {v for v, by in self.by.items() if by == name}
            reached |= {fold.vertex for fold in self.folds if fold.by == name}
        else:
            reached = {name}
        while True:
            more = {child for child, parent in self.edges if parent in reached} - reached
            if not more:
                return reached
            reached |= more

    def expected(self, target: str, name: str) -> tuple[set[str], set[str], set[str]]:
        """Return the nodes and runs that a revocation reaches, and the lessons that it touches."""
        reached = self.closure(target, name)
        touched = {f.lesson_id for f in self.folds if f.vertex in reached} - reached
        folds = {fold.vertex for fold in self.folds}
        runs = {run_id for run_id in self.runs if run_id in reached}
        return reached - folds - runs, runs, touched

    def targets(self) -> list[tuple[revocation.Target, str]]:
        tree = self.bank.tree("n")
        inner = [n.node_id for n in tree.walk() if n.height == 1] if tree else []
        return [
            *(("item", key) for key in (*self.lessons, *inner)),
            *(("run", key) for key in self.runs),
            *(("contributor", caller.contributor) for caller in CALLERS),
        ]


def words_in(record: LessonDraft | Node) -> set[str]:
    return set(re.findall(r"zq\d{4}y", record.canonical().decode()))


def files(bank: Bank) -> list[Path]:
    roots = (bank.path, bank.path.with_name(bank.path.name + ".side"))
    return [path for root in roots for path in root.rglob("*") if path.is_file()]


def left_over(bank: Bank, words: Iterable[str]) -> list[str]:
    """Return each word that a file of the bank, its log or its cache holds, with the file."""
    contents = [(path.name, path.read_bytes()) for path in files(bank)]
    return [
        f"{w} in {name}" for w in sorted(words) for name, data in contents if w.encode() in data
    ]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """An empty bank with four images, the last of which no lesson will show."""
    folder = tmp_path_factory.mktemp("template") / "bank"
    with new_bank(folder) as bank:
        callers = (*CALLERS, CALLERS[0])
        images = [
            bank.add_image(encoded(picture(*size), "PNG"), caller=caller).image_id
            for size, caller in zip(SIZES, callers, strict=True)
        ]
    return folder, images


@pytest.fixture
def orchard(template: tuple[Path, list[str]], tmp_path: Path) -> Callable[[int], Orchard]:
    def make(seed: int) -> Orchard:
        folder = tmp_path / f"bank-{seed}"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(template[0], folder)
        grown = Orchard(Bank.open(folder), random.Random(seed), template[1])
        grown.grow()
        return grown

    return make


# ---- the closure


def differences(grown: Orchard) -> list[str]:
    """Compare what every possible revocation would reach with brute force."""
    found = []
    for target, name in grown.targets():
        scope = grown.bank.reach(target, name)
        got = (set(scope.node_ids), set(scope.run_ids), set(scope.touched))
        wanted = grown.expected(target, name)
        if got != wanted:
            found.append(f"{target} {name}: {got} instead of {wanted}")
    return found


@pytest.mark.parametrize(
    "seed",
    [*range(GRAPHS), *(pytest.param(n, marks=pytest.mark.long) for n in range(GRAPHS, 200))],
)
def test_a_revocation_takes_out_the_closure_and_nothing_else(
    orchard: Callable[[int], Orchard], seed: int
) -> None:
    grown = orchard(seed)
    bank, chance = grown.bank, grown.chance
    with bank:
        assert differences(grown) == []
        bank.snapshot("before", caller=OPERATOR)
        for _ in range(2):
            target, name = chance.choice(grown.targets())
            reached = grown.closure(target, name)
            scope = bank.reach(target, name)
            inner = _untouched_guidance(grown, scope)
            assert bank.revoke(target, name, LIMITS, caller=OPERATOR) == scope
            assert inner.items() <= _untouched_guidance(grown, scope).items()
            _settle(grown, target, name, reached)
            _inspect(grown)
            if grown.lessons:
                bank.restore("before", LIMITS, caller=OPERATOR)
                _inspect(grown)


def _untouched_guidance(grown: Orchard, scope: revocation.Scope) -> dict[str, str]:
    """Return the guidance of the categories that a revocation does not concern at all."""
    tree = grown.bank.tree("n")
    return {
        node.node_id: node.title + node.guidance
        for node in (tree.walk() if tree else ())
        if node.level > 0 and node.node_id not in scope.node_ids
        if not {child.node_id for child in tree.child_nodes(node.node_id)} & scope.touched
    }


def _settle(grown: Orchard, target: str, name: str, reached: set[str]) -> None:
    """Move what a revocation reached from what must be there to what must be gone."""
    revoked = name if target == "contributor" else None
    touched = grown.expected(target, name)[2]
    # A lesson goes with all that was folded into it.
    reached = reached | {fold.vertex for fold in grown.folds if fold.lesson_id in reached}
    grown.gone |= {word for word, sources in grown.sources.items() if sources & reached}
    for word, node_id, by in grown.judged:
        if node_id in reached | touched or by == revoked:
            grown.gone.add(word)
    grown.sources = {w: s for w, s in grown.sources.items() if not s & reached}
    grown.dropped += [grown.lessons.pop(key) for key in sorted(reached & set(grown.lessons))]
    grown.dropped += [grown.runs.pop(key) for key in sorted(reached & set(grown.runs))]
    grown.folds = [fold for fold in grown.folds if fold.vertex not in reached]
    owners = (*CALLERS, CALLERS[0])
    for image, owner in zip(grown.images, owners, strict=True):
        users = grown.users.get(image, set())
        if (users & reached or owner.contributor == revoked) and not users - reached:
            grown.lost_images.add(image)
        grown.users[image] = users - reached


def _inspect(grown: Orchard) -> None:
    bank = grown.bank
    assert problems(bank) == []
    assert left_over(bank, grown.gone) == []
    tree = bank.tree("n")
    placed = list(tree.walk()) if tree else []
    lessons = {n.node_id: n for n in (*placed, *bank.inbox("n", limit=1000)) if n.lesson}
    assert lessons.keys() == grown.lessons.keys()
    for node_id, node in lessons.items():
        folds = [fold.words for fold in grown.folds if fold.lesson_id == node_id]
        assert words_in(node) == words_in(grown.lessons[node_id]).union(*folds)
    assert set(bank.run_states()) == set(grown.runs)
    for image in grown.images:
        if image in grown.lost_images:
            with pytest.raises(NotFoundError):
                bank.image(image)
        else:
            assert bank.images.pixels(bank.image(image))[:2] in SIZES
    for item in grown.dropped:
        _refuse_again(grown, item)
    assert left_over(bank, grown.gone) == []


def _refuse_again(grown: Orchard, item: LessonDraft | tuple[Run, SealedOutcome]) -> None:
    """Offer what was revoked once more, by somebody else."""
    if isinstance(item, LessonDraft):
        bare = item.model_copy(update={"parents": (), "evidence": ()})
        with pytest.raises(AccessError) as refused:
            grown.bank.add_lesson(bare, None, caller=OPERATOR, namespace="n")
        assert refused.value.code == "text_blocked"
        return
    run = item[0].model_copy(update={"run_id": "run-again"})
    lost = {page.image_id for page in run.task.pages} & grown.lost_images
    with pytest.raises(EpimemError) as refused_run:
        grown.bank.add_run(run, item[1], caller=OPERATOR, namespace="n")
    assert refused_run.value.code == ("invalid_field" if lost else "text_blocked")


def test_a_closure_without_transitivity_is_caught(
    orchard: Callable[[int], Orchard], monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_level(connection: Any, seeds: set[str]) -> set[str]:
        return seeds | revocation._children(connection, seeds, "derived")

    monkeypatch.setattr(revocation, "_descendants", one_level)
    caught = 0
    for seed in range(4):
        grown = orchard(seed)
        with grown.bank:
            caught += bool(differences(grown))
    assert caught == 4


def test_a_revocation_that_does_not_rewrite_the_file_is_caught(
    orchard: Callable[[int], Orchard], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epimem.bank.purge.rewrite_file", lambda _: None)
    grown = orchard(1)
    with grown.bank:
        node_id = min(grown.lessons)
        words = words_in(grown.lessons[node_id])
        grown.bank.revoke("item", node_id, LIMITS, caller=OPERATOR)
        assert left_over(grown.bank, words) != []


# ---- a byte search of every file


@dataclass
class Handed:
    """A record as an importer hands it to a build."""

    run: Run | None = None
    outcome: SealedOutcome | None = None
    lessons: tuple[LessonDraft, ...] = ()
    source: str = "records.jsonl:1"


HOUSE = IndexText(topic="counting", scope="mill", question_anchor="how many in the mill?")


def secret(name: str) -> str:
    """Return a word for a place, which no other text holds."""
    return f"zq{name.replace(' ', '')}y"


@dataclass
class Everywhere:
    """A memory in which the texts of one run and one lesson went to every place there is."""

    memory: ExperienceMemory
    record: Handed
    lesson_id: str
    run_id: str
    stays_id: str

    @property
    def bank(self) -> Bank:
        return self.memory.bank


PLACES = (
    *("guidance", "caution", "applies", "body", "title", "topic", "note", "statement", "tag"),
    *("category", "raw", "detail", "hurt", "aside"),
    *("runanswer", "runquestion", "reference", "derived"),
)


def quoting(request: PlaceRequest) -> Place | Reply[Place]:
    """Refuse once, quoting what was shown; then place under a title of the model's own words."""
    place = nearest_or_new(request)
    word = secret("category") if "zqguidancey" in str(request.lesson.lesson) else "mills"
    new = place.new and place.new.model_copy(update={"title": word})
    return place.model_copy(update={"new": new})


@pytest.fixture
def everywhere(template: tuple[Path, list[str]], tmp_path: Path) -> Iterator[Everywhere]:
    folder = tmp_path / "bank"
    shutil.copytree(template[0], folder)
    config = Config(namespace="n", tree=SETTINGS, caller=CallerConfig(contributor="alice"))
    refused: list[bool] = []

    def place(request: PlaceRequest) -> Place | Reply[Place]:
        if not refused:
            refused.append(True)
            quoted = f"It says {secret('caution')}, so {secret('raw')}"
            return Reply(value=None, reason="schema", raw=quoted, detail=secret("detail"))
        return quoting(request)

    def derive(request: DeriveRequest) -> Derived:
        draft = LessonDraft(guidance=f"Derived: {secret('derived')}", index=HOUSE)
        return Derived((draft,) if secret("runanswer") in request.run.answer.text else ())

    def select(request: Any) -> Selection:
        wanted = [c for c in request.candidates if "zqguidancey" in str(request.nodes[c.node_id])]
        return Selection(lesson_id=wanted[0].node_id) if wanted else first_candidate(request)

    controllers = (
        ScriptedMemoryController(derive=derive),
        ScriptedTreeOrganizer(place=place, select=select),
    )
    with ExperienceMemory.open(
        folder, config=config, encoder=ENCODER, controllers=controllers
    ) as memory:
        yield _filled(memory, template[1])


def _filled(memory: ExperienceMemory, images: list[str]) -> Everywhere:
    region = Region(x0=4, y0=4, x1=30, y1=30, width=64, height=48)
    lesson = LessonDraft(
        guidance=f"Count the {secret('guidance')} ones",
        cautions=(f"beware {secret('caution')}",),
        applies_when=f"when {secret('applies')}",
        body=secret("body"),
        title=secret("title"),
        index=HOUSE.model_copy(update={"topic": secret("topic")}),
        evidence=(Evidence(image_id=images[0], region=region, note=secret("note")),),
        statements=(Statement(text=f"said {secret('statement')}"),),
        tags=(secret("tag"),),
        question_key="q1",
    )
    run = small_run(1, answer=secret("runanswer"), house="mill")
    task = run.task.model_copy(update={"question": f"what of {secret('runquestion')}?"})
    run = run.model_copy(update={"task": task})
    outcome = SealedOutcome(run_id=run.run_id, verdict="right", reference=secret("reference"))
    stays = memory.contribute(LessonDraft(guidance="Look twice", index=HOUSE, question_key="q0"))
    stored = memory.contribute(lesson, idempotency_key="k1")
    memory.contribute(run, outcome=outcome, idempotency_key="k2")
    assert stored.id is not None
    assert stays.id is not None
    record = Handed(run, outcome, (lesson,))
    made = Everywhere(memory, record, stored.id, run.run_id, stays.id)
    memory.ingest()
    memory.maintain()
    memory.maintain()
    _ask(made)
    return made


def _ask(made: Everywhere) -> None:
    """Retrieve with a crop, and give feedback that quotes, counted and set aside."""
    memory = made.memory
    for phase, place in (("construction", "hurt"), ("evaluation", "aside")):
        memory.caller = Caller("alice", "org", phase=phase)  # type: ignore[arg-type]
        found = memory.retrieve("how many in the mill?", run_id=f"asking {phase}")
        assert [item.node_id for item in found.items] == [made.lesson_id]
        assert secret("guidance") in found.text
        assert found.crops
        assert memory.crop_path(found.crops[0]).is_file()
        memory.feedback(
            found.retrieval_id, verdict="wrong", hurt={made.lesson_id: f"not so: {secret(place)}"}
        )
    memory.caller = Caller("operator", "org")
    memory.recall.save()


def present(made: Everywhere) -> set[str]:
    """Return the places whose word some file holds now."""
    contents = b"".join(path.read_bytes() for path in files(made.bank))
    return {place for place in PLACES if secret(place).encode() in contents}


OF_THE_RUN = {"runanswer", "runquestion", "reference", "derived"}


def test_before_a_revocation_the_words_are_in_the_files(everywhere: Everywhere) -> None:
    assert present(everywhere) == set(PLACES)


def test_after_it_no_file_holds_a_word_or_a_crop_of_the_item(everywhere: Everywhere) -> None:
    bank = everywhere.bank
    crop = next((bank.side.cache / "crops").iterdir()).read_bytes()
    everywhere.memory.revoke("item", everywhere.lesson_id)
    assert present(everywhere) == OF_THE_RUN
    assert crop[40:80] not in b"".join(path.read_bytes() for path in files(bank))
    assert bank.node(everywhere.stays_id).lesson is not None
    assert bank.side.log_path.exists()
    assert everywhere.memory.explain() is None
    found = everywhere.memory.retrieve("how many in the mill?", run_id="asking construction")
    assert everywhere.lesson_id not in {item.node_id for item in found.items}
    assert bank.counts()["rejections"] == {"schema": 1}, "that it was refused stays known"


def test_a_run_goes_with_its_outcome_and_its_lessons(everywhere: Everywhere) -> None:
    everywhere.memory.revoke("run", everywhere.run_id)
    assert present(everywhere) >= {"guidance", "body", "note"}
    assert not present(everywhere) & OF_THE_RUN
    assert everywhere.run_id not in everywhere.bank.run_states()


def test_a_contributor_goes_with_signals_and_images_too(everywhere: Everywhere) -> None:
    scope = everywhere.memory.revoke("contributor", "alice")
    assert everywhere.lesson_id in scope.node_ids
    assert present(everywhere) == set()
    assert everywhere.bank.namespaces() in {(), ("n",)}
    assert everywhere.bank.waiting("n") == 0
    assert problems(everywhere.bank) == []


def test_what_was_revoked_does_not_come_back_by_any_way(
    everywhere: Everywhere, tmp_path: Path
) -> None:
    memory, bank = everywhere.memory, everywhere.bank
    memory.snapshot("before")
    memory.revoke("item", everywhere.lesson_id)
    memory.revoke("run", everywhere.run_id)
    assert present(everywhere) == set()
    memory.restore("before")
    assert present(everywhere) == set()
    for item, key in ((everywhere.record.run, "k2"), (everywhere.record.lessons[0], "k9")):
        for given in (None, key):
            with pytest.raises(AccessError) as refused:
                memory.contribute(item, idempotency_key=given)  # type: ignore[arg-type]
            assert refused.value.code == "text_blocked"
    report = memory.build([everywhere.record], rejected=tmp_path / "r.rejected.jsonl")
    assert report.set_aside == {"text_blocked": 2}
    assert not report.received
    assert present(everywhere) == set()
    other = everywhere.record.lessons[0].model_copy(update={"index": IndexText(scope="barn")})
    with pytest.raises(AccessError):
        memory.contribute(other)
    derived = small_run(7, answer=secret("runanswer") + " in other words", house="mill")
    memory.contribute(derived)
    memory.ingest()
    assert bank.run_states()[derived.run_id] == ("nothing", "text_blocked")
    assert problems(bank) == []


def test_the_same_target_again_and_an_unknown_one_are_not_found(everywhere: Everywhere) -> None:
    memory = everywhere.memory
    targets: list[tuple[revocation.Target, str]] = [
        ("item", everywhere.lesson_id),
        ("run", everywhere.run_id),
    ]
    for target, name in targets:
        memory.revoke(target, name)
        digest, head = memory.bank.state_digest(), memory.bank.head_seq
        with pytest.raises(NotFoundError):
            memory.revoke(target, name)
        assert (memory.bank.state_digest(), memory.bank.head_seq) == (digest, head)
    memory.revoke("contributor", "alice")
    assert memory.revoke("contributor", "alice").node_ids == frozenset()
    for target in ("item", "run", "contributor"):
        with pytest.raises(NotFoundError):
            memory.revoke(target, "nobody")  # type: ignore[arg-type]
    assert problems(memory.bank) == []


def test_another_reader_forgets_what_was_revoked(everywhere: Everywhere) -> None:
    folder = everywhere.bank.path
    with ExperienceMemory.open(
        folder, read_only=True, encoder=ENCODER, controllers=everywhere.memory.controllers
    ) as reader:
        asked = {"namespace": "n", "k": 20}
        before = reader.recall.find("how many in the mill?", **asked)  # type: ignore[arg-type]
        assert everywhere.lesson_id in {c.node_id for c in before.candidates}
        everywhere.memory.revoke("item", everywhere.lesson_id)
        after = reader.recall.find("how many in the mill?", **asked)  # type: ignore[arg-type]
        assert everywhere.lesson_id not in {c.node_id for c in after.candidates}
        reader.recall.save()
        assert present(everywhere) == OF_THE_RUN


def test_a_reader_in_the_way_delays_the_purge_until_the_bank_is_next_opened(
    everywhere: Everywhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epimem.bank.purge.WAIT_S", 0.1)
    monkeypatch.setattr("epimem.bank.database.LOCK_WAIT_S", 0.1)
    folder, item = everywhere.bank.path, everywhere.lesson_id
    with Bank.open(folder, read_only=True) as slow, slow._db.read() as connection:
        connection.exec_driver_sql("SELECT count(*) FROM nodes").scalar()
        with Bank.open(folder) as bank, pytest.raises(BankError) as refused:
            bank.revoke("item", item, LIMITS, caller=OPERATOR)
        assert refused.value.code == "bank_busy"
        # Hidden it is all the same, at every sequence number.
        with Bank.open(folder) as bank:
            with pytest.raises(NotFoundError):
                bank.node(item)
            for seq in range(bank.head_seq + 1):
                tree = bank.tree("n", seq)
                assert tree is None or item not in tree
    assert present(everywhere) > OF_THE_RUN
    with Bank.open(folder) as bank:
        assert present(everywhere) == OF_THE_RUN
        assert problems(bank) == []


def test_a_rule_loses_its_level_with_the_supports_it_rested_on(
    template: tuple[Path, list[str]], tmp_path: Path
) -> None:
    folder = tmp_path / "bank"
    shutil.copytree(template[0], folder)
    with Bank.open(folder) as bank:
        draft = LessonDraft(
            guidance="Count twice", index=HOUSE, question_key="q0", verdict_source="oracle"
        )
        vectors = vectorize([draft.index])[0]
        first = bank.add_lesson(draft, vectors, caller=CALLERS[0], namespace="n")
        for number in range(1, 6):
            again = draft.model_copy(update={"question_key": f"q{number}"})
            bank.add_lesson(again, vectors, caller=CALLERS[1], namespace="n")
        run_maintain(bank)
        tree = bank.tree("n")
        assert tree is not None
        assert [n.kind for n in tree.walk() if n.height == 1] == ["rule"]
        scope = bank.revoke("contributor", CALLERS[1].contributor, LIMITS, caller=OPERATOR)
        assert (scope.node_ids, scope.touched) == (frozenset(), {first.id})
        tree = bank.tree("n")
        assert tree is not None
        assert [n.kind for n in tree.walk() if n.height == 1] == ["category"]
        assert [len(n.lesson.supports) for n in tree.lessons() if n.lesson] == [1]
        assert problems(bank) == []


def test_a_run_keeps_the_images_that_its_steps_show(
    template: tuple[Path, list[str]], tmp_path: Path
) -> None:
    folder = tmp_path / "bank"
    shutil.copytree(template[0], folder)
    image = template[1][0]
    page = Page(page=1, image_id=image, width=64, height=48)
    shown = ContentPart(
        type="image", source=ImageSource(media_type="image/png", path=f"sha256:{image}")
    )
    with Bank.open(folder) as bank:
        run = small_run(1)
        steps = run.trajectory.steps
        step = steps[0].model_copy(update={"message": (shown,)})
        run = run.model_copy(
            update={"trajectory": run.trajectory.model_copy(update={"steps": (step,)})}
        )
        other = small_run(2)
        other = other.model_copy(update={"task": other.task.model_copy(update={"pages": (page,)})})
        for item in (run, other):
            bank.add_run(item, caller=CALLERS[0], namespace="n")
        bank.revoke("run", other.run_id, LIMITS, caller=OPERATOR)
        assert bank.image(image)
        bank.revoke("run", run.run_id, LIMITS, caller=OPERATOR)
        with pytest.raises(NotFoundError):
            bank.image(image)


def test_the_log_forgets_a_rule_that_showed_what_was_folded_in_later(
    everywhere: Everywhere, template: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten: set[str] = set()
    forget = Side.purge

    def noted(side: Side, ids: frozenset[str], run_ids: frozenset[str]) -> int:
        forgotten.update(ids)
        return forget(side, ids, run_ids)

    monkeypatch.setattr(Side, "purge", noted)
    memory, bank = everywhere.memory, everywhere.bank
    barn = IndexText(topic="counting", scope="barn", question_anchor="how many in the barn?")
    region = Region(x0=0, y0=0, x1=20, y1=20, width=40, height=40)
    draft = LessonDraft(guidance="Open the gate", index=barn, verdict_source="oracle")
    for number in range(3):
        memory.contribute(draft.model_copy(update={"question_key": f"barn {number}"}))
    memory.maintain()
    shown = Evidence(image_id=template[1][1], region=region, note=f"see {secret('later')}")
    given = draft.model_copy(update={"question_key": "barn 9", "evidence": (shown,)})
    memory.caller = Caller("bob", "blue")
    assert memory.contribute(given).status == "folded"
    tree = bank.tree("n")
    assert tree is not None
    (rule,) = [n for n in tree.walk() if n.level > 0 and n.guidance == "Open the gate"]
    organizer = ScriptedTreeOrganizer(select=lambda _: Selection(rule_ids=(rule.node_id,)))
    memory.controllers = (ScriptedMemoryController(), organizer)
    found = memory.retrieve("how many in the barn?", run_id="asking for the rule")
    assert [(crop.node_id, crop.note) for crop in found.crops] == [
        (rule.node_id, f"see {secret('later')}")
    ]
    word = {secret("later")}
    assert {line.split()[-1] for line in left_over(bank, word)} >= {"log.db-wal"}
    scope = memory.revoke("contributor", "bob")
    assert rule.node_id not in scope.node_ids, "its text is older"
    assert rule.node_id in forgotten
    assert left_over(bank, word) == []
    assert bank.node(rule.node_id) == rule
    with pytest.raises(NotFoundError):
        bank.image(template[1][1])
