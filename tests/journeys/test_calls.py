"""Calls of controllers: their time, the account of their cost, batches in flight, and dry runs."""

from __future__ import annotations

import hashlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from epimem import ExperienceMemory, deadline
from epimem.bank import steps
from epimem.bank.costs import Costs
from epimem.bank.side import Side
from epimem.calls import ask
from epimem.errors import BankBusyError, ControllerError
from epimem.ingest import ingest
from epimem.protocols import Derived, DeriveRequest, Reply
from epimem.schema.ids import sha256
from epimem.schema.lesson import IndexText, LessonDraft
from epimem.schema.memory_input import Selection
from epimem.schema.proposal import NewCategory, Place
from epimem.schema.receipt import Usage
from epimem.testing import (
    ScriptedMemoryController,
    ScriptedTreeOrganizer,
    answer_as_lesson,
    first_candidate,
    first_guidance,
    merge_always,
    nearest_or_new,
    raises,
    small_run,
    split_in_order,
)
from tests.journeys.scripted_memory import lesson, new_memory

USAGE = Usage(calls=1, tokens_in=100, tokens_out=10, cached=60, seconds=0.5)


def spending(script):
    """Let a script cost something."""
    return lambda request: Reply(script(request), usage=USAGE)


def rows(memory, *names):
    return [tuple(row[name] for name in names) for row in Costs(memory.bank).summary()]


# ---- the account


def test_every_call_of_a_model_is_counted_by_role_and_operation(tmp_path):
    with new_memory(
        tmp_path / "bank",
        derive=spending(answer_as_lesson),
        place=spending(nearest_or_new),
        consolidate=spending(first_guidance),
        select=spending(first_candidate),
    ) as memory:
        for number in range(3):
            memory.contribute(small_run(number, answer=f"answer {number}"))
        memory.ingest()
        memory.maintain()
        memory.retrieve("What is number 1?")
        found = rows(memory, "role", "operation", "requests", "calls", "tokens_in", "cached")
    assert found == [
        ("memory controller", "derive", 3, 3, 300, 180),
        ("tree organizer", "consolidate", 1, 1, 100, 60),
        ("tree organizer", "place", 3, 3, 300, 180),
        ("tree organizer", "select", 1, 1, 100, 60),
    ]


def test_an_update_and_a_second_model_have_rows_of_their_own(tmp_path):
    with new_memory(tmp_path / "bank") as memory:
        for name in ("small", "large"):
            controller = ScriptedMemoryController(
                update=lambda _: Reply(None, reason="schema", usage=replace_calls(2))
            )
            controller.name = name
            memory.controllers = (controller, ScriptedTreeOrganizer())
            memory.start_refine("q").propose_update("a")
        found = rows(memory, "operation", "model", "calls", "refused")
    assert found == [("update", "large", 2, 1), ("update", "small", 2, 1)]


def replace_calls(calls):
    return USAGE.model_copy(update={"calls": calls})


def test_controllers_without_a_model_are_not_listed(tmp_path):
    with new_memory(tmp_path / "bank") as memory:
        memory.contribute(lesson(1))
        memory.maintain()
        memory.retrieve("how many stop at the amber bridge?")
        assert rows(memory, "operation") == []


def test_refused_replies_are_kept_as_they_came_newest_first(tmp_path):
    def derive(request):
        return Reply(None, reason="not_json", detail="no object", raw=request.run.answer.text)

    with new_memory(tmp_path / "bank", derive=derive) as memory:
        memory.contribute(small_run(1, answer="first"))
        memory.contribute(small_run(2, answer="x" * 9000))
        memory.ingest()
        kept = Costs(memory.bank).refused(5)
    assert [(row["operation"], row["reason"], len(row["raw"])) for row in kept] == [
        ("derive", "not_json", 4000),
        ("derive", "not_json", 5),
    ]


def test_a_revocation_takes_the_words_of_refused_replies_and_leaves_their_cost(tmp_path):
    def derive(_):
        return Reply(None, reason="schema", raw="the secret zebra", detail="zebra", usage=USAGE)

    with new_memory(tmp_path / "bank", derive=derive) as memory:
        memory.contribute(small_run(1))
        memory.ingest()
        memory.revoke("run", "run-000001")
        (row,) = Costs(memory.bank).refused(5)
        assert (row["raw"], row["detail"]) == ("", "")
        assert rows(memory, "tokens_in") == [(100,)]
        side = memory.bank.side.root
    held = b"".join(path.read_bytes() for path in side.rglob("*") if path.is_file())
    assert b"zebra" not in held


