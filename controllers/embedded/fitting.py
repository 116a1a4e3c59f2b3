"""Text from a run made fit for a lesson: cleaned, white space joined, bounded in bytes.

`epimem.schema.text.clean_text` looks at every character; most run text needs no cleaning, and the
check below finds that out at the speed of a set.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from epimem.schema.text import clean_text

ELLIPSIS = "…"
_PLAIN = re.compile(r"[\n\t -~]*\Z")
_LETTER = re.compile(r"[A-Za-z0-9]")


def cleaned(text: str) -> str:
    """Return exactly what `clean_text` returns, without its walk where nothing is to be cleaned."""
    if _PLAIN.match(text):
        return text if text.strip() else ""
    if all(_harmless(character) for character in set(text)) and unicodedata.is_normalized(
        "NFC", text
    ):
        return text if visible(text) else ""
    return clean_text(text)


@lru_cache(maxsize=16384)
def _harmless(character: str) -> bool:
    if unicodedata.category(character) in {"Mn", "Me", "Cf"} or character in "\r\u2028\u2029":
        return False
    return clean_text(f"x{character}x") == f"x{character}x"


def joined(text: str) -> str:
    """Return the text with every run of white space as one space, ends trimmed."""
    return " ".join(text.split())


def fitted(text: str, limit: int) -> str:
    """Return one line of clean text of at most `limit` UTF-8 bytes, cut at a word where possible.

    A cut is shown by an ellipsis. Text with nothing visible in it gives the empty string.
    """
    line = joined(cleaned(text))
    if len(line.encode("utf-8")) > limit:
        line = _cut(line, limit - len(ELLIPSIS.encode("utf-8"))).rstrip() + ELLIPSIS
    line = joined(cleaned(line))
    return line if visible(line) and len(line.encode("utf-8")) <= limit else ""


def _cut(line: str, limit: int) -> str:
    head = line.encode("utf-8")[: max(0, limit)].decode("utf-8", "ignore")
    space = head.rfind(" ")
    return head[:space] if space > len(head) // 2 else head


def visible(text: str) -> bool:
    """Tell whether a text holds a letter, digit or symbol that a reader can see."""
    return _LETTER.search(text) is not None or clean_text(text) != ""
