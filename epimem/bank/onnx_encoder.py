"""The text encoder at run time: ONNX Runtime and tokenizers, nothing else.

A text's vector does not depend on what else is encoded with it: only texts of equal token length
share a batch, so nothing is padded, and the exported pooling multiplies row by row. So a lesson
added alone and the same lesson in a batch of a thousand get the same bytes on one machine.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b, file_digest, sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from epimem.errors import ConfigError, ControllerError, RecordError
from epimem.protocols import Vector
from epimem.schema.base import Record, StrictInt
from epimem.schema.text import escape_unstorable

INSTALL = "pip install epimem[encoder]"
MODEL_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"
RECORD_FILE = "encoder.json"
_BATCH = 16  # ours: larger batches were no faster on one core
# So many tokens of a text are encoded (ours): more than the longest index text or shortened question
# has bytes, and a token has one at least. It bounds the time of one text, some 70 stretches.
MOST_TOKENS = 17 * 1024


class ExportRecord(Record):
    """What `encoder.json` says of an exported encoder; vectors are of unit length.

    `fingerprint` is the SHA-256 of the original weights, `model_sha256` that of the exported graph;
    `prompt` is put before each text, as the model's own configuration asks.
    """

    version: Literal[1] = 1
    name: str
    dimension: StrictInt = Field(ge=1)
    normalized: Literal[True] = True
    max_tokens: StrictInt = Field(ge=8)
    pooling: str
    prompt: str = ""
    inputs: tuple[str, ...]
    fingerprint: str
    model_sha256: str
    tokenizer_sha256: str


def read_record(folder: Path) -> ExportRecord:
    """Read `encoder.json` of an exported encoder.

    Raises:
        ConfigError: `bad_config`, it is absent or not such a record.
    """
    try:
        return ExportRecord.read((folder / RECORD_FILE).read_bytes())
    except (OSError, RecordError) as error:
        raise ConfigError(
            f"{folder.name} is not an exported encoder", field="encoder.model"
        ) from error


@dataclass(frozen=True)
class _Chunk:
    """Token ids of one stretch of a text, `weight` of which are not special tokens."""

    text: int
    ids: list[int]
    types: list[int]
    weight: int


class OnnxEncoder:
    """An exported sentence encoder on the processor; satisfies `epimem.protocols.Encoder`.

    The model is read at the first `encode`, not before. Texts longer than the model's limit are cut
    into stretches; their unit vectors are averaged with their token counts as weights (ours) and
    brought to unit length. Nothing is dropped but stretches past the first `MOST_TOKENS` tokens, which
    `tokens_beyond` counts. An empty text gets the model's own vector of no words. Safe to call from
    several threads.

    Args:
        folder: what `export_encoder` returned.
        threads: intra-op threads of ONNX Runtime; 1 leaves the other cores to the caller (ours).
        remembered: how many recent vectors are kept; scopes repeat a lot. Texts are not kept.
    """

    def __init__(self, folder: Path, *, threads: int = 1, remembered: int = 4096) -> None:
        self.folder = folder
        self.record = read_record(folder)
        self.name = self.record.name
        self.dimension = self.record.dimension
        self.fingerprint = self.record.fingerprint
        self._threads = threads
        self._recent = RecentVectors(remembered)
        self._lock = threading.Lock()
        self._loaded: Any = None

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return an array of shape (len(texts), dimension), each row of unit length.

        Raises:
            ConfigError: `bad_config`, onnxruntime or tokenizers is not installed.
            ControllerError: `model_failed`, the model is damaged or returned no finite vector.
        """
        check_texts(texts)
        return self._recent.fill(texts, self.dimension, self._encode)

    def stretches(self, text: str) -> int:
        """Return into how many stretches of the model's limit a text is cut."""
        return len(self._chunks(0, text))

    def count_tokens(self, text: str) -> int:
        """Return how many tokens a text has, without those that the model puts around it."""
        return sum(chunk.weight for chunk in self._chunks(0, text, prompt=""))

    def tokens_beyond(self, text: str) -> int:
        """Return how many tokens of a text its vector does not contain; 0 for all but huge texts."""
        given = self.record.prompt + text
        if len(given.encode("utf-8", "surrogatepass")) <= MOST_TOKENS:
            return 0
        chunks = self._chunks(0, text)
        return sum(chunk.weight for chunk in chunks[len(_bounded(chunks)) :])

    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        chunks = [
            chunk
            for place, text in enumerate(texts)
            for chunk in _bounded(self._chunks(place, text))
        ]
        lengths: dict[int, list[int]] = {}
        for place, chunk in enumerate(chunks):
            lengths.setdefault(len(chunk.ids), []).append(place)
        vectors = np.empty((len(chunks), self.dimension), dtype=np.float32)
        for places in lengths.values():
            for start in range(0, len(places), _BATCH):
                batch = places[start : start + _BATCH]
                vectors[batch] = self._run([chunks[place] for place in batch])
        return _pooled(chunks, vectors, len(texts))

    def _chunks(self, place: int, text: str, *, prompt: str | None = None) -> list[_Chunk]:
        before = self.record.prompt if prompt is None else prompt
        encoding = self._tokenizer.encode(before + escape_unstorable(text)[0])
        return [
            _Chunk(place, part.ids, part.type_ids, part.special_tokens_mask.count(0))
            for part in (encoding, *encoding.overflowing)
        ]

    def _run(self, chunks: Sequence[_Chunk]) -> NDArray[np.float32]:
        """Run chunks of one length through the model."""
        ids = np.array([chunk.ids for chunk in chunks], dtype=np.int64)
        feeds = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.array([chunk.types for chunk in chunks], dtype=np.int64),
        }
        session = self._session()
        rows = session.run(None, {name: feeds[name] for name in self.record.inputs})[0]
        return unit_rows(rows)

    @cached_property
    def _tokenizer(self) -> Any:
        tokenizers = _installed("tokenizers")
        data = self._read(TOKENIZER_FILE)
        if sha256(data).hexdigest() != self.record.tokenizer_sha256:
            raise self._damaged(TOKENIZER_FILE)
        tokenizer = tokenizers.Tokenizer.from_str(data.decode("utf-8"))
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_length=self.record.max_tokens)
        return tokenizer

    def _session(self) -> Any:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> Any:
        """Return the session; the file is hashed in a second thread while the runtime loads it.

        The runtime reads the file itself: from bytes in memory it takes nearly twice as long.
        """
        path = self.folder / MODEL_FILE
        if not path.is_file():
            raise self._damaged(MODEL_FILE)
        with ThreadPoolExecutor(max_workers=1) as executor:
            found = executor.submit(_file_sha256, path)
            runtime = _installed("onnxruntime")
            options = runtime.SessionOptions()
            options.intra_op_num_threads = self._threads
            options.inter_op_num_threads = 1
            options.log_severity_level = 3
            fault: Exception | None = None
            try:
                session = runtime.InferenceSession(
                    str(path), options, providers=["CPUExecutionProvider"]
                )
            except Exception as error:  # noqa: BLE001 - boundary: the runtime has types of its own
                session, fault = None, error
        # Flipped bits in weights would go into the bank as wrong vectors under the right name.
        if found.result() != self.record.model_sha256:
            raise self._damaged(MODEL_FILE)
        if session is None:
            raise ControllerError("onnxruntime cannot load the exported encoder") from fault
        return session

    def _read(self, name: str) -> bytes:
        try:
            return (self.folder / name).read_bytes()
        except OSError as error:
            raise self._damaged(name) from error

    def _damaged(self, name: str) -> ControllerError:
        return ControllerError(
            f"{name} of the exported encoder is damaged",
            hint=f"delete {self.folder.name} in the encoder cache; it is then exported again",
        )


