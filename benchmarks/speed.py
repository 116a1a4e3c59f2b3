"""The speed figures of a bank, each beside its bare limit timed in the same run.

    python -m benchmarks.speed            all figures, as a table
    python -m benchmarks.speed --only contribute,build

Medians over several rounds; ours and the bare limit alternate, so that a change of the machine's load
meets both. Written into benchmarks/RESULTS.md by hand, with command and machine.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from epimem.bank.bank import Bank
from epimem.bank.encoder import TableEncoder, identity_of, node_vectors
from epimem.bank.intake import Caller
from epimem.config import Config, EncoderConfig
from epimem.memory import ExperienceMemory
from epimem.schema.ids import sha256, uuid7
from epimem.schema.lesson import IndexText, LessonDraft

Row = tuple[str, str, str]
CALLER = Caller("bench", "bench")
WORDS = (
    "amber",
    "anchor",
    "apple",
    "arch",
    "atlas",
    "basin",
    "beacon",
    "birch",
    "bridge",
    "canal",
    "cedar",
    "chart",
    "clay",
    "cliff",
    "coal",
    "copper",
    "coral",
    "crane",
    "delta",
    "dune",
    "ember",
    "fern",
    "field",
    "fjord",
    "flint",
    "forge",
    "gate",
    "glade",
    "gravel",
    "grove",
    "harbor",
    "hazel",
    "heath",
    "inlet",
    "iron",
    "island",
    "ivory",
    "jade",
    "kelp",
    "lagoon",
    "lake",
    "lantern",
    "larch",
    "ledge",
    "lime",
    "linen",
    "maple",
    "marsh",
    "meadow",
    "mesa",
    "mill",
    "moss",
    "needle",
    "north",
    "oak",
    "opal",
    "orchard",
    "pebble",
    "pine",
    "plain",
    "quarry",
    "quartz",
    "ravine",
    "reed",
    "ridge",
    "river",
    "rook",
    "rose",
    "saddle",
    "sage",
    "salt",
    "sand",
    "shale",
    "shore",
    "silver",
    "slate",
    "spring",
    "spruce",
    "stone",
    "summit",
    "thorn",
    "timber",
    "tor",
    "valley",
    "vine",
    "violet",
    "wharf",
    "willow",
)


def draft(number: int, *, group: int | None = None) -> LessonDraft:
    """Return lesson `number` of a group (of 400 by default): lessons of one share their scope."""
    rng = np.random.default_rng(number)
    house = np.random.default_rng(10_000_000 + (number % 400 if group is None else group))
    scope = " ".join(house.choice(WORDS, 4))
    words = " ".join(rng.choice(WORDS, 12))
    return LessonDraft(
        guidance=f"For {scope} tasks number {number}: {words}",
        applies_when=f"The task names {scope}.",
        cautions=(f"Seen once: {words}",),
        index=IndexText(
            topic=str(house.choice(WORDS)),
            scope=scope,
            question_anchor=f"Which {' '.join(house.choice(WORDS, 6))} applies to {scope}?",
        ),
        question_key=f"question-{number}",
        verdict_source="oracle",
    )


def median_seconds(call: Callable[[], object], rounds: int) -> float:
    """Return the median wall time of `rounds` calls after one warm-up."""
    call()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def start_up() -> list[Row]:
    """Time process starts: import, help, and a cold retrieve on a bank of 10,000 nodes."""
    python = sys.executable

    def run(*command: str) -> Callable[[], object]:
        return lambda: subprocess.run(command, check=True, capture_output=True)  # noqa: S603

    bare = median_seconds(run(python, "-c", "pass"), 7)
    imported = median_seconds(
        run(python, "-c", "import epimem, sys; assert 'torch' not in sys.modules"), 7
    )
    helped = median_seconds(run(python, "-m", "epimem", "--help"), 7)
    rows: list[Row] = [
        ("bare interpreter start", f"{bare:.3f} s", ""),
        ("import epimem, no torch", f"{imported:.3f} s", "<= 0.3 s"),
        ("epimem --help", f"{helped:.3f} s", "<= 0.5 s"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bank"
        size = _large_bank(path, 10_000)
        question = "Which harbor applies to cedar tasks?"
        cold = median_seconds(run(python, "-m", "epimem", "retrieve", str(path), question), 7)
        rows.append(
            (f"cold retrieve on {size} nodes, encoder included", f"{cold:.3f} s", "<= 1.2 s")
        )
    return rows


def _large_bank(path: Path, lessons: int) -> int:
    with ExperienceMemory.create(path, Config()) as memory:
        for number in range(lessons):
            memory.contribute(draft(number))
        memory.maintain()
        return sum(memory.bank.counts()["nodes"].values())


def contribute() -> list[Row]:
    """Compare durable single contributes with the same rows through bare sqlite3."""
    rows: list[Row] = []
    encoder = TableEncoder(384)
    text = draft(0).index
    own = median_seconds(lambda: node_vectors(TableEncoder(384), [text]), 50)
    for processes in (1, 4):
        ratios, fairness, rates = [], [], []
        for _ in range(3):
            ours, shares = _race(_write_ours, processes, encoder)
            bare, _ = _race(_write_bare, processes, encoder)
            ratios.append(ours / bare)
            fairness.append(shares)
            rates.append((ours, bare))
        ours, bare = (statistics.median(side) for side in zip(*rates, strict=True))
        rows.append(
            (
                f"durable contribute, {processes} process(es), over bare sqlite3",
                f"{statistics.median(ratios):.2f}  ({ours:.0f}/s over {bare:.0f}/s)",
                ">= 0.5",
            )
        )
        if processes > 1:
            rows.append(
                (
                    "slowest writer over fastest",
                    f"{statistics.median(fairness):.2f}",
                    ">= 0.5",
                )
            )
    rows.append(
        ("making the vectors of one lesson by hashing (not in ours)", f"{own * 1000:.2f} ms", "")
    )
    return rows


SECONDS = 2.0


def _race(
    target: Callable[..., None], processes: int, encoder: TableEncoder
) -> tuple[float, float]:
    """Return (writes per second in all, slowest writer over fastest)."""
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bank"
        Bank.create(path, encoder=identity_of(encoder)).close()
        queue: Any = context.Queue()
        ready = context.Barrier(processes)
        workers = [
            context.Process(target=target, args=(path, index, encoder, ready, queue))
            for index in range(processes)
        ]
        for worker in workers:
            worker.start()
        counts = [queue.get(timeout=60) for _ in workers]
        for worker in workers:
            worker.join()
            assert worker.exitcode == 0, "a writer saw an error"
    return sum(counts) / SECONDS, min(counts) / max(counts)


def _drafts(index: int) -> list[LessonDraft]:
    return [draft(index * 1_000_000 + number) for number in range(512)]


def _write_ours(path: Path, index: int, encoder: TableEncoder, ready: Any, queue: Any) -> None:
    drafts = _drafts(index)
    table = [node_vectors(encoder, [item.index])[0] for item in drafts]
    with Bank.open(path) as bank:
        ready.wait()
        end, count = time.monotonic() + SECONDS, 0
        while time.monotonic() < end:
            item = drafts[count % len(drafts)].model_copy(
                update={"guidance": f"{index} {count}", "question_key": f"{index} {count}"}
            )
            vectors = table[count % len(table)]
            bank.add_lesson(item, vectors, caller=CALLER, namespace="n")
            count += 1
    queue.put(count)


def _write_bare(path: Path, index: int, encoder: TableEncoder, ready: Any, queue: Any) -> None:
    """Write the same rows as plain statements: no checks, no chain, no records.

    The rows are those that one contribute of ours wrote, with fresh ids and hashes of equal length.
    """
    import fcntl

    with tempfile.TemporaryDirectory() as folder:
        node, vector, entry = _rows_of_one(Path(folder) / "bank", encoder)
    connection = sqlite3.connect(path / "bank.db", isolation_level=None, timeout=30)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA wal_autocheckpoint=0")
    lock = os.open(path / "bank.lock", os.O_RDWR | os.O_CREAT)
    ready.wait()
    end, count = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        name, digest = uuid7(), sha256(f"{index} {count}".encode())
        fcntl.flock(lock, fcntl.LOCK_EX)
        connection.execute("BEGIN IMMEDIATE")
        head = connection.execute("SELECT head_seq FROM bank").fetchone()[0] + 1
        fresh = {"version": None, "node_id": name, "from_seq": head, "fold_key": digest}
        _insert(connection, "nodes", {**node, **fresh, "checksum": digest})
        _insert(connection, "vectors", {**vector, "node_id": name, "checksum": digest})
        _insert(connection, "journal", {**entry, "seq": head, "hash": digest})
        connection.execute("UPDATE bank SET head_seq = ?, head_hash = ?", (head, digest))
        connection.execute("COMMIT")
        fcntl.flock(lock, fcntl.LOCK_UN)
        count += 1
    queue.put(count)


def _rows_of_one(path: Path, encoder: TableEncoder) -> list[dict[str, Any]]:
    item = draft(0)
    with Bank.create(path, encoder=identity_of(encoder)) as bank:
        vectors = node_vectors(encoder, [item.index])[0]
        bank.add_lesson(item, vectors, caller=CALLER, namespace="n")
    connection = sqlite3.connect(path / "bank.db")
    connection.row_factory = sqlite3.Row
    names = ("nodes", "vectors", "journal")
    return [dict(connection.execute(f"SELECT * FROM {name}").fetchone()) for name in names]  # noqa: S608


def _insert(connection: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    marks = ", ".join("?" * len(row))
    text = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})"  # noqa: S608
    connection.execute(text, tuple(row.values()))


def encode() -> list[Row]:
    """Compare query encoding with the same model in eager torch, one thread, in one process."""
    import torch
    from sentence_transformers import SentenceTransformer

    from epimem.bank.encoder import load_encoder
    from epimem.bank.onnx_export import find_source

    torch.set_num_threads(1)
    encoder = load_encoder("all-MiniLM-L6-v2")
    assert encoder is not None
    source = find_source("all-MiniLM-L6-v2")
    peer = SentenceTransformer(str(source.folder), device="cpu")
    questions = [
        f"Which {word} station does the train call at on line {n}?" for n, word in enumerate(WORDS)
    ]
    ours, theirs = [], []
    for question in questions:
        start = time.perf_counter()
        vector = encoder.encode([question])
        middle = time.perf_counter()
        with torch.inference_mode():
            other = peer.encode([question], normalize_embeddings=True)
        theirs.append(time.perf_counter() - middle)
        ours.append(middle - start)
        assert float(np.abs(vector - other).max()) < 1e-4
    a, b = statistics.median(ours), statistics.median(theirs)
    return [
        (
            "query encoding over eager torch",
            f"{a / b:.2f}  ({a * 1000:.1f} ms over {b * 1000:.1f} ms)",
            "<= 0.5",
        )
    ]


def build() -> list[Row]:
    """Compare the cost per lesson of the first thousand with that at ten thousand, in one build.

    Two streams: new houses keep coming, ten lessons each (the bank grows and its shape stays); and
    four hundred houses in turn (categories fill up, so that each consolidation compares more).
    """
    rows: list[Row] = []
    for name, of_group in (("new houses", _new_houses), ("400 houses in turn", _same_houses)):
        first, last, reading = _build_cost(of_group)
        rows.append(
            (
                f"build, {name}: cost per lesson, last thousand over first",
                f"{last / first:.2f}  ({last * 1000:.1f} ms over {first * 1000:.1f} ms CPU)",
                "<= 1.3",
            )
        )
        rows.append(("  reading the tree of 10,000 lessons once a run", f"{reading:.2f} s CPU", ""))
    return rows


def _new_houses(number: int) -> LessonDraft:
    # Ten lessons a house, spread over a window of a hundred lessons.
    block, place = divmod(number, 100)
    return draft(number, group=block * 10 + place % 10)


def _same_houses(number: int) -> LessonDraft:
    return draft(number, group=number % 400)


def _build_cost(of_group: Callable[[int], LessonDraft]) -> tuple[float, float, float]:
    """Return CPU seconds per lesson in the first and the last thousand, and for reading the tree."""
    lessons, part = 10_000, 1000
    spent = [0.0] * (lessons // part)
    with tempfile.TemporaryDirectory() as folder:
        config = Config(encoder=EncoderConfig(model="table:384"))
        with ExperienceMemory.create(Path(folder) / "bank", config) as memory:
            for number in range(lessons):
                item = of_group(number)
                start = time.process_time()
                memory.contribute(item)
                spent[number // part] += time.process_time() - start
            mark = [time.process_time()]

            def note(_: str, placed: int, __: int) -> None:
                now = time.process_time()
                spent[min(placed - 1, lessons - 1) // part] += now - mark[0]
                mark[0] = now

            memory.maintain(progress=note)
            start = time.process_time()
            memory.tree()
            reading = time.process_time() - start
    # A step belongs to the thousand that it ends in; the first and last whole ones are compared.
    return spent[0] / part, spent[-1] / part, reading


FIGURES = {"encode": encode, "contribute": contribute, "build": build, "start": start_up}


def main() -> None:
    """Print the asked figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default=",".join(FIGURES), help="comma-separated names")
    names = parser.parse_args().only.split(",")
    rows = [row for name in names for row in FIGURES[name]()]
    width = max(len(row[0]) for row in rows)
    for what, value, goal in rows:
        print(f"{what:<{width}}  {value:<40}  {goal}")


if __name__ == "__main__":
    main()
