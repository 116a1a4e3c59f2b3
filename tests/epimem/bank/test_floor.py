from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest

from epimem.bank.catalog import Catalog, IndexRow
from epimem.bank.encoder import OnnxEncoder, TableEncoder
from epimem.bank.floor import NEARER, RELATIVES, Floor, FloorFit, Searched, fit_floor
from epimem.bank.general_questions import COUNT, general_questions, general_vectors
from epimem.bank.index import DenseIndex
from epimem.bank.lexical import LexicalIndex
from epimem.bank.recall import Recall
from epimem.protocols import Encoder

LESSONS = tuple(
    "\n".join(parts)
    for parts in (
        (
            "stations skipped by marker shape",
            "Rubra Metro line diagrams",
            "How many stations does a train call at between two named stations?",
        ),
        (
            "values above the broken axis",
            "Norden Statistik bar charts",
            "What was the value of a series in a given year?",
        ),
        (
            "amounts in brackets are refunds",
            "Halden & Co statements",
            "What is the sum of the Amount column of a statement?",
        ),
    )
)
RELATED = (
    "On this Rubra Metro diagram, at how many stations does the train call?",
    "According to the Norden Statistik chart, what was the value of imports in a year?",
    "What is the sum of the Amount column of this Halden & Co statement?",
)
UNRELATED = (
    "How can I keep my shoes from squeaking?",
    "Who composed the Moonlight Sonata?",
    "Which vitamins are in carrots?",
    "Why do cats land on their feet?",
    "怎样养好一盆兰花",
    "Write a limerick about a sleepy goat.",
)


class Journal(Protocol):
    """What `conftest.Journal` is to these tests."""

    bank_id: str
    head_seq: int

    def put(self, node_id: str, text: str, encoder: Encoder | None, *, namespace: str) -> None: ...

    def index_rows(self, after: int) -> Iterable[IndexRow]: ...


def filled(
    journal: Journal, encoder: Encoder | None, texts: Iterable[str], namespace: str = "default"
) -> Journal:
    for place, text in enumerate(texts):
        journal.put(f"{namespace}-{place}", text, encoder, namespace=namespace)
    return journal


def answers(recall: Recall, question: str) -> bool:
    return any(item.passes for item in recall.find(question, namespace="default").candidates)


def test_the_list_holds_512_distinct_questions() -> None:
    questions = general_questions()
    assert len(set(questions)) == COUNT
    assert all(question == question.strip() and len(question) > 4 for question in questions)
    assert sum(question.isascii() for question in questions) >= 400


def test_no_general_question_stands_in_the_test_data(shared_data: Path) -> None:
    asked: set[str] = set()
    for file in sorted(shared_data.rglob("*.json*")):
        text = file.read_text(encoding="utf-8", errors="replace").casefold()
        parts = text.split("?")[:-1]
        asked.update(re.split(r'[.!"\\:]', part)[-1].strip() + "?" for part in parts)
    assert len(asked) > 1000
    assert [item for item in general_questions() if item.casefold() in asked] == []


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_tiny_bank_answers_related_questions_and_is_silent_on_others(
    journal: Journal, real_encoder: OnnxEncoder, size: int
) -> None:
    recall = Recall(filled(journal, real_encoder, LESSONS[:size]), encoder=real_encoder, cache=None)
    assert [answers(recall, question) for question in RELATED[:size]] == [True] * size
    assert [answers(recall, question) for question in UNRELATED] == [False] * len(UNRELATED)


def test_a_tiny_bank_without_an_encoder_does_the_same_for_close_wording(journal: Journal) -> None:
    recall = Recall(filled(journal, None, LESSONS), encoder=None, cache=None)
    assert answers(recall, "How many stations does the Rubra Metro train call at?")
    assert answers(recall, RELATED[2])
    assert [answers(recall, question) for question in UNRELATED] == [False] * len(UNRELATED)


