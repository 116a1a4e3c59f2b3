from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epimem.bank.catalog import Catalog, Scope
from epimem.bank.index import DenseIndex, IndexRow
from epimem.errors import BankConflictError, RecordError
from epimem.protocols import Vector
from epimem.schema.lesson import AUTHORITIES

DIMENSION = 4
# Few directions, so that ties and repeated vectors are common.
DIRECTIONS = np.array(
    [[1, 0, 0, 0], [0, 1, 0, 0], [0.6, 0.8, 0, 0], [0, 0, 1, 0], [0.5, 0.5, 0.5, 0.5]],
    dtype=np.float32,
)


def row(node_id: str, direction: int | None = 0, **changes: Any) -> IndexRow:
    plain = IndexRow(
        node_id=node_id,
        seq=1,
        alive=True,
        namespace="default",
        audience=(),
        authority="observed",
        kind="lesson",
        text=node_id,
        vector=None if direction is None else DIRECTIONS[direction],
    )
    return replace(plain, **changes)


def built(*rows: IndexRow) -> tuple[Catalog, DenseIndex]:
    catalog = Catalog()
    index = DenseIndex(catalog, DIMENSION)
    index.apply(catalog.apply(rows))
    return catalog, index


def found(catalog: Catalog, index: DenseIndex, scope: Scope, k: int = 10) -> list[str]:
    hits = index.search(DIRECTIONS[0], k=k, allowed=catalog.mask(scope))
    return [node_id for node_id, _ in hits]


ROWS = st.builds(
    row,
    st.sampled_from([f"n{number}" for number in range(8)]),
    st.sampled_from([None, *range(len(DIRECTIONS))]),
    alive=st.sampled_from([True, True, True, False]),
    namespace=st.sampled_from(["default", "other"]),
    audience=st.sampled_from([(), ("ann",), ("ann", "bob")]),
    authority=st.sampled_from(AUTHORITIES),
    kind=st.sampled_from(["lesson", "rule", "category"]),
    text=st.sampled_from(["one", "two"]),
)
SCOPES = st.builds(
    Scope,
    st.sampled_from(["default", "other", "absent"]),
    st.sampled_from([None, "ann", "eve"]),
    st.sampled_from(AUTHORITIES),
    st.sampled_from([("lesson",), ("lesson", "rule"), ("category",)]),
)


def visible(item: IndexRow, scope: Scope) -> bool:
    return (
        item.namespace == scope.namespace
        and (not item.audience or scope.reader in item.audience)
        and AUTHORITIES.index(item.authority) >= AUTHORITIES.index(scope.minimum_authority)
        and item.kind in scope.kinds
    )


def brute_force(live: dict[str, IndexRow], scope: Scope, query: Vector, k: int) -> list[str]:
    scores = {
        name: float(item.vector.astype(np.float64) @ query.astype(np.float64))
        for name, item in live.items()
        if item.vector is not None and visible(item, scope)
    }
    return sorted(scores, key=lambda name: (-round(scores[name], 12), name))[:k]


@settings(max_examples=150, deadline=None)
@given(
    batches=st.lists(st.lists(ROWS, max_size=6), max_size=5),
    scope=SCOPES,
    k=st.integers(0, 12),
    reload=st.booleans(),
)
def test_search_equals_brute_force_after_any_changes(
    batches: list[list[IndexRow]], scope: Scope, *, k: int, reload: bool
) -> None:
    catalog, index = built()
    live: dict[str, IndexRow] = {}
    for batch in batches:
        index.apply(catalog.apply(batch))
        for item in batch:
            live.pop(item.node_id, None)
            if item.alive:
                live[item.node_id] = item
        assert len(catalog) == len(live)
        assert len(index) == sum(item.vector is not None for item in live.values())
    if reload:
        catalog = Catalog.from_arrays(catalog.arrays())
        index = DenseIndex.from_arrays(catalog, DIMENSION, index.arrays())
    query = DIRECTIONS[4]
    hits = index.search(query, k=k, allowed=catalog.mask(scope))
    assert [name for name, _ in hits] == brute_force(live, scope, query, k)


