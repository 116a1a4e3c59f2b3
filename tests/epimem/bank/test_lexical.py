from __future__ import annotations

import math
import string
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epimem.bank import lexical
from epimem.bank.catalog import Catalog, IndexRow, Mask, Scope
from epimem.bank.general_questions import general_questions
from epimem.bank.lexical import LexicalIndex
from epimem.bank.tokens import document_terms, tokens


def row(node_id: str, text: str, namespace: str = "default") -> IndexRow:
    return IndexRow(
        node_id=node_id,
        seq=1,
        alive=True,
        namespace=namespace,
        audience=(),
        authority="observed",
        kind="lesson",
        text=text,
        vector=None,
    )


def built(*rows: IndexRow) -> tuple[Catalog, LexicalIndex]:
    catalog = Catalog()
    index = LexicalIndex(catalog)
    index.apply(catalog.apply(rows))
    return catalog, index


def everything(catalog: Catalog) -> Mask:
    return catalog.mask(Scope("default"))


def search(texts: list[str], question: str, k: int = 10) -> list[tuple[str, float]]:
    catalog, index = built(*(row(f"n{place}", text) for place, text in enumerate(texts)))
    return index.search(question, k=k, allowed=everything(catalog))


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("人工智能", "人工智能技术发展"),
        ("Москва", "Метро: москва, кольцевая линия"),
        ("กรุงเทพ", "รถไฟฟ้ากรุงเทพมหานคร"),
        ("pre-edit", "the pre-edit step"),
        ("GB/s", "about 3 GB/s"),
        ("don't", "why you don't"),
        ("om_x100b", "the id is om_x100b!"),
        ("my-team", "group my-team"),
        ("0190b2c4-7a11-7def-8abc-0123456789ab", "run 0190b2c4-7a11-7def-8abc-0123456789ab"),
        ('"exact words" OR NEAR(a b) *', "these exact words"),
        ("hello \ud83d world", "hello there"),
        ("Acme moved\u0000", "acme"),
        ("猫", "黑猫在睡觉"),
        ("역", "서울역에서"),
        ("👩\u200d🚀", "as an 👩🏽\u200d🚀 would"),
        ("👩", "as an 👩🏽\u200d🚀 would"),
        ("1\ufe0f\u20e3", "1\u20e3 first"),
    ],
)
def test_it_is_found(question: str, text: str) -> None:
    hits = search([text, "something else entirely", "又一个"], question)
    assert hits[0][0] == "n0"
    assert 0.0 < hits[0][1] <= 1.0


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet=string.printable, max_size=40))
def test_no_printable_question_is_an_error_and_its_own_text_is_found(question: str) -> None:
    hits = search([question, "unrelated words"], question)
    if any(character.isalnum() for character in question):
        assert hits[0][0] == "n0"
    else:
        assert hits == []


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40), st.lists(st.text(max_size=40), max_size=4))
def test_scores_of_any_text_stay_between_zero_and_one(question: str, texts: list[str]) -> None:
    for _, score in search(texts, question):
        assert 0.0 < score <= 1.0


def test_more_of_the_question_scores_higher_and_unknown_words_count_against_it() -> None:
    texts = ["white triangles on rubra maps", "white paper", "brackets in ledgers"]
    full = dict(search(texts, "white triangles on rubra maps"))
    assert full["n0"] > 0.3
    assert full["n1"] < 0.15
    assert "n2" not in full
    diluted = dict(search(texts, "white triangles on rubra maps qqq www eee"))
    assert diluted["n0"] < full["n0"]


def test_a_question_of_punctuation_finds_nothing() -> None:
    assert search(["a text ?!"], "?! -- \u2026 $ | \u2502") == []
    assert search(["a text"], "") == []
    assert search([], "word") == []


WORDS = st.lists(
    st.sampled_from(["alpha", "beta", "gamma", "the", "of", "人工智能", "人", "的", "don't", "🔥"]),
    max_size=7,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=6), WORDS)
def test_scores_follow_the_formula(documents: list[list[str]], words: list[str]) -> None:
    texts = [" ".join(document) for document in documents]
    question = " ".join(words)
    counts, lengths = zip(*map(document_terms, texts), strict=True)
    background = [document_terms(text)[0] for text in general_questions()]
    mean = max(sum(lengths) / len(lengths), 1.0)
    expected = dict.fromkeys(range(len(texts)), 0.0)
    maximum = 0.0
    for term in set(tokens(question)):
        holding = sum(term in known for known in [*counts, *background])
        idf = math.log(1 + (len(counts) + 512 - holding + 0.5) / (holding + 0.5))
        maximum += idf * 2.2
        for place, (count, length) in enumerate(zip(counts, lengths, strict=True)):
            weight = 1.2 * (0.25 + 0.75 * length / mean)
            expected[place] += idf * count[term] * 2.2 / (count[term] + weight)
    hits = {name: score * maximum for name, score in search(texts, question)}
    assert hits == pytest.approx({f"n{key}": value for key, value in expected.items() if value})


