"""Many processes on one bank: 4 writers, 2 readers, 2 would-be maintainers, and random kills."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from crash import (
    CALLER,
    LIMITS,
    add_lessons,
    lesson,
    new_bank,
    problems,
    run_ingest,
    run_maintain,
    vectorize,
)

from epimem.bank.bank import Bank
from epimem.bank.intake import Caller
from epimem.bank.recall import Recall
from epimem.errors import BankBusyError, EpimemError
from epimem.operations.base import Context
from epimem.operations.place import apply as place
from epimem.schema.ids import uuid7
from epimem.schema.proposal import NewCategory, Place
from epimem.testing import small_run

SECONDS = 6.0
EXPECTED = {"bank_locked_elsewhere", "stale_epoch", "conflict"}


def writer(folder: Path, name: str, log: Path) -> None:
    """Contribute lessons and runs; a number that was not acknowledged is sent again, same key."""
    done = len(log.read_text().split()) if log.exists() else 0
    with Bank.open(folder) as bank, log.open("a") as acknowledged:
        caller = Caller(name, f"org-{name}")
        number = done
        while True:
            key = f"{name}-{number}"
            if number % 3 == 0:
                run = small_run(number, answer=f"{key} holds", house=name)
                run = run.model_copy(update={"run_id": f"run-{key}"})
                receipt = bank.add_run(run, caller=caller, namespace="n", idempotency_key=key)
            else:
                draft = lesson(number, scope=f"{name} house {number % 5}", question=number)
                draft = draft.model_copy(update={"guidance": f"Guidance {key} stands"})
                receipt = bank.add_lesson(
                    draft,
                    vectorize([draft.index])[0],
                    caller=caller,
                    namespace="n",
                    idempotency_key=key,
                )
            acknowledged.write(f"{receipt.id}\n")
            acknowledged.flush()
            number += 1


def reader(folder: Path, _: str, __: Path) -> None:
    with Bank.open(folder, read_only=True) as bank:
        recall = Recall(bank, encoder=None, cache=None)
        while True:
            found = recall.find("Guidance stands", namespace="n")
            nodes = bank.nodes([candidate.node_id for candidate in found.candidates])
            assert all(node.lesson is None or node.lesson.guidance for node in nodes.values())
            tree = bank.tree("n")
            if tree is not None:
                assert all(parent in tree for parent in tree.children)


def maintainer(folder: Path, _: str, __: Path) -> None:
    with Bank.open(folder) as bank:
        while True:
            try:
                run_ingest(bank, limit=20)
                run_maintain(bank, max_steps=2)
            except EpimemError as error:
                if error.code not in EXPECTED:
                    raise
            time.sleep(0.02)


def start(role, folder: Path, name: str, log: Path, faults: Path) -> int:
    child = os.fork()
    if child:
        return child
    try:
        role(folder, name, log)
    except BaseException as error:  # noqa: BLE001 - reported to the parent, whatever it is
        with faults.open("a") as handle:
            handle.write(f"{role.__name__} {name}: {type(error).__name__} {error}\n")
    finally:
        os._exit(1)


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_or_doubled_when_processes_are_killed_at_random(tmp_path, seed):
    folder, faults = tmp_path / "bank", tmp_path / "faults"
    faults.touch()
    with new_bank(folder):
        pass
    chance = random.Random(seed)
    roles = [(writer, f"w{n}") for n in range(4)]
    roles += [(reader, f"r{n}") for n in range(2)] + [(maintainer, f"m{n}") for n in range(2)]
    logs = {name: tmp_path / f"{name}.log" for _, name in roles}
    running = {name: start(role, folder, name, logs[name], faults) for role, name in roles}
    end = time.monotonic() + SECONDS
    kills = 0
    try:
        while time.monotonic() < end:
            time.sleep(chance.uniform(0.05, 0.25))
            role, name = chance.choice(roles)
            os.kill(running[name], signal.SIGKILL)
            os.waitpid(running[name], 0)
            kills += 1
            running[name] = start(role, folder, name, logs[name], faults)
    finally:
        for child in running.values():
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert faults.read_text() == ""
    assert kills >= 10
    _inspect(folder, logs)


def _inspect(folder: Path, logs: dict[str, Path]) -> None:
    with Bank.open(folder) as bank:
        assert problems(bank) == []
        run_ingest(bank)
        run_maintain(bank)
        assert problems(bank) == []
        lessons = bank.tree("n").lessons()
        runs = bank.run_states()
        stored = {node.node_id for node in lessons} | set(runs)
        for name in ("w0", "w1", "w2", "w3"):
            acknowledged = logs[name].read_text().split()
            assert len(acknowledged) > 5, "the slowest writer got something done"
            assert set(acknowledged) <= stored
        # No duplicate effect: every sentence once, every run derived once.
        sentences = [node.lesson.guidance for node in lessons]
        assert len(sentences) == len(set(sentences))
        assert all(len(node.lesson.supports) == 1 for node in lessons)
        assert {state for state, _ in runs.values()} == {"derived"}
        derived = [node for node in lessons if node.lesson.run_ids]
        assert len(derived) == len(runs)


def test_a_maintainer_whose_lease_was_taken_over_changes_nothing(tmp_path):
    now = [1000.0]
    with new_bank(tmp_path / "bank") as bank:
        add_lessons(bank, 1)
    with Bank.open(tmp_path / "bank", clock=lambda: now[0]) as slow:
        # The lease is released after the bank it belongs to was looked at.
        with slow.lease("slow", ttl_s=5) as stale:
            tree = slow.plant(stale, "n")
            waiting = slow.inbox("n", limit=1)
            proposal = Place(lesson_id=waiting[0].node_id, new=NewCategory(title="x"))
            accepted = place(tree, proposal, Context(uuid7, inbox={waiting[0].node_id: waiting[0]}))
            now[0] += 60
            with Bank.open(tmp_path / "bank", clock=lambda: now[0]) as quick, quick.lease("quick"):
                head = quick.head_seq
                with pytest.raises(BankBusyError) as refused:
                    slow.commit_operation(stale, accepted, base=slow.tree_seq)
                assert refused.value.code == "stale_epoch"
                assert quick.head_seq == head
            with pytest.raises(BankBusyError):
                stale.renew()


def test_two_maintainers_do_not_work_at_once(tmp_path):
    with new_bank(tmp_path / "bank") as first, Bank.open(tmp_path / "bank") as second:
        with first.lease("one"), pytest.raises(BankBusyError) as refused, second.lease("two"):
            pass
        assert refused.value.code == "bank_locked_elsewhere"
        with second.lease("two"):
            pass


def test_a_step_that_meets_a_revocation_reads_the_tree_again(tmp_path):
    from epimem.testing import ScriptedTreeOrganizer, nearest_or_new

    with new_bank(tmp_path / "bank") as bank:
        ids = add_lessons(bank, 12)
        revoked = []

        def revoke_once(request):
            if not revoked:
                revoked.append(ids[3])
                with Bank.open(tmp_path / "bank") as other:
                    other.revoke("item", ids[3], LIMITS, caller=CALLER)
            return nearest_or_new(request)

        run_maintain(bank, ScriptedTreeOrganizer(place=revoke_once))
        assert {n.node_id for n in bank.tree("n").lessons()} == set(ids) - {ids[3]}
        assert problems(bank) == []


def test_of_several_creators_one_makes_the_bank_and_nothing_of_it_is_replaced(tmp_path):
    from epimem.config import CallerConfig, Config, EncoderConfig, load
    from epimem.memory import ExperienceMemory

    for attempt in range(4):
        folder = tmp_path / f"bank{attempt}"
        children = []
        for number in range(4):
            child = os.fork()
            if child == 0:
                status = 2
                try:
                    config = Config(
                        caller=CallerConfig(contributor=f"c{number}"),
                        encoder=EncoderConfig(model="none"),
                    )
                    with ExperienceMemory.create(folder, config) as memory:
                        memory.contribute(lesson(number))
                    status = 0
                except EpimemError as error:
                    status = 1 if error.code == "bank_exists" else 2
                finally:
                    os._exit(status)
            children.append(child)
        ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert sorted(ends) == [0, 1, 1, 1]
        with Bank.open(folder) as bank:
            (node,) = bank.inbox("default", limit=10)
            assert node.lesson.contributor == load(folder).caller.contributor
            assert node.lesson.contributor == f"c{ends.index(0)}"


def test_an_ingest_in_parts_gives_the_same_lessons_as_one_in_one_go(tmp_path):
    """Anchors depend on the runs around a run: by order of contribution, not by what still waits."""
    from controllers.embedded.memory_controller import EmbeddedMemoryController

    digests = set()
    for name, parts in (("whole", (None,)), ("parts", (3, 1, None))):
        with new_bank(tmp_path / name) as bank:
            for number in range(8):
                run = small_run(number, answer="the answer is here")
                question = f"Does Ada Byron meet Bob{number // 2} Smith in room {number}?"
                task = run.task.model_copy(update={"question": question})
                run = run.model_copy(update={"task": task})
                bank.add_run(run, caller=CALLER, namespace="n")
            for limit in parts:
                run_ingest(bank, EmbeddedMemoryController(), limit=limit)
            anchors = [node.index.question_anchor for node in bank.inbox("n", limit=99)]
            assert all("Ada Byron" in anchor for anchor in anchors)
            digests.add(tuple(anchors))
    assert len(digests) == 1
