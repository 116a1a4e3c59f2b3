"""Snapshots, reading at an old number, differences and restoring, over random histories of a bank."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from epimem.bank.bank import Bank
from epimem.bank.encoder import identity_of
from epimem.errors import AccessError, BankConflictError, NotFoundError
from epimem.schema.ids import counting_ids
from epimem.schema.lesson import LessonDraft
from epimem.schema.tree import Node, Tree
from epimem.testing import ScriptedTreeOrganizer
from tests.journeys.crash import (
    CALLER,
    ENCODER,
    LIMITS,
    Namer,
    add_lessons,
    lesson,
    new_bank,
    problems,
    run_maintain,
    vectorize,
)

FEW = settings(
    max_examples=16,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 9)),
        st.tuples(st.just("fold"), st.integers(0, 30)),
        st.tuples(st.just("maintain"), st.integers(1, 3)),
        st.tuples(st.just("revoke"), st.integers(0, 30)),
        st.tuples(st.just("revoke category"), st.integers(0, 30)),
        st.tuples(st.just("snapshot"), st.just(0)),
        st.tuples(st.just("restore"), st.integers(0, 30)),
    ),
    min_size=6,
    max_size=12,
)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template") / "bank"
    with new_bank(folder):
        pass
    return folder


@pytest.fixture
def fresh(template: Path, tmp_path: Path) -> Callable[[], Path]:
    """Return a new copy of an empty bank at each call; making the tables anew takes longer."""
    copies: Iterator[int] = iter(range(10**9))

    def make() -> Path:
        folder = tmp_path / f"bank-{next(copies)}"
        shutil.copytree(template, folder)
        return folder

    return make


@dataclass
class Moment:
    """What the bank held at one sequence number."""

    seq: int
    digest: str
    tree: Tree | None
    nodes: dict[str, Node]


@dataclass
class History:
    """A bank under random actions, and what it must hold by now."""

    bank: Bank
    folder: Path
    acknowledged: set[str] = field(default_factory=set)
    revoked: set[str] = field(default_factory=set)
    texts: dict[str, str] = field(default_factory=dict)
    moments: list[Moment] = field(default_factory=list)
    added: int = 0

    def run(self, action: str, number: int) -> None:
        {
            "add": self._add,
            "fold": self._fold,
            "maintain": lambda n: run_maintain(self.bank, max_steps=n),
            "revoke": self._revoke,
            "revoke category": self._revoke_category,
            "snapshot": self._snapshot,
            "restore": self._restore,
        }[action](number)
        now = moment(self.bank)
        self._inspect(now)
        self.moments.append(now)

    def _add(self, count: int) -> None:
        for number in range(self.added, self.added + count):
            draft = lesson(number).model_copy(update={"guidance": f"Guidance number n{number}n"})
            receipt = self.bank.add_lesson(
                draft, vectorize([draft.index])[0], caller=CALLER, namespace="n"
            )
            assert receipt.status == "stored"
            assert receipt.id is not None
            self.acknowledged.add(receipt.id)
            self.texts[receipt.id] = draft.guidance
        self.added += count

    def _fold(self, number: int) -> None:
        if not self.acknowledged:
            return
        node = self.bank.node(sorted(self.acknowledged)[number % len(self.acknowledged)])
        assert node.lesson is not None
        draft = LessonDraft(
            guidance=node.lesson.guidance,
            index=node.lesson.index,
            question_key=f"another question {number}",
            verdict_source="peer",
        )
        receipt = self.bank.add_lesson(draft, None, caller=CALLER, namespace="n")
        assert receipt.id == node.node_id

    def _revoke(self, number: int) -> None:
        if self.acknowledged:
            target = sorted(self.acknowledged)[number % len(self.acknowledged)]
            self.bank.revoke("item", target, LIMITS, caller=CALLER)
            self.acknowledged.discard(target)
            self.revoked.add(target)
            self.moments.clear()

    def _revoke_category(self, number: int) -> None:
        tree = self.bank.tree("n")
        inner = [n.node_id for n in tree.walk() if n.height == 1] if tree else []
        if inner:
            before = self.acknowledged & {n.node_id for n in tree.lessons()} if tree else set()
            self.bank.revoke("item", sorted(inner)[number % len(inner)], LIMITS, caller=CALLER)
            self.moments.clear()
            after = self.bank.tree("n")
            assert after is not None
            assert {n.node_id for n in after.lessons()} == before

    def _snapshot(self, _: int) -> None:
        self.bank.snapshot(f"point {len(self.bank.snapshots())}", caller=CALLER)

    def _restore(self, number: int) -> None:
        points = sorted({0, *(s["seq"] for s in self.bank.snapshots()), *self._seqs()})
        seq = points[number % len(points)]
        self.bank.restore(seq, LIMITS, caller=CALLER)
        for old in self.moments:
            if old.seq == seq:
                assert self.bank.state_digest() == old.digest
                assert self.bank.tree("n") == old.tree

    def _seqs(self) -> list[int]:
        return [old.seq for old in self.moments]

    def _inspect(self, now: Moment) -> None:
        assert problems(self.bank) == []
        placed = {n.node_id for n in now.tree.lessons()} if now.tree else set()
        waiting = {key for key, node in now.nodes.items() if node.kind == "lesson"} - placed
        assert len(placed) + len(waiting) == len(self.acknowledged)
        assert placed | waiting == self.acknowledged, "nothing acknowledged is lost"
        self._inspect_differences(now)

    def inspect_past(self) -> None:
        """Every state since the last revocation reads as it was, and no older one revoked text."""
        for old in self.moments:
            assert self.bank.tree("n", old.seq) == old.tree
            assert self.bank.state_digest(old.seq) == old.digest
        for seq in range(0, self.bank.head_seq + 1, 5):
            tree = self.bank.tree("n", seq)
            if tree is not None:
                words = b"".join(node.canonical() for node in tree.walk())
                gone = {self.texts[key].encode() for key in self.revoked}
                assert not any(text + b'"' in words for text in gone)

    def _inspect_differences(self, now: Moment) -> None:
        for old in self.moments[-2:]:
            found = self.bank.diff(old.seq, now.seq)
            both = sorted(old.nodes.keys() & now.nodes.keys())
            assert found.added == tuple(sorted(now.nodes.keys() - old.nodes.keys()))
            assert found.removed == tuple(sorted(old.nodes.keys() - now.nodes.keys()))
            assert found.changed == tuple(
                key for key in both if old.nodes[key].content() != now.nodes[key].content()
            )
            assert found.moved == tuple(
                key for key in both if old.nodes[key].parent_id != now.nodes[key].parent_id
            )


def moment(bank: Bank) -> Moment:
    tree = bank.tree("n")
    inner = [node.node_id for node in tree.walk()] if tree else []
    waiting = [node.node_id for node in bank.inbox("n", limit=1000)]
    nodes = bank.nodes([*inner, *waiting])
    return Moment(bank.head_seq, bank.state_digest(), tree, nodes)


@FEW
@given(actions=ACTIONS)
def test_any_history_can_be_read_compared_and_restored(
    fresh: Callable[[], Path], actions: list[tuple[str, int]]
) -> None:
    folder = fresh()
    try:
        with Bank.open(folder) as bank:
            history = History(bank, folder)
            history.run("add", 9)
            history.run("maintain", 2)
            for action, number in actions:
                history.run(action, number)
            history.inspect_past()
    finally:
        shutil.rmtree(folder)
        shutil.rmtree(f"{folder}.side", ignore_errors=True)


@settings(FEW, max_examples=6)
@given(sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4))
def test_two_builds_of_the_same_input_have_one_state_digest(
    fresh: Callable[[], Path], sizes: list[int]
) -> None:
    digests = []
    for _ in range(2):
        folder = fresh()
        with Bank.open(folder) as bank:
            start = 0
            for size in sizes:
                add_lessons(bank, size, start=start)
                run_maintain(bank)
                start += size
            digests.append(bank.state_digest())
        shutil.rmtree(folder)
    assert digests[0] == digests[1]


def test_the_state_digest_sees_content_and_place_and_no_ids(fresh: Callable[[], Path]) -> None:
    def build(folder: Path, order: list[int], text: str = "") -> str:
        # Ids that differ from build to build, in order of creation.
        with Bank.open(folder, ids=counting_ids(order[0] * 1000)) as bank:
            for number in range(12):
                draft = lesson(number)
                if text and number == 5:
                    draft = draft.model_copy(update={"cautions": (text,)})
                bank.add_lesson(draft, vectorize([draft.index])[0], caller=CALLER, namespace="n")
            run_maintain(bank)
            return bank.state_digest()

    assert build(fresh(), [1]) == build(fresh(), [2])
    assert build(fresh(), [1]) != build(fresh(), [1], text="take care")


def test_lessons_that_came_after_the_snapshot_wait_in_the_inbox_again(
    fresh: Callable[[], Path],
) -> None:
    with Bank.open(fresh()) as bank:
        early = set(add_lessons(bank, 10))
        run_maintain(bank)
        seq = bank.snapshot("early", caller=CALLER)
        before = moment(bank)
        late = set(add_lessons(bank, 10, start=10))
        run_maintain(bank)
        assert bank.restore("early", LIMITS, caller=CALLER) == bank.head_seq
        assert bank.tree("n") == before.tree
        assert {n.node_id for n in bank.inbox("n", limit=100)} == late
        run_maintain(bank)
        tree = bank.tree("n")
        assert tree is not None
        assert {n.node_id for n in tree.lessons()} == early | late
        assert bank.tree("n", seq) == before.tree
        assert problems(bank) == []


def test_a_snapshot_from_before_any_tree_empties_the_tree_and_loses_no_lesson(
    fresh: Callable[[], Path],
) -> None:
    with Bank.open(fresh()) as bank:
        bank.snapshot("nothing", caller=CALLER)
        ids = set(add_lessons(bank, 9))
        run_maintain(bank)
        bank.restore("nothing", LIMITS, caller=CALLER)
        assert bank.tree("n") is None
        assert {n.node_id for n in bank.inbox("n", limit=100)} == ids
        assert problems(bank) == []


def test_a_restored_tree_is_legal_when_most_of_it_was_revoked_since(
    fresh: Callable[[], Path],
) -> None:
    with Bank.open(fresh()) as bank:
        ids = add_lessons(bank, 60)
        run_maintain(bank)
        bank.snapshot("full", caller=CALLER)
        full = bank.tree("n")
        assert full is not None
        assert full.root.height >= 3, "groups above the categories can fall below their minimum"
        for node_id in ids[3:]:
            bank.revoke("item", node_id, LIMITS, caller=CALLER)
        bank.restore("full", LIMITS, caller=CALLER)
        tree = bank.tree("n")
        assert tree is not None
        assert {n.node_id for n in tree.lessons()} == set(ids[:3])
        assert problems(bank) == []
        for number in range(10):
            draft = lesson(number).model_copy(update={"guidance": f"Something new, {number}"})
            bank.add_lesson(draft, None, caller=CALLER, namespace="n")
        run_maintain(bank)
        assert problems(bank) == []


def test_an_empty_tree_comes_back_where_nothing_else_is_left(fresh: Callable[[], Path]) -> None:
    with Bank.open(fresh()) as bank:
        before = bank.head_seq
        (node_id,) = add_lessons(bank, 1)
        run_maintain(bank)
        bank.revoke("item", node_id, LIMITS, caller=CALLER)
        empty, digest = bank.head_seq, bank.state_digest()
        bank.restore(before, LIMITS, caller=CALLER)
        assert bank.tree("n") is None
        bank.restore(empty, LIMITS, caller=CALLER)
        assert bank.state_digest() == digest
        assert problems(bank) == []


def test_names_and_numbers_that_are_no_point_of_the_bank_are_refused(
    fresh: Callable[[], Path],
) -> None:
    with Bank.open(fresh()) as bank:
        add_lessons(bank, 1)
        bank.snapshot("one", caller=CALLER)
        with pytest.raises(BankConflictError):
            bank.snapshot("one", caller=CALLER)
        for point in ("two", bank.head_seq + 1, -1):
            for call in (
                lambda point=point: bank.restore(point, LIMITS, caller=CALLER),
                lambda point=point: bank.tree("n", point),
                lambda point=point: bank.diff(0, point),
            ):
                with pytest.raises(NotFoundError):
                    call()
        assert problems(bank) == []


def test_a_number_as_text_is_a_sequence_number_so_no_snapshot_may_be_called_so(
    fresh: Callable[[], Path],
) -> None:
    with Bank.open(fresh()) as bank:
        add_lessons(bank, 3)
        with pytest.raises(BankConflictError):
            bank.snapshot("2", caller=CALLER)


def test_a_fold_after_the_snapshot_is_undone_by_restore_and_can_be_given_again(
    fresh: Callable[[], Path],
) -> None:
    with Bank.open(fresh()) as bank:
        add_lessons(bank, 9)
        run_maintain(bank)
        bank.snapshot("before", caller=CALLER)
        before = bank.state_digest()
        again = lesson(0, question=500)
        assert bank.add_lesson(again, None, caller=CALLER, namespace="n").status == "folded"
        assert bank.state_digest() != before
        bank.restore("before", LIMITS, caller=CALLER)
        assert bank.state_digest() == before
        assert bank.add_lesson(again, None, caller=CALLER, namespace="n").status == "folded"


def test_revoked_text_stays_away_from_every_old_number(fresh: Callable[[], Path]) -> None:
    with Bank.open(fresh()) as bank:
        ids = add_lessons(bank, 10)
        run_maintain(bank)
        seqs = range(bank.head_seq + 1)
        bank.revoke("item", ids[4], LIMITS, caller=CALLER)
        for seq in seqs:
            tree = bank.tree("n", seq)
            assert tree is None or ids[4] not in tree
            bank.state_digest(seq)
        with pytest.raises(AccessError):
            bank.add_lesson(lesson(4), None, caller=CALLER, namespace="n")
        assert ids[4] not in bank.diff(0, seqs[-1]).added


def test_an_encoder_is_part_of_a_bank_and_survives_restoring(fresh: Callable[[], Path]) -> None:
    with Bank.open(fresh()) as bank:
        ids = add_lessons(bank, 9)
        run_maintain(bank)
        bank.snapshot("s", caller=CALLER)
        add_lessons(bank, 5, start=20)
        run_maintain(bank)
        bank.restore("s", LIMITS, caller=CALLER)
        assert bank.encoder == identity_of(ENCODER)
        nodes = [bank.node(key) for key in ids]
        assert bank.vectors(nodes).keys() == set(ids)
        made = Namer().of_nodes(nodes)
        assert all((bank.vectors(nodes)[k].index == made[k].index).all() for k in ids)


def test_a_restore_while_a_maintainer_works_makes_it_read_the_tree_again(
    fresh: Callable[[], Path],
) -> None:
    from epimem.testing import nearest_or_new

    folder = fresh()
    with Bank.open(folder) as bank:
        ids = set(add_lessons(bank, 8))
        run_maintain(bank)
        bank.snapshot("s", caller=CALLER)
        ids |= set(add_lessons(bank, 8, start=8))
        done: list[bool] = []

        def restore_once(request):
            if not done:
                done.append(True)
                with Bank.open(folder) as other:
                    other.restore("s", LIMITS, caller=CALLER)
            return nearest_or_new(request)

        run_maintain(bank, ScriptedTreeOrganizer(place=restore_once))
        tree = bank.tree("n")
        assert tree is not None
        assert {n.node_id for n in tree.lessons()} == ids
        assert problems(bank) == []