@settings(max_examples=150, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=14), WORDS, st.integers(0, 5))
def test_the_best_are_those_of_all_scores_wherever_the_search_stops_adding(
    documents: list[list[str]], words: list[str], k: int
) -> None:
    texts = [" ".join(document) for document in documents]
    # Another namespace, and every third row gone: both keep their slots.
    rows = [row(f"n{place}", text) for place, text in enumerate([*texts, *texts])]
    others = [row(f"o{place}", "alpha the", "other") for place in range(5)]
    catalog, index = built(*others, *rows)
    gone = [replace(item, alive=False) for item in rows[::3]]
    index.apply(catalog.apply(gone))
    allowed = everything(catalog)
    question = " ".join(words)
    every = index.scored(question, allowed).at(np.arange(catalog.size))
    ranked = [(catalog.names[slot], score) for slot, score in enumerate(every.tolist()) if score]
    expected = sorted(ranked, key=lambda item: (-item[1], item[0]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lexical, "_MANY", 0)
        patch.setattr(lexical, "_LOOKED_UP", 0)
        early = index.search(question, k=k, allowed=allowed)
        best = index.best([question, question], allowed).tolist()
    assert early == index.search(question, k=k, allowed=allowed) == expected[:k]
    assert best == [max(every, default=0.0)] * 2


def test_common_words_are_looked_up_for_those_that_can_still_be_among_the_best() -> None:
    rare = [row(f"r{place}", "the zebra of the plain") for place in range(3)]
    catalog, index = built(*rare, *(row(f"c{place}", "the plain of it") for place in range(40)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lexical, "_MANY", 4)
        patch.setattr(lexical, "_LOOKED_UP", 1)
        hits, _ = index.scored("the zebra", everything(catalog))._hits(2)
    assert len(hits) == 3


def test_rows_of_another_namespace_do_not_change_a_score() -> None:
    mine = [row("a", "white triangles"), row("b", "white circles")]
    catalog, index = built(*mine)
    alone = index.search("white triangles", k=5, allowed=everything(catalog))
    others = [row(f"o{place}", "white triangles " * 3, "other") for place in range(40)]
    catalog, index = built(*others[:20], *mine, *others[20:])
    assert index.search("white triangles", k=5, allowed=everything(catalog)) == alone


def test_equal_scores_are_ordered_by_id_also_at_the_cut() -> None:
    rows = [row(name, "same words") for name in ("d", "b", "a", "c")]
    catalog, index = built(*rows)
    hits = index.search("same words", k=2, allowed=everything(catalog))
    assert [name for name, _ in hits] == ["a", "b"]
    assert index.search("same words", k=0, allowed=everything(catalog)) == []


def test_changed_and_removed_rows_are_no_longer_found_by_their_old_words() -> None:
    catalog, index = built(row("a", "triangles"), row("b", "circles"))
    index.apply(catalog.apply([row("a", "squares"), replace(row("b", ""), alive=False)]))
    allowed = everything(catalog)
    assert index.search("triangles circles", k=5, allowed=allowed) == []
    assert [name for name, _ in index.search("squares", k=5, allowed=allowed)] == ["a"]


@settings(max_examples=40, deadline=None)
@given(
    batches=st.lists(st.lists(st.tuples(st.integers(0, 9), WORDS), max_size=5), max_size=6),
    reload=st.booleans(),
)
def test_small_steps_merges_and_reloading_give_the_same_index_as_one_build(
    batches: list[list[tuple[int, list[str]]]], *, reload: bool
) -> None:
    catalog, index = built()
    final: dict[str, IndexRow] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lexical, "_FRESH", 3)
        for batch in batches:
            rows = [row(f"n{number}", " ".join(words)) for number, words in batch]
            index.apply(catalog.apply(rows))
            final.update({item.node_id: item for item in rows})
    if reload:
        arrays = index.arrays()
        catalog = Catalog.from_arrays(catalog.arrays())
        index = LexicalIndex.from_arrays(catalog, arrays)
    fresh_catalog, fresh = built(*final.values())
    question = "alpha beta the 人工智能"
    hits = index.search(question, k=9, allowed=everything(catalog))
    assert hits == fresh.search(question, k=9, allowed=everything(fresh_catalog))
