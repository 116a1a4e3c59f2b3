"""Controllers that raise, hang or return rubbish: nothing is lost, and a working one goes on later."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from epimem.bank.bank import Bank
from epimem.config import Config, ControllerConfig
from epimem.errors import ControllerError
from epimem.ingest import ingest
from epimem.maintain import maintain
from epimem.memory import ExperienceMemory
from epimem.protocols import Derived, DeriveRequest, Reply
from epimem.schema.ids import uuid7
from epimem.schema.lesson import Evidence, IndexText, LessonDraft
from epimem.schema.memory_input import Selection
from epimem.schema.outcome import SealedOutcome
from epimem.schema.proposal import Consolidate, Merge, NewCategory, Part, Place, SplitLift
from epimem.schema.region import Region
from epimem.testing import (
    ScriptedMemoryController,
    ScriptedTreeOrganizer,
    answer_as_lesson,
    raises,
    small_run,
)
from tests.image_files import encoded, picture
from tests.journeys.crash import (
    CALLER,
    ENCODER,
    SETTINGS,
    Namer,
    new_bank,
    problems,
    run_ingest,
    vectorize,
)

RUNS = 20
SOON = 0.05


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template") / "bank"
    with new_bank(folder):
        pass
    return folder


@pytest.fixture
def bank(template: Path, tmp_path: Path) -> Iterator[Bank]:
    shutil.copytree(template, tmp_path / "bank")
    with Bank.open(tmp_path / "bank") as opened:
        yield opened


_released = threading.Event()


@pytest.fixture(autouse=True)
def _let_go() -> Iterator[None]:
    """End the threads that hang when the test is over."""
    _released.clear()
    yield
    _released.set()


def hangs(_: object) -> Any:
    """Do not come back within any deadline of these tests."""
    _released.wait(60)


# ---- derive


class Derives:
    """A memory controller whose whole answer to a batch is made by one function."""

    name = "bad"
    prompt_version = "1"

    def __init__(self, answer: Callable[[Sequence[DeriveRequest]], Any]) -> None:
        self._answer = answer

    def derive(self, requests: Sequence[DeriveRequest]) -> Any:
        return self._answer(requests)

    def gate(self, requests: Sequence[Any]) -> Any:
        return [Reply(value=0) for _ in requests]


def positive(request: DeriveRequest) -> Reply[Derived]:
    draft = LessonDraft(guidance=request.run.answer.text, polarity="positive")
    return Reply(value=Derived((draft,)))


def replies(value: Any) -> Callable[[Sequence[DeriveRequest]], Any]:
    return lambda requests: [value for _ in requests]


BAD_DERIVES: dict[str, Callable[[Sequence[DeriveRequest]], Any]] = {
    "raises": raises,
    "raises in its own way": lambda _: (_ for _ in ()).throw(ControllerError("quota", hint="x")),
    "ends its thread": lambda _: sys.exit(3),
    "hangs": hangs,
    "text": lambda _: "rubbish",
    "nothing": lambda _: None,
    "too few": lambda requests: [positive(r) for r in requests][1:],
    "too many": lambda requests: [positive(r) for r in [*requests, *requests]],
    "no replies": replies("rubbish"),
    "values of another kind": replies(Reply(value="rubbish")),  # type: ignore[arg-type]
    "drafts of another kind": replies(Reply(value=Derived(("rubbish",)))),  # type: ignore[arg-type]
    "drafts that are none": replies(Reply(value=Derived(7))),  # type: ignore[arg-type]
    "a reason": replies(Reply(value=None, reason="not_json", detail="{", raw="{")),
    "no reason": replies(Reply(value=None)),
    "a reason of its own": replies(Reply(value=None, reason="tired")),  # type: ignore[arg-type]
    "text that cannot be stored": replies(Reply(value=None, reason="text", detail="\ud800\x00")),
    "an unchecked draft": replies(
        Reply(value=Derived((LessonDraft.model_construct(guidance="bad\x00"),)))
    ),
    "an unknown image": replies(
        Reply(
            value=Derived(
                (
                    LessonDraft(
                        guidance="look",
                        evidence=(Evidence(image_id="0" * 64, region=Region.whole(4, 4)),),
                    ),
                )
            )
        )
    ),
    "positive guidance from a wrong run": lambda requests: [positive(r) for r in requests],
}
# A draft that names what the bank does not hold is refused by itself, and ends the run.
ENDS_THE_RUN = {"an unknown image"}


@pytest.mark.parametrize("case", BAD_DERIVES)
def test_every_run_stays_queued_until_a_working_controller_comes(bank: Bank, case: str) -> None:
    receipts = []
    for number in range(RUNS):
        run = small_run(number, answer=f"answer {number} holds", house=f"house {number % 3}")
        verdict = "wrong" if case.startswith("positive") else "right"
        outcome = SealedOutcome(run_id=run.run_id, verdict=verdict, source="verifier")  # type: ignore[arg-type]
        receipts.append(bank.add_run(run, outcome, caller=CALLER, namespace="n"))
    assert [receipt.status for receipt in receipts] == ["queued"] * RUNS
    deadline = SOON if case == "hangs" else 30.0
    report = ingest(bank, Derives(BAD_DERIVES[case]), vectorize, deadline_s=deadline)
    if case in ENDS_THE_RUN:
        assert report.states == {"nothing": RUNS}
        assert {state for state, _ in bank.run_states().values()} == {"nothing"}
        return
    assert report.states == {"queued": RUNS}
    assert sum(report.failures.values()) == RUNS
    states = bank.run_states()
    assert len(states) == RUNS
    assert {state for state, _ in states.values()} == {"queued"}
    assert all(reason for _, reason in states.values()), "each with its reason"
    assert bank.inbox("n", limit=100) == ()
    assert bank.queued_runs(limit=100) == (), "each with a time for the next try"
    assert problems(bank) == []
    assert bank.retry_now() == RUNS
    assert {queued.attempts for queued in bank.queued_runs(limit=100)} == {1}
    later = run_ingest(bank)
    assert later.states == {"derived": RUNS}
    assert len(bank.inbox("n", limit=100)) == RUNS
    assert problems(bank) == []


def test_a_failed_try_waits_longer_each_time_and_is_due_again_by_itself(
    template: Path, tmp_path: Path
) -> None:
    now = [1_000_000.0]
    shutil.copytree(template, tmp_path / "bank")
    with Bank.open(tmp_path / "bank", clock=lambda: now[0]) as bank:
        bank.add_run(small_run(1), caller=CALLER, namespace="n")
        waits = []
        for _ in range(14):
            start = now[0]
            run_ingest(bank, ScriptedMemoryController(derive=raises))
            while not bank.queued_runs(limit=1):
                now[0] += 60 if now[0] - start < 3600 else 3600
            waits.append(now[0] - start)
        assert waits[0] == 60
        assert waits == sorted(waits)
        assert waits[-1] <= 24 * 3600
        assert run_ingest(bank).states == {"derived": 1}


def test_one_run_that_a_controller_fails_on_does_not_hold_up_the_others(bank: Bank) -> None:
    def derive(request: DeriveRequest) -> Derived:
        if request.run.run_id == "run-000007":
            raise RuntimeError("scripted failure")
        return answer_as_lesson(request)

    for number in range(RUNS):
        run = small_run(number, answer=f"answer {number} holds")
        bank.add_run(run, caller=CALLER, namespace="n")
    report = run_ingest(bank, ScriptedMemoryController(derive=derive))
    assert report.states == {"derived": RUNS - 1, "queued": 1}
    assert bank.run_states()["run-000007"][0] == "queued"


# ---- the organizer

WORDS = ("gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu")


def fill(bank: Bank) -> set[str]:
    """Add lessons such that every operation is asked for: one house is over-full, two are alike."""
    ids = set()
    houses = ["alpha house"] * 10 + ["beta house"] * 2 + ["beta houses"] * 2
    for number, house in enumerate([*houses, *(f"{word} hall" for word in WORDS)]):
        draft = LessonDraft(
            guidance=f"In the {house} count {number if house != 'beta house' else 'twice'}",
            index=IndexText(scope=house, question_anchor=f"how many in the {house}?"),
            question_key=f"q{number}",
            verdict_source="oracle",
        )
        vectors = vectorize([draft.index])[0]
        receipt = bank.add_lesson(draft, vectors, caller=CALLER, namespace="n")
        assert receipt.id is not None
        ids.add(receipt.id)
    return ids


class Organizes(ScriptedTreeOrganizer):
    """An organizer one of whose methods answers a whole batch by one function."""

    def __init__(self, method: str, answer: Callable[[Any], Any]) -> None:
        super().__init__()
        self.asked: list[str] = []
        for name in ("place", "merge", "split_lift", "consolidate"):
            real = getattr(self, name)
            setattr(self, name, self._noting(name, answer if name == method else real))

    def _noting(self, name: str, method: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(requests: Any) -> Any:
            self.asked.append(name)
            return method(requests)

        return call


METHODS = ("place", "merge", "split_lift", "consolidate")
UNKNOWN: dict[str, Any] = {
    "place": Place(lesson_id="nobody", new=NewCategory(title="x")),
    "merge": Merge(kept_id="nobody", absorbed_id="no one"),
    "split_lift": SplitLift(node_id="nobody", parts=(Part(child_ids=("a",)),)),
    "consolidate": Consolidate(node_id="nobody", guidance="x", supported_by=("y",)),
}
WHOLE_FAILURES: dict[str, Callable[[Any], Any]] = {
    "raises": raises,
    "ends its thread": lambda _: sys.exit(3),
    "hangs": hangs,
    "text": lambda _: "rubbish",
    "too few": lambda _: [],
}
SINGLE_FAILURES: dict[str, Callable[[str, Any], Any]] = {
    "a reason": lambda _, __: Reply(value=None, reason="not_json", detail="{", raw="{" * 9000),
    "a value of another kind": lambda _, __: Reply(value="rubbish"),  # type: ignore[arg-type]
    "unknown ids": lambda method, _: Reply(value=UNKNOWN[method]),
    "another operation": lambda method, _: Reply(
        value=UNKNOWN["merge" if method == "place" else "place"]
    ),
    "an unchecked proposal": lambda method, _: Reply(
        value=type(UNKNOWN[method]).model_construct(lesson_id=7, node_id=[], kept_id=None)
    ),
}


def organize(bank: Bank, organizer: Any, deadline: float = 30.0) -> Any:
    return maintain(bank, organizer, Namer(), settings=SETTINGS, ids=uuid7, deadline_s=deadline)


def assert_nothing_lost(bank: Bank, ids: set[str]) -> None:
    assert problems(bank) == []
    tree = bank.tree("n")
    placed = {node.node_id for node in tree.lessons()} if tree else set()
    waiting = {node.node_id for node in bank.inbox("n", limit=100)}
    assert placed | waiting == ids
    assert not placed & waiting


def largest(bank: Bank) -> int:
    tree = bank.tree("n")
    return max(len(tree.children_of(node.node_id)) for node in tree.walk()) if tree else 0


@pytest.mark.parametrize("case", SINGLE_FAILURES)
@pytest.mark.parametrize("method", METHODS)
def test_a_reply_that_is_rubbish_is_kept_as_a_rejection_and_changes_nothing(
    bank: Bank, method: str, case: str
) -> None:
    ids = fill(bank)
    answer = SINGLE_FAILURES[case]
    organizer = Organizes(method, lambda requests: [answer(method, r) for r in requests])
    report = organize(bank, organizer)
    assert method in organizer.asked, "the method was asked at all"
    assert sum(report.rejections.values()) > 0
    assert bank.counts()["rejections"] == dict(report.rejections)
    assert_nothing_lost(bank, ids)
    assert largest(bank) <= SETTINGS.capacity
    assert bank.waiting("n") == (len(ids) if method == "place" else 0)
    organize(bank, ScriptedTreeOrganizer())
    assert_nothing_lost(bank, ids)
    assert bank.waiting("n") == 0
    assert largest(bank) <= SETTINGS.capacity


@pytest.mark.parametrize("case", WHOLE_FAILURES)
@pytest.mark.parametrize("method", METHODS)
def test_an_organizer_that_fails_as_a_whole_leaves_a_step_that_goes_on_later(
    bank: Bank, method: str, case: str
) -> None:
    ids = fill(bank)
    deadline = SOON if case == "hangs" else 30.0
    organizer = Organizes(method, WHOLE_FAILURES[case])
    for _ in range(2):
        if method == "split_lift":
            # Capacity is an invariant, so code divides what the organizer does not.
            assert organize(bank, organizer, deadline).operations["split_lift"] > 0
            assert bank.counts()["rejections"]
            break
        with pytest.raises(ControllerError) as failed:
            organize(bank, organizer, deadline)
        assert failed.value.code == "model_failed"
        assert_nothing_lost(bank, ids)
    assert method in organizer.asked
    assert_nothing_lost(bank, ids)
    organize(bank, ScriptedTreeOrganizer())
    assert_nothing_lost(bank, ids)
    assert bank.waiting("n") == 0
    assert largest(bank) <= SETTINGS.capacity


# ---- select and gate


QUICK = ControllerConfig(deadline_s=1.0)
CONFIG = Config(namespace="n", tree=SETTINGS, memory_controller=QUICK, tree_organizer=QUICK)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory that knows one lesson with a crop; its floors are fitted."""
    folder = tmp_path_factory.mktemp("filled") / "bank"
    with ExperienceMemory.create(folder, CONFIG, encoder=ENCODER) as memory:
        image = memory.add_image(encoded(picture(), "PNG"))
        region = Region(x0=4, y0=4, x1=30, y1=30, width=64, height=48)
        memory.contribute(
            LessonDraft(
                guidance="Count twice",
                index=IndexText(scope="mill", question_anchor="how many in the mill?"),
                evidence=(Evidence(image_id=image.image_id, region=region),),
            )
        )
        memory.recall.save()
    return folder


