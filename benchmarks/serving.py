"""What serving costs: HTTP beside the same bank in process, and a mixed load beside the bare encoder.

    python -m benchmarks.serving                       100,000 lessons, some ten minutes with the making
    python -m benchmarks.serving --lessons 5000 --seconds 10

The bank is made once in `--folder`. Its lessons have the vectors of their texts, encoded once for
each pair of words, with some noise for the number of the case (encoding all would take half an
hour); questions and new lessons are encoded in earnest. The load comes from a process of its own on
the same machine: 16 connections, each asks or contributes again as soon as it was answered.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.speed import CALLER, WORDS
from epimem.bank.encoder import NodeVectors
from epimem.config import Config
from epimem.memory import ExperienceMemory
from epimem.protocols import Encoder
from epimem.schema.ids import uuid7
from epimem.schema.lesson import IndexText, LessonDraft
from epimem.service.access import Grant, TokenFile, new_token, token_file
from epimem.testing import small_run

CLIENTS, WRITES = 16, 0.1
BATCH = 1000
WARM, ROUNDS = 50, 400
NOISE = 0.3
"""Lessons of the same two words have a cosine of 0.92."""


def question(number: int) -> str:
    """Return a question that is asked once."""
    chance = random.Random(number)
    first, second, third = chance.sample(WORDS, 3)
    return f"How many {first} signs stand on the {second} page of the {third} atlas, case {number}?"


def draft(number: int) -> LessonDraft:
    """Return a lesson."""
    chance = random.Random(-number - 1)
    first, second = chance.sample(WORDS, 2)
    return LessonDraft(
        guidance=f"On {first} pages leave out the {second} signs of case {number}.",
        title=f"{second} signs",
        index=IndexText(
            topic=f"{second} signs",
            scope=f"{first} pages of sheet {number}",
            question_anchor=f"How many {second} signs stand on a {first} page?",
        ),
        question_key=f"q{number}",
    )


def made(folder: Path, lessons: int) -> Path:
    """Return a bank of so many lessons, made where it is not there."""
    path = folder / f"bank-{lessons}"
    if path.is_dir():
        return path
    part = folder / f"part-{lessons}-{os.getpid()}"
    with ExperienceMemory.create(part, Config()) as memory:
        bank = memory.bank
        assert memory.encoder is not None
        vectors = Vectors(memory.encoder)
        for start in range(0, lessons, BATCH):
            count = min(BATCH, lessons - start)
            bank.add_run(small_run(start), caller=CALLER, namespace="default")
            (queued,) = bank.queued_runs(limit=1)
            drafts = [draft(start + at) for at in range(count)]
            found = vectors.of(drafts)
            bank.commit_derivation(queued, drafts, found, controller="bench", prompt_version="1")
            print(f"{start + count} of {lessons} lessons", file=sys.stderr, flush=True)
        # As maintenance leaves a bank; else every process that opens it builds the graph for itself.
        memory.recall.refresh()
        memory.recall.fold(at_any_cost=True)
        memory.recall.save()
    part.rename(path)
    part.with_name(part.name + ".side").rename(path.with_name(path.name + ".side"))
    return path


class Vectors:
    """The vectors of drafts: those of their words, with noise for their numbers."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._known: dict[tuple[str, ...], np.ndarray] = {}
        self._chance = np.random.default_rng(0)

    def of(self, drafts: list[LessonDraft]) -> list[NodeVectors]:
        """Return all of a draft's index, its scope, its anchor."""
        texts = [tuple(map(_without_number, _index_texts(it))) for it in drafts]
        new = [each for each in dict.fromkeys(texts) if each not in self._known]
        for start in range(0, len(new), 16):
            part = new[start : start + 16]
            found = self._encoder.encode([text for each in part for text in each])
            self._known.update(zip(part, found.reshape(len(part), 3, -1), strict=True))
        return [NodeVectors(*self._noisy(self._known[each])) for each in texts]

    def _noisy(self, vectors: np.ndarray) -> np.ndarray:
        noise = self._chance.standard_normal(vectors.shape).astype(np.float32)
        found = vectors + NOISE * noise / np.linalg.norm(noise, axis=1, keepdims=True)
        return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), dtype=np.float32)


def _index_texts(lesson: LessonDraft) -> tuple[str, str, str]:
    index = lesson.index
    return (
        f"{index.topic}\n{index.scope}\n{index.question_anchor}",
        index.scope,
        index.question_anchor,
    )


def _without_number(text: str) -> str:
    return re.sub(r" of sheet \d+", "", text)


@contextmanager
def serving(bank: Path) -> Iterator[tuple[str, int, str]]:
    """Serve a bank; give host, port and a token."""
    file = TokenFile(token_file(bank))
    token = new_token()
    values = {"name": uuid7(), "sha256": "0" * 64, "contributor": "bench", "organisation": "local"}
    rights = {"rights": ["read", "contribute"], "writes_per_minute": 0, "lessons": 0}
    file.add(Grant.read({**values, **rights}), token)
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "epimem", "serve", str(bank), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"},
    )
    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        host, _, port = url.removeprefix("http://").partition(":")
        yield host, int(port), token
    finally:
        process.terminate()
        process.wait(60)


