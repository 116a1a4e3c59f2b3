"""The figures of recall: how much the index finds, what it costs, how soon a lesson is found.

    python -m benchmarks.recall                      all figures at 100,000 rows, as a table (20 min)
    python -m benchmarks.recall --rows 30000 --only tight,bank

Recall@50 is the share of the 50 nearest allowed rows, by exact search on the same vectors, that the
index returns, over questions that are not rows. Beside each time stands the bare limit or peer on
the same data, timed in turn in the same process: a plain scan by FAISS of the same rows, and the same
graph searched by FAISS alone. Milliseconds are processor time of the calling thread, because the wall
clock of a shared machine tells of its other users; what is given in seconds is wall time. Written into
benchmarks/RESULTS.md by hand, with command and machine.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from benchmarks.speed import CALLER, Row, draft, median_seconds
from epimem.bank import index as index_module
from epimem.bank.bank import Bank
from epimem.bank.catalog import Catalog, IndexRow, Scope
from epimem.bank.encoder import TableEncoder, load_encoder, node_vectors
from epimem.bank.general_questions import general_vectors
from epimem.bank.graph import one_thread
from epimem.bank.index import DenseIndex
from epimem.config import Config, EncoderConfig
from epimem.memory import ExperienceMemory

DIMENSION = 384
K = 50
QUESTIONS = 300
TOPICS, SCOPES = 32, 800
# Standard deviations of a scope about its topic and of a row about its scope, in that of a topic.
SPREAD = {"tight": (1.0, 0.5), "loose": (1.0, 2.5)}
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
TABLE = f"table:{DIMENSION}"

Vectors = NDArray[np.float32]
Mask = NDArray[np.bool_]


# -- vectors -------------------------------------------------------------------------------------


def mixture(name: str, rows: int) -> tuple[Vectors, Vectors, NDArray[np.int64]]:
    """Return rows, questions and the topic of each row: topics, scopes about them, rows about those.

    A power-law spectrum of about 64 effective dimensions; unit length. The questions are drawn as
    the rows are, but are none of them.
    """
    rng = np.random.default_rng(0)
    scale = ((1.0 + np.arange(DIMENSION)) ** -0.4).astype(np.float32)

    def drawn(count: int) -> Vectors:
        return rng.standard_normal((count, DIMENSION), dtype=np.float32) * scale

    of_scope, of_row = SPREAD[name]
    scopes = drawn(TOPICS)[np.arange(SCOPES) % TOPICS] + of_scope * drawn(SCOPES)
    which = rng.integers(0, SCOPES, rows + QUESTIONS)
    vectors = scopes[which] + of_row * drawn(rows + QUESTIONS)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors[:rows], vectors[rows:], (which % TOPICS)[:rows]


def real_texts() -> tuple[list[str], list[str]]:
    """Return all real lesson texts at hand, and the source of each."""
    found: list[tuple[str, str]] = []
    for path in sorted((DATA / "bbh").glob("*.json")):
        examples = json.loads(path.read_text(encoding="utf-8"))["examples"]
        found += [(item["input"], path.stem) for item in examples]
    for name, field in (("gsm8k/test.jsonl", "question"), ("vlm_runs/runs.jsonl", "question")):
        lines = (DATA / name).read_text(encoding="utf-8").splitlines()
        found += [(json.loads(line)[field], name.split("/")[0]) for line in lines]
    for line in (DATA / "vlm_runs/lessons.jsonl").read_text(encoding="utf-8").splitlines():
        item = json.loads(line)
        found.append((f"{item['guidance']} {item['applies_when']}", "vlm_runs"))
    return [text for text, _ in found], [source for _, source in found]


def encoded(texts: Sequence[str]) -> tuple[Vectors, Vectors]:
    """Return the vectors of texts and of the general questions; kept in the folder for temporaries."""
    encoder = load_encoder("all-MiniLM-L6-v2")
    assert encoder is not None
    path = Path(tempfile.gettempdir()) / f"epimem-real-{encoder.fingerprint[:16]}-{len(texts)}.npy"
    if not path.exists():
        parts = [encoder.encode(texts[start : start + 32]) for start in range(0, len(texts), 32)]
        np.save(path, np.concatenate(parts))
    return np.load(path), general_vectors(encoder)


# -- one index -----------------------------------------------------------------------------------


def indexed(vectors: Vectors) -> tuple[Catalog, DenseIndex, float]:
    """Return an index over the rows, folded, and how long the fold took (seconds)."""
    catalog = Catalog()
    index = DenseIndex(catalog, DIMENSION)
    for start in range(0, len(vectors), 10_000):
        rows = [
            IndexRow(f"{n:036d}", n, True, "n", (), "observed", "lesson", "", vectors[n])
            for n in range(start, min(start + 10_000, len(vectors)))
        ]
        index.apply(catalog.apply(rows))
    begin = time.perf_counter()
    fold = index.fold()
    if fold is not None:
        fold.run(lambda: False)
        index.adopt(fold)
    return catalog, index, time.perf_counter() - begin


def dense(name: str, rows: int) -> list[Row]:
    """Recall and times of the index on made vectors, whole and in scopes."""
    vectors, questions, topics = mixture(name, rows)
    catalog, index, seconds = indexed(vectors)
    table = [_built(name, index, len(vectors), seconds)]
    table += _searched(name, index, vectors, questions)
    rng = np.random.default_rng(1)
    scopes = {
        "10 % at random": rng.random(rows) < 0.1,
        "1 % at random": rng.random(rows) < 0.01,
        "one topic, asked from any": topics == 3,
        "half at random": rng.random(rows) < 0.5,
        "all topics but that of the question": topics != 3,
    }
    near = vectors[topics == 3][: len(questions)] + 0.3 * questions[: int((topics == 3).sum())]
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    for scope, allowed in scopes.items():
        asked = near if scope.startswith("all") else questions
        table += _searched(f"{name}, {scope}", index, vectors, asked, allowed)
    removed = [
        IndexRow(f"{n:036d}", n, False, "n", (), "none", "lesson", "", None)
        for n in rng.choice(rows, rows // 10, replace=False).tolist()
    ]
    index.apply(catalog.apply(removed))
    live = catalog.mask(Scope("n"))
    return table + _searched(f"{name}, a tenth removed", index, vectors, questions, live)


def real(_: int) -> list[Row]:
    """Recall on real texts: as it is (so few rows are scanned), and with the graph forced."""
    texts, sources = real_texts()
    vectors, general = encoded(texts)
    order = np.random.default_rng(0).permutation(len(vectors))
    asked, held = order[:QUESTIONS], order[QUESTIONS:]
    catalog, index, seconds = indexed(vectors[held])
    table = [_built("real texts", index, len(held), seconds)]
    table += _searched("real texts", index, vectors[held], vectors[asked])
    before = index_module.EXACT_ROWS, index_module.ROWS_PER_STEP
    index_module.EXACT_ROWS, index_module.ROWS_PER_STEP = 1000, 0
    try:
        catalog, index, seconds = indexed(vectors[held])
        table.append(_built("real texts, graph forced", index, len(held), seconds))
        kinds = {"": vectors[asked], ", general questions": general}
        for kind, questions in kinds.items():
            name = f"real texts, graph forced{kind}"
            table += _searched(name, index, vectors[held], questions)
        assert len(catalog) == len(held)
        allowed = np.array([sources[place] != "gsm8k" for place in held.tolist()])
        name = "real texts, graph forced, all but GSM8K"
        table += _searched(name, index, vectors[held], vectors[asked], allowed)
    finally:
        index_module.EXACT_ROWS, index_module.ROWS_PER_STEP = before
    return table


def _built(name: str, index: DenseIndex, rows: int, seconds: float) -> Row:
    arrays = index.arrays()
    links = sum(arrays[key].nbytes for key in ("links",) if key in arrays)
    held = sum(array.nbytes for array in arrays.values())
    ratio = held / (arrays["vectors"].nbytes + links)
    breadth = int(arrays["graph"][1]) if "graph" in arrays else 0
    said = f"breadth {breadth}, fold {seconds:.0f} s" if breadth else "scanned"
    return (
        f"{name}: {rows} rows; bytes over vectors + links",
        f"{ratio:.3f}  ({said})",
        "<= 1.2",
    )


def _searched(
    name: str,
    index: DenseIndex,
    vectors: Vectors,
    questions: Vectors,
    allowed: Mask | None = None,
) -> list[Row]:
    """Compare the index with exact search, and its time with that of FAISS alone."""
    mask = np.ones(len(vectors), dtype=np.bool_) if allowed is None else allowed
    mask.flags.writeable = False
    held = vectors[mask]
    flat = faiss.IndexFlatIP(DIMENSION)
    flat.add(held)
    shares, ours, scans, graphs = [], [], [], []
    index.search(questions[0], k=K, allowed=mask)
    graph = index._graph  # noqa: SLF001 - the bare peer is the same graph, without us
    with one_thread():
        for question in questions:
            start = time.thread_time()
            hits = index.search(question, k=K, allowed=mask)
            middle = time.thread_time()
            exact, _ = flat.search(question[None], K)
            end = time.thread_time()
            if graph is not None:
                graph.nearest(question[None], K, graph.breadth)
                graphs.append(time.thread_time() - end)
            ours.append(middle - start)
            scans.append(end - middle)
            wanted = min(K, len(held))
            found = np.array([score for _, score in hits])
            shares.append(float((found >= exact[0, wanted - 1] - 1e-6).sum()) / wanted)
    bare = f"bare scan {_ms(scans)}" + (f", bare graph {_ms(graphs)}" if graphs else "")
    return [
        (
            f"{name}: recall@50",
            f"{statistics.mean(shares):.4f}  ({_ms(ours)}; {bare})",
            ">= 0.99",
        )
    ]


def _ms(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds) * 1000:.2f} ms"


# -- one bank ------------------------------------------------------------------------------------


def bank(rows: int) -> list[Row]:
    """Opening, following and asking a bank of so many lessons, encoder replaced by a table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bank"
        config = Config(encoder=EncoderConfig(model=TABLE))
        ExperienceMemory.create(path, config).close()
        begin = time.perf_counter()
        _fill(path, rows)
        table: list[Row] = [(f"making a bank of {rows} lessons", _s(begin), "")]
        table += _opened(path, rows)
        with ExperienceMemory.open(path) as memory:
            table += _asked(memory)
            table += _followed(path, memory)
    return table