def memory_with(filled: Path, folder: Path, controller: Any, organizer: Any) -> ExperienceMemory:
    shutil.copytree(filled, folder)
    shutil.copytree(f"{filled}.side", f"{folder}.side")
    return ExperienceMemory.open(
        folder, config=CONFIG, encoder=ENCODER, controllers=(controller, organizer)
    )


class Selects(ScriptedTreeOrganizer):
    def __init__(self, answer: Callable[[Any], Any]) -> None:
        super().__init__()
        self.select = answer  # type: ignore[method-assign]


BAD_SELECTS: dict[str, Callable[[Any], Any]] = {
    **WHOLE_FAILURES,
    "a reason": lambda _: [Reply(value=None, reason="not_json")],
    "another kind": lambda _: [Reply(value="rubbish")],  # type: ignore[arg-type]
    "an unshown lesson": lambda _: [Reply(value=Selection(lesson_id="nobody"))],
    "unshown rules": lambda _: [Reply(value=Selection(rule_ids=("a", "b")))],
    "a lesson as a rule": lambda requests: [
        Reply(value=Selection(rule_ids=(requests[0].candidates[0].node_id,)))
    ],
    "one item twice": lambda requests: [
        Reply(
            value=Selection(
                rule_ids=(requests[0].candidates[0].node_id,),
                lesson_id=requests[0].candidates[0].node_id,
            )
        )
    ],
}


