from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from epimem.bank import folding, following, index
from epimem.bank.catalog import IndexRow
from epimem.bank.derived import read_derived, write_derived
from epimem.bank.encoder import OnnxEncoder, TableEncoder
from epimem.bank.recall import MAX_K, Recall, RecallResult, fuse, shorten
from epimem.errors import BankConflictError, RecordError, StorageError
from epimem.protocols import Encoder

TEXTS = {
    "rubra": "stations skipped by white triangles on Rubra Metro diagrams",
    "azul": "white diamonds are passed without a stop on Azul Metro diagrams",
    "kite": "the axis of Kite Research charts starts above zero",
    "halden": "amounts in brackets are refunds on Halden statements",
}
QUESTION = "How many stations are skipped on this Rubra Metro diagram?"


class Journal(Protocol):
    """What `conftest.Journal` is to these tests."""

    bank_id: str
    head_seq: int
    asked: list[int]

    def put(self, node_id: str, text: str, encoder: Encoder | None = None, **more: Any) -> None: ...

    def remove(self, node_id: str) -> None: ...

    def index_rows(self, after: int) -> Iterable[IndexRow]: ...


@pytest.fixture
def encoder() -> TableEncoder:
    return TableEncoder(128)


@pytest.fixture
def bank(journal: Journal, encoder: TableEncoder) -> Journal:
    for name, text in TEXTS.items():
        journal.put(name, text, encoder)
    return journal


def names(result: RecallResult) -> list[str]:
    return [item.node_id for item in result.candidates]


def same(one: RecallResult, other: RecallResult) -> bool:
    return one.candidates == other.candidates and one.floors == other.floors


# ---- what is found


def test_both_signals_score_a_candidate_and_the_best_comes_first(
    bank: Journal, encoder: TableEncoder
) -> None:
    found = Recall(bank, encoder=encoder, cache=None).find(QUESTION, namespace="default")
    assert found.searchable == "dense+lexical"
    assert found.bank_seq == 4
    first = found.candidates[0]
    assert first.node_id == "rubra"
    assert first.passes
    assert first.dense == pytest.approx(
        float(encoder.encode([QUESTION])[0] @ encoder.encode([TEXTS["rubra"]])[0]), abs=1e-6
    )
    assert first.lexical is not None
    assert 0.0 < first.lexical <= 1.0
    assert first.rank_score == pytest.approx(2 / 61)
    assert {item.node_id: item.lexical for item in found.candidates}["kite"] == 0.0


def test_one_signal_alone_leaves_the_other_unscored(bank: Journal, encoder: TableEncoder) -> None:
    recall = Recall(bank, encoder=encoder, cache=None)
    dense = recall.find(QUESTION, namespace="default", mode="dense")
    words = recall.find(QUESTION, namespace="default", mode="lexical")
    assert (dense.searchable, words.searchable) == ("dense", "lexical")
    assert {item.lexical for item in dense.candidates} == {None}
    assert {item.dense for item in words.candidates} == {None}
    assert len(dense.candidates) == 4
    assert names(words) == ["rubra", "azul", "halden"]


def test_without_an_encoder_recall_is_lexical_and_says_so(bank: Journal) -> None:
    recall = Recall(bank, encoder=None, cache=None)
    for mode in ("fused", "dense", "lexical"):
        found = recall.find(QUESTION, namespace="default", mode=mode)
        assert found.searchable == "lexical"
        assert found.floors.dense is None
        assert names(found) == ["rubra", "azul", "halden"]


def test_a_row_without_a_vector_is_found_by_its_words(bank: Journal, encoder: TableEncoder) -> None:
    bank.put("late", "skipped stations on the Rubra line")
    found = Recall(bank, encoder=encoder, cache=None).find(QUESTION, namespace="default")
    late = next(item for item in found.candidates if item.node_id == "late")
    assert late.dense is None
    assert late.lexical is not None
    assert late.lexical > 0


