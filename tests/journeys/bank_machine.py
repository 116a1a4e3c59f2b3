"""The rule machine: what users do in any order, on a bank and on its model side by side (T6).

Two handles write and a third only reads; all three must agree with the model after every step. Each
example ends frozen.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from epimem.bank.encoder import TableEncoder
from epimem.bank.intake import IDEMPOTENCY_S, Caller
from epimem.bank.run_queue import LAST_RETRY_S, retry_delay
from epimem.config import Config, EncoderConfig, TreeConfig
from epimem.errors import BankConflictError, BankFrozenError, EpimemError, NotFoundError
from epimem.memory import ExperienceMemory
from epimem.protocols import Reply
from epimem.schema.ids import counting_ids
from epimem.schema.lesson import IndexText, LessonDraft
from epimem.schema.receipt import Receipt
from epimem.schema.tree import Node, violations
from epimem.testing import (
    ScriptedMemoryController,
    ScriptedTreeOrganizer,
    answer_as_lesson,
    small_run,
)
from tests.journeys.bank_model import Copy, Key, Model, ModelRun
from tests.journeys.brute_force import Ask, check_found

ENCODER = TableEncoder(32)
CONFIG = Config(
    encoder=EncoderConfig(model="table:32"), tree=TreeConfig(capacity=7, min_group=4, batch=8)
)
SPACES = ("default", "other")
SCOPES = (
    "amber bridge",
    "cobalt harbor",
    "amber harbor by the old northern breakwater",
    "Delft lighthouse and its signal house",
    "Elgin railway",
    "fossil quarry",
    "granite tunnel",
    "ivory pavilion",
    "jade monastery",
)
TEXTS = ("Count the triangles.", "Leave out the depots.", "Read the legend first.", "Mind the gap.")
AUDIENCES: tuple[tuple[str, ...], ...] = ((), (), (), ("ann",), ("ann", "bea"))
READERS = (None, "ann", "eve")
WRITERS = ("local", "bob")
NOTHING: tuple[str, ...] = ()

scopes = st.integers(0, len(SCOPES) - 1)
texts = st.integers(0, len(TEXTS) - 1)
questions = st.integers(0, 2)
writers = st.sampled_from(WRITERS)
spaces = st.sampled_from((SPACES[0], SPACES[0], SPACES[1]))
picks = st.integers(0, 1000)


def anchor(scope: int) -> str:
    return f"how many stop at the {SCOPES[scope]}?"


def outcome(act: Callable[[], Receipt]) -> tuple[Receipt | None, str]:
    """Return a receipt and its status, or the code of the error there was instead."""
    try:
        receipt = act()
    except EpimemError as error:
        return None, error.code
    return receipt, receipt.status


def pick(names: Any, number: int) -> Any:
    ordered = sorted(names)
    return ordered[number % len(ordered)]


def new_template(folder: Path) -> Path:
    """Make the empty bank that every example starts with a copy of."""
    ExperienceMemory.create(folder, CONFIG, encoder=ENCODER, ids=counting_ids()).close()
    return folder


class BankMachine(RuleBasedStateMachine):
    """A bank and its model, side by side; `template` is set by the test, `k` is asked for."""

    template: ClassVar[Path]
    k: ClassVar[int] = 50

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="machine-", dir=self.template.parent))
        shutil.copytree(self.template, self.folder / "bank")
        self.model = Model()
        self.now = 1_000_000_000.0
        self.ids = counting_ids(1_000)
        self.failed: set[str] = set()
        self.asked: tuple[str, Ask, tuple[str, ...]] | None = None
        self.steps = 0
        self.hands = {name: self.opened(name) for name in (*WRITERS, "reader")}

    def clock(self) -> float:
        return self.now

    def opened(self, name: str) -> ExperienceMemory:
        return ExperienceMemory.open(
            self.folder / "bank",
            read_only=name == "reader",
            caller=Caller(name, name),
            encoder=ENCODER,
            controllers=(ScriptedMemoryController(derive=self.derive), ScriptedTreeOrganizer()),
            ids=self.ids,
            clock=self.clock,
        )

    def derive(self, request: Any) -> Any:
        """Fail once on every third run, then derive its answer."""
        name = request.run.run_id
        if int(name[-3:]) % 3 == 0 and name not in self.failed:
            self.failed.add(name)
            return Reply(None, reason="not_json", detail="cut off")
        return answer_as_lesson(request)

    @property
    def memory(self) -> ExperienceMemory:
        return self.hands["local"]

    # -- what comes in -----------------------------------------------------------------------------

    @rule(
        scope=scopes,
        text=texts,
        question=questions,
        audience=st.sampled_from(AUDIENCES),
        space=spaces,
        who=writers,
        key=st.sampled_from((None, None, "k1", "k2")),
        parent=st.none() | picks,
    )
    def contribute(
        self,
        scope: int,
        text: int,
        question: int,
        audience: tuple[str, ...],
        space: str,
        who: str,
        key: str | None,
        parent: int | None,
    ) -> None:
        lessons = self.model.lessons
        parents = NOTHING if parent is None or not lessons else (pick(lessons, parent),)
        draft = self.draft(scope, text, question, audience=audience, parents=parents)
        self.hand_in(draft, space, who, key)

    @precondition(lambda self: self.model.lessons)
    @rule(
        number=picks,
        question=questions,
        who=writers,
        key=st.sampled_from((None, "k1", "k2")),
        parent=st.none() | picks,
    )
    def contribute_again(
        self, number: int, question: int, who: str, key: str | None, parent: int | None
    ) -> None:
        """Hand in what is there already: a duplicate, or a copy from another question to fold."""
        one = self.model.lessons[pick(self.model.lessons, number)]
        space, scope, audience, text = one.key
        parents = NOTHING if parent is None else (pick(self.model.lessons, parent),)
        draft = self.draft(
            SCOPES.index(scope), TEXTS.index(text), question, audience=audience, parents=parents
        )
        self.hand_in(draft, space, who, key)

    @rule(first=scopes, text=texts, space=spaces, who=writers)
    def contribute_many(self, first: int, text: int, space: str, who: str) -> None:
        for number in range(6):
            scope = (first + 2 * number) % len(SCOPES)
            self.hand_in(self.draft(scope, text, number % 3), space, who, None)

    @rule(scope=scopes, space=spaces, who=writers)
    def contribute_all_texts(self, scope: int, space: str, who: str) -> None:
        for text in range(len(TEXTS)):
            for audience in AUDIENCES[2:]:
                self.hand_in(self.draft(scope, text, text, audience=audience), space, who, None)

    def draft(self, scope: int, text: int, question: int, **more: Any) -> LessonDraft:
        return LessonDraft(
            guidance=TEXTS[text],
            index=IndexText(scope=SCOPES[scope], question_anchor=anchor(scope)),
            question_key=f"q{question}",
            family="family",  # that of the runs, or what they yield would be other lessons
            verdict_source="oracle",
            **more,
        )

    def hand_in(self, draft: LessonDraft, space: str, who: str, key: str | None) -> None:
        body = (space, draft.canonical())
        known = self.model.receipts.get((who, key)) if key is not None else None
        lesson: Key = (space, draft.index.scope, tuple(sorted(draft.audience)), draft.guidance)
        copy = Copy(draft.question_key, who, frozenset(draft.parents))
        head = self.memory.bank.head_seq
        again = known is not None and known.expires > self.now
        if again:
            expected = known.receipt.status if known.body == body else "idempotency_mismatch"
        else:
            expected = self.model.status(lesson, copy)
        receipt, status = outcome(
            lambda: self.hands[who].contribute(draft, namespace=space, idempotency_key=key)
        )
        assert status == expected
        if receipt is None:
            return
        if again:
            assert (receipt, self.memory.bank.head_seq) == (known.receipt, head)
            return
        self.model.take(lesson, copy, receipt.id or "")
        if key is not None:
            self.model.keep((who, key), body, receipt, int(self.now) + IDEMPOTENCY_S)

    @rule(number=st.integers(0, 17), who=writers)
    def contribute_run(self, number: int, who: str) -> None:
        scope, space = SCOPES[number % 4], SPACES[number % 2]
        run = small_run(number, answer=TEXTS[number % 3], house=scope)
        receipt, status = outcome(lambda: self.hands[who].contribute(run, namespace=space))
        if number in self.model.blocked_runs:
            assert status == "text_blocked"
            return
        known = run.run_id in self.model.runs
        assert status == ("duplicate" if known else "queued")
        assert receipt is not None
        assert receipt.id == run.run_id
        if not known:
            key: Key = (space, scope, (), run.answer.text)
            self.model.runs[run.run_id] = ModelRun(number, key, run.task.question_key, who)

    @rule(who=writers, limit=st.sampled_from((None, None, 2)))
    def ingest(self, who: str, limit: int | None) -> None:
        due = [key for key, run in self.model.runs.items() if self.is_due(run)][:limit]
        before = self.failed.copy()
        report = self.hands[who].ingest(limit=limit)
        assert report.states.total() == len(due)
        for run_id in due:
            run = self.model.runs[run_id]
            copy = Copy(run.question, run.contributor, frozenset((run_id,)))
            if run_id in self.failed - before:
                run.retry_at = int(self.now) + retry_delay(run.attempts)
                run.attempts += 1
            elif self.model.status(run.key, copy) == "text_blocked":
                run.state = "nothing"
            else:
                run.state = "derived"
                self.model.take(run.key, copy, self.id_of(run.key))

    def is_due(self, run: ModelRun) -> bool:
        waits = int(self.now) < run.retry_at <= int(self.now) + LAST_RETRY_S
        return run.state == "queued" and not waits

    def id_of(self, key: Key) -> str:
        (found,) = [name for name, node in self.live().items() if _key(node) == key]
        return found

    @rule(seconds=st.sampled_from((61, 61, 3600, 2 * 86400, 8 * 86400, -86400, -400 * 86400)))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    # -- the tree ----------------------------------------------------------------------------------

    @rule(who=writers)
    def maintain(self, who: str) -> None:
        report = self.hands[who].maintain()
        assert (report.waiting, report.placed) == (
            0,
            len(self.model.lessons.keys() - self.model.placed),
        )
        self.model.placed = set(self.model.lessons)

    @rule(name=st.sampled_from(("a", "b", "c")))
    def snapshot(self, name: str) -> None:
        head = self.memory.bank.head_seq
        if name not in self.model.snapshots:
            assert self.memory.snapshot(name) == head
            self.model.snapshots[name] = head
        else:
            with pytest.raises(BankConflictError):
                self.memory.snapshot(name)

    @precondition(lambda self: self.model.moments)
    @rule(number=picks, named=st.booleans())
    def restore(self, *, number: int, named: bool) -> None:
        points = self.model.snapshots if named and self.model.snapshots else self.model.moments
        point = pick(points, number)
        seq = self.model.snapshots.get(point, point)
        self.memory.restore(point)
        self.model.restore(seq)
        digest = self.model.moments[seq].digest
        assert digest in (None, self.memory.bank.state_digest()), "the trees are those of then"

    @precondition(lambda self: self.model.moments)
    @rule(first=picks, second=picks)
    def look_back(self, first: int, second: int) -> None:
        """Read at an old version, and compare two."""
        a, b = (pick(self.model.moments, number) for number in (first, second))
        for seq in (a, b):
            moment = self.model.moments[seq]
            trees = [self.hands["reader"].tree(space, at=seq) for space in SPACES]
            nodes = [node for tree in trees if tree for node in tree.lessons()]
            assert {n.node_id: _supports(n) for n in nodes} == {
                key: one.supports for key, one in moment.placed.items()
            }
            assert moment.digest in (None, self.memory.bank.state_digest(seq))
        found = self.memory.diff(a, b)
        then, later = self.model.all_at(a), self.model.all_at(b)
        assert set(found.added) & self.model.ever == later - then
        assert set(found.removed) & self.model.ever == then - later

    # -- what goes ---------------------------------------------------------------------------------

    @precondition(lambda self: self.model.lessons or self.model.runs)
    @rule(number=picks)
    def revoke_one(self, number: int) -> None:
        name = pick([*self.model.lessons, *self.model.runs], number)
        self.revoke("run" if name in self.model.runs else "item", name, {name}, None)

    @precondition(lambda self: self.steps > 12 and self.model.has_of("bob"))
    @rule()
    def revoke_bob(self) -> None:
        self.revoke("contributor", "bob", set(), "bob")

    def revoke(self, target: Any, name: str, seeds: set[str], who: str | None) -> None:
        lessons, runs = self.model.reach(seeds, who)
        scope = self.memory.revoke(target, name)
        assert scope.run_ids == runs
        assert scope.node_ids & self.model.ever == lessons
        self.model.revoke(seeds, who)
        self.asked = None
        for gone in lessons | runs:
            with pytest.raises(NotFoundError):
                self.memory.bank.node(gone)
        self.check()

    # -- questions ---------------------------------------------------------------------------------

    @rule(scope=scopes, space=spaces, reader=st.sampled_from(READERS))
    def retrieve(self, scope: int, space: str, reader: str | None) -> None:
        ask = Ask(anchor(scope), space, reader)
        answer = self.memory.retrieve(ask.text, namespace=space, reader=reader or "")
        for item in answer.items:
            node = self.memory.bank.node(item.node_id)
            assert node.namespace == space
            assert not node.audience or reader in node.audience
            assert item.guidance in {one.key[3] for one in self.model.lessons.values()}
        shown = tuple(item.node_id for item in answer.items)
        self.asked = (answer.retrieval_id, ask, shown)

    @precondition(lambda self: self.asked is not None)
    @rule(verdict=st.sampled_from(("right", "wrong")), helped=st.booleans(), who=writers)
    def feedback(self, *, verdict: Any, helped: bool, who: str) -> None:
        assert self.asked is not None
        retrieval, ask, shown = self.asked
        named = shown if helped else ()
        receipt = self.hands[who].feedback(retrieval, verdict=verdict, helped=named)
        counted = self.model.judge(ask, verdict, who, shown, named)
        assert receipt.status == ("stored" if counted else "duplicate")

    # -- handles -----------------------------------------------------------------------------------

    @rule(name=st.sampled_from((*WRITERS, "reader")))
    def reopen(self, name: str) -> None:
        old = self.hands[name]
        before = (old.bank.head_seq, old.bank.state_digest())
        old.close()
        self.hands[name] = new = self.opened(name)
        assert (new.bank.head_seq, new.bank.state_digest()) == before

    @rule()
    def check(self) -> None:
        problems = [p for p in self.hands["reader"].check() if p.code != "orphan"]
        assert problems == []

    # -- what holds after every step ---------------------------------------------------------------

    def nodes(self) -> list[Node]:
        """Return all live nodes, placed or waiting."""
        bank = self.hands["reader"].bank
        self.trees = {space: bank.tree(space) for space in SPACES}
        placed = [node for tree in self.trees.values() if tree for node in tree.walk()]
        return placed + [node for space in SPACES for node in bank.inbox(space, limit=1000)]

    def live(self) -> dict[str, Node]:
        """Return all live lessons by id."""
        return {node.node_id: node for node in self.nodes() if node.kind == "lesson"}

    @invariant()
    def everything_agrees(self) -> None:
        self.steps += 1
        nodes = self.nodes()
        self.lessons_agree({node.node_id: node for node in nodes if node.kind == "lesson"})
        self.trees_keep_their_bounds()
        self.journal_has_no_gap()
        self.search_equals_brute_force(nodes)
        bank = self.hands["reader"].bank
        self.model.remember(bank.head_seq, bank.state_digest())

    def lessons_agree(self, live: dict[str, Node]) -> None:
        model, bank = self.model, self.hands["reader"].bank
        assert {key: (_key(node), _supports(node)) for key, node in live.items()} == {
            key: (one.key, one.supports) for key, one in model.lessons.items()
        }
        assert {key for key, node in live.items() if node.parent_id} == model.placed
        states = {key: state for key, (state, _) in bank.run_states().items()}
        assert states == {key: run.state for key, run in model.runs.items()}
        standing = bank.standing([(key, node.namespace, "") for key, node in live.items()])
        for key, found in standing.items():
            assert found.helped == model.helped(key)
            assert found.used_right == model.used(key, "right")
            assert found.used_wrong == model.used(key, "wrong")

    def trees_keep_their_bounds(self) -> None:
        said = {one.key[3] for one in self.model.lessons.values()}
        for tree in self.trees.values():
            if tree is None:
                continue
            assert violations(tree, capacity=7, min_group=4) == ()
            for node in tree.walk():
                assert set(node.supported_by) <= set(tree.children_of(node.node_id))
                assert node.guidance in {"", *said}, "guidance that no lesson gives any more"

    def journal_has_no_gap(self) -> None:
        with closing(sqlite3.connect(self.folder / "bank" / "bank.db")) as raw:
            query = "SELECT count(*), coalesce(max(seq), 0), (SELECT head_seq FROM bank)"
            count, last, head = raw.execute(f"{query} FROM journal").fetchone()
        assert count == last == head

    def search_equals_brute_force(self, nodes: list[Node]) -> None:
        """Ask one of the handles, each in its turn, as one reader."""
        turn = self.steps
        hand = self.hands[pick(self.hands, turn)]
        ask = Ask(anchor(turn % len(SCOPES)), SPACES[turn % 5 == 4], READERS[turn % 3])
        found = {
            mode: hand.recall.find(
                ask.text, namespace=ask.namespace, reader=ask.reader, k=self.k, mode=mode
            )
            for mode in ("dense", "lexical", "fused")
        }
        check_found(found, nodes, ask, ENCODER, k=self.k)

    # -- the end -----------------------------------------------------------------------------------

    def teardown(self) -> None:
        try:
            self.end_frozen()
        finally:
            for hand in self.hands.values():
                hand.close()
            shutil.rmtree(self.folder)

    def end_frozen(self) -> None:
        """Freeze, and find all as it was; nothing can be written any more."""
        self.check()
        digest = self.memory.bank.state_digest()
        for name in ("bob", "reader"):
            self.hands[name].close()
        assert self.memory.freeze().state_digest == digest
        self.hands["reader"] = self.opened("reader")
        del self.hands["bob"]
        self.everything_agrees()
        with pytest.raises(BankFrozenError):
            self.memory.contribute(self.draft(0, 0, 0))
        self.check()


def _key(node: Node) -> Key:
    assert node.lesson is not None
    audience = tuple(sorted(node.audience))
    return node.namespace, node.index.scope, audience, node.lesson.guidance


def _supports(node: Node) -> tuple[tuple[str, str], ...]:
    assert node.lesson is not None
    return tuple((one.question_key, one.contributor) for one in node.lesson.supports)
