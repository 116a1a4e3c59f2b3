"""The fixed list of 512 general questions that shows what an unrelated question scores in a bank.

The questions are in `general_questions.txt` (ours, from no test data), most in English, the rest in
fifteen other languages, so that a bank in one of those does not get a floor of zero.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from epimem.bank.derived import read_derived, write_derived
from epimem.bank.onnx_encoder import OnnxEncoder
from epimem.errors import StorageError
from epimem.protocols import Encoder

COUNT = 512
VECTORS_FILE = "general_questions.vectors"
_PART = 64  # questions encoded between two looks at whether to give up: some 0.4 s; ours


@lru_cache(maxsize=1)
def general_questions() -> tuple[str, ...]:
    """Return the questions, in the order of the file.

    Raises:
        StorageError: `storage_failed`, the installed list does not hold 512 questions.
    """
    text = files("epimem.bank").joinpath("general_questions.txt").read_text(encoding="utf-8")
    questions = tuple(line.strip() for line in text.splitlines() if line.strip())
    if len(questions) != COUNT:
        raise StorageError("the installed list of general questions is damaged")
    return questions


@lru_cache(maxsize=1)
def questions_digest() -> str:
    """Return the SHA-256 of the list: what was fitted on another list is fitted again."""
    return sha256("\n".join(general_questions()).encode("utf-8")).hexdigest()


def general_vectors(
    encoder: Encoder, go_on: Callable[[], None] = lambda: None
) -> NDArray[np.float32]:
    """Return the vectors of the questions, shape (512, dimension), unit rows.

    Those of an exported encoder are kept in its folder, so that a process does not spend seconds on
    them; where the folder cannot be written to they are made anew.

    Args:
        encoder: of the bank.
        go_on: called before each part; may raise to stop.
    """
    path = encoder.folder / VECTORS_FILE if isinstance(encoder, OnnxEncoder) else None
    header = {"fingerprint": encoder.fingerprint, "questions": questions_digest()}
    if path is not None:
        stored = read_derived(path, header)
        if stored is not None and stored.arrays["vectors"].shape == (COUNT, encoder.dimension):
            return stored.arrays["vectors"]
    questions, parts = general_questions(), []
    for start in range(0, COUNT, _PART):
        go_on()
        parts.append(encoder.encode(questions[start : start + _PART]))
    vectors = np.concatenate(parts)
    if path is not None:
        try:
            write_derived(path, header, {"vectors": vectors})
        except OSError:
            return vectors
    return vectors
