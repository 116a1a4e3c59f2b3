"""The graph part of the dense index at a small scale: the thresholds are lowered so that it is used.

`benchmarks/recall.py` measures the same at 1e5 rows with the thresholds as they are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from epimem.bank import graph as graph_module
from epimem.bank import index as index_module
from epimem.bank.catalog import Catalog, IndexRow, Mask, Scope
from epimem.bank.derived import read_derived, write_derived
from epimem.bank.folding import BackgroundFold, Fold
from epimem.bank.graph import Graph
from epimem.bank.index import DenseIndex

DIMENSION = 48
K = 50


@pytest.fixture(autouse=True)
def low(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a graph be made for a few hundred rows, and be searched whatever it costs."""
    monkeypatch.setattr(index_module, "EXACT_ROWS", 200)
    monkeypatch.setattr(index_module, "FOLD_ROWS", 100)
    monkeypatch.setattr(index_module, "ROWS_PER_STEP", 0)


def clustered(
    count: int, seed: int = 0, spread: float = 0.8
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return unit vectors in 20 clusters, and the cluster of each."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((20, DIMENSION))
    of = rng.integers(0, 20, count)
    vectors = centres[of] + spread * rng.standard_normal((count, DIMENSION))
    return unit(vectors), of


def unit(vectors: NDArray[Any]) -> NDArray[np.float32]:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def row(number: int, vector: NDArray[np.float32] | None, **changes: Any) -> IndexRow:
    values = {
        "node_id": f"n{number:05d}",
        "seq": 1,
        "alive": vector is not None,
        "namespace": "default",
        "audience": (),
        "authority": "observed",
        "kind": "lesson",
        "text": "",
        "vector": vector,
    }
    return IndexRow(**{**values, **changes})


class World:
    """An index, and what it ought to hold."""

    def __init__(self, index_type: type[DenseIndex] = DenseIndex) -> None:
        self.catalog = Catalog()
        self.index = index_type(self.catalog, DIMENSION)
        self.held: dict[str, NDArray[np.float32]] = {}

    def put(self, first: int, vectors: NDArray[np.float32]) -> None:
        rows = [row(first + place, vector) for place, vector in enumerate(vectors)]
        self.held.update({item.node_id: item.vector for item in rows})
        self.index.apply(self.catalog.apply(rows))

    def remove(self, numbers: Any) -> None:
        rows = [row(int(number), None) for number in numbers]
        for item in rows:
            self.held.pop(item.node_id, None)
        self.index.apply(self.catalog.apply(rows))

    def fold(self) -> Fold:
        fold = self.index.fold()
        assert fold is not None
        fold.run(lambda: False)
        assert self.index.adopt(fold)
        return fold

    def everything(self) -> Mask:
        return self.catalog.mask(Scope("default"))

    def recall(self, queries: NDArray[np.float32], allowed: Mask | None = None) -> float:
        """Return recall@50 against brute force, after checking that nothing else comes back."""
        allowed = self.everything() if allowed is None else allowed
        names = [name for name in self.held if allowed[self.catalog.slot(name)]]
        held = np.stack([self.held[name] for name in names])
        shares = []
        for query in queries:
            hits = self.index.search(query, k=K, allowed=allowed)
            found = [name for name, _ in hits]
            assert set(found) <= set(names), "a row came back that is gone or not allowed"
            assert len(set(found)) == len(found) == min(K, len(names))
            assert all(
                score == pytest.approx(float(self.held[name] @ query), abs=1e-5)
                for name, score in hits
            )
            bar = np.sort(held @ query)[-len(found)]
            shares.append(np.mean([score >= bar - 1e-6 for _, score in hits]))
        return float(np.mean(shares))


def folded(count: int = 1500, index_type: type[DenseIndex] = DenseIndex) -> World:
    world = World(index_type)
    world.put(0, clustered(count)[0])
    world.fold()
    return world


def graph_of(world: World) -> Graph:
    assert world.index._graph is not None
    return world.index._graph


# ---- what is found


def test_recall_by_way_of_the_graph_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    world = folded()
    world.put(5000, clustered(60, seed=1)[0])  # stay in the tail
    used = []
    nearest = Graph.nearest
    monkeypatch.setattr(Graph, "nearest", lambda *arguments: used.append(1) or nearest(*arguments))
    assert world.recall(clustered(60, seed=2)[0]) >= 0.99
    assert len(used) == 60, "the graph was asked each time"
    monkeypatch.setattr(Graph, "nearest", None)
    monkeypatch.setattr(index_module, "EXACT_ROWS", 10_000)
    assert world.recall(clustered(10, seed=2)[0]) == 1.0, "below the threshold it is not"


@pytest.mark.parametrize("share", [0.9, 0.5, 0.15])
def test_recall_holds_under_a_filter(share: float) -> None:
    world = _large()
    allowed = np.random.default_rng(0).random(world.catalog.size) < share
    assert world.recall(clustered(40, seed=3)[0], allowed) >= 0.99


def test_recall_holds_where_the_nearest_rows_of_all_are_not_allowed() -> None:
    world = _large()
    of = clustered(1500)[1]
    queries, asked = clustered(200, seed=4)
    allowed = of >= 10
    assert world.recall(queries[asked < 10][:40], allowed) >= 0.99
    assert world.recall(queries[asked < 10][:40], of == 15) == 1.0


def test_a_question_that_is_far_from_all_rows_is_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = clustered(1500, spread=0.2)[0]
    world = World()
    world.put(0, vectors)
    world.fold()
    far = unit(np.random.default_rng(3).standard_normal((40, DIMENSION)))
    near = clustered(40, seed=3, spread=0.2)[0]
    assert used(world, far) == 0
    assert used(world, near) > 30
    assert world.recall(far) == 1.0
    monkeypatch.setattr(graph_of(world), "near", -1.0)
    assert world.recall(far) < 0.99, "what would happen if they were left to the graph"


def test_a_filtered_search_is_distrusted_when_its_rows_lie_deep() -> None:
    loose = unit(np.random.default_rng(0).standard_normal((1500, DIMENSION)))
    world = World()
    world.put(0, loose)
    world.fold()
    breadth = graph_of(world).breadth
    question = clustered(1, seed=4)[0][0]
    nearest = np.argsort(-(loose @ question))
    room = 50 * 1.5 - 10  # ranks that a search for ten rows may be deep, by the measured share
    for left_out, trusted in ((int(room * 0.5), True), (int(room * 1.5), False)):
        allowed = np.ones(1500, dtype=np.bool_)
        allowed[nearest[:left_out]] = False
        found = world.index._through_graph(question, 10, world.index._plan(allowed))
        assert (found is not None) == trusted, (left_out, breadth)


def test_a_row_that_goes_is_gone_for_masks_of_before_too() -> None:
    world = folded(400)
    allowed = world.everything()
    question = world.held["n00007"]
    assert world.index.search(question, k=1, allowed=allowed)[0][0] == "n00007"
    world.remove([7])
    assert world.index.search(question, k=1, allowed=allowed)[0][0] != "n00007"
    assert world.index.count(allowed) == 399


def test_equal_vectors_at_the_cut_are_ordered_by_id() -> None:
    world = folded(1000)
    twin = clustered(1, seed=5)[0]
    world.put(2000, np.repeat(twin, 300, axis=0))
    world.fold()
    hits = world.index.search(twin[0], k=40, allowed=world.everything())
    assert [name for name, _ in hits] == [f"n{number:05d}" for number in range(2000, 2040)]


def test_the_best_score_and_the_count_are_exact_over_head_and_tail() -> None:
    world = folded(600)
    world.put(900, clustered(50, seed=6)[0])
    world.remove(range(0, 600, 9))
    queries = clustered(30, seed=7)[0]
    held = np.stack(list(world.held.values()))
    best = world.index.best(queries, world.everything())
    assert best.tolist() == pytest.approx((queries @ held.T).max(axis=1).tolist(), abs=1e-5)
    assert world.index.count(world.everything()) == len(world.index) == len(held)


# ---- folding


def changed_while_folding(index_type: type[DenseIndex]) -> None:
    """Fold over and over while rows come and go; every answer is checked against brute force."""
    world = folded(600, index_type)
    queries = clustered(15, seed=8)[0]
    for turn in range(3):
        world.put(1000 * (turn + 1), clustered(120, seed=20 + turn)[0])
        fold = world.index.fold()
        assert fold is not None
        assert world.recall(queries) >= 0.99
        world.remove(range(turn, 600, 40))
        world.remove(range(1000 * (turn + 1), 1000 * (turn + 1) + 20))
        world.put(1000 * (turn + 1) + 500, clustered(30, seed=30 + turn)[0])
        assert world.recall(queries) >= 0.99
        fold.run(lambda: False)
        assert world.index.adopt(fold)
        assert not world.index.adopt(fold), "taken over once"
        assert world.recall(queries) >= 0.99
        assert len(world.index) == len(world.held)


def test_what_comes_and_goes_while_folding_is_honoured() -> None:
    changed_while_folding(DenseIndex)


class ForgetsTombstones(DenseIndex):
    def _remove(self, slots: Any) -> None:
        del slots


class DropsTheTail(DenseIndex):
    def _arrange(self, head: Any, graph: Any, slots: Any, tail: Any) -> None:
        super()._arrange(head, graph, slots[: len(head)], tail[:0])


class ForgetsWhatWentMeanwhile(DenseIndex):
    def fold(self) -> Fold | None:
        self._before = self._slots.view.copy()
        return super().fold()

    def adopt(self, fold: Fold) -> bool:
        self._slots.view[: len(self._before)] = self._before
        return super().adopt(fold)


@pytest.mark.parametrize("twin", [ForgetsTombstones, DropsTheTail, ForgetsWhatWentMeanwhile])
def test_a_sabotaged_index_is_caught(twin: type[DenseIndex]) -> None:
    with pytest.raises(AssertionError):
        changed_while_folding(twin)


def test_more_than_a_fifth_of_dead_rows_asks_for_a_new_graph() -> None:
    world = folded(1000)
    world.remove(range(200))
    assert world.index.fold_work == 0
    world.remove(range(200, 210))
    assert world.index.fold_work == 790
    fold = world.fold()
    assert fold.base is None
    assert len(graph_of(world)) == 790
    assert world.recall(clustered(30, seed=9)[0]) >= 0.99
    world.remove(range(210, 900))
    assert world.index._graph is None, "what is small has none"
    assert len(world.index._head) == len(world.index) == 100
    assert world.recall(clustered(10, seed=9)[0]) == 1.0


def test_a_fold_of_an_index_that_was_arranged_anew_is_refused() -> None:
    world = folded(400)
    world.put(1000, clustered(150, seed=10)[0])
    fold = world.index.fold()
    assert fold is not None
    world.remove(range(370))
    assert world.index._graph is None
    fold.run(lambda: False)
    assert not world.index.adopt(fold)
    assert world.recall(clustered(10, seed=11)[0]) == 1.0


def test_where_no_breadth_is_enough_everything_is_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_module, "LADDER", (1, 2))
    world = World()
    world.put(0, clustered(400)[0])
    world.fold()
    assert world.index._graph is None
    assert world.index.fold_work == 0, "not tried again at once"
    assert world.recall(clustered(10, seed=12)[0]) == 1.0
    again = DenseIndex.from_arrays(
        Catalog.from_arrays(world.catalog.arrays()), DIMENSION, world.index.arrays()
    )
    assert again.fold_work == 0
    world.put(1000, clustered(220, seed=13)[0])
    assert world.index.fold_work == 620


