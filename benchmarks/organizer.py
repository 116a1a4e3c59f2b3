"""What an organizer on a model costs: calls and prompt tokens per lesson, calls in flight.

    python -m benchmarks.organizer            all figures, as a table
    python -m benchmarks.organizer --only calls,tokens,flight

The prompts are those that a model gets, and its replies go through the reader; what they say is what the
embedded controllers decide, so that the figures need no weights and do not depend on any. Tokens are
counted with the tokenizer of the text encoder (WordPiece), which no vision-language model uses: ratios
carry over, levels do not. Written into benchmarks/RESULTS.md by hand, with command and machine.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.speed import draft as words_draft
from benchmarks.text.bbh import Item, load_items, split
from benchmarks.text.bbh import draft as bbh_draft
from controllers.backends.base import Completion
from controllers.embedded.memory_controller import EmbeddedMemoryController
from controllers.embedded.tree_organizer import EmbeddedTreeOrganizer
from controllers.model.memory_controller import ModelMemoryController
from controllers.model.tree_organizer import ModelTreeOrganizer
from controllers.prompts import OPERATIONS, Prompt
from epimem import Config, ExperienceMemory
from epimem.bank.encoder import load_encoder
from epimem.bank.onnx_encoder import OnnxEncoder
from epimem.protocols import Encoder
from epimem.schema.atif import AgentInfo, Step, Trajectory
from epimem.schema.lesson import LessonDraft
from epimem.schema.outcome import SealedOutcome
from epimem.schema.run import Answer, Run, System, Task

SIZES = (100, 1000, 10_000)
# Lessons over which the cost at a size is taken: eight steps.
WINDOW = 512
LATENCY_S = 0.3
IN_FLIGHT = 16
FLIGHT_RUNS = 256
Row = tuple[str, str, str]


class TaughtBackend:
    """A model that knows every reply beforehand and takes a stated time to give it.

    Args:
        latency_s: of one call, in seconds.
        concurrency: calls in flight together.
        count: tokens of a text; None counts none.
        taught_by: another one whose replies this one knows.
    """

    name = "taught"

    def __init__(
        self,
        latency_s: float = 0.0,
        concurrency: int = 1,
        *,
        count: Callable[[str], int] | None = None,
        taught_by: TaughtBackend | None = None,
    ) -> None:
        self.concurrency = concurrency
        self._latency_s = latency_s
        self._count = count
        self.replies: dict[str, str] = taught_by.replies if taught_by is not None else {}
        self.calls: Counter[str] = Counter()
        self.tokens = 0

    def teach(self, prompt: Prompt, reply: dict[str, Any]) -> None:
        """Say what is to be answered to a prompt."""
        self.replies[_text(prompt)] = json.dumps(reply, ensure_ascii=False)

    def complete(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """Answer every prompt as it was taught."""
        with ThreadPoolExecutor(self.concurrency) as pool:
            return list(pool.map(self._one, prompts))

    def _one(self, prompt: Prompt) -> Completion:
        time.sleep(self._latency_s)
        text = _text(prompt)
        self.calls[prompt.operation] += 1
        tokens = self._count(text) if self._count is not None else 0
        self.tokens += tokens
        return Completion(self.replies[text], tokens_in=tokens, seconds=self._latency_s)

    def close(self) -> None:
        """Free nothing."""


def _text(prompt: Prompt) -> str:
    return "\n".join(message.text for message in prompt.messages)


class _Teacher:
    """Answers requests by the embedded controller and teaches the backend to say the same."""

    def __init__(self, embedded: Any, model: Any, backend: TaughtBackend) -> None:
        self._embedded, self._model, self._backend = embedded, model, backend
        self.name, self.prompt_version = model.name, model.prompt_version
        self.concurrency = model.concurrency

    def __getattr__(self, name: str) -> Callable[[Sequence[Any]], Any]:
        operation = OPERATIONS[name]

        def method(requests: Sequence[Any]) -> Any:
            decided = getattr(self._embedded, name)(requests)
            for request, reply in zip(requests, decided, strict=True):
                if name == "merge" and reply.value is None:
                    said: dict[str, Any] = {"merge": False, "title": ""}
                else:
                    said = operation.target(request, reply.value)
                self._backend.teach(operation.render(request), said)
            return getattr(self._model, name)(requests)

        return method


def _embedded_organizer(config: Config) -> EmbeddedTreeOrganizer:
    settings = config.tree
    return EmbeddedTreeOrganizer(
        place_min=settings.place_min, scope_min=settings.scope_min, merge_min=settings.merge_min
    )


@contextmanager
def opened(
    encoder: Encoder, backend: TaughtBackend, *, teach: bool = True
) -> Iterator[ExperienceMemory]:
    """Open a new bank whose two controllers put real prompts to a taught model.

    With `teach` the embedded controllers say first what is to be answered; else it is known already.
    """
    config = Config()
    pair: Any = (ModelMemoryController(backend), ModelTreeOrganizer(backend))
    if teach:
        embedded = (EmbeddedMemoryController(), _embedded_organizer(config))
        pair = tuple(map(_Teacher, embedded, pair, (backend, backend)))
    with (
        tempfile.TemporaryDirectory() as folder,
        ExperienceMemory.create(
            Path(folder) / "bank", config, encoder=encoder, controllers=pair
        ) as memory,
    ):
        yield memory


@dataclass(frozen=True)
class Stream:
    """A stream of ready lessons, and how many it has."""

    name: str
    draft: Callable[[int], LessonDraft]
    length: int


def streams() -> tuple[Stream, ...]:
    """Return the streams: real questions while they last, and made-up ones of any length."""
    first, second = split(load_items(), seed=0)
    items: tuple[Item, ...] = (*first, *second)

    def new_houses(number: int) -> LessonDraft:
        block, place = divmod(number, 100)
        return words_draft(number, group=block * 10 + place % 10)

    return (
        Stream("BIG-Bench Hard", lambda number: bbh_draft(items[number]), len(items)),
        Stream("new houses", new_houses, 1_000_000),
    )


def calls(encoder: Encoder) -> list[Row]:
    """Count organizer calls per accepted lesson over 1,000 lessons, and all calls with derive."""
    rows: list[Row] = []
    for stream in streams():
        backend = TaughtBackend()
        with opened(encoder, backend) as memory:
            for number in range(1000):
                memory.contribute(stream.draft(number))
            placed = memory.maintain().placed
        per = sum(backend.calls.values()) / placed
        rows.append((f"organizer calls per lesson, {stream.name}", f"{per:.2f}", "<= 1.5"))
        rows.append(("  by operation", str(dict(backend.calls)), ""))
        rows.append(("  with one derive a run", f"{1 + per:.2f}", "<= 2.6"))
    return rows


def tokens(encoder: Encoder) -> list[Row]:
    """Count prompt tokens per lesson at several sizes of the bank."""
    rows: list[Row] = []
    for stream in streams():
        found: dict[int, float] = {}
        backend = TaughtBackend(count=_counter(encoder))
        with opened(encoder, backend) as memory:
            done = 0
            for size in SIZES:
                if size + WINDOW > stream.length:
                    break
                done = _grow(memory, stream, done, size)
                before = backend.tokens
                done = _grow(memory, stream, done, size + WINDOW)
                found[size] = (backend.tokens - before) / WINDOW
        spread = max(found.values()) / min(found.values()) - 1
        levels = ", ".join(f"{size}: {value:.0f}" for size, value in found.items())
        rows.append(
            (
                f"organizer prompt tokens per lesson, {stream.name}",
                f"{levels} ({spread:+.0%})",
                "10 %",
            )
        )
    return rows


def _grow(memory: ExperienceMemory, stream: Stream, done: int, size: int) -> int:
    for number in range(done, size):
        memory.contribute(stream.draft(number))
    memory.maintain()
    return max(done, size)


def _counter(encoder: Encoder) -> Callable[[str], int]:
    assert isinstance(encoder, OnnxEncoder)
    return encoder.count_tokens


def flight(encoder: Encoder) -> list[Row]:
    """Compare a build with one and with many calls in flight, at a stated latency of the model."""
    items, _ = split(load_items(), seed=0)
    teacher = TaughtBackend()
    spent: dict[int, float] = {}
    digests = {_timed_build(encoder, teacher, items, teach=True)[1]}
    for concurrency in (IN_FLIGHT, 1):
        backend = TaughtBackend(LATENCY_S, concurrency, taught_by=teacher)
        spent[concurrency], digest = _timed_build(encoder, backend, items, teach=False)
        digests.add(digest)
    made = sum(teacher.calls.values())
    ratio = spent[1] / spent[IN_FLIGHT]
    same = "same digest" if len(digests) == 1 else "digests DIFFER"
    bare = made * LATENCY_S
    return [
        (
            f"build of {FLIGHT_RUNS} runs, {LATENCY_S} s a call: one over {IN_FLIGHT} in flight",
            f"{ratio:.1f}x ({spent[1]:.0f} s over {spent[IN_FLIGHT]:.1f} s), {same}",
            ">= 10x",
        ),
        (
            "  bare limit: calls x latency, one by one and in flight",
            f"{bare:.0f} s, {bare / IN_FLIGHT:.1f} s ({made} calls)",
            "",
        ),
    ]


def _timed_build(
    encoder: Encoder, backend: TaughtBackend, items: Sequence[Item], *, teach: bool
) -> tuple[float, str]:
    """Return the seconds that ingest and maintain take, and the digest of the bank."""
    with opened(encoder, backend, teach=teach) as memory:
        for item in items[:FLIGHT_RUNS]:
            run = _run(item)
            outcome = SealedOutcome(run_id=run.run_id, verdict="right", source="oracle")
            memory.contribute(run, outcome=outcome)
        started = time.perf_counter()
        memory.ingest()
        memory.maintain()
        return time.perf_counter() - started, memory.bank.state_digest()


def _run(item: Item) -> Run:
    message = f"{item.question}\nThe right answer was: {item.answer}"
    step = Step(step_id=1, source="agent", message=message, extra={"epimem": {"seq": 0}})
    return Run(
        run_id=f"{item.task}-{item.number}",
        created_at="2026-01-01T00:00:00.000+00:00",
        task=Task(task_id=f"{item.task}-{item.number}", question=item.question),
        system=System(harness="bench"),
        trajectory=Trajectory(
            schema_version="ATIF-v1.8", agent=AgentInfo(name="solver", version="1"), steps=(step,)
        ),
        answer=Answer(text=item.answer),
    )


FIGURES: dict[str, Callable[[Encoder], list[Row]]] = {
    "calls": calls,
    "tokens": tokens,
    "flight": flight,
}


def main() -> None:
    """Print the figures that were asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--only", default=",".join(FIGURES), help="some of calls,tokens,flight")
    names = parser.parse_args().only.split(",")
    encoder = load_encoder("all-MiniLM-L6-v2")
    assert encoder is not None
    print("| figure | found | goal |\n|---|---|---|")
    for name in names:
        for row in FIGURES[name](encoder):
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
