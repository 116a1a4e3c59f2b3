from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest
from numpy.typing import NDArray

from epimem.bank.catalog import Catalog, IndexRow
from epimem.bank.derived import read_derived, write_derived
from epimem.bank.encoder import OnnxEncoder, TableEncoder
from epimem.bank.floor import Floor, Searched, fit_floor
from epimem.bank.floors import Floors, Relatives
from epimem.bank.general_questions import VECTORS_FILE, general_questions, general_vectors
from epimem.bank.index import DenseIndex
from epimem.bank.lexical import LexicalIndex
from epimem.bank.recall import Recall
from epimem.protocols import Encoder

ENCODER = TableEncoder(32)


class Journal(Protocol):
    """What `conftest.Journal` is to these tests."""

    bank_id: str
    head_seq: int
    rows: dict[str, IndexRow]

    def put(
        self,
        node_id: str,
        text: str,
        encoder: Encoder | None = None,
        *,
        namespace: str = "default",
        kind: str = "lesson",
    ) -> None: ...

    def remove(self, node_id: str) -> None: ...

    def index_rows(self, after: int) -> Iterable[IndexRow]: ...


def empty() -> Searched:
    catalog = Catalog()
    return Searched(catalog, LexicalIndex(catalog), DenseIndex(catalog, ENCODER.dimension))


def grow(parts: Searched, count: int) -> None:
    """Add so many lessons that general questions are ever nearer to."""
    first = len(parts.catalog)
    texts = [f"{general_questions()[(7 * n) % 512]} {n}" for n in range(first, first + count)]
    delta = parts.catalog.apply(
        IndexRow(f"n{first + n}", 1, True, "default", (), "observed", "lesson", text, vector)
        for n, (text, vector) in enumerate(zip(texts, ENCODER.encode(texts), strict=True))
    )
    parts.lexical.apply(delta)
    assert parts.dense is not None
    parts.dense.apply(delta)


def keeper(*, at_once: int = 4096, bank_id: str = "bank") -> Floors:
    return Floors(bank_id, ENCODER, threading.RLock(), at_once=at_once)


def fresh(parts: Searched) -> Floor:
    return fit_floor(parts, "default", general_vectors(ENCODER))


def test_a_small_bank_gets_its_new_floor_with_the_question() -> None:
    parts, floors = empty(), keeper()
    grow(parts, 8)
    first = floors.of("default", parts, None)
    assert first == fresh(parts)
    grow(parts, 1)
    assert floors.of("default", parts, None) is first, "it still stands"
    grow(parts, 2)
    assert floors.of("default", parts, None) == fresh(parts) != first


def test_in_a_large_bank_the_old_floor_serves_until_the_new_one_is_there() -> None:
    parts, floors = empty(), keeper(at_once=4)
    grow(parts, 8)
    old = floors.of("default", parts, None)
    grow(parts, 4)
    expected = fresh(parts)
    assert floors.of("default", parts, None) is old
    floors.settle()
    assert floors.of("default", parts, None) == expected != old


def test_no_question_waits_for_a_thread_that_fits() -> None:
    lock = threading.RLock()
    parts, floors = empty(), Floors("bank", ENCODER, lock, at_once=4)
    grow(parts, 8)
    old = floors.of("default", parts, None)
    grow(parts, 4)
    with lock:  # the thread cannot take a step
        assert [floors.of("default", parts, None) is old for _ in range(3)] == [True] * 3
    floors.settle()
    assert floors.of("default", parts, None) is not old


def test_a_bank_that_has_doubled_does_not_wait() -> None:
    parts, floors = empty(), keeper(at_once=4)
    grow(parts, 8)
    floors.of("default", parts, None)
    grow(parts, 8)
    assert floors.of("default", parts, None) == fresh(parts)


def test_what_a_thread_fits_does_not_replace_what_came_meanwhile() -> None:
    lock = threading.RLock()
    parts, floors = empty(), Floors("bank", ENCODER, lock, at_once=4)
    grow(parts, 8)
    floors.of("default", parts, None)
    grow(parts, 4)
    with lock:
        floors.of("default", parts, None)
        floors.clear()
        grow(parts, 40)
        now = floors.of("default", parts, None)
    floors.settle()
    assert floors.of("default", parts, None) is now
    assert now.rows == 52


