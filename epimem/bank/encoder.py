"""Text encoders: which one a bank uses, the vectors of a node, and an encoder for tests.

`OnnxEncoder` (`epimem.bank.onnx_encoder`) is the real one; `load_encoder` finds it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from epimem.bank.onnx_encoder import OnnxEncoder, RecentVectors, check_texts
from epimem.bank.onnx_export import export_encoder
from epimem.bank.onnx_export import load_encoder as _load_onnx
from epimem.errors import BankConflictError, BankError, ConfigError
from epimem.protocols import Encoder, Vector
from epimem.schema.base import Record, StrictBool, StrictInt
from epimem.schema.lesson import IndexText
from epimem.schema.text import NameText

__all__ = [
    "EncoderIdentity",
    "FormerEncoder",
    "NodeVectors",
    "OnnxEncoder",
    "TableEncoder",
    "check_identity",
    "encoder_changed",
    "export_encoder",
    "identity_of",
    "load_encoder",
    "node_vectors",
    "serving_encoder",
    "truncated_tokens",
]


_WORD = re.compile(r"\w+")


class FormerEncoder(Record):
    """An encoder that a bank had before: what the settings called it, and its fingerprint.

    Both are `"none"` and empty for a bank that had none.
    """

    model: str
    fingerprint: str


class EncoderIdentity(Record):
    """Which encoder made the vectors of a bank; `fingerprint` is the SHA-256 of its weights.

    `model` loads it (`load_encoder`), and `former` are those it replaced. Both are known only where
    the encoder was changed (`epimem.bank.reembed`); until then the settings name it.
    """

    name: NameText
    dimension: StrictInt = Field(ge=1)
    normalized: StrictBool = True
    fingerprint: str
    model: str = ""
    former: tuple[FormerEncoder, ...] = ()

    def made_as(self, other: EncoderIdentity) -> bool:
        """Return whether both make the same vectors: names do not matter."""
        names = {"name": other.name, "model": other.model, "former": other.former}
        return self.model_copy(update=names) == other

    def outdates(self, model: str) -> bool:
        """Return whether settings that name `model` were overtaken by a change of the encoder."""
        named = any(item.model == model for item in self.former)
        return bool(self.model) and model != self.model and named


def identity_of(encoder: Encoder, model: str = "") -> EncoderIdentity:
    """Return the identity that a bank stores for `encoder`, which `model` loads."""
    return EncoderIdentity(
        name=encoder.name,
        dimension=encoder.dimension,
        fingerprint=encoder.fingerprint,
        model=model,
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
            hint='set encoder.model to "none", or change the bank: epimem reembed',
        )
    if not stored.made_as(given):
        raise BankConflictError(
            f"the vectors of this bank were made by {_shown(stored)}, "
            f"but {_shown(given)} is configured",
            code="embedding_mismatch",
            field="encoder.model",
            hint=f"set encoder.model to {stored.model or stored.name}, or change the bank: "
            "epimem reembed",
        )


def serving_encoder(stored: EncoderIdentity, given: Encoder | None, model: str) -> Encoder | None:
    """Return the encoder that serves a bank, None where the settings want lexical recall.

    Where what was given or configured is an encoder that the bank had before, the one that
    replaced it is loaded instead: handles that were open meanwhile and settings that were not
    written yet come to the present encoder by themselves.

    Args:
        stored: the bank's.
        given: by the caller, instead of the configured one.
        model: `encoder.model` of the settings.

    Raises:
        BankConflictError: `embedding_mismatch`, naming both models.
        ConfigError: the configured encoder cannot be loaded.
    """
    if given is not None:
        if stored.made_as(identity_of(given)):
            return given
        if any(item.fingerprint == given.fingerprint for item in stored.former):
            return _successor(stored, _shown(identity_of(given)))
    elif stored.outdates(model):
        if model != "none":
            return _successor(stored, model)
        try:
            return _successor(stored, model)
        except BankConflictError:
            # Without an encoder before, without one now: nothing is mixed up by that.
            return None
    encoder = given if given is not None else load_encoder(model)
    check_identity(stored, encoder)
    return encoder


def _successor(stored: EncoderIdentity, before: str) -> Encoder:
    """Load the encoder that replaced the one of this handle."""
    reason = "its settings name is not known"
    try:
        encoder = load_encoder(stored.model) if stored.model else None
    except ConfigError as error:
        encoder, reason = None, str(error)
    if encoder is None:
        raise BankConflictError(
            f"the encoder of this bank was changed from {before} to {_shown(stored)}, "
            f"which cannot be loaded here: {reason}",
            code="embedding_mismatch",
            field="encoder.model",
            hint=f"install or copy {stored.model or stored.name}, or set encoder.model to it",
        )
    check_identity(stored, encoder)
    return encoder


def encoder_changed(stored: EncoderIdentity | None, known: EncoderIdentity | None) -> BankError:
    """Return the error for a handle that knows another encoder than the bank now has."""
    before = _shown(known) if known is not None else "none"
    now = _shown(stored) if stored is not None else "none"
    return BankConflictError(
        f"the encoder of this bank was changed from {before} to {now} meanwhile",
        code="embedding_mismatch",
        field="encoder.model",
        hint="open the bank again",
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

    def count_tokens(self, text: str) -> int:
        """Return the number of words of a text."""
        return len(_WORD.findall(text))

    def tokens_beyond(self, text: str) -> int:
        """Return 0: the vector contains every word."""
        del text
        return 0

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
    padded = [f" {word} " for word in _WORD.findall(text.casefold())]
    return [word[start : start + 3] for word in padded for start in range(len(word) - 2)]


@dataclass(frozen=True)
class NodeVectors:
    """The vectors of a node's index text, float32, shape (dimension,), of unit length.

    The vector of an empty field is all zeros: there is nothing to compare, and recall leaves a node
    without any index text out of its dense part. `truncated_tokens` counts the tokens of the index
    text that its vector does not contain.
    """

    index: Vector
    scope: Vector
    anchor: Vector
    truncated_tokens: int = 0


def node_vectors(encoder: Encoder, index_texts: Sequence[IndexText]) -> list[NodeVectors]:
    """Return the vectors of nodes in order, from one call of the encoder over distinct texts."""
    fields = [(item.text, item.scope, item.question_anchor) for item in index_texts]
    texts = list(dict.fromkeys(text for parts in fields for text in parts if text.strip()))
    vectors = dict(zip(texts, encoder.encode(texts), strict=True)) if texts else {}
    nothing = np.zeros(encoder.dimension, dtype=np.float32)
    found = []
    for text, scope, anchor in fields:
        index, scoped, anchored = (vectors.get(part, nothing) for part in (text, scope, anchor))
        found.append(NodeVectors(index, scoped, anchored, truncated_tokens(encoder, text)))
    return found


@runtime_checkable
class _CountsTokens(Protocol):
    def count_tokens(self, text: str) -> int: ...

    def tokens_beyond(self, text: str) -> int: ...


def truncated_tokens(encoder: Encoder, text: str, left_out: str = "") -> int:
    """Return how many tokens of a text its vector does not contain.

    Args:
        encoder: one that does not count its tokens is taken to use them all.
        text: what is encoded.
        left_out: what was taken out of it before.
    """
    if not isinstance(encoder, _CountsTokens):
        return 0
    return encoder.tokens_beyond(text) + (encoder.count_tokens(left_out) if left_out else 0)