def test_texts_that_are_equal_are_ordered_by_id(journal: Journal, encoder: TableEncoder) -> None:
    for name in ("d", "a", "c", "b"):
        journal.put(name, TEXTS["rubra"], encoder)
    found = Recall(journal, encoder=encoder, cache=None).find(QUESTION, namespace="default", k=3)
    assert names(found) == ["a", "b", "c"]


def test_an_empty_bank_and_an_empty_question_find_nothing(
    journal: Journal, bank: Journal, encoder: TableEncoder
) -> None:
    recall = Recall(bank, encoder=encoder, cache=None)
    for question in ("", "  \n", "\u00a0"):
        assert recall.find(question, namespace="default").candidates == ()
    assert recall.find(QUESTION, namespace="absent").candidates == ()
    for name in TEXTS:
        journal.remove(name)
    assert recall.find(QUESTION, namespace="default").candidates == ()


def test_a_question_of_punctuation_is_no_error_in_any_mode(
    bank: Journal, encoder: TableEncoder
) -> None:
    recall = Recall(bank, encoder=encoder, cache=None)
    assert recall.find("?!", namespace="default", mode="lexical").candidates == ()
    assert not any(item.passes for item in recall.find("?!", namespace="default").candidates)


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.characters(), max_size=60))
def test_no_text_breaks_recall(question: str) -> None:
    found = _standing().find(question, namespace="default")
    assert len(found.candidates) <= 4


def _standing(made: list[Recall] = []) -> Recall:  # noqa: B006 - one index for all examples
    if not made:
        table = TableEncoder(32)
        rows = [
            IndexRow(name, 1, True, "default", (), "observed", "lesson", text, vector)
            for (name, text), vector in zip(
                TEXTS.items(), table.encode(list(TEXTS.values())), strict=True
            )
        ]

        class Fixed:
            bank_id = "fixed"
            head_seq = 1

            def index_rows(self, after: int) -> Iterable[IndexRow]:
                return [row for row in rows if row.seq > after]

        made.append(Recall(Fixed(), encoder=table, cache=None))
    return made[0]


# ---- who may see what


def test_filters_come_before_similarity_in_every_mode(bank: Journal, encoder: TableEncoder) -> None:
    for number in range(120):
        bank.put(f"other{number:03d}", QUESTION, encoder, namespace="other")
    bank.put("secret", QUESTION, encoder, audience=("ann",))
    bank.put("weak", QUESTION, encoder, authority="none")
    bank.put("group", QUESTION, encoder, kind="category")
    recall = Recall(bank, encoder=encoder, cache=None)
    for mode in ("fused", "dense", "lexical"):
        found = recall.find(
            QUESTION,
            namespace="default",
            minimum_authority="observed",
            kinds=("lesson",),
            mode=mode,
        )
        assert names(found)[0] == "rubra"
        assert not {"secret", "weak", "group"} & set(names(found))
        assert not any(name.startswith("other") for name in names(found))
    seen = recall.find(QUESTION, namespace="default", reader="ann")
    assert set(names(seen)[:3]) == {"group", "secret", "weak"}


@pytest.mark.parametrize(
    ("reader", "seen"),
    [
        ("@pool/ann", True),
        ("@pool/bob", False),
        ("@pool", False),
        ("@other/bob", True),
        ("codex", True),
        (None, True),
    ],
)
def test_a_group_hands_an_item_to_some_of_its_members_and_others_see_it(
    journal: Journal, encoder: TableEncoder, reader: str | None, *, seen: bool
) -> None:
    journal.put("insight", QUESTION, encoder, audience=("@pool/ann", "@pool/eve"))
    journal.put("for-all", QUESTION, encoder)
    recall = Recall(journal, encoder=encoder, cache=None)
    for mode in ("fused", "dense", "lexical"):
        found = recall.find(QUESTION, namespace="default", reader=reader, mode=mode)
        assert set(names(found)) == ({"insight", "for-all"} if seen else {"for-all"})