def test_a_controller_that_fails_as_a_whole_is_counted_too(tmp_path):
    with new_memory(tmp_path / "bank", select=raises) as memory:
        memory.contribute(lesson(1))
        assert "model_failed" in memory.retrieve("how many stop at the amber bridge?").warning
        assert rows(memory, "operation", "refused") == [("select", 1)]


def test_a_log_that_cannot_be_written_costs_the_account_not_the_work(tmp_path, monkeypatch):
    with new_memory(tmp_path / "bank", place=spending(nearest_or_new)) as memory:
        memory.contribute(lesson(1))

        def locked(_):
            raise BankBusyError("the log is locked")

        monkeypatch.setattr(Side, "log", locked)
        assert memory.maintain().placed == 1


def test_a_count_that_no_database_holds_costs_the_account_not_the_work(tmp_path):
    huge = Usage(calls=1, tokens_in=2**70)
    with new_memory(
        tmp_path / "bank", place=lambda request: Reply(nearest_or_new(request), usage=huge)
    ) as memory:
        memory.contribute(lesson(1))
        assert memory.maintain().placed == 1


def test_words_that_come_back_after_a_revocation_are_not_kept(tmp_path):
    def derive(_):
        other = ExperienceMemory.open(memory.bank.path)
        with other:
            other.revoke("run", "run-000001")
        return Reply(None, reason="schema", raw="the secret zebra", usage=USAGE)

    with new_memory(tmp_path / "bank", derive=derive) as memory:
        memory.contribute(small_run(1))
        memory.ingest()
        (row,) = Costs(memory.bank).refused(5)
        assert row["raw"] == ""
        side = memory.bank.side.root
    held = b"".join(path.read_bytes() for path in side.rglob("*") if path.is_file())
    assert b"zebra" not in held


def test_a_batch_that_nobody_waits_for_is_not_retried_and_not_counted(tmp_path):
    going, over = threading.Event(), threading.Event()
    calls = []

    class Controller(ScriptedMemoryController):
        def derive(self, requests):
            calls.append(len(requests))
            if len(calls) == 2:
                going.set()
                over.wait(20)
                raise ControllerError("the model is gone")
            return super().derive(requests)

    def interrupted(_):
        assert going.wait(20)
        raise KeyboardInterrupt

    with new_memory(tmp_path / "bank") as memory:
        for number in range(40):
            memory.contribute(small_run(number, answer=f"answer {number}"))
        with pytest.raises(KeyboardInterrupt):
            ingest(memory.bank, Controller(), interrupted, deadline_s=30)
        left = [thread for thread in threading.enumerate() if thread.name == "derive"]
    over.set()
    for thread in left:
        thread.join(20)
    assert calls == [32, 8]
    with new_reader(memory) as reader:
        assert Costs(reader.bank).refused(5) == []


# ---- time


class Slow:
    """A memory controller with several calls in flight, each of which takes a while."""

    name = "slow"
    prompt_version = "1"

    def __init__(self, concurrency, seconds):
        self.concurrency = self.threads = concurrency
        self.seconds = seconds

    def derive(self, requests):
        def one(request):
            time.sleep(self.seconds)
            return Reply(answer_as_lesson(request))

        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(one, requests))


@pytest.mark.parametrize(("tells", "answered"), [(True, True), (False, False)])
def test_a_batch_gets_the_time_of_its_rounds_from_one_who_tells_how_many_it_has(
    tmp_path, tells, answered
):
    controller = Slow(2, 0.1)  # eight runs take 0.4 s, a deadline is 0.15 s for a call
    if not tells:
        controller.concurrency = "many"
    requests = [DeriveRequest(small_run(number), "right", "oracle") for number in range(8)]

    def asked():
        return ask(
            Costs(memory.bank),
            "memory controller",
            controller,
            "derive",
            requests,
            kind=Derived,
            deadline_s=0.15,
        )

    with new_memory(tmp_path / "bank") as memory:
        if answered:
            assert len(asked()) == 8
        else:
            with pytest.raises(ControllerError, match="in time"):
                asked()


def test_the_maintainer_renews_its_lease_while_the_organizer_works(tmp_path, monkeypatch):
    monkeypatch.setattr(deadline, "BEAT_S", 0.02)

    def slow(request):
        time.sleep(0.3)
        return nearest_or_new(request)

    with new_memory(tmp_path / "bank", place=slow) as memory:
        memory.contribute(lesson(1))
        renewed = []
        extend = steps.extend
        monkeypatch.setattr(
            steps, "extend", lambda *given, **more: (renewed.append(1), extend(*given, **more))
        )
        memory.maintain()
    assert len(renewed) > 4