def test_the_breadth_is_the_least_that_finds_enough() -> None:
    loose = unit(np.random.default_rng(0).standard_normal((1500, DIMENSION)))
    world = World()
    world.put(0, loose)
    world.fold()
    graph = graph_of(world)
    assert graph.breadth > graph_of(_large()).breadth, "loose vectors need a longer search"
    queries = unit(np.random.default_rng(1).standard_normal((300, DIMENSION)))
    bars = np.sort(queries @ loose.T, axis=1)[:, -K]
    below = graph_module.LADDER[graph_module.LADDER.index(graph.breadth) - 1]
    shares = [
        float((graph.nearest(queries, K, breadth)[0] >= bars[:, None] - 1e-6).mean())
        for breadth in (below, graph.breadth)
    ]
    assert shares[0] < 0.995
    assert shares[1] >= 0.99


# ---- in a thread


def test_queries_and_removals_go_on_while_a_thread_folds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = folded(800)
    world.put(2000, clustered(800, seed=14)[0])
    background = BackgroundFold()
    fold = world.index.fold()
    assert fold is not None
    begun, go_on = threading.Event(), threading.Event()
    run = fold.run

    def slowly(cancelled: Callable[[], bool]) -> None:
        begun.set()
        assert go_on.wait(30)
        run(cancelled)

    monkeypatch.setattr(fold, "run", slowly)
    background.start(fold)
    assert begun.wait(30)
    queries = clustered(10, seed=15)[0]
    assert background.finished() is None
    assert world.recall(queries) >= 0.99
    world.remove([*range(0, 800, 7), *range(2000, 2100)])
    go_on.set()
    done = None
    while done is None:
        assert world.recall(queries) >= 0.99
        done = background.finished()
    assert done is fold
    assert not background.running
    assert world.index.adopt(fold)
    assert len(graph_of(world)) == 1600
    assert world.recall(queries) >= 0.99