def test_after_stop_nothing_is_fitted_aside() -> None:
    parts, floors = empty(), keeper(at_once=4)
    grow(parts, 8)
    old = floors.of("default", parts, None)
    grow(parts, 4)
    floors.stop()
    assert floors.of("default", parts, None) is old
    floors.settle()
    assert floors.of("default", parts, None) is old


def test_stop_ends_a_fit_that_is_under_way() -> None:
    lock = threading.RLock()
    parts, floors = empty(), Floors("bank", ENCODER, lock, at_once=4)
    grow(parts, 8)
    old = floors.of("default", parts, None)
    grow(parts, 4)
    with lock:
        floors.of("default", parts, None)
        floors.stop()
    floors.settle()
    assert floors.of("default", parts, None) is old


def test_stored_floors_are_read_for_their_bank_and_encoder_only(tmp_path: Path) -> None:
    parts, floors = empty(), keeper()
    grow(parts, 8)
    floor = floors.of("default", parts, tmp_path)

    again = keeper()
    again.read(tmp_path)
    grow(parts, 1)  # a fit now would have nine rows
    assert again.of("default", parts, None) == floor
    lexical = Floors("bank", None, threading.RLock())
    for other in (keeper(bank_id="other"), lexical):
        other.read(tmp_path)
        assert other.of("default", parts, None).rows == 9
    (path,) = tmp_path.glob("floors-*")
    path.write_bytes(path.read_bytes().replace(b'"rows": 8', b'"rows": 9'))
    damaged = keeper()
    damaged.read(tmp_path)
    assert damaged.of("default", parts, None).rows == 9
    assert damaged.of("default", parts, None) == fresh(parts)


def test_readers_with_and_without_an_encoder_keep_floors_of_their_own(
    tmp_path: Path, journal: Journal
) -> None:
    for place in range(8):
        journal.put(f"n{place}", general_questions()[place], ENCODER)
    for encoder in (ENCODER, None):
        Recall(journal, encoder=encoder, cache=tmp_path).find("anything", namespace="default")
    journal.put("n8", "one more", ENCODER)  # a fit now would have nine rows
    for encoder in (ENCODER, None):
        again = Recall(journal, encoder=encoder, cache=tmp_path)
        assert again.find("anything", namespace="default").floors.rows == 8


def test_saving_the_index_fits_the_floors(tmp_path: Path, journal: Journal) -> None:
    for place in range(8):
        journal.put(f"n{place}", general_questions()[place], ENCODER)
    Recall(journal, encoder=ENCODER, cache=tmp_path).save()
    journal.put("n8", "one more", ENCODER)
    again = Recall(journal, encoder=ENCODER, cache=tmp_path)
    assert again.find("anything", namespace="default").floors.rows == 8


def test_the_nearest_relative_is_another_one() -> None:
    vectors = np.eye(3, 4, dtype=np.float32)
    mixed = np.array([[0.6, 0.8, 0, 0], [0, 0, 0, 1]], dtype=np.float32)
    relatives = Relatives(["a", "b", "c"], vectors)
    assert relatives.nearest(["a", "x"], np.stack([vectors[0], mixed[0]])) == {
        "a": 0.0,
        "x": pytest.approx(0.8),
    }
    assert Relatives(["a"], vectors[:1]).nearest(["a"], vectors[:1]) == {"a": -1.0}
    assert Relatives([], vectors[:0]).nearest(["a"], vectors[:1]) == {}
    assert relatives.nearest([], vectors[:0]) == {}


class Plane:
    """An encoder whose texts are angles: "at 30" stands 30 degrees from "at 0"."""

    name, dimension, fingerprint = "plane", 3, "plane"

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        angles = [float(text[3:]) if text.startswith("at ") else None for text in texts]
        rows = [
            (np.cos(np.radians(a)), np.sin(np.radians(a)), 0.0) if a is not None else OTHER
            for a in angles
        ]
        return np.array(rows, dtype=np.float32)