class Connection:
    """One connection that is kept."""

    def __init__(self, host: str, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=60)
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}

    def post(self, operation: str, body: object) -> tuple[int, bytes]:
        """Post a request; return status and body."""
        data = json.dumps(body).encode()
        self._connection.request("POST", f"/v1/{operation}", data, self._headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()


def overhead(bank: Path) -> dict[str, float]:
    """Return the median milliseconds of a retrieval in process and by HTTP, alternating."""
    with ExperienceMemory.open(bank) as memory, serving(bank) as (host, port, token):
        connection = Connection(host, port, token)

        def here(text: str) -> None:
            memory.retrieve(text)

        def there(text: str) -> None:
            status, _ = connection.post("retrieve", {"question": text})
            assert status == 200

        took: dict[str, list[float]] = {"in process": [], "HTTP": []}
        for number in range(WARM + ROUNDS):
            ways: tuple[tuple[str, Callable[[str], None]], ...]
            ways = (("in process", here), ("HTTP", there))
            for at, (name, ask) in enumerate(ways):
                began = time.perf_counter()
                ask(question(2 * number + at))
                if number >= WARM:
                    took[name].append(1000 * (time.perf_counter() - began))
    return {name: statistics.median(values) for name, values in took.items()}


def encoder_limit(bank: Path) -> float:
    """Return how many questions a second the encoder takes in batches of 32, with nothing else to do."""
    with ExperienceMemory.open(bank) as memory:
        encoder = memory.encoder
        assert encoder is not None
        texts = [question(10**6 + at) for at in range(1600)]
        encoder.encode(texts[:64])
        began = time.perf_counter()
        for start in range(64, len(texts), 32):
            encoder.encode(texts[start : start + 32])
        return (len(texts) - 64) / (time.perf_counter() - began)


Body = tuple[str, dict[str, Any]]


def mixed_body(number: int, chance: random.Random) -> Body:
    """Return an operation and its request: one in ten contributes."""
    if chance.random() < WRITES:
        return "contribute", {"item": draft(number).plain()}
    return "retrieve", {"question": question(number)}


def empty_body(number: int, _chance: random.Random) -> Body:
    """Return a request that is let in and then refused: what HTTP and the load itself cost."""
    return "nothing", {"question": question(number)}


BODIES: dict[str, Callable[[int, random.Random], Body]] = {"mixed": mixed_body, "empty": empty_body}


def load(host: str, port: int, token: str, kind: str, seconds: float) -> dict[str, Any]:
    """Send requests from `CLIENTS` connections; return times, statuses and acknowledged ids."""
    until = time.monotonic() + seconds
    times: list[float] = []
    statuses: dict[int, int] = {}
    written: list[str] = []
    lock = threading.Lock()

    def work(worker: int) -> None:
        connection = Connection(host, port, token)
        chance = random.Random(worker)
        number = 10**7 * (worker + 1)
        while time.monotonic() < until:
            number += 1
            operation, body = BODIES[kind](number, chance)
            began = time.perf_counter()
            status, data = connection.post(operation, body)
            with lock:
                times.append(time.perf_counter() - began)
                statuses[status] = statuses.get(status, 0) + 1
                if operation == "contribute" and status == 200:
                    written.append(json.loads(data)["id"])

    workers = [threading.Thread(target=work, args=(n,)) for n in range(CLIENTS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return {"times": times, "statuses": statuses, "written": written}


def loaded(server: tuple[str, int, str], kind: str, seconds: float) -> dict[str, Any]:
    """Return what `load` found in a process of its own."""
    host, port, token = server
    words = [sys.executable, "-m", "benchmarks.serving", "--load", host, str(port), token, kind]
    done = subprocess.run(  # noqa: S603 - this module
        [*words, "--seconds", str(seconds)], stdout=subprocess.PIPE, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def mixed(bank: Path, seconds: float) -> dict[str, Any]:
    """Return throughput and latencies of the mixed load, and how many acknowledged writes are lost.

    Also how many requests a second are answered when nothing is asked of the bank.
    """
    with serving(bank) as server:
        connection = Connection(*server)
        for number in range(WARM):
            connection.post("retrieve", {"question": question(-number - 1)})
        empty = loaded(server, "empty", min(seconds, 5))
        before = _cpu_s()
        found = loaded(server, "mixed", seconds)
        busy = (_cpu_s() - before) / seconds
    with ExperienceMemory.open(bank, read_only=True) as memory:
        there = memory.bank.nodes(found["written"])
    times = sorted(found["times"])
    return {
        "requests a second": len(times) / seconds,
        "empty requests a second": len(empty["times"]) / min(seconds, 5),
        "cores busy": busy,
        "p50 ms": 1000 * times[len(times) // 2],
        "p99 ms": 1000 * times[int(len(times) * 0.99)],
        "statuses": found["statuses"],
        "writes": len(found["written"]),
        "lost": len(set(found["written"]) - set(there)),
    }


def _cpu_s() -> float:
    """Return how many core-seconds this machine has worked since it was started (Linux)."""
    user, nice, system = Path("/proc/stat").read_text("ascii").split()[1:4]
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lessons", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--folder", type=Path, default=Path("serving-bench"))
    parser.add_argument(
        "--load", nargs=4, metavar=("HOST", "PORT", "TOKEN", "KIND"), help=argparse.SUPPRESS
    )
    given = parser.parse_args()
    if given.load:
        host, port, token, kind = given.load
        print(json.dumps(load(host, int(port), token, kind, given.seconds)))
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    bank = made(given.folder, given.lessons)
    took = overhead(bank)
    print({name: round(value, 2) for name, value in took.items()}, "ms")
    limit = encoder_limit(bank)
    print(f"bare encoder, batches of 32: {limit:.0f} questions a second")
    found = mixed(bank, given.seconds)
    print(json.dumps(found))
    share, spread = found["requests a second"] / limit, found["p99 ms"] / found["p50 ms"]
    print(f"share of the bare encoder: {share:.2f}; p99 / p50: {spread:.1f}")


if __name__ == "__main__":
    main()