def test_closing_ends_a_fold_early_and_waits_for_its_thread() -> None:
    world = World()
    world.put(0, unit(np.random.default_rng(0).standard_normal((20_000, DIMENSION))))
    background = BackgroundFold()
    fold = world.index.fold()
    assert fold is not None
    background.start(fold)
    thread = background._thread
    assert thread is not None
    time.sleep(0.05)
    background.close()
    assert not thread.is_alive()
    assert fold.graph is None
    assert not background.running
    assert background.finished() is None
    assert not world.index.adopt(fold)


# ---- files


def stored(world: World, folder: Path) -> tuple[World, dict[str, NDArray[Any]]]:
    """Write an index to a file and read it back."""
    path = folder / "index.derived"
    write_derived(path, {}, world.index.arrays())
    file = read_derived(path, {})
    assert file is not None
    other = World()
    other.catalog = Catalog.from_arrays(world.catalog.arrays())
    other.index = DenseIndex.from_arrays(other.catalog, DIMENSION, file.arrays)
    other.held = dict(world.held)
    return other, dict(file.arrays)


def test_a_graph_is_read_back_followed_and_folded_again(tmp_path: Path) -> None:
    world = folded()
    world.put(5000, clustered(60, seed=16)[0])
    again, arrays = stored(world, tmp_path)
    queries = clustered(20, seed=17)[0]
    for query in queries:
        found, expected = (
            item.index.search(query, k=K, allowed=item.everything()) for item in (again, world)
        )
        assert found == expected
    assert np.shares_memory(again.index._head, arrays["vectors"]), "held once"
    again.put(6000, clustered(100, seed=18)[0])
    again.remove(range(30))
    again.fold()
    assert len(graph_of(again)) == 1660  # the dead of the tail are not taken along
    assert again.recall(queries) >= 0.99


