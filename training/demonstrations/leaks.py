"""Whether a reference answer, which only the teacher knew, stands in a demonstration.

Compared is text with text: normalised, case folded, white space as one space. A reference may stand
within a longer word or number: a false alarm costs one demonstration, a leak the whole measurement.
Ids, hashes and vectors are no texts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from typing import Any

from training.demonstrations.record import Demonstration, texts_of, walk

LEAST_CHARS = 4
"""A shorter reference is met everywhere by chance: it counts where it is a whole guidance (ours)."""
_ID = re.compile(r"(sha256:)?[0-9a-f]{64}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def leaked(
    demonstration: Demonstration,
    references: Collection[str],
    *,
    question: str = "",
    said: Collection[str] = (),
) -> str:
    """Return what leaked and where, without the reference itself; empty where nothing did.

    See `checks.check` for the arguments.
    """
    if not references:
        return ""
    asked, heard = _plain(question), [_plain(text) for text in said]
    target, request = _texts(demonstration.value), _texts(demonstration.request)
    for number, reference in enumerate(map(_plain, references), 1):
        if len(reference) < LEAST_CHARS:
            if reference and reference in _guidance(demonstration.value):
                return f"a guidance is reference {number} as it stands"
        elif reference in asked:
            continue
        elif _stands(reference, target):
            return f"the target holds reference {number}"
        elif _stands(reference, request) and not _stands(reference, heard):
            return f"the request holds reference {number}"
    return ""


def _texts(part: Any) -> list[str]:
    return [_plain(text) for text in texts_of(part) if not _ID.fullmatch(text)]


def _stands(reference: str, texts: Collection[str]) -> bool:
    return any(reference in text for text in texts)


def _guidance(value: Any) -> set[str]:
    """Return the texts that a value gives as guidance, at any depth, without their full stop."""
    found = (getattr(part, "guidance", "") for part in walk(value))
    return {_plain(text).rstrip(".") for text in found}


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())