@pytest.mark.parametrize(
    "values",
    [
        {"namespace": ""},
        {"namespace": None},
        {"namespace": "default", "reader": 3},
        {"namespace": "default", "minimum_authority": "low"},
        {"namespace": "default", "kinds": "lesson"},
        {"namespace": "default", "kinds": ["leaf"]},
        {"namespace": "default", "k": "9"},
        {"namespace": "default", "k": True},
        {"namespace": "default", "mode": "hybrid"},
        {"namespace": "default", "question": 5},
    ],
)
def test_an_argument_that_is_not_understood_is_an_error(
    bank: Journal, values: dict[str, Any]
) -> None:
    recall = Recall(bank, encoder=None, cache=None)
    with pytest.raises(RecordError, match="invalid_field"):
        recall.find(**{"question": QUESTION, **values})


def test_the_namespace_cannot_be_left_out(bank: Journal) -> None:
    with pytest.raises(TypeError):
        Recall(bank, encoder=None, cache=None).find(QUESTION)  # type: ignore[call-arg]


def test_k_is_brought_into_its_bounds(journal: Journal, encoder: TableEncoder) -> None:
    for number in range(MAX_K + 10):
        journal.put(f"n{number:02d}", f"Rubra Metro station {number}", encoder)
    recall = Recall(journal, encoder=encoder, cache=None)
    assert len(recall.find(QUESTION, namespace="default", k=10_000).candidates) == MAX_K
    assert len(recall.find(QUESTION, namespace="default", k=0).candidates) == 1
    assert len(recall.find(QUESTION, namespace="default", k=-5).candidates) == 1


# ---- the question


def test_a_long_question_is_shortened_to_head_and_tail_and_this_is_said(
    bank: Journal, encoder: TableEncoder
) -> None:
    recall = Recall(bank, encoder=encoder, cache=None)
    filler = "unrelated words without end " * 2000
    for question in (f"Rubra Metro {filler}", f"{filler} Rubra Metro", "é人" * 5000):
        found = recall.find(question, namespace="default")
        assert found.question_shortened
    tail = recall.find(f"{filler} Rubra Metro", namespace="default", mode="lexical")
    assert names(tail)[0] == "rubra"
    assert not recall.find(QUESTION, namespace="default").question_shortened


@given(st.text(max_size=50), st.integers(0, 400))
def test_a_shortened_question_fits_and_keeps_both_ends(text: str, times: int) -> None:
    question = text * times
    short, shortened = shorten(question)
    size = len(question.encode("utf-8", "backslashreplace"))
    assert shortened == (size > 8192)
    assert len(short.encode("utf-8")) <= 8192
    if shortened:
        assert short.startswith(question[:100].encode("utf-8", "backslashreplace").decode())
        assert short.endswith(question[-100:].encode("utf-8", "backslashreplace").decode())


def test_fusion_sums_reciprocal_ranks_and_equal_scores_share_one() -> None:
    dense = [("a", 0.9), ("b", 0.9), ("c", 0.1)]
    words = [("c", 0.8), ("b", 0.2)]
    fused = dict(fuse([dense, words], 60))
    assert fused == pytest.approx({"a": 1 / 61, "b": 1 / 61 + 1 / 62, "c": 1 / 63 + 1 / 61})
    assert [name for name, _ in fuse([dense, words], 60)] == ["b", "c", "a"]
    assert fuse([], 60) == []


# ---- following the bank


def test_recall_follows_changes_and_removals(bank: Journal, encoder: TableEncoder) -> None:
    recall = Recall(bank, encoder=encoder, cache=None)
    assert names(recall.find(QUESTION, namespace="default"))[0] == "rubra"
    bank.remove("rubra")
    assert "rubra" not in names(recall.find(QUESTION, namespace="default"))
    bank.put("kite", QUESTION, encoder)
    assert names(recall.find(QUESTION, namespace="default"))[0] == "kite"
    assert bank.asked == [0, 4, 5]
    recall.refresh()
    assert bank.asked == [0, 4, 5]
    assert len(recall) == 3