def test_a_bank_in_another_language_does_not_get_a_floor_of_zero(journal: Journal) -> None:
    texts = ("人工智能技术的发展和怎样学习它", "地铁线路图上白色三角形的车站不停车")
    recall = Recall(filled(journal, None, texts), encoder=None, cache=None)
    found = recall.find("地铁线路图上白色三角形的车站停车吗", namespace="default")
    assert found.floors.lexical is not None
    assert found.floors.lexical >= 0.1
    assert found.candidates[0].passes
    assert not answers(recall, "怎样给五岁的孩子讲太阳系的故事")


def searched(
    texts: Iterable[str], encoder: Encoder | None, *, kind: str = "lesson", prefix: str = "n"
) -> Searched:
    catalog = Catalog()
    dense = DenseIndex(catalog, encoder.dimension) if encoder is not None else None
    parts = Searched(catalog, LexicalIndex(catalog), dense)
    add(parts, texts, encoder, kind=kind, prefix=prefix)
    return parts


def add(
    parts: Searched,
    texts: Iterable[str],
    encoder: Encoder | None,
    *,
    kind: str = "lesson",
    prefix: str = "n",
    alive: bool = True,
) -> None:
    texts = list(texts)
    vectors = encoder.encode(texts) if encoder is not None else [None] * len(texts)
    delta = parts.catalog.apply(
        IndexRow(f"{prefix}{place}", 1, alive, "default", (), "observed", kind, text, vector)  # type: ignore[arg-type]
        for place, (text, vector) in enumerate(zip(texts, vectors, strict=True))
    )
    parts.lexical.apply(delta)
    if parts.dense is not None:
        parts.dense.apply(delta)


def test_the_floor_is_the_99th_percentile_of_the_best_scores() -> None:
    encoder = TableEncoder(64)
    parts = searched(LESSONS, encoder)
    allowed = parts.catalog.namespace_mask("default")
    floor = fit_floor(parts, "default", general_vectors(encoder))
    cosines = (general_vectors(encoder) @ encoder.encode(LESSONS).T).max(axis=1)
    lexical = [parts.lexical.search(q, k=1, allowed=allowed) for q in general_questions()]
    tops = [hits[0][1] if hits else 0.0 for hits in lexical]
    assert floor.dense == pytest.approx(np.sort(cosines)[-6], abs=1e-5)
    assert floor.lexical == pytest.approx(np.sort(tops)[-6])
    assert (floor.rows, floor.vectors) == (3, 3)