OTHER = (0.4, 0.0, 0.84**0.5)  # where the general questions are: 0.4 from "at 0"


@pytest.mark.parametrize(
    ("company", "judged"),
    [
        (None, "passes"),
        (("at 20", "default", "lesson"), "fails"),
        (("at 80", "default", "lesson"), "passes"),
        (("at 20", "default", "summary"), "passes"),
        (("at 20", "other", "lesson"), "passes"),
    ],
)
def test_a_question_must_be_nearer_to_a_lesson_that_has_near_relatives(
    journal: Journal, company: tuple[str, str, str] | None, judged: str
) -> None:
    journal.put("lesson", "at 0", Plane())
    if company is not None:
        text, namespace, kind = company
        journal.put("company", text, Plane(), namespace=namespace, kind=kind)
    recall = Recall(journal, encoder=Plane(), cache=None)
    # A cosine of 0.5 to "at 0"; the floor is 0.4, and 0.535 beside a relative of 0.94.
    found = recall.find("at -60", namespace="default", mode="dense")
    assert found.floors.dense == pytest.approx(0.4, abs=1e-5)
    passing = {item.node_id: item.passes for item in found.candidates}
    assert passing["lesson"] is (judged == "passes")


def test_a_relative_that_leaves_the_bank_raises_no_floor_any_more(journal: Journal) -> None:
    for place in range(6):
        journal.put(f"far {place}", "at 170", Plane())
    journal.put("lesson", "at 0", Plane())
    journal.put("company", "at 20", Plane())
    recall = Recall(journal, encoder=Plane(), cache=None)

    def judged() -> tuple[int, bool]:
        found = recall.find("at -60", namespace="default", mode="dense")
        passing = {item.node_id: item.passes for item in found.candidates}
        return found.floors.rows, passing["lesson"]

    assert judged() == (8, False)
    journal.remove("company")
    assert judged() == (8, True), "by the same floor"


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"default": []},
        {"default": {"dense": 0.1}},
        {"default": {"dense": "far", "lexical": 0.1, "rows": 8, "vectors": 8, "relatives": []}},
    ],
)
def test_floors_that_are_sound_and_yet_none_are_fitted_again(tmp_path: Path, value: object) -> None:
    parts, floors = empty(), keeper()
    grow(parts, 8)
    floor = floors.of("default", parts, tmp_path)
    (path,) = tmp_path.glob("floors-*")
    stored = read_derived(path, {})
    assert stored is not None
    data = np.frombuffer(json.dumps(value).encode(), np.uint8)
    write_derived(path, stored.header, {"floors": data})
    again = keeper()
    again.read(tmp_path)
    assert again.of("default", parts, None) == floor


ENDING = """
import sys, threading, time
from pathlib import Path
from epimem.bank.catalog import Catalog, IndexRow
from epimem.bank.encoder import OnnxEncoder
from epimem.bank.floor import Floor, Searched
from epimem.bank.floors import Floors
from epimem.bank.index import DenseIndex
from epimem.bank.lexical import LexicalIndex

encoder = OnnxEncoder(Path(sys.argv[1]))
catalog = Catalog()
parts = Searched(catalog, LexicalIndex(catalog), DenseIndex(catalog, encoder.dimension))
vector = encoder.encode(["one"])[0]
row = IndexRow("n", 1, True, "default", (), "none", "lesson", "one", vector)
parts.dense.apply(catalog.apply([row]))
floors = Floors("bank", encoder, threading.RLock(), at_once=0)
floors._floors["default"] = Floor(0.1, 0.1, rows=3, vectors=3)
assert floors.of("default", parts, None).rows == 3
time.sleep(0.2)
assert threading.active_count() == 2
"""


def test_a_process_may_end_while_its_thread_encodes_for_a_floor(
    real_encoder: OnnxEncoder, tmp_path: Path
) -> None:
    for file in real_encoder.folder.iterdir():
        if file.name != VECTORS_FILE:
            (tmp_path / file.name).symlink_to(file)
    command = [sys.executable, "-c", ENDING, str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert not (tmp_path / VECTORS_FILE).exists(), "it did not wait for the fit"