def test_nothing_of_a_dead_row_is_written_and_searches_find_their_way_past_it(
    tmp_path: Path,
) -> None:
    vectors, of = clustered(1500, spread=0.2)
    world = World()
    world.put(0, vectors)
    world.fold()
    dead = np.flatnonzero(of < 3)
    world.remove(dead)
    again, arrays = stored(world, tmp_path)
    content = (tmp_path / "index.derived").read_bytes()
    assert not [place for place in dead if vectors[place].tobytes() in content]
    assert vectors[dead[0]].tobytes() in world.index._head.tobytes(), "in memory it still guides"
    assert np.flatnonzero(arrays["owners"] < 0).shape == dead.shape
    questions = clustered(60, seed=19, spread=0.2)[0]
    assert again.recall(questions) >= 0.99
    assert used(again, questions) > 30, "the graph is not left for it"


def used(world: World, questions: NDArray[np.float32]) -> int:
    """Return how many of the questions are answered by way of the graph."""
    plan = world.index._plan(world.everything())
    return sum(world.index._through_graph(item, K, plan) is not None for item in questions)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("links", lambda values: values.__setitem__(7, 1500)),
        ("links", lambda values: values.__setitem__(7, -2)),
        ("levels", lambda values: values.__setitem__(3, 0)),
        ("levels", lambda values: values.__setitem__(3, 200)),
        ("levels", lambda values: values.__setitem__(3, values[3] + 1)),
        ("graph", lambda values: values.__setitem__(0, -1)),
        ("graph", lambda values: values.__setitem__(0, 1500)),
        ("graph", lambda values: values.__setitem__(1, 7)),
        ("near", lambda values: values.__setitem__(0, np.nan)),
        ("owners", lambda values: values.__setitem__(0, 1500)),
        ("owners", lambda values: values.__setitem__(0, 1)),
        ("owners", lambda values: values.__setitem__(0, -2)),
        ("state", lambda values: values.__setitem__(0, 1501)),
        ("state", lambda values: values.__setitem__(0, 1499)),
        ("state", lambda values: values.__setitem__(0, -1)),
    ],
)
def test_a_value_out_of_range_is_refused(name: str, change: Any) -> None:
    world = _large()
    arrays = {key: np.array(values) for key, values in world.index.arrays().items()}
    change(arrays[name])
    catalog = Catalog.from_arrays(world.catalog.arrays())
    with pytest.raises(ValueError, match=r"graph|range|fit|rows|level|far"):
        DenseIndex.from_arrays(catalog, DIMENSION, arrays)


