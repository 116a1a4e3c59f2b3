"""Running a harness with memory: ask the bank once, let it solve, hand in the run.

A harness is one class with a name and `solve`; it gets the question with its images and what the
memory gave, and returns its answer with the log of the session, which an importer turns into a run.
Others are found under the entry-point group `epimem.harnesses`; `harness_adapters.contract` is what
each has to pass.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from epimem.errors import ControllerError, EpimemError
from epimem.schema.ids import sha256, uuid7
from epimem.schema.memory_input import MemoryInput
from epimem.schema.receipt import Receipt
from epimem.schema.run import Answer, Retrieval, Run, Task
from harness_adapters.client import Client
from harness_adapters.importer import Imported, Importer
from harness_adapters.pictures import page
from harness_adapters.sessions import memory_note

HARNESSES = "epimem.harnesses"


@dataclass(frozen=True)
class Asked:
    """What a harness is to solve.

    Attributes:
        question: as it was asked.
        images: files of the question's images, in page order.
        memory: the text to be shown before the question; empty where the bank had nothing.
        crops: files of the pictures that go along with it.
        folder: an empty folder of this run's own.
    """

    question: str
    images: tuple[Path, ...]
    memory: str
    crops: tuple[Path, ...]
    folder: Path

    @property
    def prompt(self) -> str:
        """The memory, then the question; images go before both."""
        return f"{self.memory}\n\n{self.question}" if self.memory else self.question

    @property
    def pictures(self) -> tuple[Path, ...]:
        """The pages of the question, then the crops of the memory."""
        return (*self.images, *self.crops)


@dataclass(frozen=True)
class Solved:
    """What a harness did: its answer (None where it did not complete) and the log of its session."""

    answer: str | None
    log: Path
    finish_reason: str = ""


class Harness(Protocol):
    """Solves one question in one session."""

    name: str
    importer: Importer
    """Reads the logs that `solve` returns."""

    def solve(self, asked: Asked) -> Solved:
        """Solve it.

        Raises:
            ControllerError: `model_failed`, the harness could not be run or kept no log.
        """
        ...


@dataclass(frozen=True)
class Driven:
    """One question that was driven through a harness."""

    run_id: str
    answer: str | None
    given: MemoryInput
    receipt: Receipt | None
    fault: str = ""


@dataclass
class Driver:
    """Drives questions through one harness with one bank.

    Attributes:
        bank: asked once a question, and handed the run.
        harness: solves.
        folder: where each run gets a folder of its own.
        namespace: of the bank; that of its settings, or of the token, where None.
        contribute: whether runs are handed in.
    """

    bank: Client
    harness: Harness
    folder: Path
    namespace: str | None = None
    contribute: bool = True
    fields: Mapping[str, Any] = field(default_factory=dict)

    def drive(
        self,
        question: str,
        images: Sequence[Path] = (),
        *,
        family: str = "",
        task_id: str = "",
        run_id: str | None = None,
    ) -> Driven:
        """Solve one question; a bank that cannot be reached costs its memory, not the answer.

        Args:
            question: as it is asked.
            images: files of its images, in page order.
            family: of the task.
            task_id: kept in the run.
            run_id: of the run: driven again, it is shown the same memory.

        Raises:
            ControllerError: the harness failed.
        """
        run_id = run_id or uuid7()
        folder = self.folder / run_id
        folder.mkdir(parents=True, exist_ok=True)
        given, fault = self._given(question, run_id, family)
        asked = Asked(question, tuple(images), given.text, self._crops(given, folder), folder)
        began = time.monotonic()
        solved = self.harness.solve(asked)
        seconds = time.monotonic() - began
        receipt = None
        if self.contribute and not fault:
            task = Task(task_id=task_id or run_id, family=family, question=question)
            receipt = self._handed_in(solved, asked, given, task, run_id, seconds)
        return Driven(run_id, solved.answer, given, receipt, fault)

    def _given(self, question: str, run_id: str, family: str) -> tuple[MemoryInput, str]:
        try:
            given = self.bank.retrieve(
                question,
                run_id=run_id,
                reader=self.harness.name,
                family=family,
                namespace=self.namespace,
            )
        except EpimemError as error:
            if error.code not in {"unreachable", "not_ready", "bank_busy"}:
                raise
            return MemoryInput(retrieval_id="", bank_seq=0), str(error)
        return given, ""

    def _crops(self, given: MemoryInput, folder: Path) -> tuple[Path, ...]:
        found = []
        for number, crop in enumerate(given.crops, 1):
            path = folder / f"memory-{number}.png"
            path.write_bytes(self.bank.crop_png(crop))
            found.append(path)
        return tuple(found)

    def _handed_in(
        self,
        solved: Solved,
        asked: Asked,
        given: MemoryInput,
        task: Task,
        run_id: str,
        seconds: float,
    ) -> Receipt:
        found = next(iter(self.harness.importer.read(solved.log, admit=self.bank.add_image)), None)
        if not isinstance(found, Imported) or found.run is None:
            raise ControllerError(
                "the log of the harness cannot be read", hint=getattr(found, "message", "")[:200]
            )
        run = _as_asked(found.run, asked, given)
        # The pages as they were asked: a harness may have made them smaller.
        images = [self.bank.add_image(path.read_bytes()) for path in asked.images]
        pages = tuple(page(number, image) for number, image in enumerate(images, 1))
        costs = run.costs.model_copy(
            update={"mas": run.costs.mas.model_copy(update={"time_s": round(seconds, 3)})}
        )
        run = run.model_copy(
            update={
                "run_id": run_id,
                "task": task.model_copy(update={"pages": pages}),
                "retrievals": (*_retrieval(given), *run.retrievals),
                "answer": Answer(
                    text=solved.answer or "",
                    finish_reason=solved.finish_reason or run.answer.finish_reason,
                ),
                "costs": costs,
            }
        )
        return self.bank.contribute(run, namespace=self.namespace, idempotency_key=f"run-{run_id}")


def _retrieval(given: MemoryInput) -> tuple[Retrieval, ...]:
    if not given.retrieval_id:
        return ()
    return (
        Retrieval(
            retrieval_id=given.retrieval_id,
            item_ids=tuple(item.node_id for item in given.items),
            shown_text_hash=sha256(given.text.encode("utf-8")),
            images=tuple(crop.image_id for crop in given.crops),
            visual_gate=given.gate,
        ),
    )


def _as_asked(run: Run, asked: Asked, given: MemoryInput) -> Run:
    """Return a run whose first question is without the memory that was put before it."""
    if not asked.memory:
        return run
    data = run.canonical().decode("utf-8")
    shown = _inside(asked.memory)
    return Run.read(data.replace(shown, _inside(memory_note(given.retrieval_id))))


def _inside(text: str) -> str:
    """Return a text as it stands inside a text of JSON."""
    import json

    return json.dumps(text, ensure_ascii=False)[1:-1]