def test_following_step_by_step_equals_reading_all_at_once(
    bank: Journal, encoder: TableEncoder
) -> None:
    slow = Recall(bank, encoder=encoder, cache=None)
    for number in range(30):
        bank.put(f"n{number % 7}", f"Rubra station {number} white triangles", encoder)
        if number % 5 == 0:
            bank.remove(f"n{number % 7}")
        slow.refresh()
    fast = Recall(bank, encoder=encoder, cache=None)
    question = "white triangles at station 12 of Rubra"
    one, other = (item.find(question, namespace="default") for item in (slow, fast))
    assert one.candidates == other.candidates


def test_a_vector_of_another_dimension_is_an_error_each_time(
    bank: Journal, encoder: TableEncoder
) -> None:
    recall = Recall(bank, encoder=encoder, cache=None)
    recall.refresh()
    bank.put("odd", "words", TableEncoder(16))
    for _ in range(2):
        with pytest.raises(BankConflictError, match="embedding_mismatch"):
            recall.find(QUESTION, namespace="default")
    bank.put("odd", "words", encoder)
    assert len(names(recall.find(QUESTION, namespace="default"))) == 5


def test_several_threads_get_the_same_answer(bank: Journal, encoder: TableEncoder) -> None:
    recall = Recall(bank, encoder=encoder, cache=None)
    answers: list[RecallResult] = []

    def ask() -> None:
        answers.extend(recall.find(QUESTION, namespace="default") for _ in range(5))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 20
    assert all(same(answer, answers[0]) for answer in answers)


# ---- derived files


def saved(bank: Journal, encoder: Encoder | None, cache: Path) -> RecallResult:
    recall = Recall(bank, encoder=encoder, cache=cache)
    answer = recall.find(QUESTION, namespace="default")
    recall.save()
    bank.asked.clear()
    return answer


@pytest.mark.parametrize("with_encoder", [True, False])
def test_a_saved_index_is_used_and_then_followed(
    bank: Journal,
    encoder: TableEncoder,
    tmp_path: Path,
    with_encoder: bool,  # noqa: FBT001
) -> None:
    used = encoder if with_encoder else None
    answer = saved(bank, used, tmp_path)
    again = Recall(bank, encoder=used, cache=tmp_path)
    assert same(again.find(QUESTION, namespace="default"), answer)
    assert bank.asked == []
    bank.put("new", QUESTION, encoder)
    third = Recall(bank, encoder=used, cache=tmp_path)
    assert names(third.find(QUESTION, namespace="default"))[0] == "new"
    assert bank.asked == [4]


def test_no_readable_word_of_a_lesson_stands_in_the_files(
    bank: Journal, encoder: TableEncoder, tmp_path: Path
) -> None:
    saved(bank, encoder, tmp_path)
    files = list(tmp_path.iterdir())
    assert len(files) == 2
    content = b"".join(file.read_bytes() for file in files).lower()
    assert not [word for word in (b"triangles", b"brackets", b"diamonds") if word in content]


@pytest.mark.parametrize("place", [0, 40, 200, -1])
def test_a_flipped_bit_in_the_index_file_means_a_rebuild(
    bank: Journal, encoder: TableEncoder, tmp_path: Path, place: int
) -> None:
    answer = saved(bank, encoder, tmp_path)
    (file,) = tmp_path.glob("recall-*")
    data = bytearray(file.read_bytes())
    data[place] ^= 4
    file.write_bytes(bytes(data))
    again = Recall(bank, encoder=encoder, cache=tmp_path)
    assert same(again.find(QUESTION, namespace="default"), answer)
    assert bank.asked == [0]


def test_files_of_another_bank_or_encoder_are_not_used(
    bank: Journal, encoder: TableEncoder, tmp_path: Path
) -> None:
    saved(bank, encoder, tmp_path)
    other = TableEncoder(64)
    for name, text in TEXTS.items():
        bank.put(name, text, other)
    Recall(bank, encoder=other, cache=tmp_path).refresh()
    assert bank.asked == [0]
    saved(bank, other, tmp_path)
    bank.bank_id = "bank-2"
    Recall(bank, encoder=other, cache=tmp_path).refresh()
    assert bank.asked == [0]