@pytest.mark.parametrize("step", [1, 5, 200, 512])
def test_a_fit_in_steps_is_that_of_the_rows_it_began_with(step: int) -> None:
    encoder = TableEncoder(64)
    general = general_vectors(encoder)
    whole = fit_floor(searched(LESSONS, encoder), "default", general)
    parts = searched(LESSONS, encoder)
    fit = FloorFit(parts, "default", general)
    added = 0
    while not fit.step(step):
        added += 1
        add(parts, [general_questions()[added % COUNT]], encoder, prefix=f"later-{added}-")
    found = fit.floor()
    assert added == -(-COUNT // step) - 1
    assert found.dense == pytest.approx(whole.dense, abs=1e-5)
    assert (found.rows, found.vectors, found.relatives) == (3, 3, whole.relatives)
    if step == COUNT:
        assert found == whole


def test_a_row_that_goes_during_a_fit_takes_no_part_any_more() -> None:
    encoder = TableEncoder(64)
    general = general_vectors(encoder)
    parts = searched(LESSONS, encoder)
    add(parts, general_questions()[:256], encoder, prefix="general-")
    fit = FloorFit(parts, "default", general)
    add(parts, general_questions()[:256], encoder, prefix="general-", alive=False)
    while not fit.step(100):
        pass
    assert fit.floor().dense == pytest.approx(
        fit_floor(searched(LESSONS, encoder), "default", general).dense, abs=1e-5
    )


def test_the_dense_floor_rises_by_a_quarter_of_the_way_to_the_nearest_relative() -> None:
    floor = Floor(dense=0.4, lexical=0.2, rows=9, vectors=9)
    assert NEARER == 0.25
    assert floor.passes(0.5, None)
    assert floor.passes(0.5, None, nearest=0.8)
    assert not floor.passes(0.499, None, nearest=0.8)
    assert floor.passes(0.4, None, nearest=0.3), "a candidate without near relatives"
    assert not floor.passes(0.39, None, nearest=0.3)
    assert floor.passes(0.41, 0.2, nearest=1.0), "by its words"
    assert [floor.doubtful(score) for score in (None, 0.39, 0.4, 0.54, 0.55)] == [
        *(False, False, True, True, False)
    ]
    assert not replace(floor, dense=None).doubtful(0.5)


def test_relatives_are_lessons_of_the_namespace() -> None:
    encoder = TableEncoder(16)
    parts = searched(LESSONS, encoder)
    add(parts, LESSONS, encoder, kind="summary", prefix="summary")
    other = IndexRow("x", 1, True, "other", (), "observed", "lesson", "x", encoder.encode(["x"])[0])
    delta = parts.catalog.apply([other])
    parts.lexical.apply(delta)
    assert parts.dense is not None
    parts.dense.apply(delta)
    floor = fit_floor(parts, "default", general_vectors(encoder))
    assert sorted(floor.relatives) == ["n0", "n1", "n2"]
    assert fit_floor(searched(LESSONS, None), "default", None).relatives == ()


def test_of_many_lessons_the_same_ones_are_relatives_whatever_their_order() -> None:
    encoder = TableEncoder(8)
    names = [f"lesson {place}" for place in range(RELATIVES + 300)]
    vector = encoder.encode(["one"])[0]
    found = []
    for order in (names, names[::-1]):
        parts = searched([], encoder)
        delta = parts.catalog.apply(
            IndexRow(name, 1, True, "default", (), "observed", "lesson", "one", vector)
            for name in order
        )
        parts.lexical.apply(delta)
        assert parts.dense is not None
        parts.dense.apply(delta)
        found.append(FloorFit(parts, "default", None).floor().relatives)
    assert found[0] == found[1]
    assert len(set(found[0])) == RELATIVES
    early = sum(int(name.split()[1]) < len(names) // 2 for name in found[0])
    assert 0.45 < early / RELATIVES < 0.55, "from the whole bank"


def test_either_signal_can_pass_and_a_lexical_score_of_zero_never_does() -> None:
    floor = Floor(dense=0.3, lexical=0.2, rows=1, vectors=1)
    assert floor.passes(0.3, 0.0)
    assert floor.passes(0.1, 0.2)
    assert not floor.passes(0.29, 0.19)
    assert not floor.passes(None, None)
    assert not replace(floor, lexical=0.0).passes(0.1, 0.0)
    assert not Floor(dense=None, lexical=None, rows=0, vectors=0).passes(1.0, 1.0)


def test_a_floor_is_fitted_again_when_the_bank_has_grown_by_a_quarter() -> None:
    floor = Floor(dense=0.3, lexical=0.2, rows=100, vectors=80)
    assert floor.fits(124, 99)
    assert not floor.fits(125, 80)
    assert not floor.fits(100, 100)
    assert not floor.fits(70, 80)
    assert not replace(floor, vectors=0).fits(100, 1)


def test_a_namespace_has_its_own_floor(journal: Journal, real_encoder: OnnxEncoder) -> None:
    filled(journal, real_encoder, LESSONS)
    filled(journal, real_encoder, general_questions()[:40], namespace="general")
    recall = Recall(journal, encoder=real_encoder, cache=None)
    alone = recall.find(RELATED[0], namespace="default")
    general = recall.find(RELATED[0], namespace="general")
    assert alone.candidates[0].passes
    assert general.floors.dense == pytest.approx(1.0, abs=1e-5)
    assert not any(item.passes for item in general.candidates)