def _fill(path: Path, rows: int) -> None:
    encoder = TableEncoder(DIMENSION)
    with Bank.open(path) as opened:
        for start in range(0, rows, 500):
            drafts = [draft(number) for number in range(start, min(start + 500, rows))]
            vectors = node_vectors(encoder, [item.index for item in drafts])
            for item, made in zip(drafts, vectors, strict=True):
                opened.add_lesson(item, made, caller=CALLER, namespace="default")


def _s(begin: float) -> str:
    return f"{time.perf_counter() - begin:.2f} s"


def _opened(path: Path, rows: int) -> list[Row]:
    """Time whole processes from their start to the first answer, without and with the cache."""
    question = "Which harbor applies to cedar tasks?"
    code = (
        "import sys\n"
        "from epimem.memory import ExperienceMemory\n"
        f"with ExperienceMemory.open({str(path)!r}, read_only=True) as memory:\n"
        f"    assert memory.recall.find({question!r}, namespace='default').candidates\n"
    )
    python = sys.executable

    def run(*command: str) -> Callable[[], object]:
        return lambda: subprocess.run(command, check=True, capture_output=True)  # noqa: S603

    retrieve = run(python, "-m", "epimem", "retrieve", str(path), question)
    begin = time.perf_counter()
    retrieve()
    absent = _s(begin)
    scanned = median_seconds(retrieve, 5)
    with ExperienceMemory.open(path) as memory:
        begin = time.perf_counter()
        memory.recall.fold(at_any_cost=True)
        folded = _s(begin)
        begin = time.perf_counter()
        memory.recall.save()
        saved = _s(begin)
        sizes = {file.name: file.stat().st_size for file in memory.bank.side.cache.iterdir()}
    least = median_seconds(run(python, "-c", code), 5)
    present = median_seconds(retrieve, 5)
    bare = median_seconds(run(python, "-c", "import epimem.memory, epimem.bank.recall, faiss"), 5)
    size = max(sizes.values()) / (rows * DIMENSION * 4)
    return [
        ("cold `epimem retrieve`, cache absent (it is written at the end)", absent, ""),
        ("cold `epimem retrieve`, cache present, no graph", f"{scanned:.2f} s", "<= 1 s"),
        ("cold `epimem retrieve`, cache present", f"{present:.2f} s", "<= 1 s"),
        ("cold find in a bare process, cache present", f"{least:.2f} s", "<= 1 s"),
        ("  imports alone", f"{bare:.2f} s", ""),
        ("fold, save", f"{folded}, {saved}", ""),
        ("whole cache file (words, names, graph) over vectors", f"{size:.3f}", ""),
    ]