def test_an_index_ahead_of_the_bank_or_of_another_history_is_not_used(
    bank: Journal, encoder: TableEncoder, tmp_path: Path
) -> None:
    history = {"name": "first"}

    def journal_hash(seq: int) -> str:
        return f"{history['name']}-{seq}"

    first = Recall(bank, encoder=encoder, cache=tmp_path, journal_hash=journal_hash)
    first.refresh()
    first.save()
    bank.asked.clear()
    Recall(bank, encoder=encoder, cache=tmp_path, journal_hash=journal_hash).refresh()
    assert bank.asked == []
    history["name"] = "second"
    Recall(bank, encoder=encoder, cache=tmp_path, journal_hash=journal_hash).refresh()
    assert bank.asked == [0]
    bank.head_seq = 3
    history["name"] = "first"
    Recall(bank, encoder=encoder, cache=tmp_path, journal_hash=journal_hash).refresh()
    assert bank.asked == [0, 0]


def test_a_bank_put_back_to_an_earlier_state_is_read_anew(
    bank: Journal, encoder: TableEncoder
) -> None:
    recall = Recall(bank, encoder=encoder, cache=None)
    bank.put("later", QUESTION, encoder)
    assert names(recall.find(QUESTION, namespace="default"))[0] == "later"
    del bank.rows["later"]  # type: ignore[attr-defined]
    bank.head_seq = 4
    assert "later" not in names(recall.find(QUESTION, namespace="default"))


def test_what_was_revoked_meanwhile_is_not_written(
    bank: Journal, encoder: TableEncoder, tmp_path: Path
) -> None:
    recall = Recall(bank, encoder=encoder, cache=tmp_path)
    recall.refresh()
    secret = encoder.encode([TEXTS["halden"]])[0].tobytes()
    recall.save()
    (file,) = tmp_path.glob("recall-*")
    assert secret in file.read_bytes()
    bank.remove("halden")
    recall.save()
    assert secret not in file.read_bytes()


