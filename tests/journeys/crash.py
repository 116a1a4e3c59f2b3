"""Small banks, operations on them, and a way to kill a process in the middle of one.

The operation runs in a forked child with `EPIMEM_FAILPOINT` set; what it acknowledges it writes to a
pipe. The parent then opens what is left and says what is wrong with it.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from epimem.bank.bank import Bank
from epimem.bank.encoder import NodeVectors, TableEncoder, identity_of, node_vectors
from epimem.bank.intake import Caller
from epimem.config import TreeConfig
from epimem.ingest import ingest
from epimem.maintain import maintain
from epimem.operations.base import Limits
from epimem.schema.ids import uuid7
from epimem.schema.lesson import IndexText, LessonDraft
from epimem.schema.outcome import SealedOutcome
from epimem.testing import ScriptedMemoryController, ScriptedTreeOrganizer, small_run

ENCODER = TableEncoder(32)
CALLER = Caller("alice", "org")
LIMITS = Limits(capacity=7, min_group=4)
SETTINGS = TreeConfig(capacity=7, min_group=4, batch=8)
Say = Callable[[str], None]


class Namer:
    """Vectors made anew: what maintenance needs of an encoder."""

    def of_nodes(self, nodes):
        texts = [node.index for node in nodes]
        return {n.node_id: v for n, v in zip(nodes, node_vectors(ENCODER, texts), strict=True)}

    def of_texts(self, texts):
        return node_vectors(ENCODER, texts)


def vectorize(texts) -> list[NodeVectors]:
    return node_vectors(ENCODER, texts)


def lesson(number: int, *, scope: str | None = None, question: int | None = None) -> LessonDraft:
    words = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
    words += ("eta", "theta", "iota", "kappa", "lambda", "mu")
    scope = scope or f"{words[number % 12]} {words[number % 5]} house"
    return LessonDraft(
        guidance=f"Guidance of {scope}: count the {words[number % 12]} ones",
        index=IndexText(topic="counting", scope=scope, question_anchor=f"how many in {scope}?"),
        question_key=f"q{question if question is not None else number}",
        verdict_source="oracle",
    )


def new_bank(folder: Path) -> Bank:
    return Bank.create(folder, encoder=identity_of(ENCODER))


def add_lessons(bank: Bank, count: int, start: int = 0) -> list[str]:
    ids = []
    for number in range(start, start + count):
        draft = lesson(number)
        receipt = bank.add_lesson(draft, vectorize([draft.index])[0], caller=CALLER, namespace="n")
        assert receipt.id is not None
        ids.append(receipt.id)
    return ids


def add_runs(bank: Bank, count: int, start: int = 0) -> list[str]:
    for number in range(start, start + count):
        run = small_run(number, answer=f"answer {number} holds", house=f"house {number % 3}")
        outcome = SealedOutcome(run_id=run.run_id, verdict="right", source="verifier")
        bank.add_run(run, outcome, caller=CALLER, namespace="n")
    return [f"run-{number:06d}" for number in range(start, start + count)]


def run_ingest(bank: Bank, controller=None, **options):
    controller = controller or ScriptedMemoryController()
    return ingest(bank, controller, vectorize, deadline_s=5.0, **options)


def run_maintain(bank: Bank, organizer=None, **options):
    organizer = organizer or ScriptedTreeOrganizer()
    return maintain(
        bank, organizer, Namer(), settings=SETTINGS, ids=uuid7, deadline_s=5.0, **options
    )


@dataclass
class Killed:
    """How a child ended: whether it was killed, and what it had acknowledged."""

    killed: bool
    acknowledged: list[str]


def run_killed(operation: Callable[[Path, Say], None], folder: Path, failpoint: str) -> Killed:
    """Run an operation on the bank in a child that dies at the failpoint."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 70
        try:
            os.close(reading)
            os.environ["EPIMEM_FAILPOINT"] = failpoint

            def say(line: str) -> None:
                os.write(writing, f"{line}\n".encode())

            operation(folder, say)
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as handle:
        said = handle.read().decode().split()
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert killed or os.waitstatus_to_exitcode(status) == 0, f"child ended with {status}"
    return Killed(killed, said)


def kill_everywhere(
    operation: Callable[[Path, Say], None],
    template: Path,
    folder: Path,
    failpoints: tuple[str, ...],
    inspect: Callable[[Path, Killed], None],
    *,
    most: int = 40,
) -> int:
    """Kill the operation at every passage of every failpoint; return how many kills there were."""
    kills = 0
    for name in failpoints:
        for passage in range(1, most + 1):
            shutil.rmtree(folder, ignore_errors=True)
            shutil.rmtree(f"{folder}.side", ignore_errors=True)
            shutil.copytree(template, folder)
            ended = run_killed(operation, folder, f"{name}:{passage}")
            inspect(folder, ended)
            if not ended.killed:
                assert passage > 1, f"{name} is never passed"
                break
            kills += 1
    return kills


def problems(bank: Bank) -> list[str]:
    """Return what `check` finds, unreferenced blobs apart: a crash may leave those."""
    return [f"{p.code} {p.where}: {p.detail}" for p in bank.check(LIMITS) if p.code != "orphan"]
