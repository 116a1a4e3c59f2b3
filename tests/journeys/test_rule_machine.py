"""Whatever users do, in any order, the bank holds what a model of dictionaries holds (T6).

Search is compared with brute force after every step. The twins at the end plant a bug each and show
that the machine finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from epimem.bank import floor, floors, index, intake, lexical, recall, revocation, rows, versions
from epimem.bank.catalog import Catalog
from epimem.bank.journal import Commit
from epimem.bank.recall import Recall
from epimem.schema.receipt import Receipt
from tests.journeys.bank_machine import BankMachine, new_template

PLAIN = settings(
    deadline=None,
    database=None,
    print_blob=False,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
SHORT = settings(PLAIN, max_examples=4, stateful_step_count=25, derandomize=True)
LONG = settings(PLAIN, max_examples=400, stateful_step_count=50)
GRAPH = settings(PLAIN, max_examples=100, stateful_step_count=50)
TWIN = settings(PLAIN, max_examples=40, stateful_step_count=25, phases=[Phase.generate])
Patch = pytest.MonkeyPatch


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> type[BankMachine]:
    class Machine(BankMachine):
        template = new_template(tmp_path_factory.mktemp("machine") / "template")

    return Machine


@pytest.fixture
def _one_floor(monkeypatch: Patch) -> None:
    """Fit no floors, which have tests of their own and cost more than all the rest here."""
    monkeypatch.setattr(floors, "fit_floor", lambda *_: floor.Floor(0.0, 0.0, 1, 1))


@pytest.fixture
def graphs(machine: type[BankMachine], monkeypatch: Patch) -> type[BankMachine]:
    """Fold into graphs and search them from five rows on; a ranking is five deep."""
    monkeypatch.setattr(index, "EXACT_ROWS", 4)
    monkeypatch.setattr(index, "FOLD_ROWS", 2)
    monkeypatch.setattr(index, "ROWS_PER_STEP", 0)
    monkeypatch.setattr(recall, "_DEPTH", 5)

    class Shallow(machine):  # type: ignore[valid-type, misc]
        k = 5

    return Shallow


@pytest.mark.usefixtures("_one_floor")
def test_any_sequence_leaves_what_the_model_holds(machine: type[BankMachine]) -> None:
    run_state_machine_as_test(machine, settings=SHORT)


@pytest.mark.usefixtures("_one_floor")
def test_search_through_a_graph_of_a_small_bank_equals_brute_force(
    graphs: type[BankMachine],
) -> None:
    run_state_machine_as_test(graphs, settings=settings(SHORT, max_examples=1))


@pytest.mark.long
def test_any_sequence_many_times(machine: type[BankMachine]) -> None:
    run_state_machine_as_test(machine, settings=LONG)


@pytest.mark.long
@pytest.mark.usefixtures("_one_floor")
def test_graphs_many_times(graphs: type[BankMachine]) -> None:
    run_state_machine_as_test(graphs, settings=GRAPH)


def test_a_duplicate_under_a_new_key_leaves_a_sound_bank(machine: type[BankMachine]) -> None:
    """What the machine found first: the kept receipt was missing from the journal's sum."""
    one = machine()
    for key in (None, "k1", "k2"):
        one.hand_in(one.draft(0, 0, 0), "default", "local", key)
        one.check()
    one.teardown()


# ---- twins: a bug that is planted is found


def removals_ignored(patch: Patch) -> None:
    real = Catalog.apply
    patch.setattr(
        Catalog, "apply", lambda self, found: real(self, [row for row in found if row.alive])
    )


def audiences_ignored(patch: Patch) -> None:
    patch.setattr(Catalog, "mask", lambda self, scope: self.namespace_mask(scope.namespace))


def folds_dropped(patch: Patch) -> None:
    """Acknowledge a copy and keep nothing of it."""

    def dropped(commit: Commit, row: Any, *_: Any) -> Receipt:
        return Receipt(status="folded", id=row.node_id, seq=commit.seq, searchable="lexical")

    patch.setattr(intake, "fold", dropped)


def derived_left(patch: Patch) -> None:
    """Revoke an item without what was derived from it."""
    patch.setattr(revocation, "_descendants", lambda _, seeds: set(seeds))


def later_lessons_lost(patch: Patch) -> None:
    """Restore, and drop the lessons that came later."""
    real = versions._replace

    def replace(commit: Commit, present: Any, wanted: Any) -> None:
        real(commit, present, wanted)
        kept = wanted.nodes if wanted is not None else {}
        for node in present.lessons() if present is not None else ():
            if node.node_id not in kept:
                rows.drop(commit, node.node_id)

    patch.setattr(versions, "_replace", replace)


def receipts_forgotten(patch: Patch) -> None:
    patch.setattr(intake, "known_receipt", lambda *_: None)


def receipts_uncounted(patch: Patch) -> None:
    """Keep receipts outside the sum that the journal carries."""
    real = Commit.count
    patch.setattr(
        Commit, "count", lambda self, *row: None if row[0] == "receipt" else real(self, *row)
    )


def lengths_ignored(patch: Patch) -> None:
    patch.setattr(lexical, "B", 0.0)


def readers_stand_still(patch: Patch) -> None:
    """Follow the bank once and never again."""
    real = Recall.refresh
    patch.setattr(Recall, "refresh", lambda self: None if self.seq else real(self))


TWINS = (
    removals_ignored,
    audiences_ignored,
    folds_dropped,
    receipts_forgotten,
    receipts_uncounted,
    lengths_ignored,
    readers_stand_still,
    derived_left,
    later_lessons_lost,
)


def walk(one: BankMachine) -> None:
    """Take a few steps by hand, with what the machine asks after each asked of every handle."""
    steps: tuple[Callable[[], None], ...] = (
        lambda: one.contribute_all_texts(scope=0, space="default", who="local"),
        lambda: one.contribute_many(first=0, text=1, space="default", who="bob"),
        lambda: one.contribute_again(number=0, question=2, who="bob", key="k1", parent=None),
        lambda: one.contribute_again(number=0, question=2, who="bob", key="k1", parent=None),
        lambda: one.contribute_again(number=0, question=2, who="bob", key="k2", parent=None),
        lambda: one.contribute(2, 0, 0, (), "default", "bob", None, 0),
        one.check,
        lambda: one.maintain(who="bob"),
        lambda: one.contribute_many(first=1, text=2, space="default", who="local"),
        lambda: one.restore(number=-3, named=False),
        lambda: one.revoke("item", min(one.model.lessons), {min(one.model.lessons)}, None),
    )
    for step in steps:
        step()
        for _ in range(3):
            one.everything_agrees()


@pytest.mark.usefixtures("_one_floor")
def test_the_walk_finds_nothing_where_nothing_is_wrong(machine: type[BankMachine]) -> None:
    one = machine()
    walk(one)
    one.teardown()


@pytest.mark.usefixtures("_one_floor")
@pytest.mark.parametrize("plant", TWINS)
def test_a_planted_bug_is_found_on_a_walk(
    machine: type[BankMachine], monkeypatch: Patch, plant: Callable[[Patch], None]
) -> None:
    one = machine()
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        walk(one)
    for hand in one.hands.values():
        hand.close()


@pytest.mark.long
@pytest.mark.usefixtures("_one_floor")
@pytest.mark.parametrize("plant", TWINS)
def test_a_planted_bug_is_found_by_chance(
    machine: type[BankMachine], monkeypatch: Patch, plant: Callable[[Patch], None]
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=settings(TWIN, derandomize=True))