def _bounded(chunks: list[_Chunk]) -> list[_Chunk]:
    """Return the stretches that begin within the first `MOST_TOKENS` tokens."""
    tokens = 0
    for place, chunk in enumerate(chunks):
        if tokens >= MOST_TOKENS:
            return chunks[:place]
        tokens += chunk.weight
    return chunks


def _file_sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return file_digest(handle, "sha256").hexdigest()


def _installed(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"the text encoder needs {module}", field="encoder.model", hint=INSTALL
        ) from error


def _pooled(
    chunks: Sequence[_Chunk], vectors: NDArray[np.float32], count: int
) -> NDArray[np.float32]:
    """Average the chunk vectors of each text; a text of one chunk keeps its vector as it is."""
    parts: list[list[int]] = [[] for _ in range(count)]
    for place, chunk in enumerate(chunks):
        parts[chunk.text].append(place)
    pooled = np.empty((count, vectors.shape[1]), dtype=np.float32)
    for text, places in enumerate(parts):
        if len(places) == 1:
            pooled[text] = vectors[places[0]]
            continue
        weights = np.array([chunks[place].weight for place in places], dtype=np.float32)
        pooled[text] = unit_rows((weights[:, None] * vectors[places]).sum(axis=0)[None])[0]
    return pooled


def unit_rows(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return `rows` of shape (n, dimension) scaled to unit length.

    Raises:
        ControllerError: `model_failed`, a row is zero or not finite.
    """
    norms = np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1))
    if not np.isfinite(norms).all() or (norms < 1e-12).any():
        raise ControllerError("the encoder returned a vector that is zero or not finite")
    unit: NDArray[np.float32] = (rows / norms[:, None]).astype(np.float32)
    return unit


def check_texts(texts: Sequence[str]) -> None:
    """Refuse what is not a list of texts; a lone string would be encoded letter by letter.

    Raises:
        RecordError: `invalid_field`.
    """
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise RecordError("encode takes a list of texts", field="texts", got=type(texts).__name__)


class RecentVectors:
    """The vectors of the texts used last, by a hash of the text; safe for several threads.

    Args:
        capacity: how many are kept; 0 keeps none.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._vectors: OrderedDict[bytes, Vector] = OrderedDict()
        self._lock = threading.Lock()

    def fill(
        self,
        texts: Sequence[str],
        dimension: int,
        encode: Callable[[Sequence[str]], NDArray[np.float32]],
    ) -> NDArray[np.float32]:
        """Return one row per text, encoding each distinct unknown text once."""
        keys = [_key(text) for text in texts]
        known: dict[bytes, Vector] = {}
        missing: dict[bytes, str] = {}
        with self._lock:
            for key, text in zip(keys, texts, strict=True):
                if key in self._vectors:
                    self._vectors.move_to_end(key)
                    known[key] = self._vectors[key]
                else:
                    missing[key] = text
        if missing:
            known.update(zip(missing, encode(list(missing.values())), strict=True))
            self._keep({key: known[key] for key in missing})
        rows = np.empty((len(texts), dimension), dtype=np.float32)
        for place, key in enumerate(keys):
            rows[place] = known[key]
        return rows

    def _keep(self, vectors: dict[bytes, Vector]) -> None:
        with self._lock:
            for key, vector in vectors.items():
                self._vectors[key] = vector.copy()
            while len(self._vectors) > self._capacity:
                self._vectors.popitem(last=False)


def _key(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