def test_the_answer_does_not_depend_on_the_order_of_arrival() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((60, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = [row(f"n{number:03d}", vector=vectors[number % 20]) for number in range(60)]
    answers = []
    for order in (rows, rows[::-1], [rows[place] for place in rng.permutation(60)]):
        catalog = Catalog()
        index = DenseIndex(catalog, 32)
        index.apply(catalog.apply(order))
        allowed = catalog.mask(Scope("default"))
        answers.append([index.search(vectors[3], k=k, allowed=allowed) for k in (1, 2, 4, 7)])
    assert answers[0] == answers[1] == answers[2]
    assert [name for name, _ in answers[0][1]] == ["n003", "n023"]


def test_deleting_the_middle_of_three_keeps_the_names_of_the_others() -> None:
    catalog, index = built(row("a", 0), row("b", 2), row("c", 1))
    index.apply(catalog.apply([row("b", alive=False)]))
    assert len(index) == 2
    assert found(catalog, index, Scope("default")) == ["a", "c"]


def test_the_nearest_row_of_another_namespace_never_comes_back() -> None:
    catalog, index = built(row("mine", 1), *(row(f"n{i}", namespace="other") for i in range(50)))
    assert found(catalog, index, Scope("default"), k=5) == ["mine"]
    assert found(catalog, index, Scope("absent")) == []


def test_an_item_with_an_audience_is_for_the_readers_named_in_it() -> None:
    catalog, index = built(row("all"), row("ann", audience=("ann", "bob")))
    assert found(catalog, index, Scope("default", reader="ann")) == ["all", "ann"]
    assert found(catalog, index, Scope("default", reader="an")) == ["all"]
    assert found(catalog, index, Scope("default")) == ["all"]


def test_a_reader_can_ask_for_a_minimum_authority_and_for_kinds() -> None:
    catalog, index = built(row("low"), row("high", authority="reviewed"), row("rule", kind="rule"))
    assert found(catalog, index, Scope("default", minimum_authority="reviewed")) == ["high"]
    assert found(catalog, index, Scope("default", kinds=("rule",))) == ["rule"]


def test_a_change_of_authority_alone_keeps_the_slot() -> None:
    catalog, index = built(row("a"))
    delta = catalog.apply([row("a", authority="none")])
    index.apply(delta)
    assert not delta.added
    assert not delta.removed
    assert found(catalog, index, Scope("default", minimum_authority="observed")) == []


def test_k_beyond_the_rows_gives_all_and_nothing_below_one() -> None:
    catalog, index = built(row("a"), row("b"))
    allowed = catalog.mask(Scope("default"))
    assert len(index.search(DIRECTIONS[0], k=1000, allowed=allowed)) == 2
    assert index.search(DIRECTIONS[0], k=0, allowed=allowed) == []
    assert index.search(DIRECTIONS[0], k=-1, allowed=allowed) == []


def test_scores_are_cosines_where_higher_is_better() -> None:
    catalog, index = built(row("same", 0), row("near", 2), row("across", 1))
    hits = index.search(DIRECTIONS[0], k=3, allowed=catalog.mask(Scope("default")))
    assert [name for name, _ in hits] == ["same", "near", "across"]
    assert [score for _, score in hits] == pytest.approx([1.0, 0.6, 0.0], abs=1e-6)
    names = ["across", "same", "unknown"]
    assert index.cosines(DIRECTIONS[0], names) == pytest.approx({"across": 0.0, "same": 1.0})


def test_a_vector_of_another_dimension_is_refused_by_name() -> None:
    catalog, index = built(row("a"))
    with pytest.raises(BankConflictError, match="embedding_mismatch") as caught:
        index.apply(catalog.apply([row("b", vector=np.ones(3, dtype=np.float32))]))
    assert "b has 3 dimensions, the index 4" in caught.value.message
    catalog, index = built(row("a"))
    with pytest.raises(BankConflictError, match="embedding_mismatch"):
        index.search(np.ones(3, dtype=np.float32), k=1, allowed=catalog.mask(Scope("default")))


@pytest.mark.parametrize("value", [np.nan, np.inf, 3.0])
def test_an_unsound_vector_is_withheld_and_named_until_it_is_replaced(value: float) -> None:
    catalog, index = built(row("bad", vector=np.full(4, value, dtype=np.float32)), row("good"))
    assert index.withheld == {"bad"}
    assert found(catalog, index, Scope("default")) == ["good"]
    loaded = Catalog.from_arrays(catalog.arrays())
    assert DenseIndex.from_arrays(loaded, DIMENSION, index.arrays()).withheld == {"bad"}
    index.apply(catalog.apply([row("bad", 1)]))
    assert index.withheld == set()
    assert found(catalog, index, Scope("default")) == ["good", "bad"]


def test_the_vector_of_an_empty_text_is_left_out_without_complaint() -> None:
    catalog, index = built(row("empty", vector=np.zeros(4, dtype=np.float32)), row("a"))
    assert len(index) == 1
    assert index.withheld == set()
    assert found(catalog, index, Scope("default")) == ["a"]


@pytest.mark.parametrize(
    "values",
    [
        {"namespace": ""},
        {"namespace": None},
        {"namespace": ["default"]},
        {"namespace": "default", "reader": ""},
        {"namespace": "default", "reader": 7},
        {"namespace": "default", "minimum_authority": "root"},
        {"namespace": "default", "minimum_authority": None},
        {"namespace": "default", "kinds": ()},
        {"namespace": "default", "kinds": "rule"},
        {"namespace": "default", "kinds": ("lesson", "leaf")},
        {"namespace": "default", "kinds": None},
    ],
)
def test_an_unknown_filter_value_is_an_error_and_widens_nothing(values: dict[str, Any]) -> None:
    with pytest.raises(RecordError, match="invalid_field"):
        Scope(**values)


def test_a_mask_of_another_moment_is_refused() -> None:
    catalog, index = built(row("a"))
    old = catalog.mask(Scope("default"))
    index.apply(catalog.apply([row("b")]))
    with pytest.raises(RecordError, match="allowed"):
        index.search(DIRECTIONS[0], k=1, allowed=old)


def test_the_best_score_of_each_question_respects_the_mask() -> None:
    catalog, index = built(row("a", 1), row("b", 0, namespace="other"))
    best = index.best(DIRECTIONS[:2], catalog.mask(Scope("default")))
    assert best.tolist() == pytest.approx([0.0, 1.0])
    assert index.best(DIRECTIONS[:1], catalog.mask(Scope("absent"))).tolist() == [-1.0]


def test_a_crafted_vector_that_is_no_number_is_like_nothing() -> None:
    catalog, index = built(row("bad"), row("good", 2))
    arrays = {name: array.copy() for name, array in index.arrays().items()}
    arrays["vectors"][0] = np.nan
    loaded = Catalog.from_arrays(catalog.arrays())
    crafted = DenseIndex.from_arrays(loaded, DIMENSION, arrays)
    assert crafted.cosines(DIRECTIONS[2], ["bad", "good"]) == pytest.approx({"bad": -1, "good": 1})
