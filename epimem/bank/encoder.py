"""Text encoders: which one a bank uses, the vectors of a node, and an encoder for tests.

`OnnxEncoder` (`epimem.bank.onnx_encoder`) is the real one; `load_encoder` finds it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from epimem.bank.onnx_encoder import OnnxEncoder, RecentVectors, check_texts
from epimem.bank.onnx_export import export_encoder
from epimem.bank.onnx_export import load_encoder as _load_onnx
from epimem.errors import BankConflictError, ConfigError
from epimem.protocols import Encoder, Vector
from epimem.schema.base import Record, StrictBool, StrictInt
from epimem.schema.lesson import IndexText
from epimem.schema.text import NameText

__all__ = [
    "EncoderIdentity",
    "NodeVectors",
    "OnnxEncoder",
    "TableEncoder",
    "check_identity",
    "export_encoder",
    "identity_of",
    "load_encoder",
    "node_vectors",
]


class EncoderIdentity(Record):
    """Which encoder made the vectors of a bank; `fingerprint` is the SHA-256 of its weights."""

    name: NameText
    dimension: StrictInt = Field(ge=1)
    normalized: StrictBool = True
    fingerprint: str


def identity_of(encoder: Encoder) -> EncoderIdentity:
    """Return the identity that a bank stores for `encoder`."""
    return EncoderIdentity(
        name=encoder.name, dimension=encoder.dimension, fingerprint=encoder.fingerprint
    )


def check_identity(stored: EncoderIdentity | None, encoder: Encoder | None) -> None:
    """Refuse an encoder that did not make the vectors of a bank.

    Working without an encoder is allowed: recall is then lexical. The name may differ, since the
    same weights have several names; dimension, normalization and fingerprint may not.

    Raises:
        BankConflictError: `embedding_mismatch`, naming both models and what to do.
    """
    if encoder is None:
        return
    given = identity_of(encoder)
    if stored is None:
        raise BankConflictError(
            f"this bank was made without a text encoder, but {_shown(given)} is configured",
            code="embedding_mismatch",
            field="encoder.model",
            hint='set encoder.model to "none", or build a new bank with it',
        )
    same = stored.model_copy(update={"name": given.name}) == given
    if not same:
        raise BankConflictError(
            f"the vectors of this bank were made by {_shown(stored)}, "
            f"but {_shown(given)} is configured",
            code="embedding_mismatch",
            field="encoder.model",
            hint=f"set encoder.model to {stored.name}, or build a new bank",
        )


def _shown(identity: EncoderIdentity) -> str:
    length = "" if identity.normalized else ", not normalized"
    return f"{identity.name} ({identity.dimension} dimensions{length}, {identity.fingerprint[:12]})"


def load_encoder(model: str, *, cache: Path | None = None) -> Encoder | None:
    """Return the encoder for a configured model, or None for "none".

    Args:
        model: "none", "all-MiniLM-L6-v2", "table:<dimension>" (`TableEncoder`), the folder of an
            exported encoder, or the name or folder of any sentence-transformers model. One that is
            not exported yet is exported first.
        cache: where exports are kept; this user's cache folder by default.

    Raises:
        ConfigError: `bad_config`, the model cannot be found or the extra is not installed.
    """
    kind, _, dimension = model.partition(":")
    if kind != "table" or not dimension:
        return _load_onnx(model, cache=cache)
    if not dimension.isdecimal() or not 1 <= int(dimension) <= 4096:
        raise ConfigError("table:<dimension> takes 1 to 4096", field="encoder.model", got=model)
    return TableEncoder(int(dimension))


class TableEncoder:
    """Hashed character trigrams as unit vectors: deterministic, quick, and *no semantic encoder*.

    Texts that share spelling are near each other, and nothing else is known of their meaning. For
    tests and for timing a bank without the cost of a model. A text without letters or digits gets
    the first unit vector.

    Args:
        dimension: length of the vectors.
    """

    def __init__(self, dimension: int = 64) -> None:
        self.name = "table"
        self.dimension = dimension
        self.fingerprint = f"table-1-{dimension}"
        self._recent = RecentVectors(1024)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return an array of shape (len(texts), dimension), each row of unit length."""
        check_texts(texts)
        return self._recent.fill(texts, self.dimension, self._encode)

    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            hashes = [crc32(gram.encode("utf-8", "replace")) for gram in _trigrams(text)]
            for value in hashes:
                row[value % self.dimension] += 1.0 if value & 0x8000_0000 else -1.0
            norm = float(np.sqrt(np.square(row).sum()))
            if norm == 0.0:
                row[0], norm = 1.0, 1.0
            np.divide(row, norm, out=row)
        return rows


def _trigrams(text: str) -> list[str]:
    padded = [f" {word} " for word in re.findall(r"\w+", text.casefold())]
    return [word[start : start + 3] for word in padded for start in range(len(word) - 2)]


@dataclass(frozen=True)
class NodeVectors:
    """The vectors of a node's index text, float32, shape (dimension,), of unit length.

    The vector of an empty field is all zeros: there is nothing to compare, and recall leaves a node
    without any index text out of its dense part.
    """

    index: Vector
    scope: Vector
    anchor: Vector


def node_vectors(encoder: Encoder, index_texts: Sequence[IndexText]) -> list[NodeVectors]:
    """Return the vectors of nodes in order, from one call of the encoder over distinct texts."""
    fields = [(item.text, item.scope, item.question_anchor) for item in index_texts]
    texts = list(dict.fromkeys(text for parts in fields for text in parts if text.strip()))
    vectors = dict(zip(texts, encoder.encode(texts), strict=True)) if texts else {}
    nothing = np.zeros(encoder.dimension, dtype=np.float32)
    return [NodeVectors(*(vectors.get(text, nothing) for text in parts)) for parts in fields]