def _asked(memory: ExperienceMemory) -> list[Row]:
    """Time questions less their encoding and less the bare graph, and where the rest goes."""
    recall, encoder = memory.recall, memory.encoder
    assert encoder is not None
    index, catalog = recall._dense, recall._catalog  # noqa: SLF001 - the bare peer is the same graph
    assert index is not None
    graph = index._graph  # noqa: SLF001
    table: list[Row] = []
    calls: dict[str, Callable[[str], object]] = {
        "find, dense": lambda question: recall.find(question, namespace="default", mode="dense"),
        "find, with lexical": lambda question: recall.find(question, namespace="default"),
        "whole retrieve, dense, logged": lambda question: memory.retrieve(question, mode="dense"),
        "whole retrieve, with lexical, logged": memory.retrieve,
    }
    for name, call in calls.items():
        rest, whole, alone = [], [], []
        for number in range(200):
            question = draft(7 * number).index.question_anchor
            if number == 0:
                call(question)
            start = time.thread_time()
            call(question)
            middle = time.thread_time()
            vector = encoder.encode([question])
            encoded_at = time.thread_time()
            with one_thread():
                if graph is not None:
                    graph.nearest(vector, 20, graph.breadth)
                else:
                    index.search(vector[0], k=20, allowed=catalog.mask(Scope("default")))
            end = time.thread_time()
            whole.append(middle - start)
            alone.append(end - encoded_at)
            rest.append((middle - start) - (end - middle))
        goal = "<= 0.5 ms" if name == "find, dense" else ""
        said = f"{_ms(rest)}  (whole {_ms(whole)}, bare index {_ms(alone)})"
        table.append((f"{name}: less encoder and bare index", said, goal))
    start = time.thread_time()
    for _ in range(200):
        _ = memory.bank.head_seq
    head = (time.thread_time() - start) / 200
    return [*table, ("  of which asking the database for its head", _ms([head]), "")]