@pytest.mark.parametrize("case", BAD_SELECTS)
def test_a_selection_that_fails_gives_an_empty_answer_with_a_warning(
    filled: Path, tmp_path: Path, case: str
) -> None:
    organizer = Selects(BAD_SELECTS[case])
    with memory_with(filled, tmp_path / "bank", ScriptedMemoryController(), organizer) as memory:
        found = memory.retrieve("how many in the mill?", run_id="one")
        assert (found.items, found.text, found.crops) == ((), "", ())
        assert found.warning
        explained = memory.explain(found.retrieval_id)
        assert explained is not None
        assert explained["candidates"], "what was recalled can be seen all the same"
        # The answer is the run's answer: it does not change when the organizer works again.
        memory.controllers = (ScriptedMemoryController(), ScriptedTreeOrganizer())
        assert memory.retrieve("how many in the mill?", run_id="one") == found
        assert len(memory.retrieve("how many in the mill?", run_id="two").items) == 1


BAD_GATES: dict[str, Callable[[Any], Any]] = {
    **WHOLE_FAILURES,
    "a reason": lambda _: [Reply(value=None, reason="not_json")],
    "another kind": lambda _: [Reply(value="rubbish")],  # type: ignore[arg-type]
    "a number that is no gate": lambda _: [Reply(value=7)],  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", BAD_GATES)
def test_a_gate_that_fails_stays_shut_and_the_text_goes_out(
    filled: Path, tmp_path: Path, case: str
) -> None:
    controller = ScriptedMemoryController()
    controller.gate = BAD_GATES[case]  # type: ignore[method-assign]
    slower = {"tree_organizer": ControllerConfig(deadline_s=2.0)}
    with memory_with(filled, tmp_path / "bank", controller, ScriptedTreeOrganizer()) as memory:
        memory.config = memory.config.model_copy(update=slower)
        found = memory.retrieve("how many in the mill?")
        assert [item.guidance for item in found.items] == ["Count twice"]
        assert (found.gate, found.crops) == (0, ())
        if case == "hangs":
            assert f"limit {QUICK.deadline_s}" in found.warning, "the memory controller's, not 2.0"
        assert bool(found.warning) == (case != "a number that is no gate")
