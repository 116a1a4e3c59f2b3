"""What serving costs: HTTP beside the same bank in process, and a mixed load beside the bare encoder.

    python -m benchmarks.serving                       100,000 lessons, some ten minutes with the making
    python -m benchmarks.serving --lessons 5000 --seconds 10

The bank is made once in `--folder`. Its lessons have made-up vectors (encoding them would take an
hour); questions and new lessons are encoded in earnest. The load comes from a process of its own on
the same machine: 16 connections, each asks or contributes again as soon as it was answered.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
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
from epimem.schema.ids import uuid7
from epimem.schema.lesson import IndexText, LessonDraft
from epimem.service.access import Grant, TokenFile, new_token, token_file
from epimem.testing import small_run

CLIENTS, WRITES = 16, 0.1
BATCH = 1000
WARM, ROUNDS = 50, 400


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
    chance = np.random.default_rng(0)
    with ExperienceMemory.create(part, Config()) as memory:
        bank = memory.bank
        assert bank.encoder is not None
        size = bank.encoder.dimension
        for start in range(0, lessons, BATCH):
            count = min(BATCH, lessons - start)
            bank.add_run(small_run(start), caller=CALLER, namespace="default")
            (queued,) = bank.queued_runs(limit=1)
            vectors = [_vectors(chance, size) for _ in range(count)]
            drafts = [draft(start + at) for at in range(count)]
            bank.commit_derivation(queued, drafts, vectors, controller="bench", prompt_version="1")
            print(f"{start + count} of {lessons} lessons", file=sys.stderr, flush=True)
        # As maintenance leaves a bank; else every process that opens it builds the graph for itself.
        memory.recall.refresh()
        memory.recall.fold(at_any_cost=True)
        memory.recall.save()
    part.rename(path)
    part.with_name(part.name + ".side").rename(path.with_name(path.name + ".side"))
    return path


def _vectors(chance: np.random.Generator, size: int) -> NodeVectors:
    found = chance.standard_normal((3, size)).astype(np.float32)
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return NodeVectors(*found)


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


def load(host: str, port: int, token: str, seconds: float) -> dict[str, Any]:
    """Ask and contribute from `CLIENTS` connections; return times, statuses and acknowledged ids."""
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
            write = chance.random() < WRITES
            body = {"item": draft(number).plain()} if write else {"question": question(number)}
            began = time.perf_counter()
            status, data = connection.post("contribute" if write else "retrieve", body)
            with lock:
                times.append(time.perf_counter() - began)
                statuses[status] = statuses.get(status, 0) + 1
                if write and status == 200:
                    written.append(json.loads(data)["id"])

    workers = [threading.Thread(target=work, args=(n,)) for n in range(CLIENTS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return {"times": times, "statuses": statuses, "written": written}


def mixed(bank: Path, seconds: float) -> dict[str, Any]:
    """Return throughput and latencies of the mixed load, and how many acknowledged writes are lost."""
    with serving(bank) as (host, port, token):
        connection = Connection(host, port, token)
        for number in range(WARM):
            connection.post("retrieve", {"question": question(-number - 1)})
        words = [sys.executable, "-m", "benchmarks.serving", "--load", host, str(port), token]
        done = subprocess.run(  # noqa: S603 - this module
            [*words, "--seconds", str(seconds)], stdout=subprocess.PIPE, check=True
        )
    found = json.loads(done.stdout)
    with ExperienceMemory.open(bank, read_only=True) as memory:
        there = memory.bank.nodes(found["written"])
    times = sorted(found["times"])
    return {
        "requests a second": len(times) / seconds,
        "p50 ms": 1000 * times[len(times) // 2],
        "p99 ms": 1000 * times[int(len(times) * 0.99)],
        "statuses": found["statuses"],
        "writes": len(found["written"]),
        "lost": len(set(found["written"]) - set(there)),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lessons", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--folder", type=Path, default=Path("serving-bench"))
    parser.add_argument(
        "--load", nargs=3, metavar=("HOST", "PORT", "TOKEN"), help=argparse.SUPPRESS
    )
    given = parser.parse_args()
    if given.load:
        host, port, token = given.load
        print(json.dumps(load(host, int(port), token, given.seconds)))
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