def test_a_call_beats_while_it_waits(monkeypatch):
    monkeypatch.setattr(deadline, "BEAT_S", 0.02)
    beats = []

    def work():
        time.sleep(0.2)
        return [Reply(Derived(()))]

    deadline.call("x", work, kind=Derived, expected=1, deadline_s=5, beat=lambda: beats.append(1))
    assert len(beats) >= 3


def test_an_overtaken_maintainer_gives_its_call_up(monkeypatch):
    monkeypatch.setattr(deadline, "BEAT_S", 0.02)
    released = threading.Event()

    def overtaken():
        raise BankBusyError("another maintainer took over", code="stale_epoch")

    with pytest.raises(BankBusyError):
        deadline.call(
            "x", lambda: released.wait(30), kind=Derived, expected=1, deadline_s=30, beat=overtaken
        )
    released.set()


def test_a_deadline_holds_with_beats_too(monkeypatch):
    monkeypatch.setattr(deadline, "BEAT_S", 0.02)
    released = threading.Event()
    with pytest.raises(ControllerError, match="in time"):
        deadline.call(
            "x",
            lambda: released.wait(30),
            kind=Derived,
            expected=1,
            deadline_s=0.1,
            beat=lambda: None,
        )
    released.set()


# ---- splits are asked for together


def test_over_full_nodes_of_one_height_are_asked_for_in_one_call(tmp_path):
    sizes = []

    class Organizer(ScriptedTreeOrganizer):
        def split_lift(self, requests):
            sizes.append(len(requests))
            return super().split_lift(requests)

    with new_memory(tmp_path / "bank", tree={"batch": 200}) as memory:
        memory.controllers = (ScriptedMemoryController(), Organizer(merge=lambda _: None))
        for place in range(5):
            for number in range(20):
                memory.contribute(
                    lesson(100 * place + number, place=place, words=f"Look at mark {number}")
                )
        memory.maintain()
        assert sizes[0] == 5
        assert not memory.check()


def test_nodes_of_two_heights_are_never_asked_for_together(tmp_path):
    heights = []

    class Organizer(ScriptedTreeOrganizer):
        def split_lift(self, requests):
            heights.append({request.node.height for request in requests})
            return super().split_lift(requests)

    def own_category(request):
        index = request.lesson.index
        return Place(
            lesson_id=request.lesson.node_id, new=NewCategory(title=index.scope, index=index)
        )

    with new_memory(tmp_path / "bank", tree={"batch": 200}) as memory:
        memory.controllers = (
            ScriptedMemoryController(),
            Organizer(place=own_category, merge=lambda _: None),
        )
        scopes = [sha256(str(number).encode()) for number in range(18)]
        for number, scope in enumerate(scopes + [scopes[0]] * 19):
            memory.contribute(
                LessonDraft(
                    guidance=f"Look at mark {number}.",
                    index=IndexText(scope=scope, question_anchor=scope),
                )
            )
        memory.maintain()
        assert not memory.check()
    # A category of twenty lessons, and the root that holds eighteen categories and its parts.
    assert [sorted(found) for found in heights] == [[1], [2]]


def test_a_refused_split_of_one_node_does_not_hold_up_the_others(tmp_path):
    tries = []

    def split(request):
        tries.append(request.node.node_id)
        if request.node.node_id == tries[0]:
            return Reply(None, reason="schema", raw="rubbish")
        return split_in_order(request)

    with new_memory(tmp_path / "bank", tree={"batch": 200}, split_lift=split) as memory:
        for place in range(3):
            for number in range(20):
                memory.contribute(
                    lesson(100 * place + number, place=place, words=f"Look at mark {number}")
                )
        report = memory.maintain()
        assert report.rejections["schema"] == 2  # two tries, then code divides it
        assert not memory.check()


def test_a_split_that_raises_costs_its_own_node_only(tmp_path):
    asked = set()

    def split(request):
        asked.add(request.node.node_id)
        if request.node.node_id == min(asked):
            raise RuntimeError("scripted failure")
        return split_in_order(request)

    with new_memory(tmp_path / "bank", tree={"batch": 200}, split_lift=split) as memory:
        for place in range(3):
            for number in range(20):
                memory.contribute(
                    lesson(100 * place + number, place=place, words=f"Look at mark {number}")
                )
        report = memory.maintain()
    assert report.rejections["schema"] == 2  # two tries for one node
    assert report.operations["split_lift"] == 3


# ---- dry run


def state(folder: Path) -> str:
    found = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            found.update(str(file).encode() + file.read_bytes())
    return found.hexdigest()