def _followed(path: Path, memory: ExperienceMemory) -> list[Row]:
    """Time from a contribution's acknowledgement in one process to its being found in another."""
    context = multiprocessing.get_context("spawn")
    there, here = context.Pipe()
    writer = context.Process(target=_contribute, args=(path, there))
    writer.start()
    lags = []
    for name, acknowledged, question in iter(here.recv, None):
        while not _finds(memory, question, name):
            pass
        lags.append(time.monotonic() - acknowledged)
        here.send(None)
    writer.join()
    ordered = sorted(lags)
    said = f"{_ms(ordered)}, p95 {ordered[len(ordered) * 95 // 100] * 1000:.1f} ms"
    return [("contribute in one process -> found in another, p50", said, "<= 50 ms")]


def _finds(memory: ExperienceMemory, question: str, name: str) -> bool:
    found = memory.recall.find(question, namespace="default")
    return any(candidate.node_id == name for candidate in found.candidates)


def _contribute(path: Path, there: Any) -> None:
    with ExperienceMemory.open(path) as memory:
        for number in range(100):
            item = draft(50_000_000 + number, group=60_000 + number)
            receipt = memory.contribute(item)
            there.send((receipt.id, time.monotonic(), item.index.question_anchor))
            there.recv()
    there.send(None)


FIGURES: dict[str, Callable[[int], list[Row]]] = {
    "tight": lambda rows: dense("tight", rows),
    "loose": lambda rows: dense("loose", rows),
    "real": real,
    "bank": bank,
}


def show(table: Iterable[Row]) -> None:
    """Print rows as a table."""
    for what, value, goal in table:
        print(f"{what:<66}  {value:<64}  {goal}", flush=True)


def main() -> None:
    """Print the asked figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000, help="rows of all but the real texts")
    parser.add_argument("--only", default=",".join(FIGURES), help="comma-separated names")
    given = parser.parse_args()
    for name in given.only.split(","):
        show(FIGURES[name](given.rows))


if __name__ == "__main__":
    main()
