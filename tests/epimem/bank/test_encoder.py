from __future__ import annotations

import shutil
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from epimem.bank.encoder import (
    EncoderIdentity,
    FormerEncoder,
    OnnxEncoder,
    TableEncoder,
    check_identity,
    export_encoder,
    identity_of,
    load_encoder,
    node_vectors,
    serving_encoder,
    truncated_tokens,
)
from epimem.bank.general_questions import VECTORS_FILE, general_questions, general_vectors
from epimem.bank.onnx_encoder import MOST_TOKENS, RecentVectors, unit_rows
from epimem.bank.onnx_export import find_source
from epimem.errors import BankConflictError, ConfigError, ControllerError, RecordError
from epimem.schema.lesson import IndexText
from epimem.schema.text import LESSON_BYTES, QUERY_BYTES, TITLE_BYTES

TEXTS = (
    "How many stations does the train call at between Serdang and Labu?",
    "According to the Norden Statistik chart, what was the value of imports in 2019?",
    "Read the LEGEND first: white triangles are not served.",
    "人工智能技术发展 and Москва",
    "7",
    "the " * 120,
)


def scratch_model(folder: Path, pooling: str, *, with_length: bool) -> Path:
    """Make a tiny sentence-transformers model with random weights; return its folder."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    torch.manual_seed(0)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]
    words += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    plain = folder / "plain"
    plain.mkdir(parents=True)
    (plain / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    BertTokenizerFast(vocab=str(plain / "vocab.txt"), model_max_length=32).save_pretrained(plain)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=40,
    )
    BertModel(config).save_pretrained(plain)
    modules = [Transformer(str(plain), max_seq_length=32), Pooling(32, pooling)]
    model = SentenceTransformer(modules=[*modules, *([Normalize()] if with_length else [])])
    model.save(str(folder / "made"))
    return folder / "made"


def original(folder: Path) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(str(folder), device="cpu")


# ---- the exported model


def test_the_export_gives_the_vectors_of_sentence_transformers(real_encoder: OnnxEncoder) -> None:
    folder = find_source("all-MiniLM-L6-v2").folder
    assert folder is not None
    model = original(folder)
    expected = model.encode(list(TEXTS), normalize_embeddings=True)  # type: ignore[attr-defined]
    assert np.abs(real_encoder.encode(TEXTS) - expected).max() < 1e-4


@pytest.mark.parametrize(
    ("pooling", "with_length"), [("cls", False), ("mean", True), ("max", False)]
)
def test_any_sentence_transformers_folder_can_be_exported(
    tmp_path: Path, pooling: str, *, with_length: bool
) -> None:
    pytest.importorskip("onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = scratch_model(tmp_path, pooling, with_length=with_length)
    encoder = load_encoder(str(folder), cache=tmp_path / "cache")
    assert encoder is not None
    assert encoder.dimension == 32
    texts = ["abc def", "z", "the quick brown fox"]
    expected = original(folder).encode(texts, normalize_embeddings=True)  # type: ignore[attr-defined]
    assert np.abs(encoder.encode(texts) - expected).max() < 1e-4


def test_a_text_has_the_same_bytes_alone_and_in_company(real_encoder: OnnxEncoder) -> None:
    texts = [f"station {number} on the {color} line" for number in range(5) for color in TEXTS[:5]]
    together = OnnxEncoder(real_encoder.folder, remembered=0).encode(texts)
    alone = OnnxEncoder(real_encoder.folder, remembered=0)
    for place in range(0, len(texts), 4):
        assert alone.encode([texts[place]])[0].tobytes() == together[place].tobytes()


def test_every_row_has_unit_length(real_encoder: OnnxEncoder) -> None:
    vectors = real_encoder.encode(TEXTS)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)


def test_the_tail_of_a_long_text_is_not_dropped(real_encoder: OnnxEncoder) -> None:
    head = "The printed legend explains each symbol of the map. " * 60
    tail = "White diamonds mean that express trains of the Azul Metro pass. " * 12
    query, plain, full = real_encoder.encode(["express trains pass diamonds", head, head + tail])
    assert float(query @ full) > float(query @ plain) + 0.05


def test_so_many_tokens_are_encoded_and_those_beyond_are_counted(
    real_encoder: OnnxEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every permitted index text and every shortened question is encoded whole.
    fields = {"topic": TITLE_BYTES, "scope": TITLE_BYTES, "question_anchor": LESSON_BYTES}
    index = IndexText(**{name: "q" * length for name, length in fields.items()})
    longest = len(index.text.encode("utf-8"))
    assert longest > max(QUERY_BYTES, LESSON_BYTES)
    assert longest + len(real_encoder.record.prompt) <= MOST_TOKENS
    assert node_vectors(TableEncoder(8), [index])[0].truncated_tokens == 0
    words = "red green blue amber cobalt ivory jade granite " * 80
    assert real_encoder.count_tokens(words) >= 320
    monkeypatch.setattr("epimem.bank.onnx_encoder.MOST_TOKENS", 256)
    stretches = real_encoder.stretches(words)
    assert stretches > 2
    beyond = real_encoder.tokens_beyond(words)
    assert 0 < beyond < real_encoder.count_tokens(words)
    made = node_vectors(real_encoder, [IndexText(question_anchor=words), IndexText(topic="red")])
    assert [item.truncated_tokens for item in made] == [beyond, 0]
    same = real_encoder.encode([words, words + " and a tail that nobody reads" * 30])
    assert same[0].tobytes() == same[1].tobytes(), "what is counted is left out"
    assert truncated_tokens(real_encoder, "red", "green blue") == 2
    assert truncated_tokens(real_encoder, "red") == 0


def test_an_empty_text_has_a_fixed_unit_vector(real_encoder: OnnxEncoder) -> None:
    first, second = real_encoder.encode([""]), OnnxEncoder(real_encoder.folder).encode(["", "x"])
    assert np.isclose(np.linalg.norm(first[0]), 1.0)
    assert first[0].tobytes() == second[0].tobytes()


def test_text_that_utf8_cannot_hold_is_encoded(real_encoder: OnnxEncoder) -> None:
    vectors = real_encoder.encode(["hello \ud83d", "Acme moved\u0000"])
    assert np.isfinite(vectors).all()


def test_a_lone_string_is_refused_instead_of_being_cut_into_letters(
    real_encoder: OnnxEncoder,
) -> None:
    with pytest.raises(RecordError, match="invalid_field"):
        real_encoder.encode("two words")


def test_no_texts_give_no_rows(real_encoder: OnnxEncoder) -> None:
    assert real_encoder.encode([]).shape == (0, 384)


def test_running_an_export_imports_neither_torch_nor_sentence_transformers(
    real_encoder: OnnxEncoder,
) -> None:
    script = (
        "import sys; from pathlib import Path; from epimem.bank.encoder import load_encoder\n"
        "heavy = ('torch', 'sentence_transformers', 'onnxruntime', 'faiss')\n"
        "assert not any(name in sys.modules for name in heavy)\n"
        "encoder = load_encoder('all-MiniLM-L6-v2', cache=Path(sys.argv[1]))\n"
        "assert encoder.encode(['x']).shape == (1, 384)\n"
        "assert not any(name in sys.modules for name in heavy[:2])\n"
    )
    cache = str(real_encoder.folder.parent)
    subprocess.run([sys.executable, "-c", script, cache], check=True, timeout=60)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_flipped_bit_in_an_export_is_refused(
    real_encoder: OnnxEncoder, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    for file in real_encoder.folder.iterdir():
        if file.name == name:
            shutil.copy(file, folder / name)
        else:
            (folder / file.name).symlink_to(file)
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / name).write_bytes(data)
    with pytest.raises(ControllerError, match="model_failed") as caught:
        OnnxEncoder(folder).encode(["x"])
    assert "damaged" in caught.value.message


def test_an_export_that_is_there_is_kept_also_without_its_note(real_encoder: OnnxEncoder) -> None:
    root = real_encoder.folder.parent
    before = (real_encoder.folder / "model.onnx").stat().st_mtime_ns
    (root / "all-MiniLM-L6-v2.json").unlink()
    assert export_encoder("all-MiniLM-L6-v2", cache=root) == real_encoder.folder
    assert (root / "all-MiniLM-L6-v2.json").exists()
    assert (real_encoder.folder / "model.onnx").stat().st_mtime_ns == before


def test_the_general_questions_are_encoded_with_the_export(real_encoder: OnnxEncoder) -> None:
    stored = real_encoder.folder / VECTORS_FILE
    assert stored.exists()
    some = general_vectors(real_encoder)[::100]
    assert some.tobytes() == real_encoder.encode(general_questions()[::100]).tobytes()
    data = bytearray(stored.read_bytes())
    data[-1] ^= 1
    assert some.tobytes() == general_vectors(real_encoder)[::100].tobytes()


def test_a_model_that_cannot_be_loaded_leaves_nothing_behind(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text("{}", encoding="utf-8")
    (broken / "model.safetensors").write_bytes(b"not weights")
    cache = tmp_path / "cache"
    with pytest.raises(ConfigError, match="bad_config"):
        load_encoder(str(broken), cache=cache)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("module", ["onnxruntime", "tokenizers"])
def test_without_the_extra_the_error_says_what_to_install(
    real_encoder: OnnxEncoder, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=r"pip install epimem\[encoder\]"):
        OnnxEncoder(real_encoder.folder).encode(["x"])


def test_exporting_without_the_extra_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ConfigError, match=r"pip install epimem\[encoder\]"):
        export_encoder("all-MiniLM-L6-v2", cache=tmp_path)


def test_none_means_no_encoder_and_table_needs_a_dimension() -> None:
    assert load_encoder("none") is None
    table = load_encoder("table:24")
    assert isinstance(table, TableEncoder)
    assert table.dimension == 24
    with pytest.raises(ConfigError, match="bad_config"):
        load_encoder("table:0")


# ---- vectors


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0])
def test_rows_that_are_zero_or_not_finite_are_refused(bad: float) -> None:
    rows = np.ones((2, 4), dtype=np.float32)
    rows[1] = bad
    with pytest.raises(ControllerError, match="model_failed"):
        unit_rows(rows)


def test_recent_texts_are_encoded_once_and_old_ones_forgotten() -> None:
    calls: list[str] = []

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        calls.extend(texts)
        return np.array([[float(len(text))] for text in texts], dtype=np.float32)

    recent = RecentVectors(2)
    assert recent.fill(["a", "bb", "a"], 1, encode).tolist() == [[1], [2], [1]]
    assert recent.fill(["bb", "a"], 1, encode).tolist() == [[2], [1]]
    assert calls == ["a", "bb"]
    recent.fill(["ccc"], 1, encode)
    recent.fill(["a", "bb"], 1, encode)
    assert calls == ["a", "bb", "ccc", "bb"]


def test_a_caller_cannot_change_a_remembered_vector() -> None:
    encoder = TableEncoder(16)
    first = encoder.encode(["word"])
    expected = first.copy()
    first[:] = 0
    assert encoder.encode(["word"]).tolist() == expected.tolist()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=40), max_size=8), st.integers(1, 70))
def test_table_vectors_are_unit_and_belong_to_the_text_alone(
    texts: list[str], dimension: int
) -> None:
    vectors = TableEncoder(dimension).encode(texts)
    assert vectors.shape == (len(texts), dimension)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    for text, vector in zip(texts, vectors, strict=True):
        assert TableEncoder(dimension).encode([text])[0].tobytes() == vector.tobytes()


def test_table_vectors_of_texts_spelled_alike_are_near() -> None:
    one, alike, other = TableEncoder(256).encode(
        ["Rubra Metro line diagrams", "rubra metro diagram", "Halden statements"]
    )
    assert float(one @ alike) > 0.6 > float(one @ other)


def test_an_empty_field_has_no_vector_and_equal_texts_are_encoded_once() -> None:
    class Counting(TableEncoder):
        seen: tuple[str, ...] = ()

        def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
            self.seen += tuple(texts)
            return super().encode(texts)

    encoder = Counting(32)
    items = [
        IndexText(topic="t", scope="Rubra", question_anchor="how many"),
        IndexText(scope="Rubra"),
        IndexText(),
    ]
    full, scope_only, nothing = node_vectors(encoder, items)
    assert sorted(encoder.seen) == ["Rubra", "how many", "t\nRubra\nhow many"]
    assert full.scope.tobytes() == scope_only.scope.tobytes() == scope_only.index.tobytes()
    assert not scope_only.anchor.any()
    assert not nothing.index.any()
    assert not nothing.scope.any()
    assert node_vectors(encoder, []) == []


# ---- which encoder a bank belongs to


def test_another_encoder_is_refused_and_both_are_named() -> None:
    stored = EncoderIdentity(name="bert", dimension=768, fingerprint="a" * 64)
    with pytest.raises(BankConflictError, match="embedding_mismatch") as caught:
        check_identity(stored, TableEncoder(32))
    assert "bert (768 dimensions" in caught.value.message
    assert "table (32 dimensions" in caught.value.message
    assert "epimem reembed" in str(caught.value.hint)


def test_the_same_weights_under_another_name_are_accepted() -> None:
    encoder = TableEncoder(32)
    check_identity(identity_of(encoder).model_copy(update={"name": "other"}), encoder)


@pytest.mark.parametrize("change", [{"fingerprint": "x"}, {"dimension": 33}, {"normalized": False}])
def test_other_weights_dimension_or_length_are_refused(change: dict[str, object]) -> None:
    encoder = TableEncoder(32)
    with pytest.raises(BankConflictError, match="embedding_mismatch"):
        check_identity(identity_of(encoder).model_copy(update=change), encoder)


def test_a_bank_made_without_an_encoder_refuses_one_but_can_always_go_without() -> None:
    with pytest.raises(BankConflictError, match="embedding_mismatch"):
        check_identity(None, TableEncoder(32))
    check_identity(None, None)
    check_identity(identity_of(TableEncoder(32)), None)


# ---- which encoder serves a bank whose encoder was changed


CHANGED = identity_of(TableEncoder(48), "table:48").model_copy(
    update={
        "former": (
            FormerEncoder(model="table:32", fingerprint=TableEncoder(32).fingerprint),
            FormerEncoder(model="none", fingerprint=""),
        )
    }
)


@pytest.mark.parametrize("model", ["table:48", "table:32", "none"])
def test_settings_of_before_come_to_the_present_encoder(model: str) -> None:
    found = serving_encoder(CHANGED, None, model)
    assert found is not None
    assert found.dimension == 48


def test_an_encoder_given_before_comes_to_the_present_one_and_another_does_not() -> None:
    found = serving_encoder(CHANGED, TableEncoder(32), "anything")
    assert found is not None
    assert found.dimension == 48
    for other, model in ((TableEncoder(33), "table:48"), (None, "table:33")):
        with pytest.raises(BankConflictError, match="embedding_mismatch"):
            serving_encoder(CHANGED, other, model)


def test_a_present_encoder_that_cannot_be_loaded_is_named_with_the_one_before() -> None:
    for model in ("", "/no/such/model"):
        gone = CHANGED.model_copy(update={"model": model})
        with pytest.raises(BankConflictError, match="embedding_mismatch") as caught:
            serving_encoder(gone, TableEncoder(32), "table:32")
        assert "from table (32 dimensions" in caught.value.message
        assert "to table (48 dimensions" in caught.value.message


def test_settings_that_want_no_encoder_get_none() -> None:
    plain = identity_of(TableEncoder(48))
    assert serving_encoder(plain, None, "none") is None
