"""An encoder that remembers its vectors in a file, so that a repeated run costs no encoding."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epimem.bank.encoder import load_encoder
from epimem.protocols import Encoder

MODEL = "all-MiniLM-L6-v2"


class CachedEncoder:
    """The vectors of another encoder, kept by the SHA-256 of their text.

    Args:
        encoder: makes what is not known yet.
        path: file of known vectors; read now, written by `save`.
    """

    def __init__(self, encoder: Encoder, path: Path) -> None:
        self.name = encoder.name
        self.dimension = encoder.dimension
        self.fingerprint = encoder.fingerprint
        self._encoder = encoder
        self._path = path
        self._known: dict[str, NDArray[np.float32]] = {}
        if path.is_file():
            with np.load(path) as stored:
                if str(stored["fingerprint"]) == self.fingerprint:
                    keys = stored["keys"].tolist()
                    self._known = dict(zip(keys, stored["vectors"], strict=True))
        self._saved = len(self._known)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return an array of shape (len(texts), dimension), each row of unit length."""
        keys = [hashlib.sha256(text.encode("utf-8")).hexdigest() for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        if new:
            made = self._encoder.encode(list(new.values()))
            self._known.update(zip(new, made, strict=True))
        return (
            np.stack([self._known[key] for key in keys])
            if keys
            else np.zeros((0, self.dimension), dtype=np.float32)
        )

    def save(self) -> None:
        """Write the known vectors, where there are new ones; the file is replaced whole."""
        if len(self._known) == self._saved:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part = self._path.with_suffix(".part.npz")
        np.savez(
            part,
            fingerprint=np.array(self.fingerprint),
            keys=np.array(list(self._known)),
            vectors=np.stack(list(self._known.values())),
        )
        part.replace(self._path)
        self._saved = len(self._known)


class ScrambledEncoder:
    """Sabotage: each text gets a random direction of its own, so that no likeness means anything.

    Args:
        encoder: whose name, dimension and fingerprint are taken.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.name = encoder.name
        self.dimension = encoder.dimension
        self.fingerprint = encoder.fingerprint

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return an array of shape (len(texts), dimension), each row of unit length."""
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            seed = int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:8])
            made = np.random.default_rng(seed).normal(size=self.dimension)
            row[:] = made / np.linalg.norm(made)
        return rows


def cached_encoder() -> CachedEncoder:
    """Return the real text encoder with its vectors kept in this machine's folder for temporaries."""
    encoder = load_encoder(MODEL)
    assert encoder is not None
    return CachedEncoder(
        encoder, Path(tempfile.gettempdir()) / "epimem-benchmarks" / f"{MODEL}.npz"
    )