def contributed(memory, count=40):
    for number in range(count):
        memory.contribute(lesson(number, place=number % 3, words=f"Look at mark {number}"))


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(tmp_path):
    with new_memory(tmp_path / "bank", tree={"batch": 16}) as memory:
        contributed(memory)
        before = memory.bank.head_seq, state(memory.bank.path)
        rehearsed = memory.maintain(dry_run=True)
        assert (memory.bank.head_seq, state(memory.bank.path)) == before
        done = memory.maintain()
    assert (rehearsed.steps, rehearsed.placed) == (done.steps, done.placed)
    assert rehearsed.operations == done.operations
    assert sum("step" in item for item in rehearsed.planned) == rehearsed.steps == 3
    operations = [item for item in rehearsed.planned if "op" in item]
    assert len(operations) == sum(done.operations.values())
    assert not done.planned


def test_a_dry_run_tells_how_far_it_is(tmp_path):
    told = []
    with new_memory(tmp_path / "bank", tree={"batch": 16}) as memory:
        contributed(memory)
        memory.maintain(dry_run=True, progress=lambda *given: told.append(given))
    assert told == [("maintain", done, 40) for done in (16, 32, 40)]


def test_a_dry_run_of_one_step_shows_refusals(tmp_path):
    with new_memory(
        tmp_path / "bank", place=lambda _: Reply(None, reason="not_shown", detail="K9")
    ) as memory:
        contributed(memory, 2)
        report = memory.maintain(dry_run=True, max_steps=1)
    refused = [item for item in report.planned if "refused" in item]
    assert refused == [{"op": "place", "refused": "not_shown", "detail": "K9"}] * 2


def test_a_dry_run_works_while_a_maintainer_is_at_work_and_on_a_bank_opened_for_reading(tmp_path):
    with new_memory(tmp_path / "bank") as memory:
        contributed(memory, 3)
        with memory.bank.lease(), new_reader(memory) as reader:
            assert reader.maintain(dry_run=True).placed == 3


def new_reader(memory):
    pair = (ScriptedMemoryController(), ScriptedTreeOrganizer())
    return type(memory).open(memory.bank.path, read_only=True, controllers=pair)


# ---- results do not depend on how many calls are in flight


class InFlight(ScriptedTreeOrganizer):
    """The scripted organizer, its requests answered by several threads in any order."""

    def __init__(self, concurrency, **scripts):
        super().__init__(**scripts)
        self.concurrency = concurrency

    def _answer(self, name, default, requests):
        def one(pair):
            time.sleep(0.001 * (pair[0] % 3))
            return super(InFlight, self)._answer(name, default, [pair[1]])[0]

        with ThreadPoolExecutor(self.concurrency) as pool:
            return list(pool.map(one, enumerate(requests)))


def test_the_tree_is_the_same_however_many_calls_are_in_flight(tmp_path):
    digests = set()
    for concurrency in (1, 4, 16):
        organizer = InFlight(concurrency, merge=merge_always, select=lambda _: Selection())
        with new_memory(tmp_path / f"bank-{concurrency}", tree={"batch": 32}) as memory:
            memory.controllers = (ScriptedMemoryController(), organizer)
            contributed(memory, 120)
            memory.maintain()
            digests.add(memory.bank.state_digest())
    assert len(digests) == 1


# ---- ingest: the next batch is derived while one is committed


def test_the_next_batch_is_on_its_way_while_one_is_committed(tmp_path):
    entered = [threading.Event() for _ in range(3)]
    calls = []

    class Controller(ScriptedMemoryController):
        def derive(self, requests):
            entered[len(calls)].set()
            calls.append([request.run.run_id for request in requests])
            return super().derive(requests)

    overlapped = []

    def vectorize(texts):
        # The lessons of the first batch are encoded only when the second is under way.
        overlapped.append(entered[1].wait(20))
        return [None for _ in texts]

    with new_memory(tmp_path / "bank") as memory:
        for number in range(70):
            memory.contribute(small_run(number, answer=f"answer {number}"))
        report = ingest(memory.bank, Controller(), vectorize, deadline_s=30)
        states = memory.bank.run_states().values()
    assert all(overlapped)
    assert [len(batch) for batch in calls] == [32, 32, 6]
    assert report.states["derived"] == report.lessons == 70
    assert {state for state, _ in states} == {"derived"}


def test_a_limit_bounds_what_is_tried_not_what_is_ahead(tmp_path):
    with new_memory(tmp_path / "bank") as memory:
        for number in range(50):
            memory.contribute(small_run(number, answer=f"answer {number}"))
        assert memory.ingest(limit=40).states["derived"] == 40
        assert memory.bank.counts()["runs"] == {"derived": 40, "queued": 10}