def test_a_folder_that_vanished_is_made_again(
    bank: Journal, encoder: TableEncoder, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    saved(bank, encoder, cache)
    for file in cache.iterdir():
        file.unlink()
    cache.rmdir()
    answer = saved(bank, encoder, cache)
    assert same(
        Recall(bank, encoder=encoder, cache=cache).find(QUESTION, namespace="default"), answer
    )


def test_a_cache_that_cannot_be_written_is_no_fault_but_a_folded_index_must_be(
    bank: Journal, encoder: TableEncoder, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way", encoding="utf-8")
    recall = Recall(bank, encoder=encoder, cache=blocked)
    assert names(recall.find(QUESTION, namespace="default"))[0] == "rubra"
    recall.save()
    with pytest.raises(StorageError, match="storage_failed"):
        recall.save(blocked)


def test_a_folded_index_serves_readers_that_have_no_cache(
    bank: Journal, encoder: TableEncoder, tmp_path: Path
) -> None:
    folded = tmp_path / "folded"
    recall = Recall(bank, encoder=encoder, cache=None)
    recall.save(folded)
    bank.asked.clear()
    before = {file.name: file.read_bytes() for file in folded.iterdir()}
    reader = Recall(bank, encoder=_Refusing(encoder), cache=None, extra_caches=[folded])
    found = reader.find(QUESTION, namespace="default")
    assert names(found)[0] == "rubra"
    assert bank.asked == []
    assert {file.name: file.read_bytes() for file in folded.iterdir()} == before


class _Refusing:
    """An encoder that refuses to encode the general questions: the floor must come from a file."""

    def __init__(self, encoder: TableEncoder) -> None:
        self._encoder = encoder
        self.name, self.dimension = encoder.name, encoder.dimension
        self.fingerprint = encoder.fingerprint

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        assert len(texts) == 1
        return self._encoder.encode(texts)


def test_saving_is_due_after_many_changes(
    journal: Journal, encoder: TableEncoder, tmp_path: Path
) -> None:
    recall = Recall(journal, encoder=encoder, cache=tmp_path)
    assert not recall.due
    for number in range(300):
        journal.put(f"n{number}", f"text {number}", encoder)
    recall.refresh()
    assert recall.due
    recall.save()
    assert not recall.due


# ---- the graph (its own tests: test_graph.py)


@pytest.fixture
def low(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a hundred rows have a graph, and be searched by way of it."""
    monkeypatch.setattr(index, "EXACT_ROWS", 80)
    monkeypatch.setattr(index, "FOLD_ROWS", 40)
    monkeypatch.setattr(index, "ROWS_PER_STEP", 0)


def filled(journal: Journal, encoder: TableEncoder, first: int, last: int) -> None:
    for number in range(first, last):
        journal.put(f"n{number:03d}", f"station {number} of line {number % 9}", encoder)


def graph_of(recall: Recall) -> Any:
    return recall._dense._graph  # type: ignore[union-attr]


def settled(recall: Recall) -> None:
    recall._folding.wait()


@pytest.mark.usefixtures("low")
def test_a_process_that_asks_for_long_folds_in_the_background(
    journal: Journal, encoder: TableEncoder, tmp_path: Path
) -> None:
    filled(journal, encoder, 0, 200)
    recall = Recall(journal, encoder=encoder, cache=tmp_path)
    for _ in range(15):
        recall.find("station 7 of line 7", namespace="default")
    settled(recall)
    assert graph_of(recall) is None, "a short command does not begin to fold"
    recall.find("station 7 of line 7", namespace="default")
    settled(recall)
    filled(journal, encoder, 200, 230)
    journal.remove("n003")
    found = recall.find("station 215 of line 8", namespace="default")
    assert len(graph_of(recall)) == 200
    assert found.candidates[0].node_id == "n215"
    assert "n003" not in names(recall.find("station 3 of line 3", namespace="default", k=50))
    recall.close()
    journal.asked.clear()
    again = Recall(journal, encoder=encoder, cache=tmp_path)
    assert len(graph_of(again)) == 200
    assert same(again.find("station 215 of line 8", namespace="default"), found)
    assert journal.asked == []


@pytest.mark.usefixtures("low")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fold_that_fails_does_not_begin_again_with_every_question(
    journal: Journal, encoder: TableEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []

    def fails(*_: object) -> None:
        begun.append(1)
        raise MemoryError

    monkeypatch.setattr(folding, "build", fails)
    filled(journal, encoder, 0, 120)
    recall = Recall(journal, encoder=encoder, cache=None)
    for number in range(64):
        assert recall.find(f"station {number}", namespace="default").candidates
        settled(recall)
    assert 1 <= len(begun) <= 4


@pytest.mark.usefixtures("low")
def test_closing_gives_up_a_fold_and_nothing_is_written_afterwards(
    journal: Journal, encoder: TableEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_LONG_LIVED", 1)
    filled(journal, encoder, 0, 400)
    recall = Recall(journal, encoder=encoder, cache=tmp_path)
    recall.find("station 7 of line 7", namespace="default")
    thread = recall._folding._thread
    assert thread is not None
    recall.close()
    assert not thread.is_alive()
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert [name for name in before if name.startswith("recall-")], "saved, since it was due"
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    assert names(recall.find("station 7 of line 7", namespace="default"))[0] == "n007"


@pytest.mark.usefixtures("low")
def test_a_fold_from_before_a_new_start_is_refused(
    journal: Journal, encoder: TableEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_LONG_LIVED", 1)
    filled(journal, encoder, 0, 200)
    recall = Recall(journal, encoder=encoder, cache=None)
    recall.find("station 7 of line 7", namespace="default")
    settled(recall)
    for number in range(100, 200):
        del journal.rows[f"n{number:03d}"]
    journal.head_seq = 100
    found = names(recall.find("station 150 of line 6", namespace="default", k=50))
    assert found
    assert not [name for name in found if name >= "n100"]
    assert graph_of(recall) is None


@pytest.mark.usefixtures("low")
def test_a_command_folds_what_is_in_proportion_to_what_it_changed(
    journal: Journal, encoder: TableEncoder, tmp_path: Path
) -> None:
    filled(journal, encoder, 0, 300)
    Recall(journal, encoder=encoder, cache=tmp_path).save()
    recall = Recall(journal, encoder=encoder, cache=tmp_path)
    filled(journal, encoder, 300, 310)
    recall.refresh()
    assert not recall.fold(), "310 rows for 10"
    assert graph_of(recall) is None
    filled(journal, encoder, 310, 400)
    recall.refresh()
    assert recall.fold()
    assert len(graph_of(recall)) == 400
    assert not recall.fold(at_any_cost=True), "nothing is due"


@pytest.mark.usefixtures("low")
@pytest.mark.parametrize(
    ("array", "value"),
    [
        ("dense.links", 400),
        ("dense.owners", 400),
        ("lexical.slots", 400),
        ("lexical.starts", -1),
        ("catalog.names", 255),
        ("catalog.ends", 0),
        ("catalog.kind", 99),
        ("catalog.namespace", -1),
        ("catalog.words", 0),
    ],
)
def test_a_sound_file_with_values_out_of_range_means_a_rebuild(
    journal: Journal, encoder: TableEncoder, tmp_path: Path, array: str, value: int
) -> None:
    filled(journal, encoder, 0, 120)
    recall = Recall(journal, encoder=encoder, cache=tmp_path)
    recall.refresh()
    assert recall.fold(at_any_cost=True)
    recall.save()
    answer = recall.find("station 7 of line 7", namespace="default")
    (path,) = tmp_path.glob("recall-*")
    file = read_derived(path, {})
    assert file is not None
    changed = np.array(file.arrays[array])
    changed[5] = value
    write_derived(path, file.header, {**file.arrays, array: changed})
    journal.asked.clear()
    again = Recall(journal, encoder=encoder, cache=tmp_path)
    assert same(again.find("station 7 of line 7", namespace="default"), answer)
    assert journal.asked == [0]


def test_a_sound_file_with_values_of_another_type_means_a_rebuild(
    bank: Journal, encoder: TableEncoder, tmp_path: Path
) -> None:
    answer = saved(bank, encoder, tmp_path)
    (path,) = tmp_path.glob("recall-*")
    file = read_derived(path, {})
    assert file is not None
    slots = file.arrays["lexical.slots"].astype(np.float32)
    write_derived(path, file.header, {**file.arrays, "lexical.slots": slots})
    again = Recall(bank, encoder=encoder, cache=tmp_path)
    assert same(again.find(QUESTION, namespace="default"), answer)


# ---- with the real encoder


def test_the_lesson_of_the_right_house_comes_first(
    journal: Journal, real_encoder: OnnxEncoder
) -> None:
    for name, text in TEXTS.items():
        journal.put(name, text, real_encoder)
    recall = Recall(journal, encoder=real_encoder, cache=None)
    found = recall.find(
        "Where does the axis of this Kite Research chart begin?", namespace="default"
    )
    assert names(found)[0] == "kite"
    assert found.candidates[0].passes
    other = recall.find("Who wrote the national anthem of Peru?", namespace="default")
    assert not any(item.passes for item in other.candidates)


@pytest.mark.parametrize("mode", ["fused", "dense", "lexical"])
def test_what_is_left_out_makes_room_for_the_next_however_much_it_is(
    journal: Journal, encoder: TableEncoder, mode: str
) -> None:
    for number in range(150):
        journal.put(f"n{number:03d}", f"station {number}", encoder)
    recall = Recall(journal, encoder=encoder, cache=None)
    had: list[str] = []
    while found := names(recall.find("station", namespace="default", k=20, mode=mode, without=had)):
        had += found
    assert len(had) == len(set(had)) == 150