def test_a_link_to_a_row_that_lacks_the_level_is_refused() -> None:
    arrays = {key: np.array(values) for key, values in _large().index.arrays().items()}
    levels, links = arrays["levels"], arrays["links"]
    high = int(np.flatnonzero(levels > 1)[0])
    start = int((32 + 16 * (levels[:high] - 1)).sum())
    links[start + 32] = int(np.flatnonzero(levels == 1)[0])
    with pytest.raises(ValueError, match="a link leads to a level"):
        Graph.from_arrays(arrays["vectors"], arrays)


@pytest.mark.parametrize("name", ["owners", "vectors", "levels", "links"])
def test_an_array_that_is_too_short_is_refused(name: str) -> None:
    world = _large()
    arrays = {key: np.array(values) for key, values in world.index.arrays().items()}
    arrays[name] = arrays[name][:-1]
    catalog = Catalog.from_arrays(world.catalog.arrays())
    with pytest.raises(ValueError, match=r"graph|range|fit|rows|level"):
        DenseIndex.from_arrays(catalog, DIMENSION, arrays)


def _large(made: list[World] = []) -> World:  # noqa: B006 - one index for all that only read it
    if not made:
        made.append(folded())
    return made[0]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 30)),
        st.tuples(st.just("remove"), st.integers(0, 30)),
        st.tuples(st.just("begin"), st.just(0)),
        st.tuples(st.just("adopt"), st.just(0)),
        st.tuples(st.just("reload"), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_any_order_of_changes_folds_and_reloads_equals_brute_force(
    steps: list[tuple[str, int]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_module, "EXACT_ROWS", 4)
        patch.setattr(index_module, "FOLD_ROWS", 2)
        world, pending, version = World(), None, 0
        for step, number in steps:
            if step == "put":
                version += 1
                world.put(number, clustered(1, seed=100 + version)[0])
            elif step == "remove":
                world.remove([number])
            elif step == "begin":
                pending = world.index.fold()
            elif step == "adopt" and pending is not None:
                pending.run(lambda: False)
                world.index.adopt(pending)
                pending = None
            elif step == "reload":
                arrays = world.index.arrays()
                world.catalog = Catalog.from_arrays(world.catalog.arrays())
                world.index = DenseIndex.from_arrays(world.catalog, DIMENSION, arrays)
                pending = None
            assert len(world.index) == len(world.held)
        if world.held:
            assert world.recall(clustered(3, seed=50)[0]) == 1.0
